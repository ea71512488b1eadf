//! Why a step of a script is refused.

use kgate_core::NodeId;
use kgate_spec::Step;

use crate::state::StateError;

/// A step that is not enabled at its position in the script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not possible here: {reason}. Possible steps: {}", possible.join("; "))]
pub struct ImpossibleStep {
    /// The step's index, starting at 0.
    pub step: usize,
    /// The step's text.
    pub text: String,
    /// Why the step is not possible.
    pub reason: StepError,
    /// The steps that are possible instead.
    pub possible: Vec<String>,
}

/// Why a step is not possible. The run is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The process does not exist.
    #[error("there is no {node}; the processes are p0 .. p{}", nodes - 1)]
    UnknownNode {
        /// The process named by the step.
        node: NodeId,
        /// The number of processes.
        nodes: u32,
    },
    /// The process is down.
    #[error("{0} is down")]
    IsDown(NodeId),
    /// The process is up, so it cannot restart.
    #[error("{0} is up")]
    IsUp(NodeId),
    /// The protocol does not support restarts.
    #[error("processes of this protocol do not restart after a crash")]
    NoRestart,
    /// The process crashed permanently.
    #[error("{0} crashed permanently")]
    CrashedForGood(NodeId),
    /// The process did not crash permanently, so no log entry announces it.
    #[error("{0} has not crashed permanently")]
    NotCrashedForGood(NodeId),
    /// The weight of a request is 0 or exceeds what one request can be granted.
    #[error("a request of {node} has weight 1 .. {most}, not {weight}")]
    Weight {
        /// The requesting process.
        node: NodeId,
        /// The weight asked for.
        weight: u32,
        /// The largest weight.
        most: u32,
    },
    /// The process has a waiting request, and the protocol takes one at a time.
    #[error("a client of {0} is already waiting")]
    AlreadyWaiting(NodeId),
    /// The client holds a grant, and the protocol takes no request meanwhile.
    #[error("the client of {0} is already inside")]
    AlreadyInside(NodeId),
    /// No client of the process waits.
    #[error("no client of {0} is waiting")]
    NotWaiting(NodeId),
    /// Fewer clients of the process are inside than the step names.
    #[error("{node} has no grant number {which}")]
    NotInside {
        /// The process.
        node: NodeId,
        /// Which of its grants, starting at 1.
        which: usize,
    },
    /// Fewer messages of that kind are in flight than the step names.
    #[error("no `{kind}` number {which} is in flight from {from} to {to}")]
    NoSuchMessage {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// The kind of message.
        kind: String,
        /// Which of them, starting at 1.
        which: usize,
    },
    /// Channels are FIFO, and an earlier message is in flight.
    #[error("channels are FIFO: an earlier message from {from} to {to} arrives first")]
    OutOfOrder {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
    },
    /// The receiver is down, and messages are kept until it restarts.
    #[error("{0} is down: its messages are kept until it restarts")]
    KeptWhileDown(NodeId),
    /// The timer is not armed.
    #[error("timer {timer} of {node} is not armed")]
    NoSuchTimer {
        /// The process.
        node: NodeId,
        /// The timer's name.
        timer: String,
    },
    /// The protocol takes no crash notifications.
    #[error("{protocol} has no failure detector: it is not notified of crashes")]
    NoDetector {
        /// The protocol's name.
        protocol: String,
    },
    /// The log reports another crash first.
    #[error("the log has one order: {node} is notified of the crash of {first} first")]
    CrashOutOfOrder {
        /// The process to be notified.
        node: NodeId,
        /// The process whose crash is reported first.
        first: NodeId,
    },
    /// The process was already notified of that crash.
    #[error("{node} was already notified of the crash of {of}")]
    AlreadyNotified {
        /// The process to be notified.
        node: NodeId,
        /// The crashed process.
        of: NodeId,
    },
    /// The process has been notified of every entry of the log.
    #[error("{0} has read the whole log")]
    LogExhausted(NodeId),
    /// The log has another entry first.
    #[error("the log has one order: `{first}` comes first")]
    LogOutOfOrder {
        /// The step for the next entry.
        first: Step,
    },
    /// With [`MembershipSource::Join`](kgate_core::MembershipSource) no process is notified of
    /// returns.
    #[error("with membership=join no process is notified of returns: a restarted process joins")]
    NoReturnNotices,
    /// No notification of such a crash is pending.
    #[error("no such crash notification is pending for {0}")]
    NoSuchNotice(NodeId),
    /// k would become 0.
    #[error("k must be at least 1")]
    ZeroSlots,
    /// No process is enabled (state model).
    #[error("no process is enabled")]
    NobodyEnabled,
    /// A process moves twice in one step (state model).
    #[error("{0} is named twice: a process moves once per step")]
    MovesTwice(NodeId),
    /// The process is not enabled, or not for that action (state model).
    #[error("{0} is not enabled for that action")]
    NotEnabled(NodeId),
    /// The process has several enabled actions, and the step names none (state model).
    #[error("{node} has several enabled actions: write {node}({first}) or {node}({second})")]
    Ambiguous {
        /// The process.
        node: NodeId,
        /// One enabled action.
        first: &'static str,
        /// Another enabled action.
        second: &'static str,
    },
}

/// Why a script of the state model cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] StateError),
    /// The text is not a state in the domain of the process.
    #[error("`{text}` is not a state of {node}: write for example {example}")]
    State {
        /// The process.
        node: NodeId,
        /// The text.
        text: String,
        /// A state of the process.
        example: String,
    },
}
