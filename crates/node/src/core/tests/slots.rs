//! Names of slots, notes, and keys that are used at most once, at a node alone and with a log.

use kgate_control::state::{KSource, Slots};

use super::fleet::{granted, refused};
use super::*;

fn alone() -> Settings {
    let terms = SessionTerms { valid_for: None, clock_error: 10, kill: Span(250_000_000) };
    Settings { terms, has_store: true, ..settings(1) }
}

fn named(names: &[&str]) -> Slots {
    Slots::named(names.iter().map(|name| (*name).to_owned()).collect())
}

fn acquire(fleet: &mut Fleet, client: u64, number: u64, k: Slots, note: Note) {
    let request = AcquireRequest { k: Some(k), note, ..AcquireRequest::new("gpu") }.into();
    fleet.ask(0, client, ClientMessage::Acquire { number, request });
}

fn names_of(received: &[ServerMessage]) -> Vec<String> {
    let [ServerMessage::Granted { slot_names, .. }] = received else { panic!("{received:?}") };
    slot_names.clone()
}

/// A grant has the names of its slots. Other names are a conflict while the gate is used, and an
/// unused gate takes them, as it takes another k. Invalid names and notes are refused.
#[test]
fn a_gate_has_names() {
    let mut fleet = Fleet::new(&alone());
    fleet.hello(0, 1);
    fleet.hello(0, 2);
    fleet.received(0, 1);
    fleet.received(0, 2);
    acquire(&mut fleet, 1, 1, named(&["a", "b"]), Note::default());
    assert_eq!(names_of(&fleet.received(0, 1)), ["a"]);
    acquire(&mut fleet, 2, 1, 2.into(), Note::default());
    assert_eq!(names_of(&fleet.received(0, 2)), ["b"]);
    acquire(&mut fleet, 2, 2, named(&["b", "a"]), Note::default());
    let (code, text) = refused(&fleet.received(0, 2)).expect("refused");
    assert_eq!(code, ErrorCode::Conflict);
    assert!(text.ends_with("`kgate set gpu --names b,a`"), "{text}");
    for client in 1..3 {
        fleet.ask(0, client, ClientMessage::Release { number: 1 });
        fleet.received(0, client);
    }
    acquire(&mut fleet, 2, 3, named(&["b", "a"]), Note::default());
    assert_eq!(names_of(&fleet.received(0, 2)), ["b"]);
    let note = Note { reason: "x".repeat(201), ..Note::default() };
    for (k, note) in [(named(&["a", "a"]), Note::default()), (named(&["b", "a"]), note)] {
        acquire(&mut fleet, 1, 4, k, note);
        let (code, _) = refused(&fleet.received(0, 1)).expect("refused");
        assert_eq!(code, ErrorCode::BadRequest);
    }
}

/// What an operator set has its names after a restart, open or closed; names of a gate whose slots
/// are in use come back too.
#[test]
fn names_are_restored() {
    for (k, set_by) in [(2, None), (2, Some("op")), (0, Some("op"))] {
        let mut fleet = Fleet::new(&alone());
        let slots = Slots { k, ..named(&["a", "b"]) };
        let set_by = set_by.map(str::to_owned);
        let in_use = if k == 0 { Vec::new() } else { vec![1] };
        let name = "gpu".to_owned();
        let (slots, holders) = (slots.clone(), Default::default());
        let restored = RestoredGate { name, slots: slots.clone(), in_use, holders, set_by };
        fleet.restore_gate(0, restored);
        let view = fleet.look(0, "gpu").seen[0].1[0].clone();
        assert_eq!((view.k, view.source), (slots.k, slots.source));
    }
}

/// A name does not move to another slot while somebody holds a slot, and may when nobody does.
#[test]
fn names_in_use_do_not_move() {
    let mut fleet = Fleet::new(&alone());
    fleet.hello(0, 1);
    fleet.received(0, 1);
    acquire(&mut fleet, 1, 1, named(&["a", "b"]), Note::default());
    let set = |fleet: &mut Fleet, names: &[&str]| {
        let (name, author) = ("gpu".to_owned(), "an operator".to_owned());
        let (k, source) = (Some(2), Some(named(names).source));
        fleet.call(0, Call::SetGate { name, k, source, no_names: false, policy: None, author })
    };
    assert_eq!(set(&mut fleet, &["b", "a"]).unwrap_err().0, ErrorCode::BadRequest);
    set(&mut fleet, &["a", "c"]).expect("c takes the place of b");
    fleet.ask(0, 1, ClientMessage::Release { number: 1 });
    set(&mut fleet, &["c", "a"]).expect("nobody is inside");
}

/// k of a gate with names is their number or 0; without names it is any number.
#[test]
fn operators_set_names() {
    let mut fleet = Fleet::new(&alone());
    let mut set = |k, source: Option<KSource>| {
        let (name, author) = ("gpu".to_owned(), "an operator".to_owned());
        fleet.call(0, Call::SetGate { name, k, source, no_names: false, policy: None, author })
    };
    set(Some(2), Some(named(&["a", "b"]).source)).expect("a new gate");
    assert_eq!(set(Some(3), None).unwrap_err().0, ErrorCode::BadRequest);
    set(Some(0), None).expect("closed");
    set(Some(2), None).expect("open");
    let expression = KSource::Expression("cores".to_owned());
    assert_eq!(set(Some(8), Some(expression)).unwrap_err().0, ErrorCode::BadRequest);
    set(Some(3), Some(KSource::Number)).expect("no names");
    let kept: Vec<Slots> = fleet.settings.iter().map(|setting| setting.slots.clone()).collect();
    let closed = Slots { k: 0, ..named(&["a", "b"]) };
    assert_eq!(kept, [named(&["a", "b"]), closed, named(&["a", "b"]), 3.into()]);
}

fn mark(fleet: &mut Fleet, client: u64, number: u64, permit: u64, key: &str) {
    let (key, ttl, token) = (key.to_owned(), Span(1_000_000_000), Secret(7));
    let mark = MarkOnce { permit, key, ttl, token };
    fleet.ask(0, client, ClientMessage::MarkOnce { number, mark });
}

/// A key is used under a permit that the session holds, and the client hears what the store says. A
/// node without a store refuses, since it would forget.
#[test]
fn keys_are_used_under_permits() {
    let mut fleet = Fleet::new(&alone());
    fleet.hello(0, 1);
    fleet.hello(0, 2);
    fleet.acquire(0, 1, 1, "gpu", Some(1));
    fleet.acquire(0, 2, 1, "gpu", None);
    assert!(granted(&fleet.received(0, 1)).is_some());
    mark(&mut fleet, 1, 2, 1, "today");
    let (client, number, stored) = fleet.marks.pop().expect("stored");
    assert_eq!((client, number, stored.gate.as_str()), (ClientId(1), 2, "gpu"));
    for (marked, used_by) in
        [(Marked::First, None), (Marked::UsedBy("x".into()), Some("x".to_owned()))]
    {
        fleet.input(0, Input::Marked(ClientId(1), 2, marked));
        let reply = ServerMessage::OnceMarked { number: 2, used_by };
        assert_eq!(fleet.received(0, 1), [reply]);
    }
    fleet.input(0, Input::Marked(ClientId(1), 2, Marked::Full("full".into())));
    assert_eq!(refused(&fleet.received(0, 1)).unwrap().0, ErrorCode::LimitExceeded);
    for (client, permit, key, code) in [
        (1, 9, "today", ErrorCode::PermitNotFound),
        (2, 1, "today", ErrorCode::PermitNotFound),
        (1, 1, "", ErrorCode::BadRequest),
        (1, 1, "a\n", ErrorCode::BadRequest),
    ] {
        fleet.received(0, client);
        mark(&mut fleet, client, 3, permit, key);
        assert_eq!(refused(&fleet.received(0, client)).unwrap().0, code, "{key:?}");
    }
    assert_eq!(fleet.marks, []);
    let mut forgetful = Fleet::new(&Settings { has_store: false, ..alone() });
    forgetful.hello(0, 1);
    forgetful.acquire(0, 1, 1, "gpu", Some(1));
    forgetful.received(0, 1);
    mark(&mut forgetful, 1, 2, 1, "today");
    assert_eq!(refused(&forgetful.received(0, 1)).unwrap().0, ErrorCode::BadRequest);
}
