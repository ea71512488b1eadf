//! A set of numbered slots.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

/// Slots in ascending order, each once. Mostly none or a few.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlotSet(Vec<u32>);

impl SlotSet {
    /// A set of these slots, which should be in order; [`is_sound`](Self::is_sound) checks that.
    pub(crate) fn new(slots: alloc::boxed::Box<[u32]>) -> Self {
        Self(slots.into_vec())
    }

    /// The lowest `count` slots below k that are not in `taken`, which is in order; `None` if there
    /// are too few.
    pub(crate) fn lowest(count: u32, k: u32, taken: &[u32]) -> Option<Self> {
        let mut taken = taken.iter().copied().peekable();
        let mut free = Vec::new();
        for slot in 0..k {
            while taken.next_if(|other| *other < slot).is_some() {}
            if taken.peek() != Some(&slot) {
                free.push(slot);
                if free.len() == count as usize {
                    return Some(Self(free));
                }
            }
        }
        None
    }

    /// Adds the slots of another set.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable();
        self.0.dedup();
    }

    /// Whether every slot of this set is in another one.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().all(|slot| other.0.binary_search(slot).is_ok())
    }

    /// Whether a slot of this set is in another one.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        !other.is_empty() && self.0.iter().any(|slot| other.0.binary_search(slot).is_ok())
    }

    /// Whether the slot is in the set.
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.0.binary_search(&slot).is_ok()
    }

    /// The number of slots below k.
    pub(crate) fn count_below(&self, k: u32) -> usize {
        self.0.partition_point(|slot| *slot < k)
    }

    /// Whether the invariant of [`SlotSet`] holds: a set from a peer is checked before use.
    pub(crate) fn is_sound(&self) -> bool {
        self.0.is_sorted_by(|a, b| a < b)
    }

    /// The number of slots.
    // Slots are numbered by 32 bits, and each is in it once.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set is not empty and contains every slot below k; others may be in it too.
    pub(crate) fn covers(&self, k: u32) -> bool {
        !self.is_empty() && (k == 0 || self.0.get(k as usize - 1) == Some(&(k - 1)))
    }

    /// Whether all slots are below k.
    pub(crate) fn all_below(&self, k: u32) -> bool {
        self.0.last().is_none_or(|last| *last < k)
    }

    /// All slots, in order.
    pub(crate) fn as_slice(&self) -> &[u32] {
        &self.0
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lowest free slots are taken, and only if there are enough below k.
    #[test]
    fn the_lowest_free_ones() {
        let lowest = |count, k, taken: &[u32]| SlotSet::lowest(count, k, taken).map(|set| set.0);
        assert_eq!(lowest(2, 4, &[0, 2]), Some([1, 3].to_vec()));
        assert_eq!(lowest(1, 4, &[0, 1, 2, 3, 7]), None);
        assert_eq!(lowest(2, 3, &[1, 9]), Some([0, 2].to_vec()));
        assert_eq!(lowest(3, 3, &[5]), Some([0, 1, 2].to_vec()));
    }
}
