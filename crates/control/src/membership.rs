//! Who is a member, in which incarnation, and who is suspected: the part of the log that leases
//! hang on.

use std::collections::BTreeMap;

use kgate_core::{Incarnation, NodeId, Span};
use serde::{Deserialize, Serialize};

/// Made at random with a node's store: a node with another store has forgotten what it promised
/// (rule R4).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct StoreId(pub u64);

/// The terms of a node's lease: fixed for an incarnation when it is added, so that they can be
/// changed one node at a time.
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
    /// W = L (1+eps)/(1-eps) + margin: what somebody else's clock must count until a lease given at
    /// its beginning is surely over.
    pub fn wait(self) -> Span {
        let (more, less) = (
            1_000_000 + u128::from(self.clock_error),
            1_000_000 - u128::from(self.clock_error.min(999_999)),
        );
        let stretched = (u128::from(self.lease.0) * more).div_ceil(less);
        Span(u64::try_from(stretched).unwrap_or(u64::MAX)) + self.margin
    }
}

/// One member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Its present incarnation.
    pub incarnation: Incarnation,
    /// The terms of its lease.
    pub terms: LeaseTerms,
    /// The index of the entry by which it is suspected.
    pub suspected: Option<u64>,
}

/// What an applied entry of the log changes in the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MembershipChange {
    /// An incarnation of a node takes part from now on.
    Added(NodeId, Incarnation, LeaseTerms),
    /// That incarnation is suspected by the entry of this index.
    Suspected(NodeId, Incarnation, u64),
    /// It is not suspected any more.
    Unsuspected(NodeId, Incarnation),
    /// It is gone for good: evicted, or it has left after it had given everything back.
    Gone(NodeId, Incarnation),
}

/// Why an eviction has no effect (E4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum EvictionError {
    /// That incarnation is not a member (any more).
    #[error("{0} is not a member in that incarnation: nothing to do")]
    NotMember(NodeId),
    /// It was cleared of the suspicion, or is suspected by another entry.
    #[error(
        "{node} is not suspected by entry {at} any more: its new suspicion has to be waited for"
    )]
    OtherSuspicion {
        /// Who.
        node: NodeId,
        /// The suspicion that was waited for.
        at: u64,
    },
    /// Other voters are in force than those whose promises were counted.
    #[error(
        "the voters of entry {counted} promised, but those of entry {in_force} are in force: their promises have to be collected"
    )]
    OtherVoters {
        /// Whose promises were counted.
        counted: u64,
        /// Who votes.
        in_force: u64,
    },
    /// It was not waited long enough.
    #[error("waited {waited} s, but a lease of {node} is over for certain only after {wait} s")]
    TooSoon {
        /// Who.
        node: NodeId,
        /// How long was waited.
        waited: Span,
        /// W of that incarnation.
        wait: Span,
    },
}

/// What an eviction says (the fields of [`crate::lease::Proposal::Evict`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Eviction {
    /// Who.
    pub node: NodeId,
    /// Which incarnation of it.
    pub incarnation: Incarnation,
    /// The suspicion that was waited for.
    pub at: u64,
    /// The entry that made the voters of whom a quorum promised.
    pub voters_at: u64,
    /// How long was waited.
    pub waited: Span,
}

/// All members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Membership {
    members: BTreeMap<NodeId, Member>,
}

impl Membership {
    /// That node, if it is a member.
    pub fn get(&self, node: NodeId) -> Option<&Member> {
        self.members.get(&node)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.members.iter().map(|(node, member)| (*node, member))
    }

    /// Whether that incarnation of that node is a member and not suspected: only then is it
    /// answered (rule N3).
    pub fn is_trusted(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.incarnation(node, incarnation).is_some_and(|member| member.suspected.is_none())
    }

    /// That incarnation of that node, if it is the present one.
    pub fn incarnation(&self, node: NodeId, incarnation: Incarnation) -> Option<&Member> {
        self.members.get(&node).filter(|member| member.incarnation == incarnation)
    }

    /// Whether an eviction has effect (E4): that very suspicion, those very voters, and the whole
    /// wait of that incarnation. The first guards against a suspicion that was lifted and came
    /// again, the second against voters who never promised.
    pub fn may_evict(&self, eviction: Eviction, voters_in_force: u64) -> Result<(), EvictionError> {
        let Eviction { node, incarnation, at, voters_at, waited } = eviction;
        let member = self.incarnation(node, incarnation).ok_or(EvictionError::NotMember(node))?;
        if member.suspected != Some(at) {
            return Err(EvictionError::OtherSuspicion { node, at });
        }
        if voters_at != voters_in_force {
            return Err(EvictionError::OtherVoters {
                counted: voters_at,
                in_force: voters_in_force,
            });
        }
        let wait = member.terms.wait();
        if waited < wait {
            return Err(EvictionError::TooSoon { node, waited, wait });
        }
        Ok(())
    }

    /// Takes over what an entry has changed. Whether it may was decided before.
    pub fn apply(&mut self, change: MembershipChange) {
        let mut suspect = |node, incarnation, at| {
            let member = self
                .members
                .get_mut(&node)
                .filter(|member: &&mut Member| member.incarnation == incarnation);
            if let Some(member) = member {
                member.suspected = at;
            }
        };
        match change {
            MembershipChange::Added(node, incarnation, terms) => {
                self.members.insert(node, Member { incarnation, terms, suspected: None });
            }
            MembershipChange::Suspected(node, incarnation, at) => {
                suspect(node, incarnation, Some(at))
            }
            MembershipChange::Unsuspected(node, incarnation) => suspect(node, incarnation, None),
            MembershipChange::Gone(node, incarnation) => {
                if self.incarnation(node, incarnation).is_some() {
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

    /// The default of docs/internals/leases.md: 4 s at 1 % are 4.13 s on another clock.
    #[test]
    fn the_wait() {
        assert_eq!(TERMS.wait(), Span(4_130_808_081));
    }

    /// E4: exactly that suspicion, exactly those voters, at least the wait; anything else is void
    /// and says why.
    #[test]
    fn an_eviction_is_compare_and_set() {
        let (node, incarnation) = (NodeId(3), Incarnation(1));
        let mut membership = Membership::default();
        let right =
            Eviction { node, incarnation: incarnation, at: 7, voters_at: 2, waited: TERMS.wait() };
        assert_eq!(membership.may_evict(right, 2), Err(EvictionError::NotMember(node)));
        membership.apply(MembershipChange::Added(node, incarnation, TERMS));
        assert_eq!(
            membership.may_evict(right, 2),
            Err(EvictionError::OtherSuspicion { node, at: 7 })
        );
        membership.apply(MembershipChange::Suspected(node, incarnation, 7));
        assert_eq!(membership.may_evict(right, 2), Ok(()));
        assert_eq!(
            membership.may_evict(right, 5),
            Err(EvictionError::OtherVoters { counted: 2, in_force: 5 })
        );
        let soon = Eviction { waited: Span(TERMS.wait().0 - 1), ..right };
        assert!(matches!(membership.may_evict(soon, 2), Err(EvictionError::TooSoon { .. })));
        let other = Eviction { incarnation: Incarnation(2), ..right };
        assert_eq!(membership.may_evict(other, 2), Err(EvictionError::NotMember(node)));
        membership.apply(MembershipChange::Suspected(node, incarnation, 9));
        assert_eq!(
            membership.may_evict(right, 2),
            Err(EvictionError::OtherSuspicion { node, at: 7 })
        );
    }

    /// What is said of another incarnation changes nothing.
    #[test]
    fn incarnations_are_kept_apart() {
        let mut membership = Membership::default();
        let (node, first, second) = (NodeId(3), Incarnation(1), Incarnation(2));
        membership.apply(MembershipChange::Added(node, second, TERMS));
        membership.apply(MembershipChange::Suspected(node, first, 7));
        membership.apply(MembershipChange::Gone(node, first));
        assert!(membership.is_trusted(node, second) && !membership.is_trusted(node, first));
        membership.apply(MembershipChange::Suspected(node, second, 8));
        assert!(!membership.is_trusted(node, second));
        membership.apply(MembershipChange::Unsuspected(node, second));
        assert!(membership.is_trusted(node, second));
        membership.apply(MembershipChange::Gone(node, second));
        assert_eq!(membership, Membership::default());
    }
}
