//! Strict order: with numbered slots, requests are decided in the order of their stamps, whatever
//! their weights and k.
//!
//! Source: `slots`, by its Lemma 2 (`docs/internals/slots.md`). So a request for many slots is
//! never overtaken by smaller ones behind it, and no request starves while holders release. A slot
//! that is re-used at its process, handed over or cached, is outside the order; its fence shows
//! that ([`Fence::count`]).

use kgate_core::{Fence, NodeId, Stamp, Time};

use crate::Violation;

/// Checks single decisions; stateless.
#[derive(Clone, Copy, Debug)]
pub struct StrictOrder;

impl StrictOrder {
    /// The property's name.
    pub const NAME: &'static str = "decided in the order of stamps";

    /// The waiting request of a live process, if any, that a grant under this fence overtakes.
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

    /// Planted bug: a later request is decided first, for example because it has a smaller weight.
    /// A re-used slot is outside the order.
    #[test]
    fn catches_an_overtaking_grant() {
        let wide = Stamp::in_view(kgate_core::ViewId(1), 7, NodeId(2));
        let fence =
            |view, ticks, count| Fence::of_slot(kgate_core::ViewId(view), ticks, NodeId(3), count);
        let overtaken = |fence| StrictOrder::overtaken(fence, [wide].into_iter());
        assert_eq!(overtaken(fence(1, 8, 0)), Some(wide));
        assert_eq!(overtaken(fence(1, 7, 0)), Some(wide), "ties go to the smaller id");
        assert_eq!(overtaken(fence(2, 1, 0)), Some(wide), "a later view");
        assert_eq!(overtaken(fence(0, 9, 0)), None);
        assert_eq!(overtaken(fence(1, 6, 0)), None);
        assert_eq!(overtaken(fence(1, 8, 1)), None, "re-used");
    }
}
