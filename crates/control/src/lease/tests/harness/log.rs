//! The agreed log as a total order. Each node has appended a part of it, and applied a part of
//! that. Raft itself is not simulated.

use std::collections::BTreeSet;

use kgate_core::{Incarnation, NodeId};

use super::mutation::Mutation;
use crate::lease::Proposal;
use crate::membership::{Eviction, LeaseTerms, Membership, MembershipChange};
use crate::voters::Voters;

#[derive(Clone, Debug)]
enum Entry {
    Proposal(Proposal),
    Voters(Voters),
    Add(NodeId, Incarnation, LeaseTerms),
}

/// What an entry did, once it is committed.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) change: Option<MembershipChange>,
    pub(super) voters: Option<Voters>,
}

pub(super) struct Log {
    mutation: Option<Mutation>,
    entries: Vec<Entry>,
    outcomes: Vec<Outcome>,
    membership: Membership,
    voters: Voters,
    /// The incarnation that is gone, for [`Mutation::Resurrection`].
    gone: Option<(NodeId, Incarnation, LeaseTerms)>,
    pub(super) appended: Vec<usize>,
}

impl Log {
    /// A log whose first two entries set the voters and add one member. All nodes have them.
    pub(super) fn new(
        nodes: usize,
        voters: BTreeSet<NodeId>,
        member: (NodeId, Incarnation, LeaseTerms),
        mutation: Option<Mutation>,
    ) -> Self {
        let first = Voters { at: 1, sets: vec![voters] };
        let entries = vec![Entry::Voters(first), Entry::Add(member.0, member.1, member.2)];
        let mut log = Self {
            mutation,
            entries,
            outcomes: Vec::new(),
            membership: Membership::default(),
            voters: Voters::default(),
            gone: None,
            appended: vec![2; nodes],
        };
        log.commit();
        log
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn committed(&self) -> usize {
        self.outcomes.len()
    }

    pub(super) fn outcome(&self, index: usize) -> &Outcome {
        &self.outcomes[index - 1]
    }

    pub(super) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The newest voters within the first entries.
    pub(super) fn voters_within(&self, length: usize) -> &Voters {
        let voters = |entry: &'_ Entry| matches!(entry, Entry::Voters(_));
        match self.entries[..length].iter().rfind(|entry| voters(entry)) {
            Some(Entry::Voters(voters)) => voters,
            Some(Entry::Proposal(_) | Entry::Add(..)) | None => {
                unreachable!("the first entry sets the voters")
            }
        }
    }

    pub(super) fn propose(&mut self, proposal: Proposal) {
        self.entries.push(Entry::Proposal(proposal));
        self.commit();
    }

    /// Takes the next step towards those voters: first both sets, then, once that is committed, the
    /// new set. Returns whether there is more to do.
    pub(super) fn change_voters(&mut self, target: &BTreeSet<NodeId>) -> bool {
        let newest = self.voters_within(self.len()).clone();
        if newest.at != self.voters.at {
            return true;
        }
        let at = self.entries.len() as u64 + 1;
        let sets = match newest.sets.as_slice() {
            [one] if one == target => return false,
            [one] => vec![one.clone(), target.clone()],
            _ => vec![target.clone()],
        };
        self.entries.push(Entry::Voters(Voters { at, sets }));
        self.commit();
        true
    }

    /// Commits the entries that a quorum of the newest voters has appended.
    pub(super) fn commit(&mut self) {
        let newest = self.voters_within(self.len());
        let reached = newest.reached(|node| self.appended.get(node.index()).copied()).unwrap_or(0);
        while self.outcomes.len() < reached {
            let index = self.outcomes.len() + 1;
            let outcome = self.decide(index as u64);
            if let Some(change) = outcome.change {
                self.membership.apply(change);
            }
            if let Some(voters) = &outcome.voters {
                self.voters = voters.clone();
            }
            self.outcomes.push(outcome);
        }
    }

    fn decide(&mut self, index: u64) -> Outcome {
        let entry = self.entries[self.outcomes.len()].clone();
        let change = match entry {
            Entry::Voters(voters) => return Outcome { change: None, voters: Some(voters) },
            Entry::Add(node, incarnation, terms) => {
                Some(MembershipChange::Added(node, incarnation, terms))
            }
            Entry::Proposal(Proposal::Suspect { node, incarnation }) => {
                let trusted = self.membership.is_trusted(node, incarnation);
                trusted.then_some(MembershipChange::Suspected(node, incarnation, index))
            }
            Entry::Proposal(Proposal::Unsuspect { node, incarnation, at }) => {
                self.unsuspect(node, incarnation, at)
            }
            Entry::Proposal(Proposal::Evict(eviction)) => self.evict(eviction),
        };
        Outcome { change, voters: None }
    }

    fn unsuspect(
        &self,
        node: NodeId,
        incarnation: Incarnation,
        at: u64,
    ) -> Option<MembershipChange> {
        match (self.membership.incarnation(node, incarnation), self.gone) {
            (Some(member), _) => (member.suspected == Some(at))
                .then_some(MembershipChange::Unsuspected(node, incarnation)),
            (None, Some((node, incarnation, terms)))
                if self.mutation == Some(Mutation::Resurrection) =>
            {
                Some(MembershipChange::Added(node, incarnation, terms))
            }
            (None, _) => None,
        }
    }

    fn evict(&mut self, eviction: Eviction) -> Option<MembershipChange> {
        let Eviction { node, incarnation, .. } = eviction;
        let terms = self.membership.incarnation(node, incarnation)?.terms;
        let may = self.membership.may_evict(eviction, self.voters.at).is_ok()
            || self.mutation == Some(Mutation::EvictBlindly);
        self.gone = may.then_some((node, incarnation, terms)).or(self.gone);
        may.then_some(MembershipChange::Gone(node, incarnation))
    }
}
