//! The names of slots, and the keys that are used at most once.

use super::*;

pub(super) fn named(names: &[&str]) -> Slots {
    Slots::named(names.iter().map(|name| (*name).to_owned()).collect())
}

pub(super) fn create_with(name: &str, slots: Slots) -> Command {
    let Command::CreateGate { name, protocol, lanes, policy, weight_max, author, .. } =
        create(name, 1, "ann")
    else {
        unreachable!("it creates a gate")
    };
    Command::CreateGate { name, slots, protocol, lanes, policy, weight_max, author }
}

pub(super) fn set_with(name: &str, k: Option<u32>, source: Option<KSource>) -> Command {
    let (name, author) = (name.to_owned(), "op".to_owned());
    Command::SetGate { name, k, source, policy: None, version: None, author }
}

pub(super) fn mark(gate: u32, key: &str, client: u8, ttl: u64) -> Command {
    let (gate, key, by) = (GateId(gate), key.to_owned(), format!("client {client}"));
    Command::MarkOnce { gate, key, token: [client; 32], by, ttl: Span(ttl) }
}

/// Names belong to the definition of a gate: the first ones win, other names are a conflict even if
/// they are as many, and the number alone is none.
#[test]
fn the_first_names_win() {
    let mut log = TestLog::bootstrapped();
    let first = log.apply(create_with("gpu", named(&["a", "b"]))).expect("it is new");
    for same in [named(&["a", "b"]), 2.into()] {
        assert_eq!(log.apply(create_with("gpu", same)), Ok(first.clone()));
    }
    for other in [named(&["b", "a"]), named(&["a", "b", "c"]), 3.into()] {
        let rejected = log.apply(create_with("gpu", other.clone()));
        let Err(Rejected::Conflict { slots, wanted, .. }) = rejected else {
            panic!("{rejected:?}")
        };
        assert_eq!((*slots, *wanted), (named(&["a", "b"]), other));
    }
    assert_eq!(
        log.apply(create_with("new", named(&["a", "a"]))),
        Err(Rejected::Invalid(Invalid::Slots(BadSlots::DuplicateName("a".to_owned()))))
    );
}

/// k of a gate with names is their number or 0, until the names are dropped; a number replaces an
/// expression.
#[test]
fn names_fix_k() {
    let mut log = TestLog::bootstrapped();
    log.apply(create_with("gpu", named(&["a", "b"]))).expect("it is new");
    let slots = |log: &TestLog| log.state.cluster_state().gate("gpu").expect("a gate").slots();
    let refused = log.apply(set("gpu", 3));
    let other = BadSlots::OtherNumber { names: 2, k: 3 };
    assert_eq!(refused, Err(Rejected::Invalid(Invalid::Slots(other))));
    log.apply(set("gpu", 0)).expect("closed");
    log.apply(set("gpu", 2)).expect("open again");
    assert_eq!(slots(&log), named(&["a", "b"]));
    log.apply(set_with("gpu", Some(1), Some(named(&["c"]).source))).expect("other names");
    log.apply(set_with("gpu", None, Some(KSource::Number))).expect("no names");
    assert_eq!(slots(&log), 1.into());
    let expression = KSource::Expression("cores".to_owned());
    log.apply(set_with("gpu", Some(8), Some(expression))).expect("an expression");
    log.apply(set("gpu", 8)).expect("the same number");
    assert_eq!(slots(&log), 8.into());
}

/// A name that stays keeps its slot while the gate is open: its holder would share what it names.
#[test]
fn names_move_only_at_a_closed_gate() {
    let mut log = TestLog::bootstrapped();
    log.apply(create_with("gpu", named(&["a", "b"]))).expect("it is new");
    let swap = || set_with("gpu", Some(2), Some(named(&["b", "a"]).source));
    let moved = BadSlots::Moved { name: "a".to_owned(), from: 0, to: 1 };
    assert_eq!(log.apply(swap()), Err(Rejected::Invalid(Invalid::Slots(moved))));
    log.apply(set_with("gpu", Some(2), Some(named(&["a", "c"]).source))).expect("replaced");
    log.apply(set("gpu", 0)).expect("closed");
    log.apply(swap()).expect("the gate is closed");
}

/// The names of all gates together are bounded, and dropped names make room.
#[test]
fn names_are_bounded() {
    let mut log = TestLog::bootstrapped();
    let many = |from: usize| {
        Slots::named((from..from + bounds::NAMES).map(|name| name.to_string()).collect())
    };
    for gate in 0..bounds::NAMES_IN_ALL / bounds::NAMES {
        log.apply(create_with(&format!("g{gate}"), many(gate))).expect("there is room");
    }
    let full = Err(Rejected::LimitReached(Limit::Names));
    assert_eq!(log.apply(create_with("one", named(&["a"]))), full);
    log.apply(create("one", 1, "ann")).expect("without names there is room");
    assert_eq!(log.apply(set_with("one", None, Some(named(&["a"]).source))), full);
    log.apply(set_with("g0", None, Some(many(bounds::NAMES).source))).expect("as many as before");
    log.apply(set_with("g0", Some(1), Some(KSource::Number))).expect("dropped");
    log.apply(set_with("one", None, Some(named(&["a"]).source))).expect("there is room again");
}

/// The first client uses a key, also when it proposes again; others learn who it was. An expiry
/// concerns the mark that was counted, not a later one. Keys of another gate are others.
#[test]
fn a_key_is_used_once() {
    let mut log = TestLog::bootstrapped();
    for gate in ["a", "b"] {
        log.apply(create(gate, 1, "ann")).expect("it is new");
    }
    log.apply(mark(1, "today", 1, 1)).expect("it is the first");
    let at = log.index;
    assert_eq!(log.apply(mark(1, "today", 1, 1)), Ok(Applied::Marked), "again");
    let rejected = log.apply(mark(1, "today", 2, 1));
    assert!(matches!(&rejected, Err(Rejected::OnceUsed { by, .. }) if by == "client 1"));
    assert_eq!(log.apply(mark(2, "today", 2, 1)), Ok(Applied::Marked), "another gate");
    let expire = |at| Command::ExpireOnce { gate: GateId(1), key: "today".to_owned(), at };
    assert!(matches!(log.apply(expire(at + 1)), Err(Rejected::OnceExpired { .. })));
    assert_eq!(log.apply(expire(at)), Ok(Applied::OnceExpired));
    assert_eq!(log.apply(mark(1, "today", 2, 1)), Ok(Applied::Marked));
    assert!(matches!(log.apply(expire(at)), Err(Rejected::OnceExpired { .. })), "a later mark");
    assert_eq!(log.apply(mark(7, "x", 1, 1)), Err(Rejected::GateDeleted(GateId(7))));
    for key in ["", "a\n", &"x".repeat(129)] {
        assert!(matches!(log.apply(mark(1, key, 1, 1)), Err(Rejected::Invalid(_))), "{key:?}");
    }
}

/// The keys of a gate are bounded; the refusal says what to do; an expired key makes room.
#[test]
fn keys_are_bounded() {
    let mut log = TestLog::bootstrapped();
    for gate in ["a", "b"] {
        log.apply(create(gate, 1, "ann")).expect("it is new");
    }
    for key in 0..bounds::ONCE_KEYS {
        log.apply(mark(1, &key.to_string(), 1, 1)).expect("there is room");
    }
    assert_eq!(log.apply(mark(1, "more", 1, 1)), Err(Rejected::LimitReached(Limit::OnceKeys)));
    log.apply(mark(2, "more", 1, 1)).expect("another gate has room");
    let at = log.state.cluster_state().once_mark(GateId(1), "0").expect("it is used").at;
    let expire = Command::ExpireOnce { gate: GateId(1), key: "0".to_owned(), at };
    log.apply(expire).expect("it is used");
    log.apply(mark(1, "more", 1, 1)).expect("there is room again");
}
