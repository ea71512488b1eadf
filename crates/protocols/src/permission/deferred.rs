//! The processes that are owed a REPLY.
//!
//! A process under load gets hundreds of requests before it answers them all at once, and they
//! arrive in any order. So a debt is just appended, and the list is sorted when the debts are paid,
//! compared, or twice as many as necessary: O(1) per request.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hash::{Hash, Hasher};

use kgate_core::{NodeId, Stamp};

/// The requests to be answered: the newest of each process. Equal if the debts are, whatever their
/// order of arrival.
#[derive(Clone, Debug)]
pub(super) struct Deferred {
    /// May contain older requests of the same process, in any order.
    entries: Vec<(NodeId, u64)>,
    /// With this many entries half of them are older requests of the same processes.
    most: usize,
    /// Every request counts, as it does for the printed counters.
    each: bool,
}

impl Deferred {
    /// No debts among this many processes; `each` is whether every request is to be answered, and
    /// not only the newest.
    pub(super) fn new(nodes: u32, each: bool) -> Self {
        Self { entries: Vec::new(), most: 2 * nodes as usize, each }
    }

    /// Defers the answer to `theirs`.
    #[inline]
    pub(super) fn add(&mut self, theirs: Stamp) {
        if self.entries.len() >= self.most && !self.each {
            self.settle(); // Memory grows with the number of processes, not with that of requests.
        }
        self.entries.push((theirs.node, theirs.clock));
    }

    /// Removes the debt to `node`.
    pub(super) fn remove(&mut self, node: NodeId) {
        self.entries.retain(|entry| entry.0 != node);
    }

    /// The debts in the order of ids, each with the newest clock.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, u64)> + use<> {
        let mut settled = self.clone();
        settled.settle();
        settled.entries.into_iter()
    }

    /// The same debts, when they are paid.
    pub(super) fn pay(mut self) -> impl Iterator<Item = (NodeId, u64)> {
        self.settle();
        self.entries.into_iter()
    }

    /// Sorts by id, the newest request first; and keeps only that one of each process, unless each
    /// counts.
    fn settle(&mut self) {
        if self.entries.is_sorted_by(|a, b| a.0 < b.0) {
            return;
        }
        let last = self.entries.iter().map(|entry| entry.0.index()).max().unwrap_or(0);
        if self.each || last > DENSE * self.entries.len() {
            self.entries.sort_unstable_by_key(|&(node, clock)| (node, Reverse(clock)));
            if !self.each {
                self.entries.dedup_by_key(|entry| entry.0);
            }
            return;
        }
        // If most processes request, a table by id, of clocks plus one, is faster than a sort.
        let mut newest: Vec<u64> = alloc::vec![0; last + 1];
        for &(node, clock) in &self.entries {
            let place = &mut newest[node.index()];
            *place = (*place).max(clock + 1);
        }
        self.entries.clear();
        let owed = (0..).map(NodeId).zip(newest).filter(|&(_, clock)| clock > 0);
        self.entries.extend(owed.map(|(node, clock)| (node, clock - 1)));
    }
}

/// Up to this many ids for each debt, a table by id is small enough.
const DENSE: usize = 8;

impl PartialEq for Deferred {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Deferred {}

impl Hash for Deferred {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut settled = self.clone();
        settled.settle();
        // With its length: otherwise a debt could be confused with the next hashed value.
        settled.entries.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owed(requests: &[(u32, u64)]) -> Deferred {
        let mut deferred = Deferred::new(8, false);
        for &(node, clock) in requests {
            deferred.add(Stamp { clock, node: NodeId(node) });
        }
        deferred
    }

    /// One REPLY per process, to its newest request, in the order of ids, whatever the order of
    /// arrival.
    #[test]
    fn newest_request_of_each() {
        let debts = owed(&[(7, 1), (2, 5), (7, 9), (2, 3), (4, 1)]);
        let paid = [(NodeId(2), 5), (NodeId(4), 1), (NodeId(7), 9)];
        assert!(debts.iter().eq(paid) && debts.clone().pay().eq(paid));
        let sparse = owed(&[(9000, 1), (2, 5), (9000, 9), (2, 3)]);
        assert!(sparse.pay().eq([(NodeId(2), 5), (NodeId(9000), 9)]), "few of many processes");
        assert_eq!(debts, owed(&[(4, 1), (2, 5), (7, 9)]));
        assert_ne!(debts, owed(&[(4, 1), (2, 5), (7, 8)]));
    }

    /// The hash includes the length, so that one debt less here and the same words elsewhere give
    /// another state.
    #[test]
    fn hashed_with_its_length() {
        struct Words(Vec<u8>);
        impl Hasher for Words {
            fn finish(&self) -> u64 {
                0
            }
            fn write(&mut self, bytes: &[u8]) {
                self.0.extend(bytes);
            }
        }
        let words = |debts: &Deferred| {
            let mut words = Words(Vec::new());
            debts.hash(&mut words);
            words.0
        };
        let (none, one, two) =
            (words(&owed(&[])), words(&owed(&[(2, 5)])), words(&owed(&[(2, 5), (4, 1)])));
        assert!(!one.starts_with(&none) && !two.starts_with(&one));
        assert_eq!(two, words(&owed(&[(4, 1), (2, 3), (2, 5)])), "in whatever order they came");
    }

    /// A process that requests a thousand times while it is deferred is one debt, not a thousand.
    #[test]
    fn memory_follows_processes() {
        let requests: Vec<(u32, u64)> = (0..10_000u32).map(|i| (i % 5, u64::from(i))).collect();
        assert!(owed(&requests).entries.capacity() < 64);
    }
}
