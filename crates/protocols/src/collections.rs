//! Sorted collections that cost little while they are empty or small.
//!
//! Most processes of a large system have nothing in most of their tables, so a table must be a few
//! words when empty; a busy process of a thousand may hold thousands of entries, so an insertion
//! must not move them all.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::mem;

use kgate_core::NodeId;
use serde::{Deserialize, Serialize};

/// A sorted set of processes: a plain vector, since crashes are few, and one word while it is
/// empty.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Vec<NodeId>", from = "Vec<NodeId>")]
pub struct NodeList {
    #[allow(clippy::box_collection)] // Most lists are empty, and there is one in every process.
    nodes: Option<Box<Vec<NodeId>>>,
}

impl NodeList {
    fn as_slice(&self) -> &[NodeId] {
        self.nodes.as_ref().map(|nodes| nodes.as_slice()).unwrap_or_default()
    }

    /// Whether `node` is a member.
    #[inline]
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| nodes.binary_search(&node).is_ok())
    }

    /// Adds `node`; false if it was a member.
    pub fn insert(&mut self, node: NodeId) -> bool {
        let nodes = self.nodes.get_or_insert_default();
        match nodes.binary_search(&node) {
            Ok(_) => false,
            Err(at) => {
                nodes.insert(at, node);
                true
            }
        }
    }

    /// Removes `node`; false if it was no member.
    pub fn remove(&mut self, node: NodeId) -> bool {
        let Some(nodes) = &mut self.nodes else { return false };
        let Ok(at) = nodes.binary_search(&node) else { return false };
        nodes.remove(at);
        if nodes.is_empty() {
            self.nodes = None;
        }
        true
    }

    /// The number of members in `low .. high`.
    pub fn count_in(&self, low: u32, high: u32) -> u32 {
        let below = |bound: u32| self.as_slice().partition_point(|node| node.0 < bound);
        let count = below(high).saturating_sub(below(low));
        u32::try_from(count).expect("there are at most 2^32 nodes")
    }

    /// The number of members.
    #[inline]
    pub fn len(&self) -> u32 {
        u32::try_from(self.as_slice().len()).expect("there are at most 2^32 nodes")
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_none()
    }

    /// All members, in the order of ids.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.as_slice().iter().copied()
    }
}

impl From<NodeList> for Vec<NodeId> {
    fn from(list: NodeList) -> Self {
        list.nodes.map(|nodes| *nodes).unwrap_or_default()
    }
}

/// From members in any order, repetitions included.
impl From<Vec<NodeId>> for NodeList {
    fn from(mut nodes: Vec<NodeId>) -> Self {
        nodes.sort_unstable();
        nodes.dedup();
        Self { nodes: (!nodes.is_empty()).then(|| Box::new(nodes)) }
    }
}

impl FromIterator<NodeId> for NodeList {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        nodes.into_iter().collect::<Vec<_>>().into()
    }
}

impl fmt::Debug for NodeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.as_slice()).finish()
    }
}

/// Up to this many entries an insertion into a sorted vector is faster than one into a tree.
const FEW: usize = 32;

/// A sorted map: a vector while it is small, a B-tree when it is not. Two maps with the same
/// entries are equal and hash alike, whatever their history.
#[derive(Clone, Serialize, Deserialize)]
#[serde(into = "Vec<(K, V)>", from = "Vec<(K, V)>")]
#[serde(bound(serialize = "K: Ord + Copy + Serialize, V: Copy + Serialize"))]
#[serde(bound(deserialize = "K: Ord + Copy + Deserialize<'de>, V: Copy + Deserialize<'de>"))]
pub enum SortedMap<K, V> {
    /// Few entries, or any number that arrived in order.
    Few(Vec<(K, V)>),
    /// Many that arrived in any order.
    Many(BTreeMap<K, V>),
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl<K: Ord + Copy, V: Copy> From<SortedMap<K, V>> for Vec<(K, V)> {
    fn from(map: SortedMap<K, V>) -> Self {
        map.iter().collect()
    }
}

/// Sorts the entries.
impl<K: Ord + Copy, V: Copy> From<Vec<(K, V)>> for SortedMap<K, V> {
    fn from(entries: Vec<(K, V)>) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<K: Ord + Copy, V: Copy> SortedMap<K, V> {
    /// The value of `key`.
    pub fn get(&self, key: K) -> Option<V> {
        match self {
            Self::Few(entries) => {
                entries.binary_search_by_key(&key, |entry| entry.0).ok().map(|at| entries[at].1)
            }
            Self::Many(tree) => tree.get(&key).copied(),
        }
    }

    /// Sets the value of `key` and returns the former one.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Self::Few(entries) = self
            && entries.last().is_none_or(|last| last.0 < key)
        {
            if entries.is_empty() {
                entries.reserve_exact(1); // Most maps never have a second entry.
            }
            entries.push((key, value)); // A new greatest key moves nothing, however many there are.
            return None;
        }
        self.insert_between(key, value)
    }

    fn insert_between(&mut self, key: K, value: V) -> Option<V> {
        match self {
            Self::Few(entries) => match entries.binary_search_by_key(&key, |entry| entry.0) {
                Ok(at) => Some(mem::replace(&mut entries[at].1, value)),
                Err(at) if entries.len() < FEW => {
                    entries.insert(at, (key, value));
                    None
                }
                Err(_) => {
                    let mut tree: BTreeMap<K, V> = mem::take(entries).into_iter().collect();
                    tree.insert(key, value);
                    *self = Self::Many(tree);
                    None
                }
            },
            Self::Many(tree) => tree.insert(key, value),
        }
    }

    /// Removes `key` and returns its value. An emptied map frees its memory.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let removed = match self {
            Self::Few(entries) => entries
                .binary_search_by_key(&key, |entry| entry.0)
                .ok()
                .map(|at| entries.remove(at).1),
            Self::Many(tree) => tree.remove(&key),
        };
        if removed.is_some() && self.is_empty() {
            *self = Self::default();
        }
        removed
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        match self {
            Self::Few(entries) => entries.len(),
            Self::Many(tree) => tree.len(),
        }
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first entry at or after `key`.
    pub fn first_from(&self, key: K) -> Option<(K, V)> {
        match self {
            Self::Few(entries) => {
                entries.get(entries.partition_point(|entry| entry.0 < key)).copied()
            }
            Self::Many(tree) => tree.range(key..).next().map(|(k, v)| (*k, *v)),
        }
    }

    /// All entries in order.
    pub fn iter(&self) -> Entries<'_, K, V> {
        match self {
            Self::Few(entries) => Entries::Few(entries.iter()),
            Self::Many(tree) => Entries::Many(tree.iter()),
        }
    }
}

/// The entries of a [`SortedMap`] in order.
pub enum Entries<'a, K, V> {
    /// Of a vector.
    Few(core::slice::Iter<'a, (K, V)>),
    /// Of a tree.
    Many(alloc::collections::btree_map::Iter<'a, K, V>),
}

impl<K: Copy, V: Copy> Iterator for Entries<'_, K, V> {
    type Item = (K, V);
    fn next(&mut self) -> Option<(K, V)> {
        match self {
            Self::Few(entries) => entries.next().copied(),
            Self::Many(tree) => tree.next().map(|(k, v)| (*k, *v)),
        }
    }
}

impl<K: Ord + Copy, V: Copy + PartialEq> PartialEq for SortedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: Ord + Copy, V: Copy + Eq> Eq for SortedMap<K, V> {}

impl<K: Ord + Copy + Hash, V: Copy + Hash> Hash for SortedMap<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        for entry in self.iter() {
            entry.hash(state);
        }
    }
}

impl<K: Ord + Copy + fmt::Debug, V: Copy + fmt::Debug> fmt::Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A `SortedMap` behaves like a `BTreeMap`, below and above its threshold.
        #[test]
        fn agrees_with_btree_map(
            steps in prop::collection::vec((0u8..3, 0u16..90, 0u32..9), 0..400),
        ) {
            let (mut ours, mut model) = (SortedMap::default(), BTreeMap::new());
            for (what, key, value) in steps {
                match what {
                    0 | 1 => prop_assert_eq!(ours.insert(key, value), model.insert(key, value)),
                    _ => prop_assert_eq!(ours.remove(key), model.remove(&key)),
                }
                prop_assert_eq!(ours.get(key), model.get(&key).copied());
                let next = model.range(key..).next().map(|(k, v)| (*k, *v));
                prop_assert_eq!(ours.first_from(key), next);
            }
            prop_assert!(ours.iter().eq(model.iter().map(|(k, v)| (*k, *v))));
            let mut rebuilt = SortedMap::default();
            for (key, value) in &model {
                rebuilt.insert(*key, *value);
            }
            prop_assert_eq!(ours, rebuilt);
        }
    }
}
