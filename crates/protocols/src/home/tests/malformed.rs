//! Inputs and messages that no correct driver or peer passes.

use alloc::vec::Vec;

use kgate_core::{Incarnation, Input, LogIndex, NodeId, Refusal, Term};
use kgate_testkit::Rng;

use super::fixture::Fixture;
use crate::home::{
    AdoptionRequest, Assignment, Closing, Grant, Head, Held, HomeMessage, Last, Line, Next, Note,
    Noted, Pass, Path, Report, Wait,
};
use crate::slots::SlotSet;

/// A process that follows the log by snapshots takes no single entries; a withdrawal, release,
/// lapse or confirmation of nothing is refused. Law 4: nothing has changed.
#[test]
fn what_is_not_supported() {
    let all = Fixture::new(3, 1);
    let (node, incarnation) = (NodeId(1), Incarnation(0));
    let grant = kgate_core::GrantId(7);
    for input in [
        Input::Resize(2),
        Input::Reserved([0].into()),
        Input::Crashed { node, incarnation },
        Input::Joined { node, incarnation, view: kgate_core::ViewId(1) },
    ] {
        assert!(matches!(all.net.refusal(0, input), Refusal::Unsupported { .. }));
    }
    for input in [
        Input::Withdraw,
        Input::Release { grant },
        Input::Lapse { grant },
        Input::Confirm { grant },
    ] {
        assert_eq!(all.net.refusal(0, input), Refusal::NoSuchRequest);
    }
    assert_eq!(
        all.net.refusal(0, Input::Acquire { weight: 0 }),
        Refusal::Weight { weight: 0, most: 1 }
    );
}

/// A small number, or one at an edge.
fn number(rng: &mut Rng) -> u64 {
    match rng.below(8) {
        0 => u64::MAX,
        1 => 1 << 56,
        2 => (1 << 56) - 1,
        _ => rng.below(4),
    }
}

#[allow(clippy::cast_possible_truncation)] // Any number will do.
fn small(rng: &mut Rng) -> u32 {
    number(rng) as u32
}

fn list<T>(rng: &mut Rng, mut one: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    (0..rng.below(4)).map(|_| one(rng)).collect()
}

fn grant(rng: &mut Rng) -> Grant {
    Grant { term: Term(small(rng)), number: number(rng), attempt: small(rng) }
}

fn held(rng: &mut Rng) -> Held {
    Held { slots: SlotSet::new(list(rng, small).into()), grant: grant(rng) }
}

fn head(rng: &mut Rng) -> Head {
    let inc = |rng: &mut Rng| Incarnation(u32::from(rng.below(8) == 0));
    Head {
        term: Term(if rng.below(4) == 0 { small(rng) } else { 0 }),
        from: inc(rng),
        to: inc(rng),
        index: LogIndex(if rng.below(4) == 0 { number(rng) } else { 0 }),
        path: (rng.below(8) == 0)
            .then(|| Path { from: NodeId(small(rng)), to: NodeId(small(rng)) }),
    }
}

fn message(rng: &mut Rng) -> HomeMessage {
    let wait = |rng: &mut Rng| Wait {
        ticket: number(rng),
        weight: small(rng),
        term: Term(small(rng)),
        clock: number(rng),
    };
    let ask = |rng: &mut Rng| AdoptionRequest {
        held: held(rng),
        from: NodeId(small(rng)),
        incarnation: Incarnation(small(rng)),
    };
    let line = |rng: &mut Rng| Line {
        ticket: (rng.below(2) == 0).then(|| number(rng)),
        held: held(rng),
        keep: rng.below(2) == 0,
        next: (rng.below(4) == 0).then(|| Next {
            node: NodeId(small(rng)),
            incarnation: Incarnation(small(rng)),
            ticket: number(rng),
            grant: grant(rng),
        }),
    };
    let last = |rng: &mut Rng| match rng.below(3) {
        0 => Last::Unknown,
        1 => Last::Free,
        _ => Last::Held(NodeId(small(rng)), Incarnation(small(rng)), grant(rng)),
    };
    let closing = |rng: &mut Rng| Closing {
        rest_is_free: rng.below(2) == 0,
        slots: list(rng, |rng| (small(rng), last(rng))),
    };
    let period = |rng: &mut Rng| Term(if rng.below(4) == 0 { small(rng) } else { 0 });
    match rng.below(12) {
        0 => {
            let slots = SlotSet::new(list(rng, small).into());
            let (head, period, version) = (head(rng), period(rng), number(rng));
            return HomeMessage::Note(Note { head, period, version, slots }.into());
        }
        1 => {
            let (head, period, version) = (head(rng), period(rng), number(rng));
            return HomeMessage::Noted(Noted { head, period, version }.into());
        }
        _ => {}
    }
    if rng.below(5) == 0 {
        return HomeMessage::Pass(Pass { head: head(rng), line: line(rng), k: small(rng) }.into());
    }
    if rng.below(2) == 0 {
        let closing = (rng.below(4) == 0).then(|| closing(rng).into());
        HomeMessage::Report(
            Report {
                head: head(rng),
                version: number(rng),
                seen: number(rng),
                acked: number(rng),
                waits: list(rng, wait),
                holds: list(rng, held),
                freed: list(rng, held),
                asks: list(rng, ask),
                closing,
            }
            .into(),
        )
    } else {
        HomeMessage::Assignment(
            Assignment {
                head: head(rng),
                version: number(rng),
                acked: number(rng),
                seen: number(rng),
                clock: number(rng),
                recall: rng.below(2) == 0,
                k: small(rng),
                lines: list(rng, line),
            }
            .into(),
        )
    }
}

/// Law 5: whatever bytes arrive, they are taken or refused, and a refusal changes nothing; and the
/// process still answers its clients.
#[test]
fn no_message_panics() {
    let mut all = Fixture::new(3, 2);
    let mut refused = 0;
    for seed in 0..20_000 {
        let rng = &mut Rng::new(seed);
        let (at, from, message) = (small(rng) % 3, NodeId(small(rng)), message(rng));
        let before = all.net.nodes[at as usize].clone();
        if all.net.input(at, Input::Deliver { from, message: message.clone() }).is_err() {
            assert_eq!(all.net.nodes[at as usize], before, "{message:?}");
            refused += 1;
        }
        all.net.flights.clear();
        all.net.sent.clear();
        match rng.below(30) {
            0 => all.acquire(at, 1),
            1 => drop(all.net.input(at, Input::Withdraw)),
            2 => {
                let k = all.log.k;
                all.append(|log| log.k = k);
                all.apply([at]);
            }
            3 => {
                all.unfit(at);
                all.apply([0, 1, 2]);
                all = Fixture::new(3, 2);
            }
            _ => {}
        }
    }
    assert!((2_000..19_900).contains(&refused), "{refused}");
}
