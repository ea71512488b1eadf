//! Scenarios of whole nodes around an agreed log. No faults happen but those that a test names.

use kgate_control::state::{Command, PermitId};
use kgate_core::NodeId;

use super::simulation::{MILLISECOND, SECOND, Simulation};
use super::*;

fn simulation(nodes: u32, k: u32) -> Simulation {
    let mut simulation = Simulation::quiet(nodes, k);
    simulation.run_until(1200 * MILLISECOND);
    simulation
}

/// N2, R2: starting nodes are added in the order of the log, get a lease and grant. The fence
/// carries the index of the entry that began the view.
#[test]
fn a_cluster_begins() {
    let mut simulation = simulation(3, 1);
    simulation.acquire(1);
    simulation.run_until(2 * SECOND);
    let (slots, fence) = simulation.granted(1).expect("granted");
    assert_eq!(slots, [0]);
    let last_view = simulation.views().max().expect("somebody takes part");
    assert_eq!(fence >> 96, u128::from(last_view), "the view is an index of the log");
    let report = simulation.view(0);
    assert_eq!((report.members.len(), report.without), (3, None));
    assert!(report.lease_left > 0);
}

/// A watcher that arrived before the first member is notified of changes at all nodes, also at one
/// that restarted.
#[test]
fn watchers_are_notified() {
    let mut simulation = Simulation::quiet(3, 1);
    simulation.run_until(60 * MILLISECOND);
    simulation.watch(NodeId(0));
    simulation.run_until(1200 * MILLISECOND);
    simulation.acquire(1);
    simulation.run_until(2 * SECOND);
    assert!(simulation.granted(1).is_some());
    assert!(simulation.has_changed(NodeId(0), 1200 * MILLISECOND));
    simulation.kill(NodeId(1));
    simulation.restart_after(NodeId(1), 0);
    simulation.run_until(6 * SECOND);
    simulation.acquire_another(1);
    simulation.run_until(7 * SECOND);
    assert!(simulation.inside(1));
    assert!(simulation.has_changed(NodeId(0), 6 * SECOND));
}

/// E1 to E4, S1: the node of a holder is killed. Its slot is granted again after the wait W, and
/// not before its client's session has expired.
#[test]
fn a_killed_node_is_evicted() {
    let mut simulation = simulation(3, 1);
    simulation.acquire(0);
    simulation.run_until(1500 * MILLISECOND);
    assert!(simulation.granted(0).is_some());
    simulation.acquire(1);
    simulation.run_until(2 * SECOND);
    assert!(simulation.granted(1).is_none(), "somebody is inside");
    simulation.kill(NodeId(0));
    simulation.run_until(2500 * MILLISECOND);
    assert!(simulation.granted(1).is_none(), "its lease may not be over");
    simulation.run_until(4 * SECOND);
    assert!(simulation.granted(1).is_some());
    assert_eq!(simulation.checker.violations, Vec::<String>::new());
}

/// R1: a clean restart is a pause: the client keeps its permit under the same fence, and no node is
/// evicted.
#[test]
fn a_clean_restart_keeps_permits() {
    let mut simulation = simulation(3, 1);
    simulation.acquire(0);
    simulation.run_until(1500 * MILLISECOND);
    let before = simulation.granted(0).expect("granted");
    let incarnation = simulation.view(0).incarnation;
    simulation.suspend(NodeId(0));
    simulation.restart_after(NodeId(0), 100 * MILLISECOND);
    simulation.run_until(4 * SECOND);
    assert_eq!(
        (simulation.view(0).incarnation, simulation.inside(0)),
        (incarnation, true),
        "the same incarnation, and its client is inside"
    );
    assert_eq!(simulation.granted(0), Some(before));
    assert_eq!(simulation.checker.lost, 0);
}

/// R1, R2: a node that stopped cleanly and restarts after its eviction is another incarnation, and
/// its client has lost its permit in time.
#[test]
fn a_node_that_finds_itself_evicted_begins_anew() {
    let mut simulation = simulation(3, 1);
    simulation.acquire(0);
    simulation.run_until(1500 * MILLISECOND);
    let incarnation = simulation.view(0).incarnation.expect("it takes part");
    simulation.suspend(NodeId(0));
    simulation.acquire(1);
    simulation.run_until(4 * SECOND);
    assert!(simulation.granted(1).is_some(), "it was evicted meanwhile");
    simulation.restart_after(NodeId(0), 0);
    simulation.run_until(6 * SECOND);
    assert_eq!(simulation.view(0).incarnation, Some(incarnation + 1));
    assert_eq!(simulation.checker.violations, Vec::<String>::new());
}

/// Section 6, N5: a partitioned node tells its holder, grants nothing, and refuses waiting requests
/// with the names of the missing voters.
#[test]
fn a_minority_grants_nothing() {
    let mut simulation = simulation(3, 1);
    simulation.acquire(0);
    simulation.run_until(1500 * MILLISECOND);
    assert_eq!(simulation.unready(0).0, None);
    simulation.cut_off(NodeId(0));
    simulation.run_until(3 * SECOND);
    assert!(!simulation.inside(0), "its client has stopped");
    let why = simulation.unready(0).0.expect("it is not ready");
    assert!(why.contains("no lease") && why.contains("p1 does not answer"), "{why}");
    simulation.acquire_another(0);
    simulation.run_until(5 * SECOND);
    let (why, text) = simulation.refused(0).expect("refused");
    assert_eq!(why, ErrorCode::NoQuorum);
    assert!(text.contains("no quorum") && text.contains("node 1, 2"), "{text}");
    assert_eq!(simulation.view(0).lease_left, 0);
    simulation.mend();
    simulation.acquire_another(0);
    simulation.run_until(8 * SECOND);
    assert!(
        simulation.inside(0) || simulation.granted(0).is_some(),
        "it goes on when it hears the others again"
    );
    // Its log shows from when to when it could not grant.
    let events = simulation.events_logged.iter().filter(|(node, _)| node.0 == 0);
    let events: Vec<_> = events.map(|(_, event)| event).collect();
    assert!(
        matches!(&events[..], [
            LogEvent::CanGrant,
            LogEvent::CannotGrant(_),
            LogEvent::RefusesRequests(missing),
            LogEvent::CanGrant
        ] if missing.contains("node 1, 2")),
        "{events:?}"
    );
}

/// Section 10: k is what the log says. Another k is a conflict that names both values and the
/// author; after a change by the log it is accepted.
#[test]
fn k_is_what_the_log_says() {
    let mut simulation = simulation(3, 2);
    simulation.acquire_with(2, Some(5));
    simulation.run_until(2 * SECOND);
    let (why, text) = simulation.refused(2).expect("refused");
    assert_eq!(why, ErrorCode::Conflict);
    assert!(
        text.contains("k = 2") && text.contains("k = 5") && text.contains("the world"),
        "{text}"
    );
    simulation.propose(Command::SetGate {
        name: "gpu".into(),
        k: Some(5),
        source: None,
        policy: None,
        version: None,
        author: "an operator".into(),
    });
    simulation.acquire_with(2, Some(5));
    simulation.run_until(3 * SECOND);
    assert!(simulation.granted(2).is_some());
}

/// With a log, only the log defines gates: a message that defines one is rejected without effect.
#[test]
fn only_the_log_defines_gates() {
    let mut simulation = simulation(3, 1);
    let defined = |id, protocol| fixed(id, "planted", 1, protocol);
    let mut messages =
        vec![PeerMessage::DescribeGate(GateId(1)), PeerMessage::Defined { round: 1 }];
    messages.push(PeerMessage::Collect { round: 1, name: "planted".into() });
    for definition in [defined(999, "raymond"), defined(999, "slots"), defined(u32::MAX, "slots")] {
        messages.push(PeerMessage::ConfiguredGates(vec![definition.clone()]));
        messages.push(PeerMessage::Known {
            round: 1,
            definition: Some(definition.clone()),
            last: definition.id,
        });
        messages.push(PeerMessage::Define { round: 1, definition });
    }
    for message in &messages {
        let taken = simulation.message(NodeId(0), NodeId(1), message);
        assert_eq!(taken, Some(PeerError::CatalogueMessage), "{message:?}");
    }
    simulation.acquire(0);
    simulation.run_until(2 * SECOND);
    assert!(simulation.granted(0).is_some());
}

/// A key is used for its whole time to live, whatever the clocks of the nodes show, and expires
/// soon after, also if all nodes were started again meanwhile: then it is counted anew.
#[test]
fn keys_expire_when_their_time_is_over() {
    let mut simulation = simulation(3, 1);
    let mark = |key: &str| Command::MarkOnce {
        gate: GateId(1),
        key: key.to_owned(),
        token: [1; 32],
        by: "a client".into(),
        ttl: Span(10 * SECOND),
    };
    simulation.propose(mark("a"));
    let marked = 1200 * MILLISECOND;
    simulation.run_until(marked + 9900 * MILLISECOND);
    assert_eq!(simulation.once_keys(), ["a"]);
    simulation.run_until(marked + 20 * SECOND);
    assert_eq!(simulation.once_keys(), [""; 0]);
    simulation.propose(mark("b"));
    let marked = marked + 20 * SECOND;
    simulation.run_until(marked + 5 * SECOND);
    for node in (0..3).map(NodeId) {
        simulation.kill(node);
        simulation.restart_after(node, MILLISECOND);
    }
    simulation.run_until(marked + 14 * SECOND);
    assert_eq!(simulation.once_keys(), ["b"], "counted anew");
    simulation.run_until(marked + 40 * SECOND);
    assert_eq!(simulation.once_keys(), [""; 0]);
}

/// Commands with an unknown permit or a wrong secret cost no entry of the log. Of those that only
/// the log can decide, a bounded number is open at once.
#[test]
fn permit_commands_do_not_flood_the_log() {
    let mut simulation = simulation(3, 1);
    let applied = simulation.view(0).applied;
    assert!(applied > 3);
    let (proposed, received) =
        simulation.permit_commands(NodeId(0), (0..applied).map(|id| (PermitId(id), Secret(5))));
    assert_eq!((proposed, received.len() as u64), (0, applied));
    let unknown = (0..10_000).map(|id| (PermitId(applied + 1 + id), Secret(5)));
    let (proposed, received) = simulation.permit_commands(NodeId(1), unknown);
    assert!(proposed < 1000 && proposed + received.len() == 10_000, "{proposed} proposed");
    assert!(
        matches!(
            received.last(),
            Some(ServerMessage::Refused { code: ErrorCode::LimitExceeded, .. })
        ),
        "{:?}",
        received.last()
    );
}
