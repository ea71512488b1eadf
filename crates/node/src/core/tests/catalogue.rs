//! Creation of gates.

use super::fleet::{granted, refused};
use super::*;

/// Two nodes create a gate at once with different k: one wins, and the refusal at the other names
/// both values.
#[test]
fn one_of_two_creators_wins() {
    let mut fleet = Fleet::new(&settings(3));
    for node in 0..2 {
        fleet.hello(node, 1);
    }
    // Nothing arrives until both have asked.
    let all: Vec<_> = (0..3).flat_map(|a| (0..3).map(move |b| (NodeId(a), NodeId(b)))).collect();
    fleet.cut = Vec::new();
    let mut actions = [Vec::new(), Vec::new()];
    for (node, k) in [(0_u32, 2), (1, 3)] {
        let ask = ClientMessage::Acquire {
            number: 1,
            request: AcquireRequest { k: Some(k.into()), ..AcquireRequest::new("gpu") }.into(),
        };
        let now = fleet.now;
        let core = fleet.nodes.get_mut(&NodeId(node)).unwrap();
        core.handle(now, Input::Client(ClientId(1), ask), &mut actions[node as usize]);
    }
    assert_eq!(all.len(), 9);
    for (node, actions) in actions.into_iter().enumerate() {
        fleet.carry_out(NodeId(u32::try_from(node).unwrap()), actions);
    }
    fleet.run();
    let (first, second) = (fleet.received(0, 1), fleet.received(1, 1));
    let won = [granted(&first).is_some(), granted(&second).is_some()];
    assert_eq!(won.iter().filter(|won| **won).count(), 1, "{first:?} {second:?}");
    let (why, text) = refused(&first).or(refused(&second)).expect("the other one");
    assert!(
        why == ErrorCode::Conflict && text.contains("k = 2") && text.contains("k = 3"),
        "{text}"
    );
}

/// A gate whose creator crashed after it had announced it to one node is found by the next creator,
/// and not created again.
#[test]
fn a_partly_announced_gate_is_found() {
    let mut fleet = Fleet::new(&settings(3));
    fleet.hello(0, 1);
    // Node 0 reaches node 1 alone once it has the answers of both.
    fleet.acquire(0, 1, 1, "warm-up", None);
    fleet.cut = vec![(NodeId(0), NodeId(2))];
    let definition = fixed(2, "gpu", 5, "slots");
    let message = PeerMessage::Define { round: 99, definition }.bytes();
    fleet.peer(NodeId(1), NodeId(0), PeerEvent::Received(message));
    fleet.kill(0);
    fleet.pass(Span(20_000_000_000));
    fleet.hello(2, 1);
    fleet.acquire(2, 1, 1, "gpu", Some(4));
    let (why, text) = refused(&fleet.received(2, 1)).expect("refused");
    assert!(why == ErrorCode::Conflict && text.contains("k = 5"), "{text}");
    fleet.acquire(2, 1, 2, "other", None);
    assert!(granted(&fleet.received(2, 1)).is_some(), "another gate gets another number");
}

/// A message for an unknown gate waits until the gate is known.
#[test]
fn early_messages_wait_for_their_gate() {
    let mut fleet = Fleet::new(&settings(2));
    let now = fleet.now;
    let mut actions = Vec::new();
    let definition = fixed(1, "gpu", 1, "slots");
    // Node 1 knows a gate that node 0 does not.
    let message = PeerMessage::Define { round: 1, definition }.bytes();
    let input = Input::Peer(NodeId(0), PeerEvent::Received(message));
    fleet.nodes.get_mut(&NodeId(1)).unwrap().handle(now, input, &mut actions);
    fleet.hello(1, 1);
    fleet.acquire(1, 1, 1, "gpu", None);
    assert!(granted(&fleet.received(1, 1)).is_some(), "node 0 has asked what it is, and answered");
    assert_eq!(fleet.rejected, []);
}

/// A peer that uses the greatest possible id of a gate is rejected: no id would be left for the
/// next gate.
#[test]
fn the_greatest_gate_id_is_rejected() {
    let mut fleet = Fleet::new(&settings(2));
    let last = GateId(u32::MAX);
    let (round, definition) = (1, Some(Definition { id: last, ..fixed(1, "gpu", 1, "slots") }));
    let define = PeerMessage::Define { round, definition: definition.clone().unwrap() };
    for message in [
        define,
        PeerMessage::Known { round, definition, last },
        PeerMessage::Known { round, definition: None, last },
    ] {
        fleet.peer(NodeId(0), NodeId(1), PeerEvent::Received(message.bytes()));
    }
    assert_eq!(fleet.rejected.len(), 3, "{:?}", fleet.rejected);
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", None);
    assert!(granted(&fleet.received(0, 1)).is_some());
}

/// Where the configurations of two nodes differ, requests are refused with both values.
#[test]
fn configurations_must_be_the_same() {
    let mut fleet = Fleet::new(&Settings {
        new_gates: None,
        fixed: vec![fixed(1, "gpu", 2, "slots")],
        ..settings(2)
    });
    let theirs = PeerMessage::ConfiguredGates(vec![fixed(1, "gpu", 3, "slots")]).bytes();
    fleet.peer(NodeId(0), NodeId(1), PeerEvent::Received(theirs));
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", None);
    let (why, text) = refused(&fleet.received(0, 1)).expect("refused");
    assert!(
        why == ErrorCode::Conflict && text.contains("k = 2") && text.contains("k = 3"),
        "{text}"
    );
    fleet.acquire(0, 1, 2, "other", None);
    let (why, text) = refused(&fleet.received(0, 1)).expect("refused");
    assert!(why == ErrorCode::GateNotFound && text.contains("gpu"), "{text}");
}
