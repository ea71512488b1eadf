//! A driver is its protocol, in bytes: nothing more happens and nothing less.

use kgate_core::{NodeId, Notice, Phase, Setup, Time, To};
use kgate_protocols::detect::VCube;
use kgate_protocols::slots::Lanes;
use kgate_protocols::topology::graphs::Shape;
use kgate_protocols::tree_token::TreeToken;

use super::*;

fn setup(me: u32, nodes: u32) -> Setup {
    Setup { me: NodeId(me), ..Setup::new(nodes, 1) }
}

/// All that is sent, to whom.
fn sent(deeds: &[Deed]) -> Vec<(To, &'static str, Vec<u8>)> {
    let sends = deeds.iter().filter_map(|deed| match deed {
        Deed::Send { to, kind, bytes } => Some((to.clone(), *kind, bytes.clone())),
        Deed::Store(_) | Deed::Arm(..) | Deed::Disarm(_) | Deed::Tell(_) => None,
    });
    sends.collect()
}

/// Two nodes of `slots`: a request, its answer, a grant; all of it as bytes.
#[test]
fn a_permit_is_granted_by_bytes() {
    let mut deeds = Vec::new();
    let mut asks = Driver::<Lanes>::start(&setup(0, 2), None, &mut deeds).unwrap();
    let mut answers = Driver::<Lanes>::start(&setup(1, 2), None, &mut deeds).unwrap();
    asks.order(Time::ZERO, Order::Acquire(1), &mut deeds).unwrap();
    let (to, kind, request) = sent(&deeds).pop().expect("a request");
    assert_eq!((to, kind), (To::All, "request"));
    deeds.clear();
    answers.deliver(Time::ZERO, NodeId(0), &request, &mut deeds).unwrap();
    let (to, kind, answer) = sent(&deeds).pop().expect("an answer");
    assert_eq!((to, kind), (To::One(NodeId(0)), "agg"));
    deeds.clear();
    asks.deliver(Time::ZERO, NodeId(1), &answer, &mut deeds).unwrap();
    let granted = |deed: &Deed| matches!(deed, Deed::Tell(Notice::Granted { .. }));
    assert!(deeds.iter().any(granted), "{deeds:?}");
    assert_eq!(asks.observe().phase, Phase::Holding);
}

/// Bytes that are no message, bytes behind a message, and a message that no correct peer sends: an
/// error each, and nothing has changed.
#[test]
fn junk_is_refused_and_changes_nothing() {
    let mut deeds = Vec::new();
    let mut node = Driver::<Lanes>::start(&setup(0, 2), None, &mut deeds).unwrap();
    let mut other = Driver::<Lanes>::start(&setup(1, 2), None, &mut deeds).unwrap();
    other.order(Time::ZERO, Order::Acquire(1), &mut deeds).unwrap();
    let (_, _, request) = sent(&deeds).pop().unwrap();
    deeds.clear();
    let before = format!("{node:?}");
    let longer = [&request[..], &[0]].concat();
    for junk in [&[][..], &[0xff; 40], &longer] {
        let refused = node.deliver(Time::ZERO, NodeId(1), junk, &mut deeds);
        assert_eq!(refused, Err(NotTaken::NoMessage("slots")));
    }
    let refused = node.deliver(Time::ZERO, NodeId(7), &request, &mut deeds);
    assert_eq!(refused, Err(NotTaken::Refused(Refusal::UnknownNode(NodeId(7)))));
    assert_eq!((format!("{node:?}"), deeds), (before, vec![]));
}

/// What a protocol stores comes back to it; anything else is an error that names it.
#[test]
fn what_is_stored_comes_back() {
    let graph = Shape::Star.build(2, &mut |_| 0).expect("a star");
    let setup = Setup { graph: Some(graph.into()), ..setup(0, 2) };
    let mut deeds = Vec::new();
    let stored = |deeds: &[Deed]| {
        let mut stores = deeds.iter().filter_map(|deed| match deed {
            Deed::Store(bytes) => Some(bytes.clone()),
            Deed::Send { .. } | Deed::Arm(..) | Deed::Disarm(_) | Deed::Tell(_) => None,
        });
        stores.next_back()
    };
    let mut node = Driver::<TreeToken>::start(&setup, None, &mut deeds).unwrap();
    node.order(Time::ZERO, Order::Acquire(1), &mut deeds).unwrap();
    let first = stored(&deeds).expect("stored");
    deeds.clear();
    let again = Driver::<TreeToken>::start(&setup, Some(&first), &mut deeds).unwrap();
    assert!(
        stored(&deeds).expect("an incarnation more") != first
            && again.observe().phase != Phase::Holding
    );
    let damaged = Driver::<TreeToken>::start(&setup, Some(&[1]), &mut deeds).err();
    assert_eq!(damaged, Some(Unreadable("tree-token")));
}

/// A timer has one number, however often it is armed; a number that was never given is nothing.
#[test]
fn timers_are_numbers() {
    let mut deeds = Vec::new();
    let mut node = Driver::<VCube>::start(&setup(0, 4), None, &mut deeds).unwrap();
    let armed = |deeds: &[Deed]| {
        deeds
            .iter()
            .filter_map(|deed| match deed {
                Deed::Arm(key, ..) => Some(*key),
                Deed::Store(_) | Deed::Send { .. } | Deed::Disarm(_) | Deed::Tell(_) => None,
            })
            .collect::<Vec<_>>()
    };
    let first = armed(&deeds)[0];
    deeds.clear();
    node.expire(Time(1_000_000_000), first, &mut deeds).unwrap();
    assert!(armed(&deeds).contains(&first), "{deeds:?}");
    deeds.clear();
    node.expire(Time(1_000_000_000), TimerKey(99), &mut deeds).unwrap();
    assert!(deeds.is_empty());
}

/// R1: what is suspended comes back as bytes, and the same incarnation goes on: its client's grant
/// is still there, by the same name. A protocol that cannot be suspended says so.
#[test]
fn what_is_suspended_goes_on() {
    let mut deeds = Vec::new();
    let mut setup = setup(0, 1);
    setup.slots.ask_again = Some(kgate_core::Span::UNIT);
    let mut node = Driver::<Lanes>::start(&setup, None, &mut deeds).unwrap();
    node.order(Time::ZERO, Order::Acquire(1), &mut deeds).unwrap();
    let granted = node.observe().grant.expect("nobody else is there");
    let suspended = node.suspend().expect("slots can be suspended");
    let mut again = Driver::<Lanes>::start(&setup, Some(&suspended), &mut deeds).unwrap();
    assert_eq!(again.observe(), node.observe());
    again.order(Time::ZERO, Order::Release(granted), &mut deeds).unwrap();
    let damaged = Driver::<Lanes>::start(&setup, Some(&suspended[1..]), &mut deeds).err();
    assert_eq!(damaged, Some(Unreadable("slots")));
    assert_eq!(Driver::<VCube>::start(&setup, None, &mut deeds).unwrap().suspend(), None);
}
