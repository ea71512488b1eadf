//! The actions of the log model: everything that can happen next.

use std::fmt;
use std::sync::Arc;

use kgate_core::{GrantId, NodeId, Protocol};
use kgate_spec::Fate;

use crate::explore::{Event, ScheduleStep};
use crate::state::{Hashed, Sent};

/// An action of the log model. Permits are named by their places in the state.
#[derive(Clone, PartialEq, Eq)]
pub enum LogAction<M, T> {
    /// A client requests that many slots.
    Acquire(NodeId, u8),
    /// A waiting client withdraws.
    Withdraw(NodeId),
    /// The client of a permit releases.
    Release(usize, NodeId),
    /// The message at that place of the messages in flight arrives, is lost or is duplicated.
    Message(usize, Fate, (NodeId, NodeId, M)),
    /// The link from a process to another is cut, to the end of the run.
    Cut(NodeId, NodeId),
    /// A timer expires.
    Expire(NodeId, T),
    /// A process applies the next entry of the log.
    Apply(NodeId),
    /// The log grows by an entry.
    Append(Entry),
    /// A process crashes permanently.
    Crash(NodeId),
    /// A process crashes and will start again.
    Down(NodeId),
    /// A process starts again, with nothing.
    Restart(NodeId),
    /// A process loses its lease, or has one again.
    Lease(NodeId, bool),
    /// The client of a permit asks a node to go on there.
    Adopt(usize, NodeId),
    /// The client of a permit goes on at the node that has adopted it.
    Confirm(usize, NodeId),
    /// The client of a permit is gone: it will never release, and its deadline passes.
    Die(usize, NodeId),
    /// The deadline of a client that has asked elsewhere passes.
    Deadline(usize),
    /// The deadline of a session that its client has left passes at its node.
    LeftDeadline(usize, NodeId),
    /// A node lets go of a session whose deadline has passed.
    Lapse(usize, NodeId, GrantId),
    /// The node of a permit proposes that the log hold it.
    Propose(usize, NodeId),
}

/// An entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A process is suspected.
    Suspect(NodeId),
    /// A suspicion is cleared.
    Clear(NodeId),
    /// A process is drained.
    Drain(NodeId),
    /// An incarnation of a process has ended.
    Evict(NodeId),
    /// A process becomes a member, in its next incarnation.
    Add(NodeId),
    /// The next k.
    Resize(u32),
    /// The log holds a permit.
    Hold(usize),
    /// The client of a permit that the log holds has released.
    Free(usize),
}

/// The actions of a protocol.
pub(super) type LogActionOf<P> = LogAction<Sent<P>, <P as Protocol>::Timer>;

impl<M: fmt::Debug, T: fmt::Debug> fmt::Debug for LogAction<Arc<Hashed<M>>, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire(node, 1) => write!(f, "{node} requests"),
            Self::Acquire(node, weight) => write!(f, "{node} requests {weight}"),
            Self::Withdraw(node) => write!(f, "{node} withdraws"),
            Self::Release(permit, node) => write!(f, "{node} releases permit {permit}"),
            Self::Message(_, fate, (from, to, message)) => {
                write!(f, "{from} -> {to}: {:?}", message.value)?;
                f.write_str(match fate {
                    Fate::Arrives => "",
                    Fate::Lost => " lost",
                    Fate::Duplicated => " duplicated",
                })
            }
            Self::Cut(from, to) => write!(f, "the link {from} -> {to} is cut"),
            Self::Expire(node, timer) => write!(f, "{node}: {timer:?} expires"),
            Self::Apply(node) => write!(f, "{node} applies the next entry"),
            Self::Append(entry) => write!(f, "log: {entry}"),
            Self::Crash(node) | Self::Down(node) => write!(f, "{node} crashes"),
            Self::Restart(node) => write!(f, "{node} starts again"),
            Self::Lease(node, true) => write!(f, "{node} has a lease again"),
            Self::Lease(node, false) => write!(f, "{node} loses its lease"),
            Self::Adopt(permit, node) => write!(f, "the client of permit {permit} asks {node}"),
            Self::Confirm(permit, node) => {
                write!(f, "the client of permit {permit} goes on at {node}")
            }
            Self::Die(permit, node) => {
                write!(f, "the client of permit {permit} at {node} dies, its deadline passes")
            }
            Self::Deadline(permit) => {
                write!(f, "the deadline of the client of permit {permit} passes")
            }
            Self::LeftDeadline(permit, node) => {
                write!(f, "{node}: the deadline of permit {permit} passes there")
            }
            Self::Lapse(permit, node, _) => write!(f, "{node} lets permit {permit} lapse"),
            Self::Propose(permit, node) => {
                write!(f, "{node} proposes that the log hold permit {permit}")
            }
        }
    }
}

impl<M: fmt::Debug, T: fmt::Debug> LogAction<Arc<Hashed<M>>, T>
where
    Self: fmt::Debug,
{
    /// The action as a step of a schedule.
    pub(super) fn step(&self) -> ScheduleStep {
        let (words, message) = if let Self::Message(_, fate, (from, to, message)) = self {
            let fate = match fate {
                Fate::Arrives => "",
                Fate::Lost => " lost",
                Fate::Duplicated => " duplicated",
            };
            (format!("{from} -> {to}{fate}"), Some(format!("{:?}", message.value)))
        } else {
            (format!("{self:?}"), None)
        };
        ScheduleStep { step: Event::Words(words), message }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Suspect(node) => write!(f, "{node} is suspected"),
            Self::Clear(node) => write!(f, "{node} is suspected no more"),
            Self::Drain(node) => write!(f, "{node} is drained"),
            Self::Evict(node) => write!(f, "{node} is evicted"),
            Self::Add(node) => write!(f, "{node} is a member again"),
            Self::Resize(k) => write!(f, "k is {k}"),
            Self::Hold(permit) => write!(f, "permit {permit} is held"),
            Self::Free(permit) => write!(f, "permit {permit} is released"),
        }
    }
}
