//! Permits that are bound to processes.

use super::fleet::granted;
use super::*;

fn alone(incarnation: u32) -> Settings {
    let terms = SessionTerms { valid_for: None, clock_error: 10 };
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
