//! The property checker: who believes to hold what, in real time, and that the fences of a slot
//! grow.

use std::collections::{BTreeMap, BTreeSet};

/// The property checker.
pub(in crate::core::tests) struct Checker {
    k: u32,
    /// The client that believes to hold each slot.
    believed: BTreeMap<u32, usize>,
    fences: BTreeMap<u32, u128>,
    pub(in crate::core::tests) grants: u64,
    pub(in crate::core::tests) lost: u64,
    pub(in crate::core::tests) refused: u64,
    pub(in crate::core::tests) violations: Vec<String>,
    /// Durable permits that were granted: the same one may be granted to its holder again.
    pub(in crate::core::tests) durable_grants: BTreeSet<u64>,
    /// The number of entries that the log had decided when a client was gone, by node, session and
    /// number of its request.
    deadlines: BTreeMap<(u32, u64, u64), u64>,
    /// Permits that have lapsed behind a barrier.
    pub(in crate::core::tests) lapses: u64,
    /// Why durable permits were lost.
    pub(in crate::core::tests) durable_losses: Vec<String>,
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
            durable_grants: BTreeSet::new(),
            durable_losses: Vec::new(),
            deadlines: BTreeMap::new(),
            lapses: 0,
        }
    }

    /// The client of a permit is gone, when the log has so many entries.
    pub(super) fn is_gone(&mut self, permit: (u32, u64, u64), entries: u64) {
        self.deadlines.insert(permit, entries);
    }

    /// The permit lapses at a node that has applied so many entries (H13).
    pub(super) fn lapses(&mut self, now: u64, permit: (u32, u64, u64), applied: u64) {
        self.lapses += 1;
        let decided = self.deadlines.remove(&permit);
        if let Some(decided) = decided.filter(|decided| applied < *decided) {
            self.violations.push(format!(
                "at {now}: permit {permit:?} lapses with {applied} entries applied, of {decided} \
                 that the log had decided at the deadline"
            ));
        }
    }

    /// A node granted: the fences of each slot grow (SLOTS P2).
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

    /// A client believes to hold slots from now on.
    pub(super) fn enters(&mut self, now: u64, client: usize, slots: &[u32]) {
        self.grants += 1;
        for slot in slots {
            if *slot >= self.k {
                self.violations
                    .push(format!("at {now}: client {client} has slot {slot} of {}", self.k));
            }
            if let Some(other) = self.believed.insert(*slot, client) {
                self.violations.push(format!(
                    "at {now}: slot {slot} is believed held by clients {other} and {client}"
                ));
            }
        }
    }

    /// A client does not believe to hold slots any more.
    pub(super) fn leaves(&mut self, client: usize, slots: &[u32]) {
        for slot in slots {
            if self.believed.get(slot) == Some(&client) {
                self.believed.remove(slot);
            }
        }
    }
}
