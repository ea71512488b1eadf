//! A driver behaves as its protocol does, with bytes for messages.

use kgate_core::{NodeId, Phase, Setup, Time, To};
use kgate_protocols::detect::VCube;
use kgate_protocols::slots::Lanes;
use kgate_protocols::topology::graphs::Shape;
use kgate_protocols::tree_token::TreeToken;

use super::*;

fn setup(me: u32, nodes: u32) -> Setup {
    Setup { me: NodeId(me), ..Setup::new(nodes, 1) }
}

fn deliver(from: u32, bytes: &[u8]) -> DriverInput {
    Input::Deliver { from: NodeId(from), message: Bytes::copy_from_slice(bytes) }
}

/// Every message sent: destination, kind, payload.
fn sent(effects: &[DriverEffect]) -> Vec<(To, &'static str, Bytes)> {
    let sends = effects.iter().filter_map(|effect| match effect {
        Effect::Send { to, message } => {
            Some((to.clone(), message.kind, Bytes::copy_from_slice(message.payload())))
        }
        Effect::Persist(_) | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Notify(_) => None,
    });
    sends.collect()
}

/// Two nodes of `slots` exchange a request and its answer as bytes, and the request is granted.
#[test]
fn a_request_is_granted_over_bytes() {
    let mut effects = Vec::new();
    let mut asks = Driver::<Lanes>::start(&setup(0, 2), None, &mut effects).unwrap();
    let mut answers = Driver::<Lanes>::start(&setup(1, 2), None, &mut effects).unwrap();
    asks.handle(Time::ZERO, Input::Acquire { weight: 1 }, &mut effects).unwrap();
    let (to, kind, request) = sent(&effects).pop().expect("a request");
    assert_eq!((to, kind), (To::All, "request"));
    effects.clear();
    answers.handle(Time::ZERO, deliver(0, &request), &mut effects).unwrap();
    let (to, kind, answer) = sent(&effects).pop().expect("an answer");
    assert_eq!((to, kind), (To::One(NodeId(0)), "agg"));
    effects.clear();
    asks.handle(Time::ZERO, deliver(1, &answer), &mut effects).unwrap();
    assert!(effects.iter().any(is_grant), "{effects:?}");
    assert_eq!(asks.observe().phase, Phase::Holding);
}

/// Malformed bytes, bytes after a message and a message from an unknown node are each rejected, and
/// the state does not change.
#[test]
fn a_malformed_message_changes_nothing() {
    let mut effects = Vec::new();
    let mut node = Driver::<Lanes>::start(&setup(0, 2), None, &mut effects).unwrap();
    let mut other = Driver::<Lanes>::start(&setup(1, 2), None, &mut effects).unwrap();
    other.handle(Time::ZERO, Input::Acquire { weight: 1 }, &mut effects).unwrap();
    let (_, _, request) = sent(&effects).pop().unwrap();
    effects.clear();
    let before = format!("{node:?}");
    let longer = [&request[..], &[0]].concat();
    for malformed in [&[][..], &[0xff; 40], &longer] {
        let refused = node.handle(Time::ZERO, deliver(1, malformed), &mut effects);
        assert_eq!(refused, Err(InputRejected::Malformed("slots")));
    }
    let refused = node.handle(Time::ZERO, deliver(7, &request), &mut effects);
    assert_eq!(refused, Err(InputRejected::Refused(Refusal::UnknownNode(NodeId(7)))));
    assert_eq!((format!("{node:?}"), effects), (before, vec![]));
}

/// A driver restores what its protocol stored. Damaged state is an error that names the protocol.
#[test]
fn stored_state_is_restored() {
    let graph = Shape::Star.build(2, &mut |_| 0).expect("a star");
    let setup = Setup { graph: Some(graph.into()), ..setup(0, 2) };
    let mut effects = Vec::new();
    let stored = |effects: &[DriverEffect]| {
        let mut stores = effects.iter().filter_map(|effect| match effect {
            Effect::Persist(bytes) => Some(bytes.clone()),
            Effect::Send { .. } | Effect::Arm { .. } | Effect::Disarm(_) | Effect::Notify(_) => {
                None
            }
        });
        stores.next_back()
    };
    let mut node = Driver::<TreeToken>::start(&setup, None, &mut effects).unwrap();
    node.handle(Time::ZERO, Input::Acquire { weight: 1 }, &mut effects).unwrap();
    let first = stored(&effects).expect("stored");
    effects.clear();
    let again = Driver::<TreeToken>::start(&setup, Some(&first), &mut effects).unwrap();
    assert!(
        stored(&effects).expect("an incarnation more") != first
            && again.observe().phase != Phase::Holding
    );
    let damaged = Driver::<TreeToken>::start(&setup, Some(&[1]), &mut effects).err();
    assert_eq!(damaged, Some(Unreadable("tree-token")));
}

/// A timer keeps its number however often it is armed. The expiry of an unknown number is ignored.
#[test]
fn a_timer_keeps_its_number() {
    let mut effects = Vec::new();
    let mut node = Driver::<VCube>::start(&setup(0, 4), None, &mut effects).unwrap();
    let armed = |effects: &[DriverEffect]| {
        effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Arm { timer, .. } => Some(*timer),
                Effect::Persist(_)
                | Effect::Send { .. }
                | Effect::Disarm(_)
                | Effect::Notify(_) => None,
            })
            .collect::<Vec<_>>()
    };
    let first = armed(&effects)[0];
    effects.clear();
    node.handle(Time(1_000_000_000), Input::Expire(first), &mut effects).unwrap();
    assert!(armed(&effects).contains(&first), "{effects:?}");
    effects.clear();
    node.handle(Time(1_000_000_000), Input::Expire(TimerKey(99)), &mut effects).unwrap();
    assert!(effects.is_empty());
}

/// R1: a driver that starts with suspended state resumes the same incarnation, and its grant keeps
/// its id. A protocol that cannot be suspended returns `None`.
#[test]
fn a_suspended_driver_resumes() {
    let mut effects = Vec::new();
    let mut setup = setup(0, 1);
    setup.slots.ask_again = Some(kgate_core::Span::UNIT);
    let mut node = Driver::<Lanes>::start(&setup, None, &mut effects).unwrap();
    node.handle(Time::ZERO, Input::Acquire { weight: 1 }, &mut effects).unwrap();
    let granted = node.observe().grant.expect("nobody else is there");
    let suspended = node.suspend().expect("slots can be suspended");
    let mut again = Driver::<Lanes>::start(&setup, Some(&suspended), &mut effects).unwrap();
    assert_eq!(again.observe(), node.observe());
    again.handle(Time::ZERO, Input::Release { grant: granted }, &mut effects).unwrap();
    let damaged = Driver::<Lanes>::start(&setup, Some(&suspended[1..]), &mut effects).err();
    assert_eq!(damaged, Some(Unreadable("slots")));
    assert_eq!(Driver::<VCube>::start(&setup, None, &mut effects).unwrap().suspend(), None);
}

/// The frame of a message is its header and its payload, whatever the length of the header.
#[test]
fn a_frame_is_header_and_payload() {
    let message = Encoded::new("request", &(7_u8, [1_u8, 2, 3]));
    for header in [&[][..], &[9], &[9; Encoded::HEADROOM]] {
        let frame = message.clone().into_frame(header);
        assert_eq!(frame, [header, message.payload()].concat());
    }
}
