//! Permits that are bound to processes.

use super::fleet::{granted, refused};
use super::*;

fn alone(incarnation: u32) -> Settings {
    let terms = SessionTerms { valid_for: None, clock_error: 10, kill: Span(250_000_000) };
    Settings { terms, incarnation: Incarnation(incarnation), ..settings(1) }
}

/// The end of a stream releases nothing, however long ago it was. The slot is free as soon as no
/// process uses it.
#[test]
fn a_slot_is_free_when_no_process_uses_it() {
    let mut fleet = Fleet::new(&alone(1));
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 4, "gpu", None);
    fleet.gone(0, 1);
    let (session, number, slots) = fleet.probes.pop().expect("asked for");
    assert_eq!((number, slots), (4, vec![0]));
    fleet.hello(0, 2);
    fleet.acquire(0, 2, 1, "gpu", None);
    fleet.pass(Span(1_000_000_000_000));
    assert_eq!(granted(&fleet.received(0, 2)), None);
    fleet.free(0, session, number);
    assert!(granted(&fleet.received(0, 2)).is_some());
}

/// Without leases there is no deadline: no process is ended, however long its client is silent.
#[test]
fn no_process_is_ended() {
    let mut fleet = Fleet::new(&alone(1));
    fleet.input(0, Input::TreeOffered(ClientId(1)));
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 4, "gpu", None);
    fleet.pass(Span(1_000_000_000_000));
    assert_eq!(fleet.trees, []);
}

/// A restarted node keeps the slots in use, grants the others, and its fences are greater than all
/// before.
#[test]
fn a_new_incarnation_keeps_slots_in_use() {
    let mut fleet = Fleet::new(&alone(1));
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", Some(3));
    let (_, before) = granted(&fleet.received(0, 1)).unwrap();
    let mut fleet = Fleet::new(&alone(2));
    fleet.restore(0, "gpu", 3, &[1]);
    let holders = fleet.look(0, "gpu").seen[0].1[0].holders.clone();
    assert_eq!((holders.len(), &holders[0].fence), (1, &None), "theirs is not known");
    fleet.hello(0, 1);
    for number in 0..3 {
        fleet.acquire(0, 1, number, "gpu", None);
    }
    let received = fleet.received(0, 1);
    let got = received.iter().filter_map(|tell| granted(std::slice::from_ref(tell)));
    let got: Vec<_> =
        got.inspect(|(_, fence)| assert!(*fence > before)).map(|(slots, _)| slots[0]).collect();
    assert_eq!(got, [0, 2]);
    let (session, number, slots) = fleet.probes.pop().expect("asked for");
    assert_eq!(slots, [1]);
    fleet.free(0, session, number);
    assert_eq!(granted(&fleet.received(0, 1)).map(|it| it.0), Some(vec![1]));
}

/// Issue 19.3: an unused gate of a node alone takes the k of the next request. A gate in use does
/// not, and the refusal ends with the command that changes it.
#[test]
fn an_unused_gate_takes_another_k() {
    let mut fleet = Fleet::new(&alone(1));
    fleet.hello(0, 1);
    fleet.hello(0, 2);
    let conflict = |fleet: &mut Fleet, number| {
        fleet.acquire(0, 2, number, "gpu", Some(3));
        let (code, text) = refused(&fleet.received(0, 2)).expect("refused");
        assert_eq!(code, ErrorCode::Conflict);
        assert!(text.ends_with("`kgate set gpu -k 3`"), "{text}");
    };
    fleet.acquire(0, 1, 1, "gpu", None);
    assert!(granted(&fleet.received(0, 1)).is_some());
    conflict(&mut fleet, 1);
    fleet.ask(0, 1, ClientMessage::Release { number: 1 });
    for number in 2..5 {
        fleet.acquire(0, 2, number, "gpu", Some(3));
        assert!(granted(&fleet.received(0, 2)).is_some(), "request {number}");
    }
    assert_eq!(fleet.look(0, "gpu").seen[0].1[0].k, 3);
    for k in [0, Definition::MOST + 1] {
        fleet.acquire(0, 1, 7, "gpu", Some(k));
        assert_eq!(refused(&fleet.received(0, 1)).map(|it| it.0), Some(ErrorCode::Conflict));
    }
}

/// A gate whose only holder has lost its stream is in use until its processes are gone.
#[test]
fn a_gate_of_a_silent_holder_is_in_use() {
    let mut fleet = Fleet::new(&alone(1));
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", None);
    fleet.gone(0, 1);
    fleet.hello(0, 2);
    fleet.acquire(0, 2, 1, "gpu", Some(2));
    assert_eq!(refused(&fleet.received(0, 2)).map(|it| it.0), Some(ErrorCode::Conflict));
    let (session, number, _) = fleet.probes.pop().expect("asked for");
    fleet.free(0, session, number);
    fleet.acquire(0, 2, 2, "gpu", Some(2));
    assert!(granted(&fleet.received(0, 2)).is_some());
}

/// `kgate set` at a node alone: up with requests waiting, down with holders inside. A slot beyond k
/// is not granted again; k stays as set, also for an unused gate, and is remembered first.
#[test]
fn an_operator_changes_k() {
    let mut fleet = Fleet::new(&alone(1));
    fleet.hello(0, 1);
    for number in 0..3 {
        fleet.acquire(0, 1, number, "gpu", Some(1));
    }
    fleet.received(0, 1);
    assert_eq!(fleet.set(0, "gpu", 3), Ok(CallReply::GateSet { k: 3, previous_k: 1 }));
    let slots: Vec<_> =
        fleet.received(0, 1).iter().filter_map(|it| granted(std::slice::from_ref(it))).collect();
    assert_eq!(slots.iter().map(|it| it.0[0]).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(fleet.set(0, "gpu", 1), Ok(CallReply::GateSet { k: 1, previous_k: 3 }));
    assert_eq!(fleet.look(0, "gpu").seen[0].1[0].holders.len(), 3, "they keep their slots");
    fleet.acquire(0, 1, 3, "gpu", None);
    for number in [1, 2] {
        fleet.ask(0, 1, ClientMessage::Release { number });
        assert_eq!(granted(&fleet.received(0, 1)), None, "k is 1 now");
    }
    fleet.ask(0, 1, ClientMessage::Release { number: 0 });
    assert_eq!(granted(&fleet.received(0, 1)).map(|it| it.0), Some(vec![0]));
    fleet.ask(0, 1, ClientMessage::Release { number: 3 });
    fleet.acquire(0, 1, 4, "gpu", Some(2));
    assert_eq!(refused(&fleet.received(0, 1)).map(|it| it.0), Some(ErrorCode::Conflict), "as set");
    let set: Vec<u32> = fleet.settings.iter().map(|setting| setting.slots.k).collect();
    assert_eq!(set, [3, 1]);
}

/// k = 0 closes a gate of a node alone: waiting requests are refused with the command that opens
/// it, and a restart keeps it closed.
#[test]
fn a_closed_gate_stays_closed() {
    let mut fleet = Fleet::new(&alone(1));
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", Some(1));
    fleet.acquire(0, 1, 2, "gpu", None);
    fleet.received(0, 1);
    fleet.set(0, "gpu", 0).unwrap();
    let (code, text) = refused(&fleet.received(0, 1)).expect("refused");
    assert!(
        code == ErrorCode::TooLarge && text.contains("`kgate set gpu -k K` opens it"),
        "{text}"
    );
    let mut fleet = Fleet::new(&alone(2));
    let (name, set_by) = ("gpu".to_owned(), Some("an operator".to_owned()));
    let holders = Default::default();
    let restored = RestoredGate { name, slots: 0.into(), in_use: vec![0], holders, set_by };
    fleet.restore_gate(0, restored);
    assert_eq!(fleet.look(0, "gpu").seen[0].1[0].holders.len(), 1);
    fleet.hello(0, 1);
    for k in [None, Some(1)] {
        fleet.acquire(0, 1, 1, "gpu", k);
        assert!(refused(&fleet.received(0, 1)).is_some(), "{k:?}");
    }
}

/// Issue 19: a request that does not wait is refused at once, without the time that other nodes
/// would need to answer. Where a holder's connection has ended, its slot may be about to be free:
/// such a request gets that time.
#[test]
fn a_node_alone_says_at_once_that_all_is_in_use() {
    let mut fleet = Fleet::new(&alone(1));
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", Some(1));
    assert!(granted(&fleet.received(0, 1)).is_some());
    fleet.hello(0, 2);
    let unwilling = |fleet: &mut Fleet, number| {
        let request = AcquireRequest { wait: false, ..AcquireRequest::new("gpu") }.into();
        fleet.ask(0, 2, ClientMessage::Acquire { number, request });
        refused(&fleet.received(0, 2)).map(|(code, _)| code)
    };
    assert_eq!(unwilling(&mut fleet, 1), Some(ErrorCode::Busy), "no time has passed");
    fleet.gone(0, 1);
    let (session, number, _) = fleet.probes.pop().expect("asked for");
    assert_eq!(unwilling(&mut fleet, 2), None);
    fleet.free(0, session, number);
    assert!(granted(&fleet.received(0, 2)).is_some());
}

/// Holders beyond a k that became smaller survive a restart, and so does a gate of the
/// configuration with slots in use.
#[test]
fn a_restart_keeps_holders_beyond_k() {
    let settings = Settings { fixed: vec![fixed(1, "fixed", 2, "slots")], ..alone(2) };
    let mut fleet = Fleet::new(&settings);
    fleet.hello(0, 1);
    for (gate, in_use) in [("gpu", vec![4]), ("fixed", vec![1, 3])] {
        fleet.restore(0, gate, 2, &in_use);
        let seen = fleet.look(0, gate).seen[0].1[0].clone();
        let mut held: Vec<u32> = seen.holders.iter().flat_map(|it| it.slots.clone()).collect();
        held.sort_unstable();
        assert_eq!((seen.k, held), (2, in_use.clone()), "{gate}");
    }
    fleet.acquire(0, 1, 1, "fixed", None);
    assert_eq!(granted(&fleet.received(0, 1)).map(|it| it.0), Some(vec![0]));
    fleet.acquire(0, 1, 2, "fixed", None);
    assert_eq!(granted(&fleet.received(0, 1)), None, "slot 1 is in use");
}

/// What a node cannot do or keep, it refuses: k of a cluster without a log, k of a protocol without
/// slots, a change that the next start would forget.
#[test]
fn impossible_changes_are_refused() {
    let tree = fixed(1, "tree", 1, "tree-token");
    let none = Settings { has_store: false, ..alone(1) };
    let fixed = Settings { fixed: vec![tree], ..alone(1) };
    for (settings, gate, why) in [
        (settings(2), "gpu", "no replicated log"),
        (none, "gpu", "set `data`"),
        (fixed, "tree", "protocol tree-token"),
        (alone(1), "no gate", "letters, digits"),
    ] {
        let mut fleet = Fleet::new(&settings);
        let (code, text) = fleet.set(0, gate, 2).unwrap_err();
        assert!(code == ErrorCode::BadRequest && text.contains(why), "{text}");
        assert!(fleet.settings.is_empty());
    }
    let (code, _) = Fleet::new(&alone(1)).set(0, "gpu", Definition::MOST + 1).unwrap_err();
    assert_eq!(code, ErrorCode::BadRequest);
}
