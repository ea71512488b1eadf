//! The time of a request, in an order that all processes agree on.

use core::fmt;

use kgate_core::{Fence, NodeId, Stamp as Shown, ViewId};
use serde::{Deserialize, Serialize};

/// A logical clock that continues above all earlier values in every view: the view first, then the
/// ticks within it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Clock {
    /// The view of the last tick.
    pub view: ViewId,
    /// The number of ticks within the view.
    pub ticks: u64,
}

impl Clock {
    /// The greatest value of a peer's clock: it leaves room for 2^32 requests of this process
    /// before a fence overflows.
    pub const LAST_TICK: u64 = Fence::TICKS - (1 << 32);

    /// The next tick.
    pub(super) fn tick(&mut self) {
        self.ticks += 1;
        assert!(self.ticks < Fence::TICKS, "2^32 requests above what any peer may say");
    }
}

/// The clock of a request and its process; ties go to the smaller id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The clock of the process at its request.
    pub clock: Clock,
    /// The process.
    pub node: NodeId,
}

impl Stamp {
    /// The fence of a grant by this request after `count` re-uses.
    pub(super) fn fence(self, count: u16) -> Fence {
        Fence::of_slot(self.clock.view, self.clock.ticks, self.node, count)
    }

    /// The stamp for checkers and screens.
    pub(super) fn shown(self) -> Shown {
        Shown::in_view(self.clock.view, self.clock.ticks, self.node)
    }
}

/// `7`, and in view 2 `2/7`.
impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.view > ViewId::default() {
            write!(f, "{}/", self.view.0)?;
        }
        write!(f, "{}", self.ticks)
    }
}

/// `7@p0`, and in view 2 `2/7@p0`.
impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}", self.clock, self.node)
    }
}
