//! A permit that goes on at another node.

use alloc::boxed::Box;

use crate::{Fence, Incarnation, LogIndex, NodeId};

/// The request of a client to keep its slots by this node, because the one that let it in is
/// silent.
///
/// From its first request on, the client never speaks of these slots again to a node that it asked
/// or held them by before, and confirms only the latest attempt that it made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Adoption {
    /// The slots, in ascending order.
    pub slots: Box<[u32]>,
    /// Their fence; it stays the same.
    pub fence: Fence,
    /// The number of this attempt: 1 for the first node that the client asks, greater for each
    /// later one.
    pub attempt: u32,
    /// The node by which the client holds the slots.
    pub from: NodeId,
    /// The incarnation of that node.
    pub incarnation: Incarnation,
    /// The last log entry that `from` had applied when it let the client in.
    pub after: LogIndex,
}
