//! Processes that outlive their session are ended before their slots are free.

use super::fleet::{granted, refused};
use super::*;

/// What `settings` says, in nanoseconds: the validity of a session, and K.
const VALID: u64 = 4_000_000_000;
const KILL: u64 = 250_000_000;

/// A node with a holder that has offered its processes, and a waiting client.
fn held() -> (Fleet, SessionId) {
    let mut fleet = Fleet::new(&settings(1));
    fleet.input(0, Input::TreeOffered(ClientId(1)));
    let session = fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", None);
    assert!(granted(&fleet.received(0, 1)).is_some());
    fleet.hello(0, 2);
    fleet.acquire(0, 2, 1, "gpu", None);
    (fleet, session)
}

/// Lets time pass until the instant, while the second client renews.
fn pass_until(fleet: &mut Fleet, at: Time) {
    while fleet.now < at {
        fleet.ask(0, 2, ClientMessage::Renew { sequence: 1 });
        fleet.pass(at.since(fleet.now).min(Span(500_000_000)));
    }
}

/// A silent holder's processes are ended at D - K, not before, and once. Its slot is free when they
/// are gone, however long after the session's end that is.
#[test]
fn a_slot_waits_for_the_processes() {
    let (mut fleet, session) = held();
    let promised = fleet.now + Span(VALID);
    pass_until(&mut fleet, Time(promised.0 - KILL - 1));
    assert_eq!(fleet.trees, []);
    pass_until(&mut fleet, Time(promised.0 - KILL));
    assert_eq!(fleet.trees, [(session, ClientId(1))]);
    pass_until(&mut fleet, promised + Span(5 * VALID));
    assert_eq!(granted(&fleet.received(0, 2)), None, "its processes may live");
    fleet.input(0, Input::TreeEnded(session));
    assert!(granted(&fleet.received(0, 2)).is_some());
    assert_eq!(refused(&fleet.received(0, 1)).map(|it| it.0), Some(ErrorCode::SessionNotFound));
    assert_eq!((fleet.trees.len(), fleet.forgotten.as_slice()), (1, &[ClientId(1)][..]));
}

/// Rule S4: processes that end early do not make the slot free before the session has expired.
#[test]
fn no_slot_is_free_earlier() {
    let (mut fleet, session) = held();
    let promised = fleet.now + Span(VALID);
    pass_until(&mut fleet, Time(promised.0 - KILL));
    fleet.input(0, Input::TreeEnded(session));
    pass_until(&mut fleet, promised);
    assert_eq!(granted(&fleet.received(0, 2)), None, "its clock may be slower");
    pass_until(&mut fleet, promised + Span(VALID));
    assert!(granted(&fleet.received(0, 2)).is_some());
}

/// A node that was frozen itself finds deadline and expiry passed at once: it ends the processes
/// first.
#[test]
fn a_late_node_ends_the_processes_first() {
    let (mut fleet, session) = held();
    fleet.now += Span(10 * VALID);
    fleet.ask(0, 2, ClientMessage::Renew { sequence: 1 });
    fleet.pass(Span(1));
    assert_eq!(fleet.trees, [(session, ClientId(1))]);
    assert_eq!(granted(&fleet.received(0, 2)), None, "its processes may live");
    fleet.input(0, Input::TreeEnded(session));
    assert!(granted(&fleet.received(0, 2)).is_some());
}

/// Renewals postpone the deadline. Afterwards they are refused, and so is the resumption of the
/// session; the client may still release its permit, because then its processes are gone.
#[test]
fn a_session_that_is_over_cannot_be_renewed() {
    let (mut fleet, session) = held();
    for _ in 0..10 {
        let now = fleet.now;
        pass_until(&mut fleet, now + Span(VALID / 2));
        fleet.ask(0, 1, ClientMessage::Renew { sequence: 1 });
    }
    assert_eq!(fleet.trees, []);
    let deadline = Time(fleet.now.0 + VALID - KILL);
    pass_until(&mut fleet, deadline);
    assert_eq!(fleet.trees, [(session, ClientId(1))]);
    fleet.received(0, 1);
    fleet.ask(0, 1, ClientMessage::Renew { sequence: 2 });
    assert_eq!(refused(&fleet.received(0, 1)).map(|it| it.0), Some(ErrorCode::SessionNotFound));
    let resume = Some((session, Secret(7)));
    fleet.ask(
        0,
        3,
        ClientMessage::Hello { process: Process::default(), resume, secret: Secret(8) },
    );
    assert_eq!(refused(&fleet.received(0, 3)).map(|it| it.0), Some(ErrorCode::SessionNotFound));
    fleet.ask(0, 1, ClientMessage::Release { number: 1 });
    assert!(granted(&fleet.received(0, 2)).is_some());
}

/// A client that only waits, or has released, runs nothing. The handles of a stream that opens no
/// session are dropped too.
#[test]
fn without_a_permit_nothing_is_ended() {
    let (mut fleet, _) = held();
    fleet.ask(0, 1, ClientMessage::Release { number: 1 });
    fleet.input(0, Input::TreeOffered(ClientId(3)));
    fleet.hello(0, 3);
    fleet.acquire(0, 3, 1, "gpu", None);
    fleet.input(0, Input::TreeOffered(ClientId(4)));
    fleet.gone(0, 4);
    assert_eq!(fleet.forgotten, [ClientId(4)]);
    let later = fleet.now + Span(10 * VALID);
    pass_until(&mut fleet, later);
    assert_eq!(fleet.trees, []);
    assert_eq!(fleet.forgotten, [ClientId(4), ClientId(1), ClientId(3)]);
}
