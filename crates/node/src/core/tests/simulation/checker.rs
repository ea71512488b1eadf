//! Who believes to hold what, in real time; and that fences of a slot grow.

use std::collections::{BTreeMap, BTreeSet};

/// The checker. It sees real time.
pub(in crate::core::tests) struct Checker {
    k: u32,
    /// Who believes to have each slot.
    believed: BTreeMap<u32, usize>,
    fences: BTreeMap<u32, u128>,
    pub(in crate::core::tests) grants: u64,
    pub(in crate::core::tests) lost: u64,
    pub(in crate::core::tests) refused: u64,
    pub(in crate::core::tests) violations: Vec<String>,
    /// Permits of the log that were told: the same may be told again.
    pub(in crate::core::tests) told_permits: BTreeSet<u64>,
    /// Why permits of the log were lost.
    pub(in crate::core::tests) lost_held: Vec<String>,
}

impl Checker {
    pub(super) fn new(k: u32) -> Self {
        Self {
            k,
            believed: BTreeMap::new(),
            fences: BTreeMap::new(),
            grants: 0,
            lost: 0,
            refused: 0,
            violations: Vec::new(),
            told_permits: BTreeSet::new(),
            lost_held: Vec::new(),
        }
    }

    /// A node has decided: the fences of each slot grow (SLOTS P2).
    pub(super) fn decided(&mut self, now: u64, slots: &[u32], fence: u128) {
        for slot in slots {
            let before = self.fences.insert(*slot, fence);
            if before.is_some_and(|before| before >= fence) {
                self.violations.push(format!(
                    "at {now}: slot {slot} has fence {fence:032x} after {before:032x?}"
                ));
            }
        }
    }

    /// Somebody believes from now on.
    pub(super) fn enters(&mut self, now: u64, actor: usize, slots: &[u32]) {
        self.grants += 1;
        for slot in slots {
            if *slot >= self.k {
                self.violations
                    .push(format!("at {now}: client {actor} has slot {slot} of {}", self.k));
            }
            if let Some(other) = self.believed.insert(*slot, actor) {
                self.violations.push(format!(
                    "at {now}: slot {slot} is believed held by clients {other} and {actor}"
                ));
            }
        }
    }

    /// And no longer.
    pub(super) fn leaves(&mut self, actor: usize, slots: &[u32]) {
        for slot in slots {
            if self.believed.get(slot) == Some(&actor) {
                self.believed.remove(slot);
            }
        }
    }
}
