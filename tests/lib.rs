//! Runs for tests: the papers' settings, and settings drawn from a seed.

mod drawn;

pub use drawn::drawn;

use std::sync::Arc;

use kgate_core::{Graph, NodeId, Protocol, Span};
use kgate_protocols::registry::{self, Entry, Visitor};
use kgate_protocols::topology::graphs::Shape;
use kgate_sim::{Bucket, Claims, Config, Crash, Detection, Detector, Heap, Latency, Report, Rng};

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
            graph: usual_graph(entry, nodes, 1),
            claims: claims_of(entry, nodes, 3),
            ..Config::new(nodes, 3)
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
        config.load.requesters = 5;
        config.load.first_request = t("0.9");
        config.load.hold = t("0.8");
        config.tolerate = 4;
        config.detection = Detection { interval: t("1"), timeout: t("0.04"), oracle: None };
        config.crashes = (1..=15u32)
            .map(|i| Crash { node: NodeId(16 - i), at: t("5").times(u64::from(i)), back: None })
            .collect();
        config.claims = claims_of(case.entry, 16, 5);
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

/// What the simulator needs to know of a system.
pub fn claims_of(entry: &Entry, nodes: u32, permits: u32) -> Claims {
    let detector = entry.detector.map(|name| match name {
        registry::LOG => Detector::Log,
        _ if entry.all_to_all => Detector::AllToAll,
        _ => Detector::Sparse,
    });
    Claims {
        bears: entry.bears(nodes, permits),
        detector,
        recovers: entry.recovers,
        heals: entry.heals,
        asks_inside: entry.asks_inside,
    }
}

/// A graph of that shape, with whatever is random in it drawn from the seed.
pub fn graph(shape: Shape, nodes: u32, seed: u64) -> Arc<Graph> {
    let mut dice = Rng::fork(seed, "graph");
    Arc::new(shape.build(nodes, &mut |bound| dice.below(bound)).expect("a graph"))
}

fn usual_graph(entry: &Entry, nodes: u32, seed: u64) -> Option<Arc<Graph>> {
    entry.network.usual_shape().map(|shape| graph(shape, nodes, seed))
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
