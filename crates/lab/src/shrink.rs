//! Shrinks a failing case until a person can follow it.
//!
//! The search is greedy: it takes the first simplification that still violates the same property,
//! until none does. Simpler means fewer processes; then fewer faults; then fewer requesters, slots
//! and entries, a shorter run, and finally a shorter command line (rounder times, plainer costs).
//! Every step is strictly simpler, so the search terminates; it also stops after `RUNS` runs.
//!
//! A smaller case is a different run, with other random choices. So each simplification is tried
//! with a few other seeds too.

use kgate_core::{Dissemination, MembershipSource, NodeId, Span};
use kgate_sim::{Agreement, Chance, Latency, ReceiveCost, SendCost, Think};

use crate::swarm::{Checker, Wrong, wrong_once};
use crate::{Case, command, t};

/// Largest number of runs for one case.
const RUNS: u32 = 4000;
/// Number of other seeds that each simplification is tried with: 1, 2, ..
const OTHER_SEEDS: u64 = 4;

/// A shrunk case.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The case.
    pub case: Case,
    /// What the case violates.
    pub wrong: Wrong,
    /// Number of runs that shrinking took.
    pub runs: u32,
}

/// The size of a case, by which simplifications are ordered: processes first, then faults, and so
/// on.
pub fn size(case: &Case) -> impl Ord + Copy + std::fmt::Debug + use<> {
    let config = &case.config;
    let entries = config.load.entries.unwrap_or(u32::MAX);
    (
        config.nodes,
        faults(case),
        config.load.requesters * config.load.clients,
        config.k,
        entries,
        config.duration,
        command(case).len(),
    )
}

/// The number of faults of a case.
pub fn faults(case: &Case) -> usize {
    let config = &case.config;
    let random = (config.random_crashes + config.random_recoveries) as usize;
    let transient = usize::from(config.transient.start) + config.transient.strikes.len();
    // A crash with recovery is two events.
    let back = config.crashes.iter().filter(|crash| crash.back.is_some()).count();
    let disturbance = &config.disturbance;
    let chances = [disturbance.loss, disturbance.duplicates];
    let disturbed = disturbance.pauses.len()
        + disturbance.partitions.iter().map(|cut| cut.nodes.len()).sum::<usize>()
        + disturbance.cuts.len()
        + chances.iter().filter(|chance| **chance > Chance::NEVER).count();
    let withdrawn = usize::from(config.load.withdraw > Chance::NEVER);
    config.crashes.len()
        + back
        + 2 * random
        + transient
        + disturbed
        + config.resizes.len()
        + withdrawn
        + decisions(&config.agreement)
}

/// The decisions of the agreed log, and what clients do that die or ask others.
fn decisions(agreement: &Agreement) -> usize {
    let chances = [agreement.adopt, agreement.dying_clients, agreement.durable];
    let chances = chances.iter().filter(|chance| **chance > Chance::NEVER).count();
    let periods = agreement.unfit.len() + agreement.evictions.len() + agreement.leaseless.len();
    2 * periods + chances
}

/// Shrinks `case` as long as it violates the property of `wrong`.
pub fn shrink(case: &Case, wrong: &Wrong, checker: Checker) -> Shrunk {
    let mut best = Shrunk { case: case.clone(), wrong: wrong.clone(), runs: 0 };
    if let Ok(named) = case.config.with_named_crashes() {
        best.case.config = named; // The same run; its crashes can now be left out one by one.
    }
    loop {
        let before = size(&best.case);
        for ways in &WAYS {
            while take_one(&mut best, *ways, checker) {}
        }
        if size(&best.case) == before || best.runs >= RUNS {
            return best;
        }
    }
}

/// Takes the first simplification of `ways` that still violates the property.
fn take_one(best: &mut Shrunk, ways: Ways, checker: Checker) -> bool {
    let now = size(&best.case);
    for way in ways(&best.case).into_iter().filter(|way| size(way) < now) {
        let own = way.config.seed;
        for seed in std::iter::once(own).chain(1..=OTHER_SEEDS) {
            let candidate = reseeded(way.clone(), seed);
            if best.runs >= RUNS {
                return false;
            }
            if size(&candidate) >= now {
                continue;
            }
            best.runs += 1;
            let found = wrong_once(&candidate, &best.wrong.property, checker);
            if let Some(wrong) = found.filter(|wrong| wrong.property == best.wrong.property) {
                (best.case, best.wrong) = (candidate, wrong);
                return true;
            }
        }
    }
    false
}

/// The case with another seed, and the graph that follows from it.
fn reseeded(mut case: Case, seed: u64) -> Case {
    case.config.seed = seed;
    if let Some(shape) = case.shape() {
        case.put_on(shape);
    }
    case
}

type Ways = fn(&Case) -> Vec<Case>;

/// The simplifications, the most effective first.
const WAYS: [Ways; 8] = [
    fewer_processes,
    fewer_faults,
    fewer_requesters,
    fewer_slots,
    fewer_entries,
    shorter,
    plainer,
    rounder,
];

fn with(case: &Case, change: impl FnOnce(&mut Case)) -> Case {
    let mut changed = case.clone();
    change(&mut changed);
    changed
}

fn fewer_processes(case: &Case) -> Vec<Case> {
    let nodes = case.config.nodes;
    let Latency::Grid(grid) = case.config.cost.latency else {
        let fewer = [nodes / 2, nodes * 3 / 4, nodes - 1].map(|fewer| fewer.max(2));
        let ways = |fewer: u32| {
            let last = last_of(case, fewer);
            [of_nodes(case, fewer), sooner(&last, fewer, nodes), last]
        };
        return fewer.into_iter().flat_map(ways).collect();
    };
    let shapes = [(grid.clusters - 1, grid.size), (grid.clusters, grid.size - 1)];
    let of_shape = |(clusters, size): (u32, u32)| {
        let mut smaller = of_nodes(case, clusters * size);
        let config = &mut smaller.config;
        config.cost.latency = Latency::Grid(kgate_sim::Grid { clusters, size, ..grid });
        config.tolerate = config.tolerate.min(size.saturating_sub(1));
        smaller.config.claims = smaller.claims();
        smaller
    };
    shapes.into_iter().filter(|&(clusters, size)| clusters > 0 && size > 0).map(of_shape).collect()
}

/// The case with `nodes` processes, of which the last ones keep the faults of the former last ones.
fn last_of(case: &Case, nodes: u32) -> Case {
    let gone = case.config.nodes.saturating_sub(nodes);
    let renamed = with(case, |case| {
        let name = |node: &mut NodeId| node.0 = node.0.saturating_sub(gone);
        case.config.crashes.iter_mut().for_each(|crash| name(&mut crash.node));
        case.config.transient.strikes.iter_mut().for_each(|strike| name(&mut strike.0));
        case.config.disturbance.pauses.iter_mut().for_each(|pause| name(&mut pause.node));
        case.config.agreement.nodes_mut().for_each(name);
        for cut in &mut case.config.disturbance.partitions {
            cut.nodes.iter_mut().for_each(name);
            cut.nodes.dedup();
        }
        for cut in &mut case.config.disturbance.cuts {
            name(&mut cut.from);
            name(&mut cut.to);
        }
    });
    of_nodes(&renamed, nodes)
}

/// The case with only the first `nodes` processes.
fn of_nodes(case: &Case, nodes: u32) -> Case {
    with(case, |case| {
        let there = |node: NodeId| node.0 < nodes;
        let config = &mut case.config;
        config.nodes = nodes;
        if !case.entry.slots {
            config.k = config.k.min(nodes - 1);
        }
        config.load.requesters = config.load.requesters.min(nodes);
        config.tolerate = config.tolerate.min(config.k - 1);
        config.crashes.retain(|crash| there(crash.node));
        config.transient.strikes.retain(|strike| there(strike.0));
        config.disturbance.pauses.retain(|pause| there(pause.node));
        config.agreement.unfit.retain(|period| there(period.node));
        config.agreement.evictions.retain(|period| there(period.node));
        config.agreement.leaseless.retain(|period| there(period.node));
        for cut in &mut config.disturbance.partitions {
            cut.nodes.retain(|&node| there(node));
        }
        config.disturbance.partitions.retain(|cut| !cut.nodes.is_empty());
        config
            .disturbance
            .cuts
            .retain(|cut| there(cut.from) && there(cut.to) && cut.from != cut.to);
        case.config.claims = case.claims();
        if let Some(shape) = case.shape() {
            case.put_on(shape);
        }
    })
}

fn fewer_faults(case: &Case) -> Vec<Case> {
    let config = &case.config;
    let mut ways = vec![
        with(case, |case| case.config.crashes.clear()),
        with(case, |case| case.config.transient.strikes.clear()),
        with(case, |case| case.config.transient.start = false),
        with(case, |case| case.config.resizes.clear()),
        with(case, |case| case.config.load.withdraw = Chance::NEVER),
    ];
    for index in 0..config.resizes.len() {
        ways.push(with(case, |case| {
            case.config.resizes.remove(index);
        }));
    }
    let halves = |count: usize| [(0, count / 2), (count / 2, count)];
    for (from, to) in halves(config.crashes.len()) {
        ways.push(with(case, |case| drop(case.config.crashes.drain(from..to))));
    }
    for index in 0..config.crashes.len() {
        ways.push(with(case, |case| {
            case.config.crashes.remove(index);
        }));
    }
    for index in 0..config.transient.strikes.len() {
        ways.push(with(case, |case| {
            case.config.transient.strikes.remove(index);
        }));
    }
    ways.extend(fewer_disturbances(case));
    ways.extend(fewer_decisions(case));
    ways
}

fn fewer_decisions(case: &Case) -> Vec<Case> {
    let agreement = &case.config.agreement;
    let mut ways = vec![
        with(case, |case| case.config.agreement.unfit.clear()),
        with(case, |case| case.config.agreement.evictions.clear()),
        with(case, |case| case.config.agreement.leaseless.clear()),
        with(case, |case| case.config.agreement.adopt = Chance::NEVER),
        with(case, |case| case.config.agreement.dying_clients = Chance::NEVER),
        with(case, |case| case.config.agreement.durable = Chance::NEVER),
    ];
    for index in 0..agreement.unfit.len() {
        ways.push(with(case, |case| {
            case.config.agreement.unfit.remove(index);
        }));
    }
    for index in 0..agreement.evictions.len() {
        ways.push(with(case, |case| {
            case.config.agreement.evictions.remove(index);
        }));
    }
    for index in 0..agreement.leaseless.len() {
        ways.push(with(case, |case| {
            case.config.agreement.leaseless.remove(index);
        }));
    }
    ways
}

fn fewer_disturbances(case: &Case) -> Vec<Case> {
    let disturbance = &case.config.disturbance;
    let mut ways = vec![
        with(case, |case| case.config.disturbance.pauses.clear()),
        with(case, |case| case.config.disturbance.partitions.clear()),
        with(case, |case| case.config.disturbance.cuts.clear()),
        with(case, |case| case.config.disturbance.loss = Chance::NEVER),
        with(case, |case| case.config.disturbance.duplicates = Chance::NEVER),
    ];
    for index in 0..disturbance.pauses.len() {
        ways.push(with(case, |case| {
            case.config.disturbance.pauses.remove(index);
        }));
    }
    for index in 0..disturbance.cuts.len() {
        ways.push(with(case, |case| {
            case.config.disturbance.cuts.remove(index);
        }));
    }
    for (index, cut) in disturbance.partitions.iter().enumerate() {
        ways.push(with(case, |case| {
            case.config.disturbance.partitions.remove(index);
        }));
        for member in 0..cut.nodes.len() {
            ways.push(with(case, |case| {
                case.config.disturbance.partitions[index].nodes.remove(member);
            }));
        }
    }
    ways
}

fn fewer_requesters(case: &Case) -> Vec<Case> {
    let now = case.config.load.requesters;
    let fewer = [1, 2, now / 2, now - 1].into_iter().filter(|&count| count > 0);
    let clients = with(case, |case| case.config.load.clients = 1);
    let fewer = fewer.map(|count| with(case, |case| case.config.load.requesters = count));
    fewer.chain([clients]).collect()
}

fn fewer_slots(case: &Case) -> Vec<Case> {
    let fewer = [1, case.config.k - 1].into_iter().filter(|&count| count > 0);
    let of = |count: u32| {
        with(case, |case| {
            case.config.k = count;
            case.config.tolerate = case.config.tolerate.min(count - 1);
            case.config.load.weight_max = case.config.load.weight_max.min(count);
            case.config.claims = case.claims();
        })
    };
    fewer.map(of).collect()
}

fn fewer_entries(case: &Case) -> Vec<Case> {
    let now = case.config.load.entries;
    let few = [1, 2, 3, 5, 10].into_iter().filter(|&count| now.is_none_or(|now| count < now));
    few.map(|count| with(case, |case| case.config.load.entries = Some(count))).collect()
}

fn shorter(case: &Case) -> Vec<Case> {
    let now = case.config.duration.0;
    let whole = |span: u64| Span(span.div_ceil(Span::UNIT.0) * Span::UNIT.0);
    let shorter = [now / 4, now / 2, now * 3 / 4, now.saturating_sub(Span::UNIT.0)].map(whole);
    let cut =
        shorter.into_iter().map(|duration| with(case, |case| case.config.duration = duration));
    cut.chain([(1, 4), (1, 2), (3, 4), (9, 10)].map(|(part, of)| sooner(case, part, of))).collect()
}

/// The case with all times scaled to `part` of `of`, in tenths of a time unit: fewer requests need
/// less time.
fn sooner(case: &Case, part: u32, of: u32) -> Case {
    let tenth = Span::UNIT.0 / 10;
    let scaled =
        |span: Span| Span((span.0 / tenth * u64::from(part)).div_ceil(u64::from(of)) * tenth);
    with(case, |case| {
        let config = &mut case.config;
        config.duration = Span(scaled(config.duration).0.div_ceil(Span::UNIT.0) * Span::UNIT.0);
        for crash in &mut config.crashes {
            crash.at = scaled(crash.at);
            crash.back = crash.back.map(|back| scaled(back) + Span(tenth));
        }
        config.transient.strikes.iter_mut().for_each(|strike| strike.1 = scaled(strike.1));
        config.resizes.iter_mut().for_each(|resize| resize.0 = scaled(resize.0));
        for pause in &mut config.disturbance.pauses {
            (pause.from, pause.until) = (scaled(pause.from), scaled(pause.until) + Span(tenth));
        }
        for cut in &mut config.disturbance.partitions {
            (cut.from, cut.until) = (scaled(cut.from), scaled(cut.until) + Span(tenth));
        }
        config.disturbance.cuts.iter_mut().for_each(|cut| cut.at = scaled(cut.at));
        for period in config.agreement.periods_mut() {
            (period.from, period.until) = (scaled(period.from), scaled(period.until) + Span(tenth));
        }
    })
}

/// Plain costs and times. Costs stay where a protocol's assumptions depend on them
/// (timer-free-2009: responsiveness).
fn plainer(case: &Case) -> Vec<Case> {
    let mut ways = Vec::new();
    let mut way = |change: fn(&mut Case)| ways.push(with(case, change));
    if !case.entry.needs_crash_bound {
        way(|case| case.config.cost.latency = Latency::Constant(t("1")));
        way(|case| case.config.cost.latency = Latency::Uniform(t("0"), t("2")));
        way(|case| case.config.cost.latency = Latency::Uniform(t("0.1"), t("2")));
        way(|case| case.config.cost.latency = Latency::Exponential(t("1")));
        way(|case| case.config.cost.send = Span::ZERO);
        way(|case| case.config.cost.receive = Span::ZERO);
        way(|case| case.config.cost.receive_cost = ReceiveCost::Queue);
        way(|case| case.config.cost.send_cost = SendCost::Flat);
        way(|case| case.config.cost.send_cost = SendCost::Queue);
    }
    way(|case| case.config.cost.fifo = false);
    way(|case| case.config.load.first_request = Span::ZERO);
    way(|case| case.config.load.hold = t("1"));
    way(|case| case.config.load.think = Think::Constant(t("1")));
    way(|case| case.config.load.ask_inside = false);
    way(|case| case.config.transient.forged = 0);
    way(|case| case.config.detection.oracle = case.config.detection.oracle.map(|_| t("1")));
    way(|case| case.config.detection.interval = t("1"));
    if case.entry.slots {
        ways.extend(plainer_slots(case));
    }
    ways
}

/// Default options of numbered slots.
fn plainer_slots(case: &Case) -> Vec<Case> {
    let mut ways = Vec::new();
    let mut way = |change: fn(&mut Case)| ways.push(with(case, change));
    way(|case| case.config.load.weight_max = 1);
    way(|case| case.config.load.patience = t("1"));
    way(|case| case.config.slots.dissemination = Dissemination::Auto);
    way(|case| case.config.slots.membership = MembershipSource::Log);
    way(|case| case.config.slots.defer = true);
    way(|case| case.config.slots.quiet = true);
    way(|case| case.config.slots.keep = true);
    way(|case| case.config.slots.batch = 1);
    way(|case| case.config.slots.lanes = 1);
    way(|case| case.config.slots.pass = false);
    way(|case| case.config.slots.witness = false);
    way(|case| {
        case.config.slots.ask_again = None;
        case.config.claims = case.claims();
    });
    way(|case| case.config.slots.ask_again = case.config.slots.ask_again.map(|_| t("5")));
    ways
}

/// Times of faults in tenths or whole units.
fn rounder(case: &Case) -> Vec<Case> {
    let mut ways = Vec::new();
    for grain in [Span::UNIT.0, Span::UNIT.0 / 10] {
        let round = move |span: Span| Span(span.0 / grain * grain);
        for index in 0..case.config.crashes.len() {
            ways.push(with(case, |case| {
                let crash = &mut case.config.crashes[index];
                crash.at = round(crash.at);
                crash.back = crash.back.map(|back| round(back) + Span(grain));
            }));
        }
        for index in 0..case.config.transient.strikes.len() {
            ways.push(with(case, |case| {
                let strike = &mut case.config.transient.strikes[index];
                strike.1 = round(strike.1);
            }));
        }
        for index in 0..case.config.resizes.len() {
            ways.push(with(case, |case| {
                let resize = &mut case.config.resizes[index];
                resize.0 = round(resize.0);
            }));
        }
        for index in 0..case.config.clone().agreement.periods_mut().count() {
            ways.push(with(case, |case| {
                if let Some(period) = case.config.agreement.periods_mut().nth(index) {
                    (period.from, period.until) =
                        (round(period.from), round(period.until) + Span(grain));
                }
            }));
        }
        for index in 0..case.config.disturbance.pauses.len() {
            ways.push(with(case, |case| {
                let pause = &mut case.config.disturbance.pauses[index];
                (pause.from, pause.until) = (round(pause.from), round(pause.until) + Span(grain));
            }));
        }
        for index in 0..case.config.disturbance.partitions.len() {
            ways.push(with(case, |case| {
                let cut = &mut case.config.disturbance.partitions[index];
                (cut.from, cut.until) = (round(cut.from), round(cut.until) + Span(grain));
            }));
        }
    }
    ways
}
