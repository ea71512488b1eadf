//! The existing processes, as one process knows them.

use kgate_core::NodeId;

use crate::collections::NodeList;

/// The processes 0 .. n-1 except those considered crashed.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    nodes: u32,
    crashed: &'a NodeList,
    revived: Option<NodeId>,
}

impl<'a> Members<'a> {
    /// All of `nodes` but the `crashed`.
    pub fn new(nodes: u32, crashed: &'a NodeList) -> Self {
        Self { nodes, crashed, revived: None }
    }

    /// The same, as if `node` had not crashed: the members just before the crash was known.
    pub fn with(self, node: NodeId) -> Self {
        Self { revived: Some(node), ..self }
    }

    /// The number of all processes, crashed ones included.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Whether no process is considered crashed.
    pub fn all_alive(&self) -> bool {
        self.crashed.is_empty()
    }

    /// Whether `node` exists and is not considered crashed.
    pub fn contains(&self, node: NodeId) -> bool {
        node.0 < self.nodes && (!self.crashed.contains(node) || self.revived == Some(node))
    }

    /// Whether the block of `2^level` places around `node` has no member.
    pub fn none_near(&self, node: NodeId, level: u32) -> bool {
        let low = (u64::from(node.0) >> level) << level;
        if low >= u64::from(self.nodes) {
            return true;
        }
        if self.crashed.is_empty() {
            return false;
        }
        let high = u64::min(low + (1 << level), u64::from(self.nodes));
        if let Some(revived) = self.revived
            && (low..high).contains(&u64::from(revived.0))
        {
            return false;
        }
        let bound = |at: u64| u32::try_from(at).expect("bounded by the number of nodes");
        let (low, high) = (bound(low), bound(high));
        self.crashed.count_in(low, high) == high - low
    }
}
