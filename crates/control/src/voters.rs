//! Who votes, and what a quorum is.

use std::collections::BTreeSet;

use kgate_core::NodeId;
use serde::{Deserialize, Serialize};

/// The voters of the log as of one of its entries: one set, or two while they are being changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Voters {
    /// The index of the entry that says so.
    pub at: u64,
    /// The sets. A quorum has a majority of each.
    pub sets: Vec<BTreeSet<NodeId>>,
}

impl Voters {
    /// One set.
    pub fn new(at: u64, voters: impl IntoIterator<Item = NodeId>) -> Self {
        Self { at, sets: vec![voters.into_iter().collect()] }
    }

    /// Whether that node votes, in either set.
    pub fn has(&self, node: NodeId) -> bool {
        self.sets.iter().any(|set| set.contains(&node))
    }

    /// All of them.
    pub fn all(&self) -> BTreeSet<NodeId> {
        self.sets.iter().flatten().copied().collect()
    }

    /// Whether those who say yes are a majority of each set. No voters, no quorum.
    pub fn is_quorum(&self, yes: impl Fn(NodeId) -> bool) -> bool {
        let majority = |set: &BTreeSet<NodeId>| 2 * set.iter().filter(|node| yes(**node)).count() > set.len();
        !self.sets.is_empty() && self.sets.iter().all(majority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quorum(voters: &Voters, yes: &[u32]) -> bool {
        voters.is_quorum(|node| yes.contains(&node.0))
    }

    /// One set: more than half. Two sets: more than half of each.
    #[test]
    fn majorities() {
        let three = Voters::new(1, (0..3).map(NodeId));
        assert!(quorum(&three, &[0, 2]) && !quorum(&three, &[1, 7]));
        let two = Voters::new(1, (0..2).map(NodeId));
        assert!(quorum(&two, &[0, 1]) && !quorum(&two, &[1]));
        let joint = Voters { at: 2, sets: vec![(0..3).map(NodeId).collect(), (2..5).map(NodeId).collect()] };
        assert!(quorum(&joint, &[1, 2, 3]) && !quorum(&joint, &[0, 1, 2]) && !quorum(&joint, &[2, 3, 4]));
        assert!(!quorum(&Voters::default(), &[0]));
    }
}
