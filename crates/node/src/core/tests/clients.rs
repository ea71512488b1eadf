//! Clients and their sessions.

use kgate_control::state::Slots;
use kgate_core::Span;

use super::fleet::{granted, refused};
use super::*;

const SECOND: Span = Span(1_000_000_000);

/// Three nodes get the only permit in the order of their requests, with increasing fences.
#[test]
fn a_single_permit_is_granted_in_order() {
    let mut fleet = Fleet::new(&settings(3));
    for node in 0..3 {
        fleet.hello(node, 1);
        fleet.acquire(node, 1, 5, "gpu", Some(1));
    }
    let mut fences = Vec::new();
    for node in 0..3 {
        let (slots, fence) = granted(&fleet.received(node, 1)).expect("its turn");
        assert_eq!(slots, [0]);
        fences.push(fence.expect("slots have fences"));
        let others = (node + 1..3).filter(|other| granted(&fleet.received(*other, 1)).is_some());
        assert_eq!(others.count(), 0, "nobody else");
        fleet.ask(node, 1, ClientMessage::Release { number: 5 });
    }
    assert!(fences.is_sorted() && fences[0] < fences[2], "{fences:?}");
}

/// What a waiting client may expect: a node shows how long its last permits were held, and forgets
/// older ones.
#[test]
fn past_holds_are_shown_and_bounded() {
    let mut fleet = Fleet::new(&settings(2));
    fleet.hello(0, 1);
    for hold in 1..=20 {
        fleet.acquire(0, 1, hold, "gpu", None);
        fleet.pass(Span(hold * 10_000_000));
        fleet.ask(0, 1, ClientMessage::Release { number: hold });
        fleet.ask(0, 1, ClientMessage::Renew { sequence: hold });
    }
    let report = fleet.look(1, "gpu");
    let shown = report.seen.iter().flat_map(|(_, gates)| &gates[0].past_holds);
    let expected: Vec<u64> = (5..=20).map(|hold| hold * 10_000_000).collect();
    assert_eq!(shown.copied().collect::<Vec<_>>(), expected);
}

/// Every protocol of the registry that nodes without a log run serves two clients of one node and
/// one of another.
#[test]
fn every_protocol_serves() {
    for entry in registry::ENTRIES.iter().filter(|entry| !entry.follows_log) {
        let fixed = vec![fixed(1, "gpu", 1, entry.name)];
        let mut fleet = Fleet::new(&Settings { fixed, new_gates: None, ..settings(3) });
        let clients = [(0, 1), (0, 2), (2, 1)];
        for (node, client) in clients {
            fleet.hello(node, client);
            fleet.acquire(node, client, 1, "gpu", None);
        }
        let mut served = 0;
        for _ in 0..50 {
            fleet.pass(Span(100_000_000));
            for (node, client) in clients {
                if granted(&fleet.received(node, client)).is_some() {
                    served += 1;
                    fleet.ask(node, client, ClientMessage::Release { number: 1 });
                }
                fleet.ask(node, client, ClientMessage::Renew { sequence: 1 });
            }
        }
        assert_eq!((served, &fleet.rejected), (3, &Vec::new()), "{}", entry.name);
    }
}

/// S4: the end of a stream releases nothing. The permit is released when the validity that the
/// client was told has passed, and not before.
#[test]
fn a_permit_outlives_its_stream_and_not_its_session() {
    let mut fleet = Fleet::new(&settings(2));
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", None);
    fleet.hello(1, 2);
    fleet.acquire(1, 2, 1, "gpu", None);
    fleet.gone(0, 1);
    fleet.pass(Span(4_000_000_000));
    fleet.ask(1, 2, ClientMessage::Renew { sequence: 1 });
    assert_eq!(granted(&fleet.received(1, 2)), None, "valid for four seconds");
    fleet.pass(Span(200_000_000));
    assert!(granted(&fleet.received(1, 2)).is_some(), "a little more, for clocks of other rates");
}

/// S5: a session is resumed by its secret, with its permits. A wrong secret is refused, and so is
/// an expired session.
#[test]
fn a_session_is_resumed_by_its_secret() {
    let mut fleet = Fleet::new(&settings(2));
    let session = fleet.hello(0, 1);
    fleet.acquire(0, 1, 9, "gpu", None);
    fleet.gone(0, 1);
    let back = |secret| ClientMessage::Hello {
        process: Process::default(),
        resume: Some((session, Secret(secret))),
        secret: Secret(1),
    };
    fleet.ask(0, 2, back(8));
    assert_eq!(refused(&fleet.received(0, 2)).map(|it| it.0), Some(ErrorCode::SessionNotFound));
    fleet.ask(0, 3, back(7));
    let welcome = fleet.received(0, 3).pop();
    assert!(
        matches!(&welcome, Some(ServerMessage::Welcome { holds, .. }) if *holds == [9]),
        "{welcome:?}"
    );
    for sequence in 0..10 {
        fleet.pass(SECOND);
        fleet.ask(0, 3, ClientMessage::Renew { sequence });
    }
    assert_eq!(
        fleet.look(1, "gpu").seen.iter().map(|(_, gates)| gates[0].holders.len()).sum::<usize>(),
        1
    );
    fleet.gone(0, 3);
    fleet.pass(SECOND.times(5));
    fleet.ask(0, 4, back(7));
    assert_eq!(refused(&fleet.received(0, 4)).map(|it| it.0), Some(ErrorCode::SessionNotFound));
}

/// S5: a client may resume its session before its node notices the end of the former stream. It
/// sends its waiting requests again under the same numbers.
#[test]
fn a_session_is_resumed_before_its_stream_ends() {
    let mut fleet = Fleet::new(&settings(2));
    let session = fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", None);
    fleet.acquire(0, 1, 2, "gpu", None);
    fleet.ask(
        0,
        2,
        ClientMessage::Hello {
            process: Process::default(),
            resume: Some((session, Secret(7))),
            secret: Secret(1),
        },
    );
    fleet.acquire(0, 2, 2, "gpu", None);
    let received = fleet.received(0, 2);
    assert!(
        matches!(&received[..], [ServerMessage::Welcome { holds, .. }] if *holds == [1]),
        "{received:?}"
    );
    fleet.gone(0, 1);
    fleet.ask(0, 2, ClientMessage::Release { number: 1 });
    assert!(
        granted(&fleet.received(0, 2)).is_some(),
        "the former stream's end has taken nothing back"
    );
}

/// A request that is withdrawn anywhere in the queue leaves no trace, and heavier requests behind
/// it are granted.
#[test]
fn a_withdrawn_request_leaves_no_trace() {
    let mut fleet = Fleet::new(&settings(2));
    fleet.hello(0, 1);
    let ask = |number, weight| ClientMessage::Acquire {
        number,
        request: AcquireRequest { weight, k: Some(3.into()), ..AcquireRequest::new("gpu") }.into(),
    };
    for (number, weight) in [(0, 3), (1, 1), (2, 2), (3, 3), (4, 2)] {
        fleet.ask(0, 1, ask(number, weight));
    }
    fleet.ask(0, 1, ClientMessage::Withdraw { number: 2 });
    assert!(fleet.received(0, 1).contains(&ServerMessage::Withdrawn { number: 2 }));
    let mut order = Vec::new();
    fleet.ask(0, 1, ClientMessage::Release { number: 0 });
    for _ in 0..10 {
        for tell in fleet.received(0, 1) {
            if let ServerMessage::Granted { number, slots, .. } = tell {
                order.push((number, slots.len()));
                fleet.ask(0, 1, ClientMessage::Release { number });
            }
        }
        fleet.pass(SECOND.times(1));
        fleet.ask(0, 1, ClientMessage::Renew { sequence: 0 });
    }
    assert_eq!(order, [(1, 1), (3, 3), (4, 2)]);
}

/// A request without waiting is granted by a free gate, and refused as busy by a taken one.
#[test]
fn a_request_without_waiting_is_granted_or_refused() {
    let mut fleet = Fleet::new(&settings(3));
    let ask = |number| ClientMessage::Acquire {
        number,
        request: AcquireRequest { wait: false, ..AcquireRequest::new("gpu") }.into(),
    };
    fleet.hello(0, 1);
    fleet.ask(0, 1, ask(1));
    assert!(granted(&fleet.received(0, 1)).is_some());
    fleet.hello(1, 1);
    fleet.ask(1, 1, ask(2));
    fleet.pass(Span(200_000_000));
    assert_eq!(refused(&fleet.received(1, 1)).map(|it| it.0), Some(ErrorCode::Busy));
    fleet.ask(0, 1, ClientMessage::Release { number: 1 });
    fleet.ask(1, 1, ask(3));
    assert!(granted(&fleet.received(1, 1)).is_some(), "nothing was left behind");
}

/// An invalid request is refused with its code and changes nothing: another k, too many slots, a
/// bad name, a full queue, no Hello.
#[test]
fn an_invalid_request_is_refused() {
    let mut fleet = Fleet::new(&Settings { queue_max: 2, ..settings(2) });
    fleet.hello(0, 1);
    fleet.acquire(0, 1, 1, "gpu", Some(2));
    fleet.hello(1, 1);
    let cases = [
        (
            "gpu",
            1,
            Some(3),
            ErrorCode::Conflict,
            "k = 2, set by a client of node 0, not the requested k = 3",
        ),
        ("gpu", 3, None, ErrorCode::TooLarge, "1 to 2 permits at once, not 3"),
        ("gpu", 0, None, ErrorCode::TooLarge, "not 0"),
        ("a b", 1, None, ErrorCode::BadRequest, "letters, digits"),
        ("", 1, None, ErrorCode::BadRequest, "letters, digits"),
        ("new", 1, Some(0), ErrorCode::BadRequest, "k must be between 1 and"),
    ];
    for (place, (gate, weight, k, why, says)) in cases.into_iter().enumerate() {
        let number = place as u64;
        fleet.ask(
            1,
            1,
            ClientMessage::Acquire {
                number,
                request: AcquireRequest {
                    weight,
                    k: k.map(Slots::from),
                    ..AcquireRequest::new(gate)
                }
                .into(),
            },
        );
        let (reason, text) = refused(&fleet.received(1, 1)).expect("refused");
        assert!(reason == why && text.contains(says), "{reason:?} {text}");
    }
    for number in 10..15 {
        fleet.acquire(1, 1, number, "gpu", None);
    }
    let full = fleet.received(1, 1);
    let full = full
        .iter()
        .filter(|tell| {
            matches!(tell, ServerMessage::Refused { code: ErrorCode::LimitExceeded, .. })
        })
        .count();
    assert_eq!(full, 2, "one more was free, two wait");
    fleet.ask(0, 9, ClientMessage::Renew { sequence: 1 });
    assert_eq!(refused(&fleet.received(0, 9)).map(|it| it.0), Some(ErrorCode::BadRequest));
}

/// Ten thousand requests at one node are served in their order.
#[test]
fn ten_thousand_requests_are_served_in_order() {
    let many = 10_000;
    let mut fleet = Fleet::new(&Settings { queue_max: 20_000, ..settings(2) });
    fleet.hello(0, 1);
    for number in 0..many {
        fleet.acquire(0, 1, number, "gpu", Some(2));
    }
    let mut served = 0;
    while served < many {
        for tell in fleet.received(0, 1) {
            if let ServerMessage::Granted { number, .. } = tell {
                assert_eq!(number, served);
                served += 1;
                fleet.ask(0, 1, ClientMessage::Release { number });
            }
        }
        fleet.ask(0, 1, ClientMessage::Renew { sequence: 0 });
    }
}
