//! What is run: everything that a run depends on, checked before it starts.

use std::sync::Arc;

use kgate_core::{Defects, Graph, Incarnation, MembershipSource, NodeId, Setup, SlotOptions, Span};

use crate::cost::{Cost, ReceiveCost, SendCost};
use crate::disturbance::Disturbance;
use crate::faults::{Crash, Down, Transient};
use crate::latency::Latency;
use crate::load::{Load, Think};

/// How processes learn of crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    /// How often the detector tests.
    pub interval: Span,
    /// How long it waits for an answer.
    pub timeout: Span,
    /// Instead of a detector: news of a crash reach each process within that time.
    pub oracle: Option<Span>,
}

/// What a detector needs, as far as the size of a run depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detector {
    /// Each process talks to a few others and remembers the crashed.
    Sparse,
    /// Each process talks to all others and keeps two bits for each.
    AllToAll,
    /// None of its own: losses are decided elsewhere and told to everybody in the same order, as
    /// from an agreed log.
    Log,
}

/// What a protocol claims, as far as a run depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// How many crashes for good it tolerates; beyond, nobody is promised an answer.
    pub tolerates: u32,
    /// What its detector is like; none if it listens to no detector.
    pub detector: Option<Detector>,
    /// Whether its processes come back from a crash with what they had stored.
    pub recovers: bool,
    /// Whether its processes come back from a crash with nothing, in a new incarnation.
    pub returns: bool,
    /// Whether it grants numbered slots: several at once, to several clients of a process, of a k
    /// that may change.
    pub slots: bool,
    /// Whether it recovers from transient faults.
    pub heals: bool,
    /// Whether a client may ask again while it is inside.
    pub asks_inside: bool,
    /// Whether it tolerates processes that stop for a time and messages that are late beyond any
    /// bound. A detector that goes by time does not.
    pub tolerates_delay: bool,
    /// Whether it tolerates messages that are lost.
    pub tolerates_loss: bool,
    /// Whether it tolerates messages that arrive twice.
    pub tolerates_duplicates: bool,
}

/// Whether the checkers sit that look at messages and at what processes show: of permissions, of
/// the order of entry, of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audit {
    /// In runs of at most 64 processes.
    #[default]
    Small,
    /// In every run.
    Always,
    /// In none.
    Never,
}

/// Up to so many processes a run is audited unless asked otherwise.
const AUDITED: u32 = 64;

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// n.
    pub nodes: u32,
    /// k.
    pub k: u32,
    /// What everything random comes from.
    pub seed: u64,
    /// Published defects to run as printed.
    pub printed: Defects,
    /// What a message costs.
    pub cost: Cost,
    /// Who asks.
    pub load: Load,
    /// Of those only these ask, in order; all of them if there are none.
    pub only: Vec<NodeId>,
    /// How crashes are learnt of.
    pub detection: Detection,
    /// Crashes by name.
    pub crashes: Vec<Crash>,
    /// More crashes for good, drawn from the seed.
    pub random_crashes: u32,
    /// Crashes with recovery, drawn from the seed.
    pub random_recoveries: u32,
    /// How long a process of those is down at most.
    pub down_for: Span,
    /// What becomes of messages to a process that is down.
    pub down: Down,
    /// Transient faults.
    pub transient: Transient,
    /// Pauses, partitions, loss and duplicates.
    pub disturbance: Disturbance,
    /// How many crashes the protocol is told to tolerate, where it must know.
    pub tolerate: u32,
    /// How often an idle process says something, where the protocol would else fall silent.
    pub refresh: Option<Span>,
    /// How a protocol with numbered slots goes about it.
    pub slots: SlotOptions,
    /// What k becomes, and when; each process is told of each within the time of news.
    pub resizes: Vec<(Span, u32)>,
    /// Who is whose neighbour, where the protocol wants to know.
    pub graph: Option<Arc<Graph>>,
    /// What the protocol claims.
    pub claims: Claims,
    /// Which runs are checked by what messages carry.
    pub audit: Audit,
    /// What happens up to then is checked, but not measured.
    pub warmup: Span,
    /// How long it runs. What is asked by then is given time to be answered, but no longer
    /// measured.
    pub duration: Span,
}

/// The longest time that may be asked for: sums of a few of them still fit into nanoseconds.
const LONGEST: Span = Span(1_000_000_000 * Span::UNIT.0);

/// Why a run cannot start. Each text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// k is 0.
    #[error("k is 0: nobody could ever enter; give at least 1")]
    NoPermits,
    /// Fewer than two processes.
    #[error("n is {0}: at least 2 processes are needed")]
    TooFewNodes(u32),
    /// k is at least n.
    #[error(
        "k = {k} with n = {nodes}: each process holds one unit, so nothing is excluded; choose k below n"
    )]
    NothingExcluded {
        /// k.
        k: u32,
        /// n.
        nodes: u32,
    },
    /// More requesters than processes.
    #[error("{requesters} requesters with n = {nodes}: choose at most n, at least 1")]
    Requesters {
        /// How many were asked for.
        requesters: u32,
        /// n.
        nodes: u32,
    },
    /// A requester that is nobody.
    #[error("{node} asks: with n = {nodes} the processes are p0 .. p{}", nodes - 1)]
    RequesterIsNobody {
        /// Who.
        node: NodeId,
        /// n.
        nodes: u32,
    },
    /// Nothing is measured.
    #[error(
        "a warm-up of {warmup} in a run of {duration}: nothing would be measured; give a longer --duration or a shorter --warmup"
    )]
    OnlyWarmUp {
        /// How long nothing is measured.
        warmup: Span,
        /// When the run ends.
        duration: Span,
    },
    /// A crash names nobody.
    #[error("crash of {node}: with n = {nodes} the processes are p0 .. p{}", nodes - 1)]
    CrashOfNobody {
        /// Who does not exist.
        node: NodeId,
        /// n.
        nodes: u32,
    },
    /// A crash that would come too late to matter.
    #[error(
        "crash of {node} at {at}: the run ends at {duration}; crash it before, or give a longer --duration"
    )]
    CrashAfterEnd {
        /// Who.
        node: NodeId,
        /// When.
        at: Span,
        /// When the run ends.
        duration: Span,
    },
    /// Two crashes of one process at one time.
    #[error(
        "{node} is to crash while it is down: let it come back before (P@T1..T2), or name one crash only"
    )]
    CrashTwice {
        /// Who.
        node: NodeId,
    },
    /// Back before it is gone.
    #[error(
        "{node} is to crash at {at} and to be back at {back}: write P@T1..T2 with T1 before T2"
    )]
    BackBefore {
        /// Who.
        node: NodeId,
        /// When it crashes.
        at: Span,
        /// When it would be back.
        back: Span,
    },
    /// A fault of nobody, or too late to matter.
    #[error("corruption of {node} at {at}: with n = {nodes} the processes are p0 .. p{}, and the run ends at {duration}", nodes - 1)]
    Strike {
        /// Who.
        node: NodeId,
        /// When.
        at: Span,
        /// n.
        nodes: u32,
        /// When the run ends.
        duration: Span,
    },
    /// Nobody left.
    #[error("every process is to crash for good: nobody would be left; let one live")]
    NobodyLeft,
    /// Recoveries that do not fit into the run.
    #[error(
        "{asked} random recoveries, and only {fit} fit: give a shorter --down-for, a longer --duration or fewer of them"
    )]
    TooManyRecoveries {
        /// How many were asked for.
        asked: u32,
        /// How many there could be.
        fit: u32,
    },
    /// Recovery of a protocol that stores nothing.
    #[error(
        "processes of this protocol do not come back from a crash: crash them for good (P@T), or choose tree-token or slots"
    )]
    NoRecovery,
    /// What is kept, for a process that comes back with nothing.
    #[error(
        "processes of this protocol come back with nothing, in a new incarnation: leave out --down kept"
    )]
    NothingKept,
    /// Nobody would know what was granted.
    #[error(
        "with --membership join some process must never crash, for what was granted is known to the living alone: spare one"
    )]
    NobodyStays,
    /// What only protocols with numbered slots know of.
    #[error(
        "this protocol grants one unit at a time to the one client of a process, of a fixed k: leave out {0}, or choose slots"
    )]
    NoSlots(&'static str),
    /// Nobody could ask.
    #[error("0 clients, or a weight of 0: give at least 1")]
    NoClients,
    /// More at once than there ever are.
    #[error(
        "--weight-max {weight}: nobody could be granted more than {most} units at once; choose at most {most}"
    )]
    TooHeavy {
        /// The most that is asked for at once.
        weight: u32,
        /// The most that can be granted at once.
        most: u32,
    },
    /// A resize that makes no sense.
    #[error("a resize to {k} at {at}: give at least 1 unit, before the run's end at {duration}")]
    Resize {
        /// To how many.
        k: u32,
        /// When.
        at: Span,
        /// When the run ends.
        duration: Span,
    },
    /// Transient faults for a protocol that does not recover from them.
    #[error(
        "this protocol does not recover from corrupted memory: leave out --start random and --corrupt, or choose stabilizing"
    )]
    NoHealing,
    /// A client asks while inside, and the protocol takes one request at a time.
    #[error(
        "this protocol takes one request at a time: leave out --ask-inside, or choose tree-token"
    )]
    OneAtATime,
    /// Delays for a protocol that takes the late for crashed.
    #[error(
        "this protocol takes whoever answers late for crashed: leave out --pause and --partition, or choose another protocol"
    )]
    DelayNotBorne,
    /// Delays with a detector that goes by time.
    #[error(
        "the detector would hold a process that is stopped or cut off for crashed: give --detector oracle=T, or leave out \
         --pause and --partition"
    )]
    WouldSuspect,
    /// Loss for a protocol over reliable channels.
    #[error(
        "this protocol needs channels that lose nothing: leave out --loss, or choose stabilizing"
    )]
    LossNotBorne,
    /// Duplicates for a protocol over reliable channels.
    #[error(
        "this protocol needs channels that deliver each message once: leave out --duplicates, or choose another protocol"
    )]
    DuplicatesNotBorne,
    /// A pause or partition of nobody, or one that would come too late to matter.
    #[error(
        "{node} is to be stopped or cut off from {from} to {until}: write T1..T2 with T1 before T2 and before the run's end at \
         {duration}, of processes p0 .. p{}", nodes - 1
    )]
    Disturbance {
        /// Who.
        node: NodeId,
        /// From when on.
        from: Span,
        /// Until when.
        until: Span,
        /// n.
        nodes: u32,
        /// When the run ends.
        duration: Span,
    },
    /// Two pauses of one process at one time.
    #[error("{node} is to stop while it is stopped: name one pause only, or let it go on before")]
    PauseTwice {
        /// Who.
        node: NodeId,
    },
    /// A cut with nobody on one side.
    #[error(
        "a partition of nobody or of all {nodes} processes cuts nothing: leave some on either side"
    )]
    PartitionOfAll {
        /// n.
        nodes: u32,
    },
    /// As many crashes as units.
    #[error(
        "--tolerate {tolerate} with k = {k}: so many crashed processes could keep every unit for ever; choose at most {}",
        k.saturating_sub(1)
    )]
    Tolerate {
        /// f.
        tolerate: u32,
        /// k.
        k: u32,
    },
    /// A grid of another size.
    #[error("a grid of {clusters} x {size} processes with n = {nodes}: give -n {}", u64::from(*clusters) * u64::from(*size))]
    GridSize {
        /// Clusters.
        clusters: u32,
        /// Processes in each.
        size: u32,
        /// n.
        nodes: u32,
    },
    /// A graph of another size.
    #[error("a graph of {graph} processes with n = {nodes}: give -n {graph}")]
    GraphSize {
        /// Processes of the graph.
        graph: u32,
        /// n.
        nodes: u32,
    },
    /// More random crashes than there are processes to crash.
    #[error(
        "{asked} random crashes: at most {most} processes can crash here (one must live, and unless all ask, \
         requesters do not crash)"
    )]
    TooManyCrashes {
        /// How many were asked for.
        asked: u32,
        /// How many there could be.
        most: u32,
    },
    /// A detector that would suspect the living.
    #[error(
        "a detection timeout of {timeout} is below twice the longest delay ({longest}): the detector would suspect the \
         living; give at least {}, or --detector oracle=T", longest.times(2)
    )]
    TimeoutTooShort {
        /// What was asked for.
        timeout: Span,
        /// The longest delay that can be drawn.
        longest: Span,
    },
    /// No timeout is long enough.
    #[error(
        "an unbounded latency: no timeout is long enough for a detector that must not suspect the living; choose a \
         bounded latency, or --detector oracle=T"
    )]
    Unbounded,
    /// The detector would do nothing but test.
    #[error("a detection interval of 0: give a positive one")]
    NoInterval,
    /// An oracle for a protocol that listens to none.
    #[error("this protocol has no detector to replace: leave out --detector")]
    NoDetector,
    /// Nothing would ever end.
    #[error(
        "hold and think are both 0: time would stand still for whoever needs no permission; give one of them a length"
    )]
    StandsStill,
    /// Beyond what integer time can add up.
    #[error("a time of {0}: give at most {most} time units", most = LONGEST)]
    TooLong(Span),
    /// More than the machine has.
    #[error(
        "n = {nodes} with {requesters} requesters needs about {} MiB, and {} MiB are free: choose a smaller n or fewer \
         requesters", needed >> 20, free >> 20
    )]
    Memory {
        /// n.
        nodes: u32,
        /// How many ask.
        requesters: u32,
        /// Estimated bytes.
        needed: u64,
        /// Free bytes.
        free: u64,
    },
}

impl Config {
    /// The setting of vcube-2018 section 8.1 with LOW load and no faults: t_s = t_r = 0.1, t_t =
    /// 0.8, hold 0.0002, think 0.1, 1000 t.u.; for a protocol that claims nothing.
    pub fn new(nodes: u32, k: u32) -> Self {
        let tenths = |count| Span(Span::UNIT.0 / 10).times(count);
        Self {
            nodes,
            k,
            seed: 1,
            printed: Defects::NONE,
            cost: Cost {
                send: tenths(1),
                latency: Latency::Constant(tenths(8)),
                receive: tenths(1),
                send_cost: SendCost::Queue,
                receive_cost: ReceiveCost::Parallel,
                fifo: false,
            },
            load: Load {
                requesters: k,
                hold: Span(Span::UNIT.0 / 5000),
                think: Think::Constant(tenths(1)),
                ..Load::PLAIN
            },
            only: Vec::new(),
            detection: Detection { interval: tenths(100), timeout: tenths(40), oracle: None },
            crashes: Vec::new(),
            random_crashes: 0,
            random_recoveries: 0,
            down_for: tenths(100),
            down: Down::Lost,
            transient: Transient::default(),
            disturbance: Disturbance::default(),
            tolerate: k.saturating_sub(1),
            refresh: None,
            slots: SlotOptions::default(),
            resizes: Vec::new(),
            graph: None,
            claims: Claims::default(),
            audit: Audit::default(),
            warmup: Span::ZERO,
            duration: tenths(10_000),
        }
    }

    /// Whether a client of that process ever asks.
    pub(crate) fn asks(&self, node: NodeId) -> bool {
        node.0 < self.load.requesters && (self.only.is_empty() || self.only.contains(&node))
    }

    /// Whether there is a process with a client that never asks.
    pub(crate) fn everybody_asks(&self) -> bool {
        self.load.requesters >= self.nodes && self.only.is_empty()
    }

    /// Whether messages and what processes show are checked in this run.
    pub(crate) fn audited(&self) -> bool {
        match self.audit {
            Audit::Small => self.nodes <= AUDITED,
            Audit::Always => true,
            Audit::Never => false,
        }
    }

    /// The detector that runs: none if an oracle takes its place.
    pub(crate) fn own_detector(&self) -> Option<Detector> {
        let replaced =
            self.detection.oracle.is_some() || self.claims.detector == Some(Detector::Log);
        self.claims.detector.filter(|_| !replaced)
    }

    /// Within what time everybody is told of a loss, where no detector finds it.
    pub(crate) fn notification_bound(&self) -> Option<Span> {
        let log = (self.claims.detector == Some(Detector::Log)).then_some(self.detection.interval);
        self.detection.oracle.or(log)
    }

    /// Within what time a crash is known to every live process, as the detector or the oracle
    /// claims, if so many crash; none if nothing is claimed.
    pub(crate) fn known_within(&self, crashes: u32) -> Option<Span> {
        let Detection { interval, timeout, .. } = self.detection;
        // A round that is not over when the next is due takes its place as well; a timeout ends an
        // instant after its time.
        let rounds_of = |length: Span| interval.times(length.0.div_ceil(interval.0).max(1));
        let instant = Span(1);
        match self.own_detector() {
            None => self.notification_bound(),
            Some(Detector::AllToAll) => {
                let look = rounds_of(timeout + instant);
                Some(look.times(2) + timeout + instant + self.cost.longest_delay()?)
            }
            // In the longest round (Hi-ADSD's) each cluster's test and each dead process takes a
            // timeout, one after the other.
            Some(Detector::Sparse) => {
                let log = u64::from(self.nodes.next_power_of_two().ilog2());
                let round = (timeout + instant).times(log + u64::from(crashes));
                Some(rounds_of(round).times(log * log + 1))
            }
            Some(Detector::Log) => None,
        }
    }

    fn times(&self) -> impl Iterator<Item = Span> {
        let (load, cost, detection) = (&self.load, &self.cost, &self.detection);
        let crashes =
            self.crashes.iter().flat_map(|crash| [crash.at, crash.back.unwrap_or_default()]);
        let strikes = self.transient.strikes.iter().map(|strike| strike.1);
        [
            load.hold,
            load.think.typical(),
            self.down_for,
            self.refresh.unwrap_or_default(),
            load.first_request,
            cost.send,
            cost.latency.typical(),
            cost.receive,
            self.duration,
        ]
        .into_iter()
        .chain([detection.interval, detection.timeout, detection.oracle.unwrap_or_default()])
        .chain(crashes)
        .chain(strikes)
        .chain(self.disturbance.times())
        .chain([load.patience, self.slots.ask_again.unwrap_or_default()])
        .chain(self.resizes.iter().map(|resize| resize.0))
    }

    /// Checks all that does not depend on the protocol's types or on the machine.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.nodes < 2 {
            return Err(ConfigError::TooFewNodes(self.nodes));
        }
        if self.k == 0 {
            return Err(ConfigError::NoPermits);
        }
        if self.k >= self.nodes && !self.claims.slots {
            return Err(ConfigError::NothingExcluded { k: self.k, nodes: self.nodes });
        }
        if let Some(&node) = self.only.iter().find(|node| node.0 >= self.nodes) {
            return Err(ConfigError::RequesterIsNobody { node, nodes: self.nodes });
        }
        let requesters = self.load.requesters;
        if requesters == 0 || requesters > self.nodes {
            return Err(ConfigError::Requesters { requesters, nodes: self.nodes });
        }
        if self.warmup > Span::ZERO && self.warmup >= self.duration {
            return Err(ConfigError::OnlyWarmUp { warmup: self.warmup, duration: self.duration });
        }
        let pause = if self.load.ask_inside {
            Span(self.load.hold.0 / 2)
        } else {
            self.load.think.typical()
        };
        if self.load.hold + pause == Span::ZERO || self.load.ask_inside && pause == Span::ZERO {
            return Err(ConfigError::StandsStill);
        }
        // What heals repeats itself so often, if it is not told otherwise.
        if self.claims.heals && self.refresh.unwrap_or(self.detection.interval) == Span::ZERO {
            return Err(ConfigError::NoInterval);
        }
        if let Some(longest) = self.times().max().filter(|&longest| longest > LONGEST) {
            return Err(ConfigError::TooLong(longest));
        }
        self.check_claims()?;
        self.disturbance.check(self)?;
        self.check_shape()?;
        if self.own_detector().is_some() {
            let longest = self.cost.longest_delay().ok_or(ConfigError::Unbounded)?;
            if self.detection.timeout < longest.times(2) {
                return Err(ConfigError::TimeoutTooShort {
                    timeout: self.detection.timeout,
                    longest,
                });
            }
            if self.detection.interval == Span::ZERO {
                return Err(ConfigError::NoInterval);
            }
        }
        Ok(())
    }

    /// What is asked for is what the protocol claims.
    fn check_claims(&self) -> Result<(), ConfigError> {
        let claims = &self.claims;
        if self.detection.oracle.is_some() && claims.detector.is_none() {
            return Err(ConfigError::NoDetector);
        }
        let back =
            self.random_recoveries > 0 || self.crashes.iter().any(|crash| crash.back.is_some());
        if back && !claims.recovers && !claims.returns {
            return Err(ConfigError::NoRecovery);
        }
        self.check_slots()?;
        if self.transient.any() && !claims.heals {
            return Err(ConfigError::NoHealing);
        }
        if self.load.ask_inside && !claims.asks_inside {
            return Err(ConfigError::OneAtATime);
        }
        if self.tolerate >= self.k {
            return Err(ConfigError::Tolerate { tolerate: self.tolerate, k: self.k });
        }
        Ok(())
    }

    /// Weights, clients and resizes are for numbered slots, and can be meant.
    fn check_slots(&self) -> Result<(), ConfigError> {
        let (claims, load) = (&self.claims, &self.load);
        if claims.returns && self.down == Down::Kept {
            return Err(ConfigError::NothingKept);
        }
        if load.clients == 0 || load.weight_max == 0 {
            return Err(ConfigError::NoClients);
        }
        if !claims.slots && load.needs_slots() {
            return Err(ConfigError::NoSlots("--clients, --weight-max and --withdraw"));
        }
        if !claims.slots && !self.resizes.is_empty() {
            return Err(ConfigError::NoSlots("--resize"));
        }
        let duration = self.duration;
        if let Some(&(at, k)) = self.resizes.iter().find(|(at, k)| *k == 0 || *at > duration) {
            return Err(ConfigError::Resize { k, at, duration });
        }
        let most =
            self.resizes.iter().map(|resize| resize.1).chain([self.k]).max().unwrap_or_default();
        let most = self.most_at_once(most);
        if load.weight_max > most {
            return Err(ConfigError::TooHeavy { weight: load.weight_max, most });
        }
        Ok(())
    }

    /// Grid and graph have as many processes as the run.
    fn check_shape(&self) -> Result<(), ConfigError> {
        if let Latency::Grid(grid) = self.cost.latency
            && grid.nodes() != Some(self.nodes)
        {
            let (clusters, size) = (grid.clusters, grid.size);
            return Err(ConfigError::GridSize { clusters, size, nodes: self.nodes });
        }
        if let Some(graph) = self.graph.as_ref().filter(|graph| graph.nodes() != self.nodes) {
            return Err(ConfigError::GraphSize { graph: graph.nodes(), nodes: self.nodes });
        }
        Ok(())
    }

    /// How many of k units can be granted at once: with lanes, those of one lane.
    pub(crate) fn most_at_once(&self, k: u32) -> u32 {
        k.div_ceil(self.slots.lanes.max(1))
    }

    /// Whether a new incarnation begins with what others tell it, so that somebody must know.
    pub(crate) fn somebody_must_stay(&self) -> bool {
        self.claims.returns && self.slots.membership == MembershipSource::Join
    }

    pub(crate) fn setup(&self, me: NodeId) -> Setup {
        Setup {
            me,
            nodes: self.nodes,
            k: self.k,
            detect_interval: self.detection.interval,
            detect_timeout: self.detection.timeout,
            printed: self.printed,
            tolerate: self.tolerate,
            refresh: self.refresh,
            graph: self.graph.clone(),
            incarnation: Incarnation::default(),
            slots: self.slots,
            initial_members: None,
        }
    }
}
