//! Who votes, and what a quorum is.

use std::collections::BTreeSet;
use std::fmt;

use kgate_core::NodeId;
use serde::{Deserialize, Serialize};

/// The voters of the log as of one of its entries: one set, or two while they change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Voters {
    /// The index of the entry that made them the voters.
    pub at: u64,
    /// The sets. A quorum has a majority in each.
    pub sets: Vec<BTreeSet<NodeId>>,
}

impl Voters {
    /// Voters of one set.
    pub fn new(at: u64, voters: impl IntoIterator<Item = NodeId>) -> Self {
        Self { at, sets: vec![voters.into_iter().collect()] }
    }

    /// Whether that node votes, in any set.
    pub fn has(&self, node: NodeId) -> bool {
        self.sets.iter().any(|set| set.contains(&node))
    }

    /// The voters of all sets.
    pub fn all(&self) -> BTreeSet<NodeId> {
        self.sets.iter().flatten().copied().collect()
    }

    /// Whether the nodes for which `yes` holds are a majority of each set. Without voters there is
    /// no quorum.
    pub fn is_quorum(&self, yes: impl Fn(NodeId) -> bool) -> bool {
        let majority =
            |set: &BTreeSet<NodeId>| 2 * set.iter().filter(|node| yes(**node)).count() > set.len();
        !self.sets.is_empty() && self.sets.iter().all(majority)
    }

    /// The greatest value that a quorum reaches: the nodes with at least that value are a majority
    /// of each set. None if too few nodes have a value.
    pub fn reached<T: Ord + Copy>(&self, value: impl Fn(NodeId) -> Option<T>) -> Option<T> {
        let of_set = |set: &BTreeSet<NodeId>| {
            let mut values: Vec<T> = set.iter().filter_map(|node| value(*node)).collect();
            values.sort_unstable_by(|a, b| b.cmp(a));
            values.get(set.len() / 2).copied()
        };
        self.sets.iter().map(of_set).min().flatten()
    }

    /// Whether a cluster can have so many voters: at most two sets of a few each. A message with
    /// more is malformed.
    pub fn is_plausible(&self) -> bool {
        self.sets.len() <= 2 && self.sets.iter().all(|set| set.len() <= PLAUSIBLE_MAX)
    }
}

/// The most voters of a cluster: more cost more than they give.
pub const VOTERS_MAX: usize = 7;
/// A set of voters from the network that has more than this is malformed. Well above
/// [`VOTERS_MAX`], so that a later version may raise that.
const PLAUSIBLE_MAX: usize = 64;

/// Nodes as a sentence names them: `p0, p1, p2`.
pub(crate) struct NodeList<'a>(pub(crate) &'a BTreeSet<NodeId>);

impl fmt::Display for NodeList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(NodeId::to_string).collect();
        f.write_str(&names.join(", "))
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
        let joint = Voters {
            at: 2,
            sets: vec![(0..3).map(NodeId).collect(), (2..5).map(NodeId).collect()],
        };
        assert!(
            quorum(&joint, &[1, 2, 3])
                && !quorum(&joint, &[0, 1, 2])
                && !quorum(&joint, &[2, 3, 4])
        );
        assert!(!quorum(&Voters::default(), &[0]));
    }

    /// N2: a quorum reaches the least value in its best majority, in the set where that is less.
    #[test]
    fn the_value_that_a_quorum_reaches() {
        let value = |node: NodeId| (node.0 != 9).then_some(10 * node.0);
        assert_eq!(Voters::new(1, (0..3).map(NodeId)).reached(value), Some(10));
        assert_eq!(Voters::new(1, (0..2).map(NodeId)).reached(value), Some(0));
        assert_eq!(Voters::new(1, [NodeId(4)]).reached(value), Some(40));
        let joint = Voters {
            at: 2,
            sets: vec![(0..3).map(NodeId).collect(), (2..5).map(NodeId).collect()],
        };
        assert_eq!(joint.reached(value), Some(10));
        assert_eq!(Voters::new(1, [NodeId(1), NodeId(9)]).reached(value), None);
        assert_eq!(Voters::default().reached(value), None);
    }
}
