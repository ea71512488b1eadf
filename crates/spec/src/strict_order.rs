//! Strict order: with numbered slots, requests are decided in the order of their stamps, whatever k
//! and their weights are.
//!
//! Source: `slots`, by its Lemma 2 (`docs/internals/slots.md`). So a request for many units is never
//! overtaken by narrower ones behind it, and nobody starves while holders come out. A slot that is
//! used again at its process, handed over or kept, is outside the order; its fence tells
//! ([`Fence::count`]).

use kgate_core::{Fence, NodeId, Stamp, Time};

use crate::Violation;

/// Looks at one decision; it needs no memory.
#[derive(Clone, Copy, Debug)]
pub struct StrictOrder;

impl StrictOrder {
    /// The property's name.
    pub const NAME: &'static str = "decided in the order of stamps";

    /// Who of those that live and wait is overtaken when a grant is made under that fence.
    pub fn overtaken(granted: Fence, waiting: impl Iterator<Item = Stamp>) -> Option<Stamp> {
        if granted.count() > 0 {
            return None;
        }
        waiting.filter(|other| *other < granted.stamp()).min()
    }

    /// The verdict on a grant of `node`.
    pub fn verdict(
        node: NodeId,
        granted: Fence,
        waiting: impl Iterator<Item = Stamp>,
        now: Time,
    ) -> Option<Violation> {
        let other = Self::overtaken(granted, waiting)?;
        let text = format!("{:?} was granted while {other:?} waits", granted.stamp());
        Some(Violation { property: Self::NAME, at_ns: now, nodes: vec![node, other.node], text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The planted bug: a later request is decided first, for instance because it wants less. A
    /// slot used again is outside the order.
    #[test]
    fn catches_who_overtakes() {
        let wide = Stamp::in_view(kgate_core::ViewId(1), 7, NodeId(2));
        let fence =
            |view, ticks, count| Fence::of_slot(kgate_core::ViewId(view), ticks, NodeId(3), count);
        let overtaken = |fence| StrictOrder::overtaken(fence, [wide].into_iter());
        assert_eq!(overtaken(fence(1, 8, 0)), Some(wide));
        assert_eq!(overtaken(fence(1, 7, 0)), Some(wide), "ties go to the smaller id");
        assert_eq!(overtaken(fence(2, 1, 0)), Some(wide), "a later view");
        assert_eq!(overtaken(fence(0, 9, 0)), None);
        assert_eq!(overtaken(fence(1, 6, 0)), None);
        assert_eq!(overtaken(fence(1, 8, 1)), None, "used again");
    }
}
