//! The members, their incarnations, and the suspicions: the part of the replicated state that
//! leases depend on.

use std::collections::BTreeMap;

use kgate_core::{Incarnation, NodeId, Span};
use serde::{Deserialize, Serialize};

/// A random number, drawn when a node's store is made. A node with another store has forgotten what
/// it promised (rule R4).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct StoreId(pub u64);

/// The terms of a node's lease. They are fixed for an incarnation when it is added, so that they
/// can be changed one node at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseTerms {
    /// L: how long an answer counts, from the sending of its ping.
    pub lease: Span,
    /// The greatest error of a clock's rate, in parts per million.
    pub clock_error: u32,
    /// The time that is waited in addition, for the resolution of timers.
    pub margin: Span,
}

impl LeaseTerms {
    /// W = L (1+eps)/(1-eps) + margin: when another node's clock has counted W since a lease began,
    /// the lease is certainly over.
    pub fn wait(self) -> Span {
        let (more, less) = (
            1_000_000 + u128::from(self.clock_error),
            1_000_000 - u128::from(self.clock_error.min(999_999)),
        );
        let stretched = (u128::from(self.lease.0) * more).div_ceil(less);
        Span(u64::try_from(stretched).unwrap_or(u64::MAX)) + self.margin
    }
}

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The incarnation that is the member.
    pub incarnation: Incarnation,
    /// The terms of its lease.
    pub terms: LeaseTerms,
    /// The index of the entry by which it is suspected, if it is.
    pub suspected: Option<u64>,
}

/// What an applied entry changes in the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MembershipChange {
    /// An incarnation of a node is a member from now on.
    Added(NodeId, Incarnation, LeaseTerms),
    /// The incarnation is suspected, by the entry of this index.
    Suspected(NodeId, Incarnation, u64),
    /// The incarnation is not suspected any more.
    Unsuspected(NodeId, Incarnation),
    /// The incarnation is not a member any more, for good: it was evicted, or it left after it had
    /// returned everything.
    Gone(NodeId, Incarnation),
}

/// Why an eviction has no effect (E4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum EvictionError {
    /// That incarnation is not a member, or not any more.
    #[error("{0} is not a member in that incarnation")]
    NotMember(NodeId),
    /// The incarnation was cleared of that suspicion, or is suspected by another entry.
    #[error(
        "{node} is not suspected by entry {at}, or not any more: the wait must begin anew with \
        its present suspicion"
    )]
    OtherSuspicion {
        /// The node.
        node: NodeId,
        /// The entry of the suspicion that the eviction names.
        at: u64,
    },
    /// The voters in force are not those whose promises were counted.
    #[error(
        "the voters of entry {counted} promised, but those of entry {in_force} are in force: \
        their promises must be collected"
    )]
    OtherVoters {
        /// The entry of the voters whose promises were counted.
        counted: u64,
        /// The entry of the voters in force.
        in_force: u64,
    },
    /// The wait was too short.
    #[error("waited {waited} s, but a lease of {node} is certainly over only after {wait} s")]
    TooSoon {
        /// The node.
        node: NodeId,
        /// The time that was waited.
        waited: Span,
        /// W of that incarnation.
        wait: Span,
    },
}

/// A proposed eviction: the part of a proposal, and of an entry of the log, that rule E4 checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Eviction {
    /// The node.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The entry of the suspicion that the voters have promised to act on.
    pub at: u64,
    /// The entry of the voters of which a quorum promised.
    pub voters_at: u64,
    /// How long that quorum has certainly not answered the node.
    pub waited: Span,
}

/// The members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Membership {
    members: BTreeMap<NodeId, Member>,
}

impl Membership {
    /// That node, if it is a member.
    pub fn get(&self, node: NodeId) -> Option<&Member> {
        self.members.get(&node)
    }

    /// All members.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.members.iter().map(|(node, member)| (*node, member))
    }

    /// Whether that incarnation is a member and not suspected. Voters must answer only such an
    /// incarnation (rule N3).
    pub fn is_trusted(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.incarnation(node, incarnation).is_some_and(|member| member.suspected.is_none())
    }

    /// The member, if that incarnation of the node is one.
    pub fn incarnation(&self, node: NodeId, incarnation: Incarnation) -> Option<&Member> {
        self.members.get(&node).filter(|member| member.incarnation == incarnation)
    }

    /// Whether an eviction has effect (E4). It has effect only if it names exactly the suspicion in
    /// force and exactly the voters in force, and the whole W of that incarnation was waited. The
    /// first condition guards against a suspicion that was cleared and came again, the second
    /// against voters that never promised.
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

    /// Applies a change. Whether it is allowed was decided before.
    pub fn apply(&mut self, change: MembershipChange) {
        let mut set_suspected = |node, incarnation, at| {
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
                set_suspected(node, incarnation, Some(at))
            }
            MembershipChange::Unsuspected(node, incarnation) => {
                set_suspected(node, incarnation, None)
            }
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

    /// E4: exactly that suspicion, exactly those voters, and at least W. Anything else has no
    /// effect and says why.
    #[test]
    fn an_eviction_is_compare_and_set() {
        let (node, incarnation) = (NodeId(3), Incarnation(1));
        let mut membership = Membership::default();
        let right = Eviction { node, incarnation, at: 7, voters_at: 2, waited: TERMS.wait() };
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

    /// A change of another incarnation changes nothing.
    #[test]
    fn changes_of_other_incarnations_do_nothing() {
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
