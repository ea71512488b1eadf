//! Stories of whole nodes around an agreed log, told by hand: no faults happen but those that are
//! named.

use kgate_control::state::{Command, PermitId};
use kgate_core::NodeId;

use super::simulation::{MILLISECOND, SECOND, Simulation};
use super::*;

fn world(nodes: u32, k: u32) -> Simulation {
    let mut world = Simulation::quiet(nodes, k);
    world.run_until(1200 * MILLISECOND);
    world
}

/// N2, R2: nodes that start are added in the order of the log, get a lease and grant; the fence
/// carries the index of the entry that began the view.
#[test]
fn a_cluster_begins() {
    let mut world = world(3, 1);
    world.acquire(1);
    world.run_until(2 * SECOND);
    let (slots, fence) = world.granted(1).expect("granted");
    assert_eq!(slots, [0]);
    let last_view = world.views().max().expect("somebody takes part");
    assert_eq!(fence >> 96, u128::from(last_view), "the view is an index of the log");
    let report = world.view(0);
    assert_eq!((report.members.len(), report.without), (3, None));
    assert!(report.lease_left > 0);
}

/// Whoever watches from before anybody was a member is told what happens at all nodes, also at one
/// that came back.
#[test]
fn who_watches_is_told() {
    let mut world = Simulation::quiet(3, 1);
    world.run_until(60 * MILLISECOND);
    world.watch(NodeId(0));
    world.run_until(1200 * MILLISECOND);
    world.acquire(1);
    world.run_until(2 * SECOND);
    assert!(world.granted(1).is_some());
    assert!(world.has_changed(NodeId(0), 1200 * MILLISECOND));
    world.kill(NodeId(1));
    world.restart_after(NodeId(1), 0);
    world.run_until(6 * SECOND);
    world.acquire_another(1);
    world.run_until(7 * SECOND);
    assert!(world.inside(1));
    assert!(world.has_changed(NodeId(0), 6 * SECOND));
}

/// E1 to E4, S1: the node of a holder is killed: the slot is granted again after W, and not before
/// its client's time is over.
#[test]
fn a_killed_node_is_evicted() {
    let mut world = world(3, 1);
    world.acquire(0);
    world.run_until(1500 * MILLISECOND);
    assert!(world.granted(0).is_some());
    world.acquire(1);
    world.run_until(2 * SECOND);
    assert!(world.granted(1).is_none(), "somebody is inside");
    world.kill(NodeId(0));
    world.run_until(2500 * MILLISECOND);
    assert!(world.granted(1).is_none(), "its lease may not be over");
    world.run_until(4 * SECOND);
    assert!(world.granted(1).is_some());
    assert_eq!(world.checker.violations, Vec::<String>::new());
}

/// R1: a clean restart is a pause: the client goes on with its permit, under the same fence, and
/// nobody was evicted.
#[test]
fn a_clean_restart_keeps_permits() {
    let mut world = world(3, 1);
    world.acquire(0);
    world.run_until(1500 * MILLISECOND);
    let before = world.granted(0).expect("granted");
    let incarnation = world.view(0).incarnation;
    world.suspend(NodeId(0));
    world.restart_after(NodeId(0), 100 * MILLISECOND);
    world.run_until(4 * SECOND);
    assert_eq!(
        (world.view(0).incarnation, world.inside(0)),
        (incarnation, true),
        "the same incarnation, and its client is inside"
    );
    assert_eq!(world.granted(0), Some(before));
    assert_eq!(world.checker.lost, 0);
}

/// R1, R2: a node that was stopped cleanly and is back only after its eviction is another
/// incarnation, and its client has lost its permit in time.
#[test]
fn found_evicted() {
    let mut world = world(3, 1);
    world.acquire(0);
    world.run_until(1500 * MILLISECOND);
    let incarnation = world.view(0).incarnation.expect("it takes part");
    world.suspend(NodeId(0));
    world.acquire(1);
    world.run_until(4 * SECOND);
    assert!(world.granted(1).is_some(), "it was evicted meanwhile");
    world.restart_after(NodeId(0), 0);
    world.run_until(6 * SECOND);
    assert_eq!(world.view(0).incarnation, Some(incarnation + 1));
    assert_eq!(world.checker.violations, Vec::<String>::new());
}

/// Section 6, N5: a node that is cut off tells its holder, grants nothing, and refuses whoever
/// waits with the names of the voters that are missing.
#[test]
fn a_minority_grants_nothing() {
    let mut world = world(3, 1);
    world.acquire(0);
    world.run_until(1500 * MILLISECOND);
    assert_eq!(world.unready(0).0, None);
    world.cut_off(NodeId(0));
    world.run_until(3 * SECOND);
    assert!(!world.inside(0), "its client has stopped");
    let why = world.unready(0).0.expect("it is not ready");
    assert!(why.contains("no lease") && why.contains("p1 does not answer"), "{why}");
    world.acquire_another(0);
    world.run_until(5 * SECOND);
    let (why, text) = world.refused(0).expect("refused");
    assert_eq!(why, ErrorCode::NoQuorum);
    assert!(text.contains("no quorum") && text.contains("node 1, 2"), "{text}");
    assert_eq!(world.view(0).lease_left, 0);
    world.mend();
    world.acquire_another(0);
    world.run_until(8 * SECOND);
    assert!(
        world.inside(0) || world.granted(0).is_some(),
        "it goes on when it hears the others again"
    );
    // Its log shows from when to when it could not grant.
    let events = world.events_logged.iter().filter(|(node, _)| node.0 == 0);
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

/// Section 10: k is what the log says. Another k is a conflict with both values and authors; after
/// a change by the log it is taken.
#[test]
fn k_is_what_the_log_says() {
    let mut world = world(3, 2);
    world.acquire_with(2, Some(5));
    world.run_until(2 * SECOND);
    let (why, text) = world.refused(2).expect("refused");
    assert_eq!(why, ErrorCode::Conflict);
    assert!(
        text.contains("k = 2") && text.contains("k = 5") && text.contains("the world"),
        "{text}"
    );
    world.propose(Command::SetGate {
        name: "gpu".into(),
        k: Some(5),
        policy: None,
        version: None,
        author: "an operator".into(),
    });
    world.acquire_with(2, Some(5));
    world.run_until(3 * SECOND);
    assert!(world.granted(2).is_some());
}

/// With a log, gates are what the log says: a peer that defines one by a message is not believed,
/// and nothing worse comes of it.
#[test]
fn gates_come_by_the_log_alone() {
    let mut world = world(3, 1);
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
        let taken = world.message(NodeId(0), NodeId(1), message);
        assert_eq!(taken, Some(PeerError::CatalogueMessage), "{message:?}");
    }
    world.acquire(0);
    world.run_until(2 * SECOND);
    assert!(world.granted(0).is_some());
}

/// Words about permits that were never held, or with a wrong secret, cost no entry of the log; and
/// of those that only the log can checker, so many are under way at once.
#[test]
fn words_do_not_flood_the_log() {
    let mut world = world(3, 1);
    let applied = world.view(0).applied;
    assert!(applied > 3);
    let (proposed, told) =
        world.permit_commands(NodeId(0), (0..applied).map(|id| (PermitId(id), Secret(5))));
    assert_eq!((proposed, told.len() as u64), (0, applied));
    let unknown = (0..10_000).map(|id| (PermitId(applied + 1 + id), Secret(5)));
    let (proposed, told) = world.permit_commands(NodeId(1), unknown);
    assert!(proposed < 1000 && proposed + told.len() == 10_000, "{proposed} proposed");
    assert!(
        matches!(told.last(), Some(ServerMessage::Refused { code: ErrorCode::LimitExceeded, .. })),
        "{:?}",
        told.last()
    );
}
