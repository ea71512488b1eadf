//! A dense set of processes that knows its size.

use fixedbitset::FixedBitSet;
use kgate_core::NodeId;

/// One bit per process, and the number of bits set. The default is empty and stays empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NodeSet {
    bits: FixedBitSet,
    count: u32,
}

impl NodeSet {
    /// The empty set of this many processes.
    pub(super) fn none_of(nodes: u32) -> Self {
        Self { bits: FixedBitSet::with_capacity(nodes as usize), count: 0 }
    }

    /// Every process but one.
    pub(super) fn all_but(me: NodeId, nodes: u32) -> Self {
        let mut all = Self::none_of(nodes);
        all.bits.insert_range(..);
        all.count = nodes;
        all.remove(me);
        all
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.bits.contains(node.index())
    }

    #[inline]
    pub(super) fn insert(&mut self, node: NodeId) {
        self.count += u32::from(!self.bits.put(node.index()));
    }

    /// Removes `node`; false if it was no member.
    #[inline]
    pub(super) fn remove(&mut self, node: NodeId) -> bool {
        let there = self.contains(node);
        if there {
            self.bits.remove(node.index());
            self.count -= 1;
        }
        there
    }

    /// All members, in the order of ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.bits.ones().map(|index| NodeId(u32::try_from(index).expect("a node's index")))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// The size is that of the set, also after repeated insertions and removals.
    #[test]
    fn knows_its_size() {
        let mut set = NodeSet::all_but(NodeId(1), 4);
        assert_eq!((set.len(), set.contains(NodeId(1))), (3, false));
        assert!(set.remove(NodeId(2)) && !set.remove(NodeId(2)) && !set.remove(NodeId(1)));
        set.insert(NodeId(0));
        set.insert(NodeId(1));
        assert_eq!(set.iter().collect::<Vec<_>>(), [NodeId(0), NodeId(1), NodeId(3)]);
        assert_eq!(set.len(), 3);
        assert!(!NodeSet::default().remove(NodeId(7)), "nobody is in the empty one");
    }
}
