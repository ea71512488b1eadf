//! The slots at this process: in use, or cached because no process requests them.

use alloc::vec::Vec;

use kgate_core::{Fence, GrantId};
use serde::{Deserialize, Serialize};

use super::slot_set::SlotSet;
use super::stamp::Stamp;

/// Slots that one request was granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Grant {
    /// The name of the grant for its client; `None` while it is cached.
    pub(super) id: Option<GrantId>,
    pub(super) stamp: Stamp,
    pub(super) slots: SlotSet,
    /// The last part of its fence: greater after each re-use.
    pub(super) count: u16,
    /// The number of hand-overs to the next client of this process while others waited.
    pub(super) passed: u16,
}

impl Grant {
    /// Its fence.
    pub(super) fn fence(&self) -> Fence {
        self.stamp.fence(self.count)
    }

    /// The next client gets it: the same slots under a greater fence.
    pub(super) fn use_again(&mut self, count: u16, id: GrantId) {
        debug_assert!(count > self.count, "a fence grows");
        (self.count, self.id) = (count, Some(id));
    }

    /// Whether it may be re-used, by a process that knows this k.
    pub(super) fn is_lasting(&self, k: u32) -> bool {
        self.count < u16::MAX && self.slots.all_below(k)
    }
}

/// All grants of this process, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Grants(Vec<Grant>);

impl Grants {
    /// The slots of grants older than `stamp`.
    pub(super) fn older_than(&self, stamp: Stamp) -> SlotSet {
        let mut slots = SlotSet::default();
        self.0
            .iter()
            .filter(|grant| grant.stamp < stamp)
            .for_each(|grant| slots.extend(&grant.slots));
        slots
    }

    /// Whether one of them is only cached.
    pub(super) fn keeps_older_than(&self, stamp: Stamp) -> bool {
        self.0.iter().any(|grant| grant.id.is_none() && grant.stamp < stamp)
    }

    /// The number of slots.
    pub(super) fn units(&self) -> u64 {
        self.0.iter().map(|grant| u64::from(grant.slots.len())).sum()
    }

    pub(super) fn push(&mut self, grant: Grant) {
        self.0.push(grant);
    }

    /// The grant with this name.
    pub(super) fn in_use(&mut self, id: GrantId) -> Option<&mut Grant> {
        self.0.iter_mut().find(|grant| grant.id == Some(id))
    }

    /// A cached grant of exactly this weight that may be re-used.
    pub(super) fn kept(&mut self, weight: u32, k: u32) -> Option<&mut Grant> {
        let fits = |grant: &&mut Grant| {
            grant.id.is_none() && grant.slots.len() == weight && grant.is_lasting(k)
        };
        self.0.iter_mut().find(fits)
    }

    /// Whether there is such a grant.
    pub(super) fn keeps(&self, weight: u32, k: u32) -> bool {
        let fits = |grant: &Grant| {
            grant.id.is_none() && grant.slots.len() == weight && grant.is_lasting(k)
        };
        self.0.iter().any(fits)
    }

    /// Removes the grants for which `pick` returns true and returns their number.
    pub(super) fn remove(&mut self, pick: impl Fn(&Grant) -> bool) -> usize {
        let before = self.0.len();
        self.0.retain(|grant| !pick(grant));
        before - self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Grant> + '_ {
        self.0.iter()
    }
}
