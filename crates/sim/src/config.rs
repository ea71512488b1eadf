//! What is run: everything that a run depends on, checked before it starts.

use kgate_core::{NodeId, Printed, Setup, Span};

use crate::cost::Cost;
use crate::faults::Crash;
use crate::load::Load;

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
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// n.
    pub nodes: u32,
    /// k.
    pub permits: u32,
    /// What everything random comes from.
    pub seed: u64,
    /// Published defects to run as printed.
    pub printed: Printed,
    /// What a message costs.
    pub cost: Cost,
    /// Who asks.
    pub load: Load,
    /// How crashes are learnt of.
    pub detection: Detection,
    /// Crashes by name.
    pub crashes: Vec<Crash>,
    /// More crashes, drawn from the seed.
    pub random_crashes: u32,
    /// How many crashes the protocol claims to bear; beyond, nobody is promised an answer.
    pub bears: u32,
    /// What the protocol's own detector is like; none if it listens to no detector.
    pub detector: Option<Detector>,
    /// How long it runs. What is asked by then is given time to be answered, but no longer measured.
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
        "k = {permits} with n = {nodes}: each process holds one unit, so nothing is excluded; choose k below n"
    )]
    NothingExcluded {
        /// k.
        permits: u32,
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
    /// Two crashes of one process.
    #[error("{node} is to crash twice: a crash is permanent, name it once")]
    CrashTwice {
        /// Who.
        node: NodeId,
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
    /// The detector that runs: none if an oracle takes its place.
    pub(crate) fn own_detector(&self) -> Option<Detector> {
        if self.detection.oracle.is_some() { None } else { self.detector }
    }

    fn times(&self) -> impl Iterator<Item = Span> {
        let (load, cost, detection) = (&self.load, &self.cost, &self.detection);
        let crashes = self.crashes.iter().map(|crash| crash.at);
        [
            load.hold,
            load.think,
            load.first_request,
            cost.send,
            cost.latency.typical(),
            cost.receive,
            self.duration,
        ]
        .into_iter()
        .chain([detection.interval, detection.timeout, detection.oracle.unwrap_or_default()])
        .chain(crashes)
    }

    /// Checks all that does not depend on the protocol's types or on the machine.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.nodes < 2 {
            return Err(ConfigError::TooFewNodes(self.nodes));
        }
        if self.permits == 0 {
            return Err(ConfigError::NoPermits);
        }
        if self.permits >= self.nodes {
            return Err(ConfigError::NothingExcluded { permits: self.permits, nodes: self.nodes });
        }
        let requesters = self.load.requesters;
        if requesters == 0 || requesters > self.nodes {
            return Err(ConfigError::Requesters { requesters, nodes: self.nodes });
        }
        if self.load.hold + self.load.think == Span::ZERO {
            return Err(ConfigError::StandsStill);
        }
        if let Some(longest) = self.times().max().filter(|&longest| longest > LONGEST) {
            return Err(ConfigError::TooLong(longest));
        }
        if self.detection.oracle.is_some() && self.detector.is_none() {
            return Err(ConfigError::NoDetector);
        }
        if self.own_detector().is_some() {
            let longest = self.cost.longest_delay().ok_or(ConfigError::Unbounded)?;
            if self.detection.timeout < longest.times(2) {
                return Err(ConfigError::TimeoutTooShort { timeout: self.detection.timeout, longest });
            }
            if self.detection.interval == Span::ZERO {
                return Err(ConfigError::NoInterval);
            }
        }
        Ok(())
    }

    pub(crate) fn setup(&self, me: NodeId) -> Setup {
        Setup {
            me,
            nodes: self.nodes,
            permits: self.permits,
            detect_interval: self.detection.interval,
            detect_timeout: self.detection.timeout,
            printed: self.printed,
            tolerate: self.permits.saturating_sub(1),
            refresh: None,
            graph: None,
        }
    }
}
