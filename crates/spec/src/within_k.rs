//! After a shrink no slot at or above k is taken again: whoever has heard of the new k takes and
//! keeps nothing beyond it.
//!
//! Source: `slots`, resizing. Who was inside with such a slot when it heard of the new k stays
//! until it comes out.

use kgate_core::{NodeId, Time};

use crate::Violation;

/// Looks at one grant; it needs no memory.
#[derive(Clone, Copy, Debug)]
pub struct WithinK;

impl WithinK {
    /// The property's name.
    pub const NAME: &'static str = "no slot beyond k is taken";

    /// The first slot that is granted though the granting process knows of no more than `known`.
    pub fn beyond(slots: &[u32], known: u32) -> Option<u32> {
        slots.iter().copied().find(|slot| *slot >= known)
    }

    /// The verdict on a grant of `node`.
    pub fn verdict(slots: &[u32], known: u32, node: NodeId, now: Time) -> Option<Violation> {
        let slot = Self::beyond(slots, known)?;
        let text = format!("{node} was granted slot {slot} and knows that k is {known}");
        Some(Violation { property: Self::NAME, at_ns: now, nodes: vec![node], text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The planted bug: slot 2 is granted by who knows that k is 2.
    #[test]
    fn catches_a_slot_that_is_no_more() {
        assert_eq!(WithinK::beyond(&[0, 2], 2), Some(2));
        assert_eq!(WithinK::beyond(&[0, 2], 3), None);
    }
}
