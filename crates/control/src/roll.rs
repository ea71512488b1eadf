//! Who is a member, in which life, and who is suspected: the part of the log that leases hang on.

use std::collections::BTreeMap;

use kgate_core::{Incarnation, NodeId, Span};
use serde::{Deserialize, Serialize};

/// Made at random with a node's store: a node with another store has forgotten what it promised (rule R4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoreId(pub u64);

/// The terms of a node's lease: fixed for an incarnation when it is added, so that they can be changed one node at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseTerms {
    /// L: so long from the sending of a ping its answer counts.
    pub lease: Span,
    /// The greatest error of a clock's rate, in parts per million.
    pub clock_error: u32,
    /// What is waited on top, for the grain of timers.
    pub margin: Span,
}

impl LeaseTerms {
    /// W = L (1+eps)/(1-eps) + margin: what somebody else's clock must count until a lease given at its beginning is surely over.
    pub fn wait(self) -> Span {
        let (more, less) =
            (1_000_000 + u128::from(self.clock_error), 1_000_000 - u128::from(self.clock_error.min(999_999)));
        let stretched = (u128::from(self.lease.0) * more).div_ceil(less);
        Span(u64::try_from(stretched).unwrap_or(u64::MAX)) + self.margin
    }
}

/// One member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Its present life.
    pub incarnation: Incarnation,
    /// The terms of its lease.
    pub terms: LeaseTerms,
    /// The index of the entry by which it is suspected.
    pub suspected: Option<u64>,
}

/// What an applied entry of the log changes in the roll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RollChange {
    /// A life of a node takes part from now on.
    Added(NodeId, Incarnation, LeaseTerms),
    /// That life is suspected by the entry of this index.
    Suspected(NodeId, Incarnation, u64),
    /// It is not suspected any more.
    Unsuspected(NodeId, Incarnation),
    /// It is gone for good: evicted, or it has left after it had given everything back.
    Gone(NodeId, Incarnation),
}

/// All members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Roll {
    members: BTreeMap<NodeId, Member>,
}

impl Roll {
    /// That node, if it is a member.
    pub fn get(&self, node: NodeId) -> Option<&Member> {
        self.members.get(&node)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.members.iter().map(|(node, member)| (*node, member))
    }

    /// Whether that life of that node is a member and not suspected: only then is it answered (rule N3).
    pub fn is_trusted(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.life(node, incarnation).is_some_and(|member| member.suspected.is_none())
    }

    /// That life of that node, if it is the present one.
    pub fn life(&self, node: NodeId, incarnation: Incarnation) -> Option<&Member> {
        self.members.get(&node).filter(|member| member.incarnation == incarnation)
    }

    /// Takes over what an entry has changed. Whether it may was decided before.
    pub fn apply(&mut self, change: RollChange) {
        let mut suspect = |node, incarnation, at| {
            let member =
                self.members.get_mut(&node).filter(|member: &&mut Member| member.incarnation == incarnation);
            if let Some(member) = member {
                member.suspected = at;
            }
        };
        match change {
            RollChange::Added(node, incarnation, terms) => {
                self.members.insert(node, Member { incarnation, terms, suspected: None });
            }
            RollChange::Suspected(node, incarnation, at) => suspect(node, incarnation, Some(at)),
            RollChange::Unsuspected(node, incarnation) => suspect(node, incarnation, None),
            RollChange::Gone(node, incarnation) => {
                if self.life(node, incarnation).is_some() {
                    self.members.remove(&node);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: LeaseTerms =
        LeaseTerms { lease: Span(4_000_000_000), clock_error: 10_000, margin: Span(50_000_000) };

    /// The default of docs/LEASES.md: 4 s at 1 % are 4.13 s on another clock.
    #[test]
    fn the_wait() {
        assert_eq!(TERMS.wait(), Span(4_130_808_081));
    }

    /// What is said of another life changes nothing.
    #[test]
    fn lives_are_kept_apart() {
        let mut roll = Roll::default();
        let (node, first, second) = (NodeId(3), Incarnation(1), Incarnation(2));
        roll.apply(RollChange::Added(node, second, TERMS));
        roll.apply(RollChange::Suspected(node, first, 7));
        roll.apply(RollChange::Gone(node, first));
        assert!(roll.is_trusted(node, second) && !roll.is_trusted(node, first));
        roll.apply(RollChange::Suspected(node, second, 8));
        assert!(!roll.is_trusted(node, second));
        roll.apply(RollChange::Unsuspected(node, second));
        assert!(roll.is_trusted(node, second));
        roll.apply(RollChange::Gone(node, second));
        assert_eq!(roll, Roll::default());
    }
}
