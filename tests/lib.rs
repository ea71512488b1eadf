//! Runs for tests: the papers' settings, and settings drawn from a seed.

use kgate_core::{Printed, Protocol, Span};
use kgate_protocols::registry::{self, Entry, Visitor};
use kgate_sim::{
    Bucket, Config, Cost, Crash, Detection, Detector, Heap, Latency, Load, ReceiveCost, Report, Rng, SendCost,
};

/// A length of time as on the command line.
pub fn t(text: &str) -> Span {
    text.parse().expect("a time")
}

/// A run to be made.
#[derive(Clone, Debug)]
pub struct Case {
    /// The system.
    pub entry: &'static Entry,
    /// The run.
    pub config: Config,
}

impl Case {
    /// vcube-2018 section 8.1 with LOW load and no faults; the same as `kgate sim --protocol P -n N`.
    pub fn vcube_2018(protocol: &str, nodes: u32) -> Self {
        let entry = registry::entry(protocol).expect("a protocol");
        let config = Config {
            nodes,
            permits: 3,
            seed: 1,
            printed: Printed::NONE,
            cost: Cost {
                send: t("0.1"),
                latency: Latency::Constant(t("0.8")),
                receive: t("0.1"),
                send_cost: SendCost::Queue,
                receive_cost: ReceiveCost::Parallel,
                fifo: false,
            },
            load: Load {
                requesters: 3,
                first_request: Span::ZERO,
                hold: t("0.0002"),
                think: t("0.1"),
                entries: None,
            },
            detection: Detection { interval: t("10"), timeout: t("4"), oracle: None },
            crashes: Vec::new(),
            random_crashes: 0,
            bears: entry.bears(nodes, 3),
            detector: detector_of(entry),
            duration: t("1000"),
        };
        Self { entry, config }
    }

    /// robust-2012 section 5: n = 16, k = 5, p0 .. p4 ask, p15 .. p1 crash at 5, 10, .., 75.
    pub fn robust_2012(protocol: &str) -> Self {
        let mut case = Self::vcube_2018(protocol, 16);
        let config = &mut case.config;
        config.permits = 5;
        config.cost.send = Span::ZERO;
        config.cost.latency = Latency::Constant(t("0.01"));
        config.cost.receive = Span::ZERO;
        config.load =
            Load { requesters: 5, first_request: t("0.9"), hold: t("0.8"), think: t("0.1"), entries: None };
        config.detection = Detection { interval: t("1"), timeout: t("0.04"), oracle: None };
        config.crashes = (1..=15u32)
            .map(|i| Crash { node: kgate_core::NodeId(16 - i), at: t("5").times(u64::from(i)) })
            .collect();
        config.bears = case.entry.bears(16, 5);
        config.duration = t("100.9");
        case
    }

    /// Everybody asks.
    pub fn high(mut self) -> Self {
        self.config.load.requesters = self.config.nodes;
        self
    }

    /// With another seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// With a published defect.
    pub fn as_printed(mut self, id: &str) -> Self {
        self.config.printed = self.entry.as_printed(id).expect("a defect of this protocol");
        self
    }

    /// Runs it with the fast engine.
    pub fn run(&self) -> Report {
        self.run_with(true)
    }

    /// Runs it with the simple engine.
    pub fn run_on_heap(&self) -> Report {
        self.run_with(false)
    }

    fn run_with(&self, bucket: bool) -> Report {
        let own_detector = self.config.detection.oracle.is_none();
        registry::visit(self.entry, own_detector, Runner { case: self, bucket })
    }
}

/// What the simulator needs to know of a system's detector.
fn detector_of(entry: &Entry) -> Option<Detector> {
    entry.detector.map(|_| if entry.all_to_all { Detector::AllToAll } else { Detector::Sparse })
}

struct Runner<'a> {
    case: &'a Case,
    bucket: bool,
}

impl Visitor for Runner<'_> {
    type Output = Report;
    fn visit<M: Protocol, D: Protocol>(self) -> Report {
        let (name, config) = (self.case.entry.name, &self.case.config);
        let report = if self.bucket {
            kgate_sim::run::<M, D, Bucket>(name, config, None)
        } else {
            kgate_sim::run::<M, D, Heap>(name, config, None)
        };
        report.unwrap_or_else(|error| panic!("{error}: {:?}", self.case))
    }
}

/// A whole setting drawn at random: size (mostly no power of two), k, costs, latency (also one that reorders), load,
/// detector or oracle, and as many crashes as the protocol bears.
pub fn drawn(protocol: &str, seed: u64) -> Case {
    let mut dice = Rng::fork(seed, "swarm");
    let mut pick = |low: u64, high: u64| dice.within(low, high);
    let nodes = u32::try_from(pick(2, 24)).expect("small");
    let mut case = Case::vcube_2018(protocol, nodes).seed(seed);
    let config = &mut case.config;
    config.permits = u32::try_from(pick(1, u64::from(nodes - 1).min(5))).expect("small");
    config.load = Load {
        requesters: u32::try_from(pick(1, u64::from(nodes))).expect("small"),
        first_request: Span(pick(0, 1) * 500_000_000),
        hold: Span(pick(0, 4) * 700_000_000),
        think: Span(pick(1, 30) * 100_000_000),
        entries: None,
    };
    config.cost.send = Span(pick(0, 3) * 50_000_000);
    config.cost.receive = Span(pick(0, 2) * 50_000_000);
    config.cost.send_cost = match pick(0, 2) {
        0 => SendCost::Queue,
        1 => SendCost::Staggered,
        _ => SendCost::Flat,
    };
    config.cost.receive_cost = if pick(0, 1) == 0 { ReceiveCost::Parallel } else { ReceiveCost::Queue };
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
    config.bears = case.entry.bears(nodes, config.permits);
    let spared = if config.load.requesters == nodes { 1 } else { config.load.requesters };
    config.random_crashes =
        u32::try_from(pick(0, u64::from(config.bears.min(nodes - spared)))).expect("small");
    config.duration = t("60");
    case
}
