//! The configuration of a run: everything that a run depends on. It is validated before the run
//! starts.
//!
//! - `claims.rs`: what the protocol claims to support; `agreement.rs`: what an agreed log decides;
//! - `validate.rs` and `error.rs`: which configurations are refused, and why.

mod agreement;
mod claims;
mod error;
mod validate;

use std::sync::Arc;

use kgate_core::{Defects, Graph, Incarnation, MembershipSource, NodeId, Setup, SlotOptions, Span};

use crate::cost::{Cost, ReceiveCost, SendCost};
use crate::disturbance::Disturbance;
use crate::faults::{Crash, Down, Transient};
use crate::latency::Latency;
use crate::load::{Load, Think};

pub use agreement::Agreement;
pub use claims::{Claims, Detector};
pub use error::ConfigError;

/// How processes are notified of crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    /// The interval between two rounds of probes.
    pub interval: Span,
    /// The time after which an unanswered probe counts as a crash.
    pub timeout: Span,
    /// Replaces the detector: every process is notified of a crash within this time.
    pub oracle: Option<Span>,
}

/// In which runs the checkers run that inspect messages and observed states: permissions, entry
/// order, tokens and slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audit {
    /// Runs of at most 64 processes.
    #[default]
    Small,
    /// Every run.
    Always,
    /// No run.
    Never,
}

/// The largest number of processes that is audited by default.
const AUDITED_NODES_MAX: u32 = 64;

/// The configuration of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The number of processes, n.
    pub nodes: u32,
    /// The number of slots, k.
    pub k: u32,
    /// The seed of all randomness.
    pub seed: u64,
    /// The published defects that run as printed.
    pub printed: Defects,
    /// What a message costs.
    pub cost: Cost,
    /// The workload.
    pub load: Load,
    /// The processes that ask, in order, out of the workload's requesters; empty for all of them.
    pub only: Vec<NodeId>,
    /// How processes are notified of crashes.
    pub detection: Detection,
    /// The crashes of named processes.
    pub crashes: Vec<Crash>,
    /// The number of additional permanent crashes, generated from the seed.
    pub random_crashes: u32,
    /// The number of additional crashes with recovery, generated from the seed.
    pub random_recoveries: u32,
    /// The longest downtime of a generated crash with recovery.
    pub down_for: Span,
    /// What happens to messages that reach a process which is down.
    pub down: Down,
    /// The transient faults.
    pub transient: Transient,
    /// The pauses, partitions, loss and duplicates.
    pub disturbance: Disturbance,
    /// The number of crashes that the protocol must tolerate, f, where it needs to know.
    pub tolerate: u32,
    /// The interval at which an idle process sends a message, where the protocol would otherwise
    /// fall silent.
    pub refresh: Option<Span>,
    /// The options of a protocol with numbered slots.
    pub slots: SlotOptions,
    /// The changes of k and their times. Every process is notified of each within the notification
    /// bound.
    pub resizes: Vec<(Span, u32)>,
    /// The number of gates, each with k slots, where the protocol follows an agreed log; each
    /// request is for one of them.
    pub gates: u32,
    /// What the agreed log decides, where the protocol follows it.
    pub agreement: Agreement,
    /// The network, where the protocol uses one.
    pub graph: Option<Arc<Graph>>,
    /// What the protocol claims.
    pub claims: Claims,
    /// In which runs messages and observed states are checked.
    pub audit: Audit,
    /// The length of the warm-up: it is checked, but not measured.
    pub warmup: Span,
    /// The length of the measured run. Requests issued before its end get time to be granted, but
    /// are no longer measured.
    pub duration: Span,
}

/// The longest time that may be configured: sums of a few of them still fit into nanoseconds.
const TIME_MAX: Span = Span(1_000_000_000 * Span::UNIT.0);

impl Config {
    /// The setting of vcube-2018 section 8.1 with LOW load and no faults (t_s = t_r = 0.1, t_t =
    /// 0.8, hold 0.0002, think 0.1, 1000 t.u.), for a protocol that claims nothing.
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
            gates: 1,
            agreement: Agreement::default(),
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

    /// Whether every process asks.
    pub(crate) fn everybody_asks(&self) -> bool {
        self.load.requesters >= self.nodes && self.only.is_empty()
    }

    /// Whether messages and observed states are checked in this run.
    pub(crate) fn audited(&self) -> bool {
        match self.audit {
            Audit::Small => self.nodes <= AUDITED_NODES_MAX,
            Audit::Always => true,
            Audit::Never => false,
        }
    }

    /// Whether no process that decides for others can have to put a refused request back to the
    /// front of its queue, in which weights could pass each other.
    pub(crate) fn has_steady_queue(&self) -> bool {
        let calm = self.gates == 1
            && self.crashes.is_empty()
            && self.random_crashes + self.random_recoveries == 0
            && self.resizes.is_empty()
            && !self.agreement.changes_members();
        self.claims.follows_log && self.audited() && self.load.weight_max > 1 && calm
    }

    /// The detector that runs; none if the oracle or the log replaces it.
    pub(crate) fn own_detector(&self) -> Option<Detector> {
        let replaced =
            self.detection.oracle.is_some() || self.claims.detector == Some(Detector::Log);
        self.claims.detector.filter(|_| !replaced)
    }

    /// The time within which every process is notified of a crash where no detector finds it.
    pub(crate) fn notification_bound(&self) -> Option<Span> {
        let log = (self.claims.detector == Some(Detector::Log)).then_some(self.detection.interval);
        self.detection.oracle.or(log)
    }

    /// The time within which every live process knows of a crash, as the detector or the oracle
    /// claims for that many crashes; none if nothing is claimed.
    pub(crate) fn known_within(&self, crashes: u32) -> Option<Span> {
        let Detection { interval, timeout, .. } = self.detection;
        // A round that is still running when the next one is due replaces the next one; a timeout
        // expires an instant after its time.
        let rounds_of = |length: Span| interval.times(length.0.div_ceil(interval.0).max(1));
        let instant = Span(1);
        match self.own_detector() {
            None => {
                let evicted =
                    if self.claims.follows_log { self.agreement.evict_after } else { Span::ZERO };
                Some(self.notification_bound()? + evicted)
            }
            Some(Detector::AllToAll) => {
                let look = rounds_of(timeout + instant);
                Some(look.times(2) + timeout + instant + self.cost.longest_delay()?)
            }
            // In the longest round (of Hi-ADSD) each cluster's probe and each crashed process takes
            // one timeout, one after the other.
            Some(Detector::Sparse) => {
                let log = u64::from(self.nodes.next_power_of_two().ilog2());
                let round = (timeout + instant).times(log + u64::from(crashes));
                Some(rounds_of(round).times(log * log + 1))
            }
            Some(Detector::Log) => None,
        }
    }

    /// The largest weight that can be granted at once with this k: with lanes, the slots of one
    /// lane.
    pub(crate) fn weight_limit(&self, k: u32) -> u32 {
        k.div_ceil(self.slots.lanes.max(1))
    }

    /// Whether a new incarnation learns the state from processes that stayed up, so that one must.
    pub(crate) fn somebody_must_stay(&self) -> bool {
        self.claims.returns
            && !self.claims.follows_log
            && self.slots.membership == MembershipSource::Join
    }

    /// The number of slots of all gates, which the checkers see as those of one.
    pub(crate) fn all_slots(&self, k: u32) -> u32 {
        k.saturating_mul(self.gates)
    }

    pub(crate) fn setup(&self, me: NodeId) -> Setup {
        Setup {
            me,
            nodes: self.nodes,
            k: self.k,
            detect_interval: self.detection.interval,
            detect_timeout: self.detection.timeout,
            defects: self.printed,
            tolerate: self.tolerate,
            refresh: self.refresh,
            graph: self.graph.clone(),
            incarnation: Incarnation::default(),
            slots: self.slots,
            initial_members: None,
            log: None,
        }
    }
}
