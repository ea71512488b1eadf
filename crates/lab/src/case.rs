//! A case: a protocol of the registry with the configuration of a run.

use std::sync::Arc;

use kgate_core::{Graph, NodeId, Protocol, Span};
use kgate_protocols::registry::{self, Entry, MutexProtocol, Visitor};
use kgate_protocols::topology::graphs::{SHAPES, Shape};
use kgate_sim::{
    Bucket, Claims, Config, Crash, Detection, Detector, Heap, Latency, OpenTrace, Report, Rng,
    RunError,
};

/// Parses a length of time as on the command line.
pub fn t(text: &str) -> Span {
    text.parse().expect("a time")
}

/// A protocol with the configuration of a run.
#[derive(Clone, Debug)]
pub struct Case {
    /// The protocol.
    pub entry: &'static Entry,
    /// The configuration of the run.
    pub config: Config,
    /// The name of the graph, a shape or a file as on the command line; none in a fully connected
    /// network.
    pub graph: Option<String>,
}

/// The event queue that drives a run; both give the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The fast queue.
    Bucket,
    /// The simple queue.
    Heap,
}

impl Case {
    /// vcube-2018 section 8.1 with LOW load and no faults; the same as `kgate sim --protocol P -n
    /// N`.
    pub fn vcube_2018(protocol: &str, nodes: u32) -> Self {
        let entry = registry::entry(protocol).expect("a protocol");
        let config = Config { claims: claims_of(entry, nodes, 3), ..Config::new(nodes, 3) };
        let mut case = Self { entry, config, graph: None };
        if let Some(shape) = entry.network.usual_shape() {
            case.put_on(shape);
        }
        case
    }

    /// robust-2012 section 5: n = 16, k = 5, p0 .. p4 request, p15 .. p1 crash at 5, 10, .., 75.
    pub fn robust_2012(protocol: &str) -> Self {
        let mut case = Self::vcube_2018(protocol, 16);
        let config = &mut case.config;
        config.k = 5;
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

    /// The same case in which all processes request.
    pub fn high(mut self) -> Self {
        self.config.load.requesters = self.config.nodes;
        self
    }

    /// The same case with another seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// The same case with a published defect switched on.
    pub fn as_printed(mut self, id: &str) -> Self {
        self.config.printed = self.entry.as_printed(id).expect("a defect of this protocol");
        self
    }

    /// Sets the graph to one of that shape; random choices in it are drawn from the seed.
    pub fn put_on(&mut self, shape: Shape) {
        self.config.graph = Some(graph(shape, self.config.nodes, self.config.seed));
        self.graph = Some(shape.to_string());
    }

    /// The shape of the graph; none without a graph, or with one from a file.
    pub fn shape(&self) -> Option<Shape> {
        let named = self.graph.as_deref()?;
        let shape = SHAPES.iter().find(|(name, _)| *name == named)?.1;
        let tree = self.entry.network == registry::Network::Tree;
        Some(if tree && shape == Shape::Random { Shape::RandomTree } else { shape })
    }

    /// What the protocol claims in a run of this size.
    pub fn claims(&self) -> Claims {
        let config = &self.config;
        let claims = claims_of(self.entry, config.nodes, config.k);
        let tolerates =
            if self.entry.needs_crash_bound { config.tolerate } else { claims.tolerates };
        // Without repeated requests, a process waits for ever for a lost message.
        let tolerates_loss =
            claims.tolerates_loss && (!claims.slots || config.slots.ask_again.is_some());
        Claims { tolerates, tolerates_loss, ..claims }
    }

    /// Runs the case with the fast engine; panics if the configuration is invalid.
    pub fn run(&self) -> Report {
        self.run_on(Queue::Bucket)
    }

    /// Runs the case with the simple engine; panics if the configuration is invalid.
    pub fn run_on_heap(&self) -> Report {
        self.run_on(Queue::Heap)
    }

    fn run_on(&self, queue: Queue) -> Report {
        self.try_run(queue, None).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Runs the case.
    pub fn try_run<'a>(
        &'a self,
        queue: Queue,
        trace: Option<OpenTrace<'a>>,
    ) -> Result<Report, RunError> {
        let own_detector = self.config.detection.oracle.is_none();
        let runner = Runner { case: self, queue, trace };
        if self.entry.follows_log {
            registry::visit_gates(runner)
        } else {
            registry::visit(self.entry, own_detector, runner)
        }
    }
}

/// The claims of a protocol that the simulator checks. The simulator rejects invalid sizes later.
pub fn claims_of(entry: &Entry, nodes: u32, k: u32) -> Claims {
    let detector = entry.detector.map(|name| match name {
        registry::LOG => Detector::Log,
        _ if entry.all_to_all => Detector::AllToAll,
        _ => Detector::Sparse,
    });
    let sensible = nodes > 0 && k > 0;
    Claims {
        tolerates: if sensible { entry.tolerates(nodes, k) } else { 0 },
        detector,
        recovers: entry.recovers,
        returns: entry.returns,
        slots: entry.slots,
        follows_log: entry.follows_log,
        heals: entry.heals,
        asks_inside: entry.asks_inside,
        tolerates_delay: entry.tolerates_delay,
        tolerates_loss: entry.tolerates_loss,
        tolerates_duplicates: entry.tolerates_duplicates,
    }
}

/// A graph of that shape; random choices in it are drawn from the seed.
pub fn graph(shape: Shape, nodes: u32, seed: u64) -> Arc<Graph> {
    let mut rng = Rng::fork(seed, "graph");
    Arc::new(shape.build(nodes, &mut |bound| rng.below(bound)).expect("a graph"))
}

struct Runner<'a> {
    case: &'a Case,
    queue: Queue,
    trace: Option<OpenTrace<'a>>,
}

impl Visitor for Runner<'_> {
    type Output = Result<Report, RunError>;
    fn visit<M: MutexProtocol, D: Protocol>(self) -> Self::Output {
        let (name, config) = (self.case.entry.name, &self.case.config);
        match self.queue {
            Queue::Bucket => kgate_sim::run::<M, D, Bucket>(name, config, self.trace),
            Queue::Heap => kgate_sim::run::<M, D, Heap>(name, config, self.trace),
        }
    }
}
