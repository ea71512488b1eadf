//! The protocol `home` in the log model: small worlds with their numbers of states, and every rule
//! that is left out.

use kgate_core::{
    Defects, Explorable, Fence, GrantId, Input, InputOf, Never, NodeId, Notice, Observation,
    Outbox, Protocol, Refusal, Setup, SlotOptions, Span, Time,
};
use kgate_protocols::home::{Home, defects as h};
use kgate_spec::history::NOTHING_FROM_NOTHING;
use kgate_spec::{EveryoneServed, NoResidue, QueueOrder, WithinK};

use super::{all_hold, broken};
use crate::log_model::{FENCES_GROW, ONE_HOLDER, Omissions};
use crate::properties::{K_INSIDE, NOT_REFUSED};
use crate::{LogBounds, LogModel, Outcome, SearchOrder, explore_log};

fn holds(nodes: u32, k: u32, bounds: LogBounds) -> usize {
    holds_with(SlotOptions::default(), nodes, k, bounds)
}

fn holds_with(slots: SlotOptions, nodes: u32, k: u32, bounds: LogBounds) -> usize {
    let slots = repeating(slots, &bounds);
    let setup = Setup { slots, ..Setup::new(nodes, k) };
    let outcome = explore_log(LogModel::<Home>::new(setup, bounds), SearchOrder::Depth);
    all_hold(&outcome);
    outcome.unique
}

/// Where messages may be lost, processes repeat them.
fn repeating(slots: SlotOptions, bounds: &LogBounds) -> SlotOptions {
    SlotOptions { ask_again: bounds.loses_messages().then_some(Span::UNIT), ..slots }
}

/// Requests of p1, p2, .. only: p0 is home as long as it is fit.
fn others(entries: u32) -> LogBounds {
    LogBounds { entries: vec![0, entries], ..LogBounds::new(0) }
}

/// Faults of p0 only.
fn of_home(entries: u32) -> LogBounds {
    LogBounds { faulty: vec![0], ..others(entries) }
}

/// P1 to P6 of `home`, in every schedule. The numbers of states are pinned, so that a change of
/// the model or of the protocol shows. `verification/rows.txt` has the larger worlds.
#[test]
fn home_holds() {
    let with = |bounds| (3, 1, bounds);
    let worlds = [
        ("nothing fails", 654, with(LogBounds::new(1))),
        ("k = 2", 1_072, (3, 2, LogBounds::new(1))),
        (
            "weights",
            17_535,
            (3, 2, LogBounds { weight_max: 2, withdrawals: 1, ..LogBounds::new(1) }),
        ),
        ("a crash", 6_304, with(LogBounds { crashes: 1, ..others(1) })),
        ("a return", 58_703, (2, 1, LogBounds { restarts: 1, ..LogBounds::new(2) })),
        ("a suspicion", 60_683, with(LogBounds { suspicions: 1, ..of_home(1) })),
        ("an eviction", 46_066, with(LogBounds { evictions: 1, ..others(1) })),
        (
            "a crash and an adoption",
            80_469,
            with(LogBounds { crashes: 1, adoptions: 1, ..of_home(1) }),
        ),
        (
            "adoption by two attempts, and a drain",
            42_835,
            with(LogBounds { entries: vec![0, 0, 1], adoptions: 2, drains: 1, ..of_home(1) }),
        ),
        ("a client that dies", 3_804, with(LogBounds { deaths: 1, adoptions: 1, ..others(1) })),
        (
            "durable permits",
            76_719,
            (2, 1, LogBounds { durable: 2, restarts: 1, ..LogBounds::new(1) }),
        ),
        ("k shrinks while the home moves", 119_957, {
            (3, 2, LogBounds { resizes: vec![1], drains: 1, ..of_home(1) })
        }),
        ("a duplicate", 6_538, (2, 1, LogBounds { duplicates: 1, ..LogBounds::new(2) })),
        ("a loss", 54_783, (2, 1, LogBounds { losses: 1, ..LogBounds::new(2) })),
        ("a loss and a return", 67_593, {
            (2, 1, LogBounds { losses: 1, restarts: 1, ..LogBounds::new(1) })
        }),
    ];
    let found =
        worlds.map(|(name, states, (nodes, k, bounds))| (name, states, holds(nodes, k, bounds)));
    let other = found.iter().filter(|(_, states, found)| states != found);
    assert_eq!(other.collect::<Vec<_>>(), [&("", 0, 0); 0], "(world, pinned, found)");
}

/// These links may be cut.
fn cuts(links: &[(u32, u32)], bounds: LogBounds) -> LogBounds {
    let link = |&(from, to): &(u32, u32)| (NodeId(from), NodeId(to));
    LogBounds { cuts: links.iter().map(link).collect(), ..bounds }
}

/// H19: nobody waits for ever although two processes do not reach each other, since whenever; with
/// losses, crashes, returns and the witness. The numbers of states are pinned.
#[test]
fn cuts_block_nobody() {
    let both = &[(1, 0), (0, 1)];
    let one = || LogBounds { entries: vec![0, 1, 0], ..of_home(1) };
    let at_home = || LogBounds { entries: vec![1, 0], ..of_home(1) };
    let at_both = || LogBounds { entries: vec![1, 0, 1], ..of_home(1) };
    let returns = LogBounds { restarts: 1, faulty: vec![1], ..one() };
    let plain = SlotOptions::default();
    let witness = SlotOptions { witness: true, ..plain };
    let worlds = [
        ("to the home", 17_499, plain, cuts(&[(1, 0)], one())),
        ("from the home", 22_897, plain, cuts(&[(0, 1)], one())),
        ("both ways", 63_861, plain, cuts(both, one())),
        ("a duplicate", 358_005, plain, cuts(both, LogBounds { duplicates: 1, ..one() })),
        ("a loss", 153_420, plain, cuts(both, LogBounds { losses: 1, ..one() })),
        ("a crash of the home", 131_403, plain, cuts(both, LogBounds { crashes: 1, ..one() })),
        ("a return", 748_314, plain, cuts(&[(1, 0)], returns)),
        ("a witness", 6_102, witness, cuts(both, at_home())),
        ("a witness, a loss", 5_451, witness, {
            cuts(&[(1, 0)], LogBounds { losses: 1, ..at_home() })
        }),
        ("a witness, a crash of the home", 484_158, witness, {
            cuts(&[(1, 2)], LogBounds { crashes: 1, ..at_both() })
        }),
    ];
    let found =
        worlds.map(|(name, states, slots, bounds)| (name, states, holds_with(slots, 3, 1, bounds)));
    let other = found.iter().filter(|(_, states, found)| states != found);
    assert_eq!(other.collect::<Vec<_>>(), [&("", 0, 0); 0], "(world, pinned, found)");
}

/// A rule that is left out, by the protocol or by its driver, the property that it breaks, and the
/// smallest world in which it was seen to.
struct Omission {
    name: &'static str,
    defects: Defects,
    breaks: &'static str,
    nodes: u32,
    k: u32,
    bounds: LogBounds,
}

const SERVED: &str = EveryoneServed::NAME;
const RESIDUE: &str = NoResidue::NAME;

/// The rules by the switches of the protocol.
fn rules() -> Vec<Omission> {
    let rule =
        |name, defects, breaks, bounds| Omission { name, defects, breaks, nodes: 3, k: 1, bounds };
    let adopts = |adoptions, bounds| LogBounds { adoptions, ..bounds };
    let drains = |bounds| LogBounds { drains: 1, ..bounds };
    let suspects = |bounds| LogBounds { suspicions: 1, ..bounds };
    let entries = |entries: &[u32], bounds| LogBounds { entries: entries.into(), ..bounds };
    let withdraws = |bounds| LogBounds { withdrawals: 1, ..bounds };
    let clients = |clients, bounds| LogBounds { clients, ..bounds };
    let two = |omission| Omission { k: 2, ..omission };
    let resizes = |bounds| LogBounds { resizes: vec![1], ..bounds };
    let weights = |bounds| LogBounds { weight_max: 2, ..bounds };
    vec![
        rule("H1", h::H1, ONE_HOLDER, suspects(of_home(1))),
        rule("H2", h::H2, ONE_HOLDER, LogBounds { durable: 1, ..others(1) }),
        Omission {
            nodes: 2,
            ..rule("H3", h::H3, RESIDUE, LogBounds { restarts: 1, ..LogBounds::new(1) })
        },
        rule("H4, reports", h::H4_REPORTS, SERVED, others(2)),
        rule("H4, assignments", h::H4_ASSIGNMENTS, SERVED, entries(&[0, 2, 1], others(1))),
        rule("H5", h::H5, ONE_HOLDER, drains(of_home(1))),
        rule("H6, early", h::H6_EARLY, ONE_HOLDER, clients(2, entries(&[0, 1, 2], others(1)))),
        rule("H6, late", h::H6_LATE, ONE_HOLDER, LogBounds { evictions: 1, ..others(1) }),
        rule("H6, silent", h::H6_SILENT, RESIDUE, withdraws(others(1))),
        rule("H7", h::H7, ONE_HOLDER, adopts(1, drains(of_home(1)))),
        rule("H8, unsure", h::H8_UNSURE, ONE_HOLDER, suspects(of_home(1))),
        rule("H8, adopted", h::H8_ADOPTED, ONE_HOLDER, adopts(1, drains(of_home(1)))),
        rule("H9, stale", h::H9_STALE, ONE_HOLDER, suspects(entries(&[1], of_home(1)))),
        rule("H9, any", h::H9_ANY, ONE_HOLDER, adopts(1, drains(of_home(1)))),
        rule("H9, a lapse", h::H9_LAPSE, ONE_HOLDER, adopts(1, drains(of_home(1)))),
        rule("H10", h::H10, SERVED, others(2)),
        rule("H11, first", h::H11_FIRST, ONE_HOLDER, adopts(1, drains(of_home(1)))),
        rule("H11, last", h::H11_LAST, ONE_HOLDER, adopts(1, drains(of_home(1)))),
        rule("H11, sure", h::H11_SURE, ONE_HOLDER, {
            adopts(1, drains(entries(&[1], of_home(1))))
        }),
        rule("H11, latest", h::H11_LATEST, ONE_HOLDER, adopts(2, others(1))),
        rule("H11, two", h::H11_TWO, RESIDUE, adopts(2, entries(&[0, 0, 1], others(1)))),
        rule(
            "H11, past",
            h::H11_PAST,
            ONE_HOLDER,
            adopts(1, suspects(entries(&[3, 0], of_home(1)))),
        ),
        rule("H12", h::H12, ONE_HOLDER, adopts(1, clients(2, entries(&[0, 1, 2], others(1))))),
        two(rule("H15", h::H15, WithinK::NAME, resizes(clients(2, others(2))))),
        rule("H17", h::H17, ONE_HOLDER, LogBounds { evictions: 1, ..others(1) }),
        rule("P2", h::H_FENCE, FENCES_GROW, drains(of_home(1))),
        two(rule("P3", h::H_FIFO, QueueOrder::NAME, {
            weights(clients(2, entries(&[0, 1, 2], others(1))))
        })),
        rule("H19", h::H19, SERVED, cuts(&[(1, 0)], entries(&[0, 1, 0], others(1)))),
        rule(
            "H19, answer",
            h::H19_ANSWER,
            RESIDUE,
            cuts(&[(1, 0), (0, 1)], entries(&[0, 1, 0], others(1))),
        ),
        Omission {
            nodes: 4,
            ..rule(
                "H19, turn",
                h::H19_TURN,
                SERVED,
                cuts(&[(1, 0), (2, 0)], entries(&[0, 1, 0], others(1))),
            )
        },
        rule("H19, incarnation", h::H19_INCARNATION, RESIDUE, {
            cuts(
                &[(1, 0)],
                LogBounds { restarts: 1, faulty: vec![1], ..entries(&[0, 1, 0], others(1)) },
            )
        }),
        two(rule("P5", h::H_WITHDRAW, RESIDUE, resizes(weights(withdraws(others(1)))))),
    ]
}

/// The rules that a driver keeps.
fn driver_rules() -> Vec<Omission> {
    let rule = |name, omissions, bounds| {
        let bounds = LogBounds { omissions, ..bounds };
        Omission { name, defects: Defects::NONE, breaks: ONE_HOLDER, nodes: 3, k: 1, bounds }
    };
    let none = Omissions::default();
    vec![
        rule("H13", Omissions { barrier: true, ..none }, {
            LogBounds { adoptions: 1, drains: 1, ..of_home(1) }
        }),
        rule("H14", Omissions { held: true, ..none }, LogBounds { durable: 1, ..others(1) }),
        rule("H18", Omissions { evict: true, ..none }, LogBounds { crashes: 1, ..others(1) }),
        rule("H18, asked", Omissions { evict_asked: true, ..none }, {
            LogBounds { adoptions: 1, evictions: 1, ..others(1) }
        }),
    ]
}

fn search(omission: &Omission) -> Outcome {
    let &Omission { defects, breaks, nodes, k, ref bounds, .. } = omission;
    let slots = repeating(SlotOptions::default(), bounds);
    let setup = Setup { defects, slots, ..Setup::new(nodes, k) };
    let model = LogModel::<Home>::new(setup, bounds.clone()).checking([breaks]);
    explore_log(model, SearchOrder::Breadth)
}

/// The explorer finds each rule that is left out, by the property that it serves. (H16 only
/// delays.)
#[test]
fn each_rule_that_is_left_out_is_found() {
    for omission in rules().iter().chain(&driver_rules()) {
        let outcome = search(omission);
        assert_eq!(broken(&outcome), [omission.breaks], "{}", omission.name);
        println!("{}: {} states, {:.1} s", omission.name, outcome.unique, outcome.seconds);
    }
}

/// Grants one slot more than was requested, and refuses everything else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wrong;

impl Protocol for Wrong {
    const NAME: &'static str = "wrong";
    type Message = Never;
    type Timer = Never;
    type Durable = Never;
    fn start(_setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        Self
    }
    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        let Input::Acquire { weight } = input else { return Err(Refusal::NoSuchRequest) };
        let slots = Some((0..=weight).collect());
        out.notify(Notice::Granted { grant: GrantId(1), slots, fence: Some(Fence(1)) });
        Ok(())
    }
    fn observe(&self) -> Observation {
        Observation::default()
    }
}

impl Explorable for Wrong {}

/// The planted bugs of the checkers that no rule of `home` serves: a grant that nobody asked for,
/// a refusal, and a search in which no client ever asks.
#[test]
fn planted_bugs_of_the_log_model_are_found() {
    let found = |name, bounds| {
        let model = LogModel::<Wrong>::new(Setup::new(2, 1), bounds).checking([name]);
        explore_log(model, SearchOrder::Breadth)
    };
    assert_eq!(broken(&found(NOTHING_FROM_NOTHING, LogBounds::new(1))), [NOTHING_FROM_NOTHING]);
    let drained = LogBounds { drains: 1, ..LogBounds::new(0) };
    assert_eq!(broken(&found(NOT_REFUSED, drained)), [NOT_REFUSED]);
    let vacuous = found(K_INSIDE, LogBounds::new(0));
    assert!(vacuous.complete && !vacuous.properties[0].holds, "{vacuous:?}");
}
