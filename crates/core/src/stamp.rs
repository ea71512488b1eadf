//! Lamport's order on requests.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{NodeId, ViewId};

/// A logical clock with its owner: smaller is earlier, and ties go to the smaller node id
/// (vcube-2018 section 7.1: `(C_i, i) < (C_j, j)` iff `C_i < C_j`, or `C_i = C_j` and `i < j`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The owner's logical clock at the request.
    pub clock: u64,
    /// The owner.
    pub node: NodeId,
}

impl Stamp {
    /// The stamp of a request made in this view, for checkers and screens: 24 bits of the view, 40
    /// of the clock within it. A protocol that decides by stamps keeps both parts in full.
    pub fn in_view(view: ViewId, ticks: u64, node: NodeId) -> Self {
        Self { clock: u64::from(view.0) << 40 | ticks.min((1 << 40) - 1), node }
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.clock, self.node)
    }
}
