//! Generates settings of numbered slots: sizes up to 64, weights, clients, withdrawals, processes
//! that recover with empty memory (also all at once), changes of k, and every option.

use kgate_core::{Dissemination, MembershipSource, NodeId, SlotOptions, Span};
use kgate_sim::{Chance, Crash, Rng};

use super::small;
use crate::{Case, t};

const TENTH: Span = Span(Span::UNIT.0 / 10);

/// Generates the options of numbered slots, and replaces sizes and crashes.
pub(crate) fn draw(case: &mut Case, rng: &mut Rng) {
    let config = &mut case.config;
    config.nodes = small(match rng.below(8) {
        0 | 1 => rng.within(2, 4),
        2..=6 => rng.within(2, 16),
        _ => rng.within(17, 64),
    });
    config.k = small(rng.within(1, 8));
    config.tolerate = config.k - 1;
    config.slots = options(rng, config.k);
    if let Some(after) = &mut config.slots.ask_again {
        // Repeated requests must leave the queues time for the earlier ones.
        let messages = u64::from(4 * config.nodes * config.slots.lanes);
        *after = *after + (config.cost.send + config.cost.receive).times(messages);
    }
    resizes(case, rng);
    load(case, rng);
    case.config.claims = case.claims();
    crashes(case, rng);
    // With few processes, some of which crash permanently early, there may be no time left for
    // crashes with recovery.
    while case.config.random_recoveries > 0 && case.config.with_named_crashes().is_err() {
        case.config.random_recoveries /= 2;
    }
}

fn options(rng: &mut Rng, k: u32) -> SlotOptions {
    let [defer, quiet, keep] = [(); 3].map(|()| rng.below(2) == 0);
    SlotOptions {
        dissemination: match rng.below(3) {
            0 => Dissemination::Auto,
            1 => Dissemination::Flat,
            _ => Dissemination::Tree,
        },
        membership: if rng.below(4) == 0 { MembershipSource::Join } else { MembershipSource::Log },
        defer,
        quiet,
        keep,
        cohort: u16::try_from(rng.below(5)).expect("small"),
        batch: if rng.below(2) == 0 { 1 } else { small(rng.within(2, 6)) },
        lanes: if rng.below(3) == 0 { small(rng.within(1, u64::from(k.min(4)))) } else { 1 },
        ask_again: (rng.below(2) == 0).then(|| TENTH.times(rng.within(10, 100))),
        ..SlotOptions::default()
    }
}

fn resizes(case: &mut Case, rng: &mut Rng) {
    let config = &mut case.config;
    if rng.below(2) == 0 {
        for _ in 0..rng.within(1, 4) {
            let at = TENTH.times(rng.below(config.duration.0 / TENTH.0));
            config.resizes.push((at, small(rng.within(1, 8))));
        }
        config.resizes.sort_by_key(|resize| resize.0);
    }
}

fn load(case: &mut Case, rng: &mut Rng) {
    let config = &mut case.config;
    let greatest =
        config.resizes.iter().map(|resize| resize.1).chain([config.k]).max().unwrap_or(1);
    let widest = greatest.div_ceil(config.slots.lanes);
    let load = &mut config.load;
    load.requesters = small(rng.within(1, u64::from(config.nodes)));
    load.clients = small(rng.within(1, 3));
    load.weight_max = if rng.below(2) == 0 { 1 } else { small(rng.within(1, u64::from(widest))) };
    load.ask_inside = rng.below(4) == 0 && load.hold > Span::ZERO;
    // With several lanes, a weight does not identify the granted request of a process, so a
    // withdrawal could not be attributed.
    if rng.below(2) == 0 && (config.slots.lanes == 1 || load.weight_max == 1) {
        load.withdraw = Chance(small(rng.within(1, 4) * 100_000));
        load.patience = TENTH.times(rng.within(1, 200));
    }
}

fn crashes(case: &mut Case, rng: &mut Rng) {
    let config = &mut case.config;
    let nodes = config.nodes;
    config.down_for = TENTH.times(rng.within(1, 80));
    config.random_recoveries = small(rng.within(0, 12)).min(nodes * 2);
    let join = config.slots.membership == MembershipSource::Join;
    if !join && rng.below(8) == 0 {
        // All processes are down at the same time: only the log survives.
        let (from, long) = (rng.within(1, 400), rng.within(1, 50));
        let crash = |node| {
            let at = TENTH.times(from + rng.below(20));
            Crash {
                node: NodeId(node),
                at,
                back: Some(TENTH.times(from + 20 + rng.within(1, long))),
            }
        };
        config.crashes = (0..nodes).map(crash).collect();
        config.random_recoveries = config.random_recoveries.min(nodes);
        config.random_crashes = 0;
        return;
    }
    let asks = config.load.requesters;
    let first = if asks == nodes { 0 } else { asks };
    let candidates = (nodes - u32::from(join)).saturating_sub(first).min(nodes - 1);
    config.random_crashes = small(rng.within(0, 3)).min(candidates);
    if rng.below(4) == 0 {
        config.down_for = config.down_for.max(t("5"));
    }
}
