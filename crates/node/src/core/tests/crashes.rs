//! Crashes of nodes, with crash-stop.

use super::fleet::{granted, refused};
use super::*;

const SECOND: Span = Span(1_000_000_000);

/// The node with the only permit crashes. The next request gets the permit once the detector is
/// sure and the session of the crashed node's client has expired.
#[test]
fn slots_of_a_crashed_node_are_freed() {
    let mut fleet = Fleet::new(&settings(3));
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", None);
    fleet.hello(1, 1);
    fleet.acquire(1, 1, 1, "gpu", None);
    fleet.kill(0);
    let killed = fleet.now;
    let granted_at = (0..20).find_map(|sequence| {
        fleet.pass(SECOND);
        fleet.ask(1, 1, ClientMessage::Renew { sequence });
        granted(&fleet.received(1, 1)).map(|_| fleet.now)
    });
    let after = granted_at.expect("granted in the end").since(killed);
    assert!(after > SECOND.times(4), "its client may have gone on for four seconds, not {after:?}");
    let report = fleet.look(2, "gpu");
    assert!(report.seen.iter().all(|(who, _)| who.crashed == [NodeId(0)]), "{report:?}");
}

/// A node that was only silent and is declared dead stops, and its clients learn that their permits
/// are lost.
#[test]
fn a_node_that_is_declared_dead_stops() {
    let mut fleet = Fleet::new(&settings(3));
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", None);
    let silent = |a: u32, b: u32| (NodeId(a), NodeId(b));
    fleet.cut = vec![silent(0, 1), silent(0, 2), silent(1, 0), silent(2, 0)];
    for sequence in 0..4 {
        fleet.pass(SECOND);
        fleet.ask(0, 1, ClientMessage::Renew { sequence });
    }
    fleet.cut.clear();
    for other in [NodeId(1), NodeId(2)] {
        fleet.peer(other, NodeId(0), PeerEvent::Up);
        fleet.peer(NodeId(0), other, PeerEvent::Up);
    }
    fleet.run();
    assert_eq!(fleet.stopped.len(), 1, "the others go on: {:?}", fleet.stopped);
    let declared = |stopped: &(NodeId, StopReason)| {
        matches!(stopped, (NodeId(0), StopReason::DeclaredDead { me: NodeId(0), .. }))
    };
    assert!(fleet.stopped.iter().any(declared), "{:?}", fleet.stopped);
    let received = fleet.received(0, 1);
    assert!(
        received.iter().any(|tell| matches!(tell, ServerMessage::Lost { number: 1, .. })),
        "{received:?}"
    );
    fleet.ask(0, 1, ClientMessage::Renew { sequence: 9 });
    assert_eq!(refused(&fleet.received(0, 1)).map(|it| it.0), Some(ErrorCode::NodeGone));
}

/// Two nodes that connect long after both have met the third are not declared dead meanwhile, by
/// any detector. Later crashes are detected.
#[test]
fn a_node_that_cannot_answer_yet_is_not_dead() {
    for detection in [Detection::VCube, Detection::Heartbeat, Detection::HiAdsd] {
        let mut fleet = Fleet::apart(&Settings { detection, ..settings(3) });
        fleet.connect(0, 1);
        fleet.connect(0, 2);
        fleet.pass(Span(10 * SECOND.0));
        fleet.connect(1, 2);
        fleet.pass(Span(10 * SECOND.0));
        assert!(fleet.nodes.values().all(|node| node.crashed().next().is_none()), "{detection:?}");
        assert_eq!(fleet.stopped, []);
        fleet.kill(2);
        fleet.pass(Span(10 * SECOND.0));
        assert!(fleet.nodes.values().all(|node| node.crashed().eq([NodeId(2)])), "{detection:?}");
    }
}

/// No node is declared dead that has not started yet, or has not met all others.
#[test]
fn detection_begins_when_all_were_there() {
    let settings = settings(2);
    let mut actions = Vec::new();
    let mut core = Core::start(Time(1), settings, &BTreeMap::new(), &mut actions).unwrap();
    assert_eq!(core.next_due(Time(2)), None, "no test is due");
    core.handle(Time(2), Input::Peer(NodeId(1), PeerEvent::Up), &mut actions);
    assert_eq!(core.next_due(Time(2)), None, "no test is due yet");
    let met = PeerEvent::Received(peer_message::PeerMessage::MetAll.bytes());
    core.handle(Time(3), Input::Peer(NodeId(1), met), &mut actions);
    assert!(core.next_due(Time(2)).is_some());
}

/// `tree-token`: a node that restarts with its stored state takes part again, and the token is not
/// lost.
#[test]
fn a_node_with_a_store_restarts() {
    let fixed = vec![fixed(1, "gpu", 1, "tree-token")];
    let settings = Settings { fixed, new_gates: None, detection: Detection::Off, ..settings(3) };
    let mut fleet = Fleet::new(&settings);
    for round in 0..6 {
        let node = round % 3;
        fleet.hello(node, 10 + u64::from(round));
        fleet.acquire(node, 10 + u64::from(round), 1, "gpu", None);
        assert!(granted(&fleet.received(node, 10 + u64::from(round))).is_some(), "round {round}");
        fleet.kill(node);
        fleet.start(&Settings { me: NodeId(node), ..settings.clone() });
        for other in (0..3).filter(|other| *other != node) {
            fleet.peer(NodeId(other), NodeId(node), PeerEvent::Up);
            fleet.peer(NodeId(node), NodeId(other), PeerEvent::Up);
        }
        fleet.run();
    }
}

/// `tree-token`: a node is killed after its client's request was stored, and before the grant was.
/// After the restart it gets a grant for a client that is gone, and releases it at once.
#[test]
fn a_permit_for_a_client_of_a_former_incarnation() {
    let fixed = vec![fixed(1, "gpu", 1, "tree-token")];
    let settings = Settings { fixed, new_gates: None, detection: Detection::Off, ..settings(2) };
    let mut fleet = Fleet::new(&settings);
    fleet.hello(0, 1);
    let ask = ClientMessage::Acquire { number: 1, request: AcquireRequest::new("gpu").into() };
    let mut actions = Vec::new();
    let input = Input::Client(ClientId(1), ask);
    fleet.nodes.get_mut(&NodeId(0)).expect("up").handle(fleet.now, input, &mut actions);
    let first =
        actions.iter().position(|action| matches!(action, Action::Store(..))).expect("it stores");
    actions.truncate(first + 1);
    fleet.carry_out(NodeId(0), actions);
    fleet.kill(0);
    fleet.start(&Settings { me: NodeId(0), ..settings });
    fleet.connect(0, 1);
    fleet.hello(1, 1);
    fleet.acquire(1, 1, 1, "gpu", None);
    assert!(granted(&fleet.received(1, 1)).is_some());
}
