//! A dense set of processes that knows its size.

use fixedbitset::FixedBitSet;
use kgate_core::NodeId;

/// One bit a process, and how many are set. The default holds nobody and takes nobody in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NodeSet {
    bits: FixedBitSet,
    count: u32,
}

impl NodeSet {
    /// Nobody yet, of so many.
    pub(super) fn none_of(nodes: u32) -> Self {
        Self { bits: FixedBitSet::with_capacity(nodes as usize), count: 0 }
    }

    /// Everybody but one.
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

    /// False if it was not there.
    #[inline]
    pub(super) fn remove(&mut self, node: NodeId) -> bool {
        let there = self.contains(node);
        if there {
            self.bits.remove(node.index());
            self.count -= 1;
        }
        there
    }

    /// All, in the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.bits.ones().map(|index| NodeId(u32::try_from(index).expect("a node's index")))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// The size is that of the set, whatever is put in or taken out twice.
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
