//! What a node knows of the log and of itself: all roles read it, none changes it.

use std::collections::BTreeSet;

use kgate_core::{Incarnation, NodeId, Time};

use crate::membership::{LeaseTerms, Member, Membership, StoreId};
use crate::timing::Timing;
use crate::voters::Voters;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Known {
    pub(super) me: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) store: StoreId,
    pub(super) timing: Timing,
    /// What this process answered before is forgotten: ages count from here at the earliest (E2,
    /// R3).
    pub(super) start: Time,
    pub(super) membership: Membership,
    pub(super) applied: u64,
    pub(super) committed: u64,
    pub(super) leading: bool,
    /// The voters applied.
    pub(super) voters: Voters,
    /// Since when they are (E3).
    pub(super) voters_since: Time,
    /// The newest voters in the own log, applied or not. None: not known yet.
    pub(super) appended: Option<Voters>,
}

impl Known {
    /// The own entry in the membership, if this incarnation is a member.
    pub(super) fn own(&self) -> Option<&Member> {
        self.membership.incarnation(self.me, self.incarnation)
    }

    /// The terms of the own lease: those of the log, whatever the configuration says now.
    pub(super) fn own_terms(&self) -> Option<LeaseTerms> {
        self.own().map(|member| member.terms)
    }

    /// The newest voters known from the own log: appended or applied (what was appended may be told
    /// later than what was applied).
    pub(super) fn newest(&self) -> &Voters {
        match &self.appended {
            Some(appended) if appended.at > self.voters.at => appended,
            _ => &self.voters,
        }
    }

    /// N4: newer voters are in the own log than were applied, or nothing is known yet: a suspicion
    /// before them may have been missed.
    pub(super) fn is_behind(&self) -> bool {
        self.appended.as_ref().is_none_or(|appended| self.applied < appended.at)
    }

    /// Whether this node votes, as far as it knows.
    pub(super) fn votes(&self) -> bool {
        self.newest().has(self.me)
    }

    /// Everybody who votes, by what was applied or appended.
    pub(super) fn all_voters(&self) -> BTreeSet<NodeId> {
        let mut all = self.voters.all();
        if let Some(appended) = &self.appended {
            all.extend(appended.all());
        }
        all
    }

    /// Whether that node is one of them.
    pub(super) fn is_voter(&self, node: NodeId) -> bool {
        self.voters.has(node) || self.appended.as_ref().is_some_and(|appended| appended.has(node))
    }

    /// How late this node is to do what any voter may do: the leader at once, the others one after
    /// the other.
    pub(super) fn turn(&self) -> kgate_core::Span {
        if self.leading {
            return kgate_core::Span::ZERO;
        }
        let before = self.voters.all().iter().filter(|node| **node < self.me).count();
        self.timing.node_ping.times(2 + before as u64)
    }
}
