//! Permissions counted as printed: `reply_count` and `perm_count` (robust-2012, Algorithm 2 lines
//! 9-12 and 25-30; vcube-2018, Algorithm 7.1 lines 12-15 and 30-37).
//!
//! The repaired protocol keeps the set of processes that permitted *this* request, and needs no
//! counters. The printed one keeps, for each process, the number of REPLYs that it still owes,
//! treats it as a permission when that number reaches zero, and counts permissions. D2, D3, D7 and
//! D8 show only with these counters, so they enable them. One REPLY(count) of the papers is `count`
//! REPLYs here, so that each answers one request whatever their order of arrival.

use alloc::collections::BTreeMap;

use kgate_core::{Defects, NodeId};

use crate::defects::{D2, D3, D7, D8};

/// The printed counters of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Counters {
    reply_count: BTreeMap<NodeId, i64>,
    perm_count: i64,
}

impl Counters {
    /// Whether a run as printed needs them.
    pub(super) fn wanted(defects: Defects) -> bool {
        [D2, D3, D7, D8].iter().any(|&defect| defects.has(defect))
    }

    /// Line 12 (robust-2012: line 9).
    pub(super) fn request(&mut self) {
        self.perm_count = 0;
    }

    /// Line 14 (robust-2012: line 11): every live process owes one more REPLY.
    pub(super) fn broadcast(&mut self, others: impl Iterator<Item = NodeId>) {
        for node in others {
            *self.reply_count.entry(node).or_default() += 1;
        }
    }

    /// Lines 32-34 (robust-2012: lines 26-28).
    pub(super) fn reply(&mut self, from: NodeId, counting: bool) {
        let owed = self.reply_count.entry(from).or_default();
        *owed -= 1;
        if counting && *owed == 0 {
            self.perm_count += 1;
        }
    }

    /// Lines 36-37 (robust-2012: lines 29-30).
    pub(super) fn crashed(&mut self, node: NodeId, counting: bool) {
        let owed = self.reply_count.remove(&node).unwrap_or(0);
        if counting && owed == 0 {
            self.perm_count -= 1;
        }
    }

    /// Line 15 (robust-2012: line 12).
    pub(super) fn permitted(&self, needed: u32) -> bool {
        self.perm_count >= i64::from(needed)
    }
}
