//! Evictions of single holders by an operator.

use super::fleet::granted;
use super::*;

fn bound_to_processes() -> Settings {
    Settings {
        terms: SessionTerms { valid_for: None, clock_error: 10, kill: Span(250_000_000) },
        ..settings(1)
    }
}

/// Two clients at the last node: one inside, one waiting. Returns the holder.
fn one_inside(fleet: &mut Fleet, node: u32) -> HolderId {
    for client in [1, 2] {
        fleet.hello(node, client);
        fleet.acquire(node, client, 1, "gpu", Some(1));
    }
    assert!(granted(&fleet.received(node, 1)).is_some());
    fleet.look(node, "gpu").seen.iter().find_map(|it| Some(it.1[0].holders.first()?.id())).unwrap()
}

fn is_told(fleet: &mut Fleet, node: u32) -> bool {
    let lost = ServerMessage::Lost { number: 1, message: "evicted by an operator".into() };
    fleet.received(node, 1).contains(&lost)
}

/// Issue 19.5: the holder is told, at whichever node the operator is. Its slot is free when it
/// releases, and not before.
#[test]
fn a_slot_is_free_when_its_holder_has_stopped() {
    for (settings, at) in [(bound_to_processes(), 0), (settings(2), 0), (settings(2), 1)] {
        let mut fleet = Fleet::new(&settings);
        let holder = one_inside(&mut fleet, at);
        for _ in 0..2 {
            assert_eq!(fleet.evict(0, &holder), Ok(CallReply::EvictionSent));
            assert!(is_told(&mut fleet, at));
        }
        fleet.pass(Span(1_000_000_000));
        assert_eq!(granted(&fleet.received(at, 2)), None, "it may still run");
        fleet.ask(at, 1, ClientMessage::Release { number: 1 });
        assert!(granted(&fleet.received(at, 2)).is_some());
    }
}

/// S4: a client that renews and never releases has surely stopped when its validity at the time of
/// the eviction is over. Without a clock only its end counts.
#[test]
fn a_holder_that_does_not_release() {
    for (settings, is_free) in [(settings(1), true), (bound_to_processes(), false)] {
        let mut fleet = Fleet::new(&settings);
        let over = settings.terms.over_after();
        let holder = one_inside(&mut fleet, 0);
        fleet.evict(0, &holder).unwrap();
        let mut passed = Span::ZERO;
        while passed + Span(1_000_000_000) < over {
            fleet.ask(0, 1, ClientMessage::Renew { sequence: 1 });
            fleet.ask(0, 2, ClientMessage::Renew { sequence: 1 });
            fleet.pass(Span(1_000_000_000));
            passed = passed + Span(1_000_000_000);
            assert_eq!(granted(&fleet.received(0, 2)), None, "after {passed:?}");
        }
        fleet.ask(0, 1, ClientMessage::Renew { sequence: 1 });
        fleet.ask(0, 2, ClientMessage::Renew { sequence: 1 });
        fleet.pass(Span(1_000_000_000));
        assert_eq!(granted(&fleet.received(0, 2)).is_some(), is_free);
    }
}

/// An eviction never hits a later holder of the slot.
#[test]
fn a_late_eviction_hits_nobody() {
    for at in [0, 1] {
        let mut fleet = Fleet::new(&settings(2));
        let holder = one_inside(&mut fleet, at);
        fleet.ask(at, 1, ClientMessage::Release { number: 1 });
        fleet.acquire(at, 1, 1, "gpu", None);
        fleet.ask(at, 2, ClientMessage::Release { number: 1 });
        assert!(granted(&fleet.received(at, 1)).is_some(), "the same request number");
        let evicted = fleet.evict(0, &holder);
        assert_eq!(evicted.is_err(), at == 0);
        assert!(!is_told(&mut fleet, at));
    }
}

/// Where permits are bound to processes, a holder without a stream cannot be told: refused, and
/// nothing changes. Its slot comes back when its processes end.
#[test]
fn a_holder_without_a_stream_cannot_be_told() {
    let mut fleet = Fleet::new(&bound_to_processes());
    let holder = one_inside(&mut fleet, 0);
    fleet.gone(0, 1);
    let (code, text) = fleet.evict(0, &holder).unwrap_err();
    assert!(code == ErrorCode::BadRequest && text.contains("no connection"), "{text}");
    let (session, number, _) = fleet.probes.pop().expect("asked for");
    fleet.free(0, session, number);
    assert!(granted(&fleet.received(0, 2)).is_some());
}

/// Where permits are bound to processes, a holder that was told to stop may be killed before it
/// releases. Its slot comes back when its processes have ended, as that of any other.
#[test]
fn an_evicted_holder_that_is_killed() {
    let mut fleet = Fleet::new(&bound_to_processes());
    let holder = one_inside(&mut fleet, 0);
    assert_eq!(fleet.evict(0, &holder), Ok(CallReply::EvictionSent));
    fleet.gone(0, 1);
    let (session, number, slots) = fleet.probes.pop().expect("asked for");
    assert_eq!(slots, [0]);
    assert_eq!(granted(&fleet.received(0, 2)), None, "its processes still run");
    fleet.free(0, session, number);
    assert!(granted(&fleet.received(0, 2)).is_some());
}
