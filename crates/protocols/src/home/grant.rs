//! The name of a grant, from which its fence is made.

use core::fmt;

use kgate_core::{Fence, NodeId, Term, ViewId};
use serde::{Deserialize, Serialize};

use super::defects::H_FENCE;

/// A grant: greater for each later one of the same slot, whichever home gave it. Between claims to
/// a slot the greater grant wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The term of the home that gave it.
    pub term: Term,
    /// Its number in that term.
    pub number: u64,
    /// The attempt of its client by which it came to the node that lists it: 0 for the node that it
    /// was granted to. No part of the fence, which an adoption leaves as it is.
    pub attempt: u32,
}

impl Grant {
    /// Whether both are one grant, at whatever node.
    pub(super) fn is_same(self, other: Self) -> bool {
        (self.term, self.number) == (other.term, other.number)
    }

    /// The fence of its slots after `count` re-uses.
    pub(super) fn fence(self, count: u16, defects: kgate_core::Defects) -> Fence {
        let term = if defects.has(H_FENCE) { 0 } else { self.term.0 };
        Fence::of_slot(ViewId(term), self.number, NodeId(0), count)
    }

    /// The grant of a fence, at this attempt; `None` if no grant has such a fence.
    pub(super) fn of_fence(fence: Fence, attempt: u32) -> Option<Self> {
        let grant = Self { term: Term(fence.view().0), number: fence.ticks(), attempt };
        (fence == Fence::of_slot(fence.view(), grant.number, NodeId(0), fence.count()))
            .then_some(grant)
    }
}

/// `term/number`, and the attempt if there is one.
impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.term.0, self.number)?;
        if self.attempt > 0 { write!(f, " attempt {}", self.attempt) } else { Ok(()) }
    }
}
