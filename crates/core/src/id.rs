//! Newtypes for everything that is counted or numbered, so that the compiler keeps them apart.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::Stamp;

/// A process, numbered 0 .. n-1 as in the papers (`p_i`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The id as an index into a table with one row per process.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// An incarnation of a node: 0 at first, greater after each restart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Incarnation(pub u32);

/// A view: the membership between two changes of it. Numbers grow with each view and are the same
/// at every process.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ViewId(pub u32);

impl ViewId {
    /// The incarnation of the member that this view adds, where an agreed log numbers the
    /// incarnations of all nodes together. A node that lost its disk counts its own starts from 1
    /// again; the number of a view is never used twice.
    pub const fn incarnation(self) -> Incarnation {
        Incarnation(self.0)
    }
}

/// A grant of one process; greater for each later grant of the same process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(pub u64);

/// A fencing token: grows with every grant of a slot. The guarded resource refuses every token that
/// is smaller than one it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u128);

/// The fence of a numbered slot, most significant part first: the view in which its request was
/// stamped (32 bits), the logical clock within that view (56), the node that requested it (24), and
/// the number of times that the grant has been re-used since (16).
impl Fence {
    /// Number of nodes that fit into a fence.
    pub const NODES: u32 = 1 << 24;
    /// Number of ticks of a clock within a view that fit into a fence.
    pub const TICKS: u64 = 1 << 56;

    /// The fence of a grant by the request with this stamp, after `count` re-uses.
    pub fn of_slot(view: ViewId, ticks: u64, node: NodeId, count: u16) -> Self {
        debug_assert!(ticks < Self::TICKS && node.0 < Self::NODES, "checked where they are made");
        Self(
            u128::from(view.0) << 96
                | u128::from(ticks) << 40
                | u128::from(node.0) << 16
                | u128::from(count),
        )
    }

    /// The view in which the request was stamped.
    pub fn view(self) -> ViewId {
        ViewId(u32::try_from(self.0 >> 96).expect("32 bits"))
    }

    /// The logical clock within the view.
    pub fn ticks(self) -> u64 {
        u64::try_from(self.0 >> 40 & u128::from(Self::TICKS - 1)).expect("56 bits")
    }

    /// The number of times that the grant has been re-used: handed over at its node, or taken out
    /// of the cache. 0 for a decision.
    pub fn count(self) -> u16 {
        u16::try_from(self.0 & 0xffff).expect("16 bits")
    }

    /// The stamp of the request, as [`Stamp::in_view`] makes it.
    pub fn stamp(self) -> Stamp {
        let part = |at: u32, bits: u32| {
            u64::try_from(self.0 >> at & ((1 << bits) - 1)).expect("at most 56 bits")
        };
        let [view, node] =
            [part(96, 32), part(16, 24)].map(|part| u32::try_from(part).expect("at most 32 bits"));
        Stamp::in_view(ViewId(view), part(40, 56), NodeId(node))
    }
}
