//! A set of processes as ranges: all processes below one node of the tree are one range, so that
//! the set stays small however many there are.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use kgate_core::NodeId;
use serde::{Deserialize, Serialize};

/// Ranges of ids in ascending order, with a gap between any two.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ranges(Vec<Range<u32>>);

impl Ranges {
    /// Whether `node` is a member.
    pub(super) fn contains(&self, node: NodeId) -> bool {
        let after = self.0.partition_point(|range| range.end <= node.0);
        self.0.get(after).is_some_and(|range| range.start <= node.0)
    }

    /// Adds a range and passes the parts of it that were not members to `new`, piece by piece.
    pub(super) fn insert(&mut self, range: Range<u32>, mut new: impl FnMut(Range<u32>)) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|other| other.end < range.start);
        let last = self.0.partition_point(|other| other.start <= range.end);
        let (mut merged, mut from) = (range.clone(), range.start);
        for touched in &self.0[first..last] {
            if from < touched.start.min(range.end) {
                new(from..touched.start.min(range.end));
            }
            from = from.max(touched.end);
            merged = merged.start.min(touched.start)..merged.end.max(touched.end);
        }
        if from < range.end {
            new(from..range.end);
        }
        self.0.splice(first..last, [merged]);
    }

    /// Adds one process.
    pub(super) fn insert_one(&mut self, node: NodeId) {
        self.insert(node.0..node.0 + 1, |_| {});
    }

    /// Removes one process.
    pub(super) fn remove(&mut self, node: NodeId) {
        let at = self.0.partition_point(|range| range.end <= node.0);
        let Some(range) = self.0.get(at).filter(|range| range.start <= node.0).cloned() else {
            return;
        };
        let halves = [range.start..node.0, node.0 + 1..range.end];
        self.0.splice(at..=at, halves.into_iter().filter(|half| !half.is_empty()));
    }

    /// Removes all processes from `end` on.
    pub(super) fn cut(&mut self, end: u32) {
        self.0.retain_mut(|range| {
            range.end = range.end.min(end);
            range.start < range.end
        });
    }

    /// Adds all of another set.
    pub(super) fn extend(&mut self, other: &Self) {
        other.iter().for_each(|range| self.insert(range, |_| {}));
    }

    /// All ranges, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.0.iter().cloned()
    }

    /// Whether the invariant of [`Ranges`] holds, for ids below `nodes`.
    pub(super) fn is_sound(&self, nodes: u32) -> bool {
        let apart = self.0.windows(2).all(|pair| pair[0].end < pair[1].start);
        apart && self.0.iter().all(|range| range.start < range.end && range.end <= nodes)
    }
}

/// `p0 p2-p5`.
impl fmt::Debug for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.0.iter().enumerate() {
            let between = if at > 0 { " " } else { "" };
            write!(f, "{between}p{}", range.start)?;
            if range.len() > 1 {
                write!(f, "-p{}", range.end - 1)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        /// It behaves like a set of numbers, reports each number once as new, and stays sound.
        #[test]
        fn agrees_with_a_set(pieces in prop::collection::vec((0u32..60, 0u32..9), 0..40)) {
            let (mut ours, mut model) = (Ranges::default(), BTreeSet::new());
            for (start, length) in pieces {
                let mut new = BTreeSet::new();
                ours.insert(start..start + length, |range| new.extend(range));
                let inserted = (start..start + length).filter(|one| model.insert(*one));
                let added: BTreeSet<u32> = inserted.collect();
                prop_assert_eq!(new, added);
                ours.remove(NodeId(start + 2));
                model.remove(&(start + 2));
                prop_assert!(ours.is_sound(70));
            }
            for one in 0..70 {
                prop_assert_eq!(ours.contains(NodeId(one)), model.contains(&one));
            }
        }
    }
}
