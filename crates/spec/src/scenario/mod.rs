//! A scenario: a small text file that prescribes every step of a run, with the effects of each.
//!
//! `docs/reference/scenario-format.md` describes the format for those who write one. Comment lines
//! at the top explain the scenario; header lines say what is run and what is expected; then, after
//! an empty line, come the steps in the words of [`schedule`](crate::schedule), one a line, and
//! indented below each what it led to. `parse.rs` reads such a file, `print.rs` writes it,
//! `lines.rs` tells in words what a trace says, `options.rs` has the line for numbered slots. The
//! printed form is the only one that the checks accept: a file is the same after reading and
//! printing it.

mod effects;
mod options;
mod parse;
mod print;

use std::fmt;

use kgate_core::{NodeId, SlotOptions};
use serde::Serialize;

use crate::convergence::{AT_MOST_L_TOKENS, SOMEBODY_CAN_MOVE};
use crate::history::NOTHING_FROM_NOTHING;
use crate::schedule::Step;
use crate::{
    Accuracy, AtMostK, Completeness, Convergence, EntryOrder, EveryoneServed, GRANTED_IN_TIME,
    NOT_REFUSED, NoDeadlock, NoResidue, NotLeftLying, OneToken, Permissions, SlotFences,
    SometimesK, StrictOrder, WithinK,
};

pub use effects::{Next, effects, final_effects};
pub use parse::ScenarioError;

/// The largest number of processes of a scenario: people must be able to read it, and it is kept in
/// memory.
pub const MOST_PROCESSES: u32 = 1000;

/// The properties that a scenario can expect to be violated: those that its checkers can report,
/// over messages and in the state model.
pub const PROPERTIES: [&str; 20] = [
    AtMostK::NAME,
    SometimesK::NAME,
    SlotFences::NAME,
    EveryoneServed::NAME,
    NoDeadlock::NAME,
    GRANTED_IN_TIME,
    NOT_REFUSED,
    Accuracy::NAME,
    Completeness::NAME,
    OneToken::NAME,
    Permissions::NAME,
    EntryOrder::NAME,
    Convergence::NAME,
    AT_MOST_L_TOKENS,
    SOMEBODY_CAN_MOVE,
    StrictOrder::NAME,
    WithinK::NAME,
    NoResidue::NAME,
    NotLeftLying::NAME,
    NOTHING_FROM_NOTHING,
];

/// A scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The description and its source, line by line.
    pub description: Vec<String>,
    /// The protocol's name.
    pub protocol: String,
    /// Number of processes, n.
    pub processes: u32,
    /// Number of slots.
    pub k: u32,
    /// Messages, or guarded commands.
    pub model: Model,
    /// The network: the name of a shape, or edges such as `0-1 1-2`.
    pub graph: Option<String>,
    /// The network's root, if not p0.
    pub root: Option<NodeId>,
    /// Which message of a channel may arrive.
    pub channels: Channels,
    /// What happens to messages for a process that is down.
    pub down: Down,
    /// Number of crashes that the protocol is configured to tolerate.
    pub tolerate: Option<u32>,
    /// Whether idle processes have a refresh timer.
    pub refresh: bool,
    /// Options of numbered slots.
    pub options: SlotOptions,
    /// The published defect that is switched on.
    pub as_printed: Option<String>,
    /// In the state model: the processes that do not start clean, with their states.
    pub states: Vec<(NodeId, String)>,
    /// What happens after the last step.
    pub then: Then,
    /// The expected outcome.
    pub expect: Expect,
    /// Whether the same steps with the defect repaired must be correct.
    pub repaired: bool,
    /// The effects of the start, before the first step.
    pub start: Vec<String>,
    /// The steps.
    pub steps: Vec<Entry>,
    /// Comment lines before the end.
    pub end_notes: Vec<String>,
    /// The effects after the last step.
    pub end: Vec<String>,
}

/// A step with its effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The line number in the file.
    pub line: usize,
    /// Comment lines before the step.
    pub notes: Vec<String>,
    /// The step.
    pub act: Act,
    /// The effects of the step.
    pub effects: Vec<String>,
}

/// What happens in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Over messages.
    Step(Step),
    /// In the state model.
    Move(Movers),
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => step.fmt(f),
            Self::Move(movers) => movers.fmt(f),
        }
    }
}

/// The processes that the daemon chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Movers {
    /// All enabled processes.
    All,
    /// These, each by its one enabled action or by the one that is named.
    These(Vec<(NodeId, Option<String>)>),
}

impl fmt::Display for Movers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::These(movers) = self else { return f.write_str("all move") };
        for (node, action) in movers {
            match action {
                Some(action) => write!(f, "{node}({action}) ")?,
                None => write!(f, "{node} ")?,
            }
        }
        f.write_str(if movers.len() == 1 { "moves" } else { "move" })
    }
}

/// Messages, or guarded commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Processes exchange messages.
    #[default]
    Messages,
    /// A process reads its neighbours' states.
    State,
}

/// The order in which the messages of one channel arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Channels {
    /// The oldest message arrives first.
    #[default]
    Fifo,
    /// Any message may arrive next.
    Unordered,
}

/// What happens to a message that reaches a process which is down and will come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Down {
    /// The message is lost.
    #[default]
    Lost,
    /// The message is kept and delivered after the restart.
    Kept,
}

/// What happens after the last step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// The run continues until it is quiescent, so that liveness can be checked.
    #[default]
    GoOn,
    /// The run stops: only safety up to the last step is checked.
    Stop,
}

/// The expected outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// No checker reports a violation.
    #[default]
    Correct,
    /// A checker reports a violation of this property; others may be violated too.
    Violated(String),
}

#[cfg(test)]
mod tests;
