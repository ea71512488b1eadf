//! Reasons to refuse an input.

use crate::NodeId;

/// The reason why an input was refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// A second request while one waits or holds, in a protocol with one request at a time.
    #[error("a request is already waiting or holding: release or withdraw it first")]
    Busy,
    /// A withdrawal without a waiting request, or a release of a grant that does not exist.
    #[error("nothing to withdraw or release: no such request or grant")]
    NoSuchRequest,
    /// The weight is 0, or more than this protocol can ever grant at once.
    #[error("cannot grant {weight} slots at once, at most {most}")]
    Weight {
        /// The requested weight.
        weight: u32,
        /// The greatest weight that can be granted.
        most: u32,
    },
    /// A confirmation of an adoption while this node has no lease, or after a later attempt.
    #[error("cannot confirm the adoption now: {0}; ask again while the permit lasts")]
    Unconfirmed(&'static str),
    /// This protocol does not handle this kind of input.
    #[error("{protocol} does not support {what}")]
    Unsupported {
        /// The protocol's name.
        protocol: &'static str,
        /// The kind of input.
        what: &'static str,
    },
    /// A message names a process that does not exist, or comes from the process itself.
    #[error("unknown node: no other process is called {0}")]
    UnknownNode(NodeId),
    /// A message that no correct peer sends.
    #[error("malformed message: {0}")]
    Malformed(&'static str),
}
