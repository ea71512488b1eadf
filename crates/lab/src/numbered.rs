//! Settings of numbered slots drawn from a seed: sizes up to 64, weights, clients, withdrawals, processes that come back with nothing (also all of
//! them at once), resizes, and every way to go about it.

use kgate_core::{Dissemination, Membership, NodeId, SlotOptions, Span};
use kgate_sim::{Chance, Crash, Rng};

use crate::drawn::small;
use crate::{Case, t};

const TENTH: Span = Span(Span::UNIT.0 / 10);

/// Draws all that only numbered slots know of, and their sizes and crashes anew.
pub(crate) fn draw(case: &mut Case, dice: &mut Rng) {
    let config = &mut case.config;
    config.nodes = small(match dice.below(8) {
        0 | 1 => dice.within(2, 4),
        2..=6 => dice.within(2, 16),
        _ => dice.within(17, 64),
    });
    config.permits = small(dice.within(1, 8));
    config.tolerate = config.permits - 1;
    config.slots = options(dice, config.permits);
    if let Some(after) = &mut config.slots.ask_again {
        // Asking again must leave the queues time for what was asked before.
        let messages = u64::from(4 * config.nodes * config.slots.lanes);
        *after = *after + (config.cost.send + config.cost.receive).times(messages);
    }
    resizes(case, dice);
    load(case, dice);
    case.config.claims = case.claims();
    crashes(case, dice);
    // Of few processes, some of which are lost early, there may be no time left to crash and come back.
    while case.config.random_recoveries > 0 && case.config.with_named_crashes().is_err() {
        case.config.random_recoveries /= 2;
    }
}

fn options(dice: &mut Rng, permits: u32) -> SlotOptions {
    let [defer, quiet, keep] = [(); 3].map(|()| dice.below(2) == 0);
    SlotOptions {
        dissemination: match dice.below(3) {
            0 => Dissemination::Auto,
            1 => Dissemination::Flat,
            _ => Dissemination::Tree,
        },
        membership: if dice.below(4) == 0 { Membership::Join } else { Membership::Log },
        defer,
        quiet,
        keep,
        cohort: u16::try_from(dice.below(5)).expect("small"),
        batch: if dice.below(2) == 0 { 1 } else { small(dice.within(2, 6)) },
        lanes: if dice.below(3) == 0 { small(dice.within(1, u64::from(permits.min(4)))) } else { 1 },
        ask_again: (dice.below(2) == 0).then(|| TENTH.times(dice.within(10, 100))),
    }
}

fn resizes(case: &mut Case, dice: &mut Rng) {
    let config = &mut case.config;
    if dice.below(2) == 0 {
        for _ in 0..dice.within(1, 4) {
            let at = TENTH.times(dice.below(config.duration.0 / TENTH.0));
            config.resizes.push((at, small(dice.within(1, 8))));
        }
        config.resizes.sort_by_key(|resize| resize.0);
    }
}

fn load(case: &mut Case, dice: &mut Rng) {
    let config = &mut case.config;
    let greatest = config.resizes.iter().map(|resize| resize.1).chain([config.permits]).max().unwrap_or(1);
    let widest = greatest.div_ceil(config.slots.lanes);
    let load = &mut config.load;
    load.requesters = small(dice.within(1, u64::from(config.nodes)));
    load.clients = small(dice.within(1, 3));
    load.weight_max = if dice.below(2) == 0 { 1 } else { small(dice.within(1, u64::from(widest))) };
    load.ask_inside = dice.below(4) == 0 && load.hold > Span::ZERO;
    // With several lanes, weights do not tell who of a process was granted, so nobody could say whose wish was taken back.
    if dice.below(2) == 0 && (config.slots.lanes == 1 || load.weight_max == 1) {
        load.withdraw = Chance(small(dice.within(1, 4) * 100_000));
        load.patience = TENTH.times(dice.within(1, 200));
    }
}

fn crashes(case: &mut Case, dice: &mut Rng) {
    let config = &mut case.config;
    let nodes = config.nodes;
    config.down_for = TENTH.times(dice.within(1, 80));
    config.random_recoveries = small(dice.within(0, 12)).min(nodes * 2);
    let join = config.slots.membership == Membership::Join;
    if !join && dice.below(8) == 0 {
        // Everybody is down at the same time, so only the log remembers.
        let (from, long) = (dice.within(1, 400), dice.within(1, 50));
        let crash = |node| {
            let at = TENTH.times(from + dice.below(20));
            Crash { node: NodeId(node), at, back: Some(TENTH.times(from + 20 + dice.within(1, long))) }
        };
        config.crashes = (0..nodes).map(crash).collect();
        config.random_recoveries = config.random_recoveries.min(nodes);
        config.random_crashes = 0;
        return;
    }
    let asks = config.load.requesters;
    let first = if asks == nodes { 0 } else { asks };
    let candidates = (nodes - u32::from(join)).saturating_sub(first).min(nodes - 1);
    config.random_crashes = small(dice.within(0, 3)).min(candidates);
    if dice.below(4) == 0 {
        config.down_for = config.down_for.max(t("5"));
    }
}
