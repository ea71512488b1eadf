//! Why an input was not taken.

use crate::NodeId;

/// An input that was refused. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// One request at a time: release or withdraw first.
    #[error("a request is already waiting or holding: release or withdraw it first")]
    Busy,
    /// Withdraw without a waiting request, or release without that grant.
    #[error("nothing to withdraw or release: no such request or grant")]
    NoSuchRequest,
    /// The weight is zero or more than this protocol can ever grant at once.
    #[error("cannot grant {weight} units at once, at most {most}")]
    Weight {
        /// What was asked for.
        weight: u32,
        /// The most that can be granted.
        most: u32,
    },
    /// This protocol has no answer to this kind of input.
    #[error("{protocol} does not support {what}")]
    Unsupported {
        /// The protocol's name.
        protocol: &'static str,
        /// The kind of input.
        what: &'static str,
    },
    /// A message names a process that does not exist, or came from oneself.
    #[error("unknown node: no other process is called {0}")]
    UnknownNode(NodeId),
    /// A message that no correct peer sends.
    #[error("malformed message: {0}")]
    Malformed(&'static str),
}
