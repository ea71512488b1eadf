//! After k shrinks, no slot at or above k is granted again: a process that knows the new k grants
//! and caches no slot beyond it.
//!
//! Source: `slots`, resizing. A grant with such a slot that exists when the process learns the new
//! k stays valid until it is released.

use kgate_core::{NodeId, Time};

use crate::Violation;

/// Checks single grants; stateless.
#[derive(Clone, Copy, Debug)]
pub struct WithinK;

impl WithinK {
    /// The property's name.
    pub const NAME: &'static str = "no slot beyond k is taken";

    /// The first granted slot beyond `known`, the k that the granting process knows.
    pub fn beyond(slots: &[u32], known: u32) -> Option<u32> {
        slots.iter().copied().find(|slot| *slot >= known)
    }

    /// The verdict on a grant of `node`.
    pub fn verdict(slots: &[u32], known: u32, node: NodeId, now: Time) -> Option<Violation> {
        let slot = Self::beyond(slots, known)?;
        let text = format!("{node} was granted slot {slot} although it knows that k is {known}");
        Some(Violation { property: Self::NAME, at_ns: now, nodes: vec![node], text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planted bug: slot 2 is granted by a process that knows that k is 2.
    #[test]
    fn catches_a_slot_beyond_k() {
        assert_eq!(WithinK::beyond(&[0, 2], 2), Some(2));
        assert_eq!(WithinK::beyond(&[0, 2], 3), None);
    }
}
