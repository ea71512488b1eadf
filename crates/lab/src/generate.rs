//! Generates whole settings from a seed.
//!
//! [`generate`] gives a setting with the faults of the papers: crashes, recoveries, transient
//! faults. [`generate_disturbed`] adds, for half of the seeds, faults that the papers leave out:
//! pauses, partitions, message loss and duplicates, as far as the protocol claims to tolerate them.

mod home;
mod slots;

use kgate_core::{NodeId, Span};
use kgate_protocols::registry::Network;
use kgate_protocols::topology::graphs::{SHAPES, Shape};
use kgate_sim::{
    Chance, Config, Detector, Direction, Down, Grid, Latency, Load, Partition, Pause, ReceiveCost,
    Rng, SendCost, Think,
};

use crate::{Case, t};

/// Generates a whole setting: size (mostly not a power of two), k, costs, latency (also with
/// reordering), load, detector or oracle, and up to as many crashes as the protocol tolerates.
pub fn generate(protocol: &str, seed: u64) -> Case {
    let mut rng = Rng::fork(seed, "swarm");
    let mut pick = |low: u64, high: u64| rng.within(low, high);
    let nodes = u32::try_from(pick(2, 24)).expect("small");
    let mut case = Case::vcube_2018(protocol, nodes).seed(seed);
    let config = &mut case.config;
    config.k = u32::try_from(pick(1, u64::from(nodes - 1).min(5))).expect("small");
    config.load = Load {
        requesters: u32::try_from(pick(1, u64::from(nodes))).expect("small"),
        first_request: Span(pick(0, 1) * 500_000_000),
        hold: Span(pick(0, 4) * 700_000_000),
        think: Think::Constant(Span(pick(1, 30) * 100_000_000)),
        ..Load::PLAIN
    };
    config.cost.send = Span(pick(0, 3) * 50_000_000);
    config.cost.receive = Span(pick(0, 2) * 50_000_000);
    config.cost.send_cost = match pick(0, 2) {
        0 => SendCost::Queue,
        1 => SendCost::Staggered,
        _ => SendCost::Flat,
    };
    config.cost.receive_cost =
        if pick(0, 1) == 0 { ReceiveCost::Parallel } else { ReceiveCost::Queue };
    config.cost.fifo = pick(0, 2) == 0;
    config.cost.latency = match pick(0, 3) {
        0 => Latency::Constant(t("0.8")),
        1 => Latency::Uniform(t("0.01"), t("2")),
        2 => Latency::Uniform(t("0.5"), t("0.9")),
        _ => Latency::Exponential(t("0.8")),
    };
    let unbounded = config.cost.latency.most().is_none();
    if case.entry.detector.is_some() && (unbounded || pick(0, 1) == 0) {
        config.detection.oracle = Some(Span(pick(0, 12) * 1_000_000_000));
    }
    config.detection.timeout = config.cost.longest_delay().unwrap_or_default().times(2).max(t("1"));
    config.detection.interval = Span(pick(1, 12) * 1_000_000_000);
    config.tolerate = config.k - 1;
    case.config.claims = case.claims();
    let config = &mut case.config;
    let spared = if config.load.requesters == nodes { 1 } else { config.load.requesters };
    config.random_crashes =
        u32::try_from(pick(0, u64::from(config.claims.tolerates.min(nodes - spared))))
            .expect("small");
    config.duration = t("60");
    particular(&mut case, seed);
    case
}

/// Generates the networks and faults of single protocols, from a random stream of their own.
fn particular(case: &mut Case, seed: u64) {
    let mut rng = Rng::fork(seed, "particular");
    match case.entry.network {
        Network::Complete if case.entry.needs_crash_bound => responsive(case, &mut rng),
        Network::Complete if case.entry.follows_log => {
            slots::draw(case, &mut Rng::fork(seed, "slots"));
            home::draw(case, &mut Rng::fork(seed, "home"));
        }
        Network::Complete if case.entry.slots => slots::draw(case, &mut Rng::fork(seed, "slots")),
        Network::Complete => {}
        Network::Tree => tree(case, &mut rng),
        Network::Graph => corrupted(case, &mut rng),
    }
}

/// Generates the setting of [`generate`], for half of the seeds with pauses, partitions, loss and
/// duplicates.
pub fn generate_disturbed(protocol: &str, seed: u64) -> Case {
    let mut case = generate(protocol, seed);
    let mut rng = Rng::fork(seed, "disturbance");
    if rng.below(2) == 0 {
        return case;
    }
    let Config { claims, detection, nodes, duration, .. } = case.config;
    let goes_by_time =
        detection.oracle.is_none() && claims.detector.is_some_and(|own| own != Detector::Log);
    let disturbance = &mut case.config.disturbance;
    if claims.tolerates_delay && !goes_by_time {
        for _ in 0..rng.below(4) {
            let (node, (from, until)) = (node(&mut rng, nodes), interval(&mut rng, duration));
            if disturbance.pauses.iter().all(|pause| pause.node != node) {
                disturbance.pauses.push(Pause { node, from, until });
            }
        }
        for _ in 0..rng.below(3) {
            disturbance.partitions.push(partition(&mut rng, nodes, duration));
        }
    }
    let chance = |rng: &mut Rng| Chance(small(rng.below(4) * 100_000));
    if claims.tolerates_loss {
        disturbance.loss = chance(&mut rng);
    }
    if claims.tolerates_duplicates {
        disturbance.duplicates = chance(&mut rng);
    }
    if claims.follows_log && claims.tolerates_loss {
        home::cut(&mut case, &mut Rng::fork(seed, "cuts"));
    }
    case
}

fn partition(rng: &mut Rng, nodes: u32, duration: Span) -> Partition {
    let first = node(rng, nodes); // At least one process is cut off, and at least one is not.
    let spared = NodeId((first.0 + 1) % nodes);
    let others = (0..nodes).map(NodeId).filter(|&other| other != first && other != spared);
    let mut cut: Vec<NodeId> = others.filter(|_| rng.below(2) == 0).chain([first]).collect();
    cut.sort_unstable();
    let direction = match rng.below(4) {
        0 => Direction::Outbound,
        1 => Direction::Inbound,
        _ => Direction::Both,
    };
    let (from, until) = interval(rng, duration);
    Partition { nodes: cut, direction, from, until }
}

fn node(rng: &mut Rng, nodes: u32) -> NodeId {
    NodeId(small(rng.below(u64::from(nodes))))
}

/// An interval of up to a third of the run, in tenths of a time unit.
fn interval(rng: &mut Rng, duration: Span) -> (Span, Span) {
    let tenth = Span(Span::UNIT.0 / 10);
    let tenths = duration.0 / tenth.0;
    let from = rng.below(tenths);
    (tenth.times(from), tenth.times(from + rng.within(1, tenths / 3)))
}

pub(crate) fn small(number: u64) -> u32 {
    u32::try_from(number).expect("small")
}

/// Clusters in which timer-free-2009's responsiveness property holds: each has more processes than
/// crash, messages are fast within and slow between clusters, and no message waits in a queue.
fn responsive(case: &mut Case, rng: &mut Rng) {
    let config = &mut case.config;
    let (clusters, size) = (small(rng.within(2, 5)), small(rng.within(1, 5)));
    let nodes = clusters * size;
    config.nodes = nodes;
    config.k = small(rng.within(1, u64::from(nodes - 1).min(5)));
    config.tolerate = small(rng.within(0, u64::from((config.k - 1).min(size - 1))));
    case.config.claims = case.claims();
    let config = &mut case.config;
    config.refresh = (rng.below(2) == 0).then(|| t("3"));
    config.load.requesters = small(rng.within(1, u64::from(nodes)));
    config.cost.send = Span::ZERO;
    config.cost.receive_cost = ReceiveCost::Parallel;
    config.cost.latency = Latency::Grid(Grid {
        clusters,
        size,
        intra: (t("0.01"), t("0.05")),
        inter: (t("0.4"), t("0.9")),
    });
    let spared = if config.load.requesters == nodes { 1 } else { config.load.requesters };
    config.random_crashes = config.tolerate.min(nodes - spared);
}

/// Any tree; crashes with recovery, also of neighbours; messages to processes that are down are
/// lost or kept; permanent crashes.
fn tree(case: &mut Case, rng: &mut Rng) {
    let trees: Vec<Shape> =
        SHAPES.iter().map(|(_, shape)| *shape).filter(|shape| shape.is_tree()).collect();
    let shape = match rng.below(2) {
        0 => Shape::RandomTree,
        _ => trees[usize::try_from(rng.below(trees.len() as u64)).expect("small")],
    };
    case.put_on(shape);
    let config = &mut case.config;
    config.down_for = Span(rng.within(1, 80) * 100_000_000);
    config.random_recoveries = small(rng.within(0, 12));
    if config.nodes <= 4 {
        // Few processes that crash often, and slow messages: some come from an old incarnation.
        config.cost.latency = Latency::Uniform(Span::ZERO, t("5"));
        config.random_recoveries = config.nodes * 3;
        config.down_for = t("3");
    }
    config.down = if rng.below(2) == 0 { Down::Lost } else { Down::Kept };
    config.random_crashes = config.random_crashes.min(small(rng.within(0, 3)));
    config.load.ask_inside = rng.below(4) == 0 && config.load.hold > Span::ZERO;
}

/// Any graph, with arbitrary start states or transient faults during the run.
fn corrupted(case: &mut Case, rng: &mut Rng) {
    let config = &mut case.config;
    config.nodes = small(rng.within(2, 10));
    config.k = config.k.min(config.nodes - 1);
    config.tolerate = config.k - 1;
    case.config.claims = case.claims();
    let config = &mut case.config;
    config.random_crashes = 0;
    config.detection.oracle = None;
    config.load.requesters = config.nodes;
    let shape = SHAPES[usize::try_from(rng.below(SHAPES.len() as u64)).expect("small")].1;
    case.put_on(shape);
    let config = &mut case.config;
    // Repeated states must leave the send queue time for new ones.
    config.refresh = Some(t("1") + config.cost.send.times(4 * u64::from(config.nodes)));
    config.transient.start = rng.below(2) == 0;
    config.transient.forged = small(rng.below(4));
    config.duration = t("200");
    for _ in 0..rng.below(4) {
        let node = node(rng, config.nodes);
        config.transient.strikes.push((node, Span(rng.below(config.duration.0))));
    }
}
