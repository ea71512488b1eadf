//! What a node knows of the log and of itself: all roles read it, and only [`super::Leases`]
//! changes it.

use std::collections::BTreeSet;

use kgate_core::{Incarnation, NodeId, Span, Time};

use crate::membership::{LeaseTerms, Member, Membership, StoreId};
use crate::timing::Timing;
use crate::voters::Voters;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Context {
    pub(super) me: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) store: StoreId,
    pub(super) timing: Timing,
    /// The start of this process. It has forgotten what it answered before, so ages count from here
    /// at the earliest (E2, R3).
    pub(super) start: Time,
    /// A copy of the membership in the log's state, not a borrow of it: the share of the own vote
    /// must be recorded under the old membership before a change takes effect (`settle_own_share`),
    /// and the log's state does not wait for that. The copy is small, and changes only in
    /// [`super::Leases::membership_changed`].
    pub(super) membership: Membership,
    pub(super) applied: u64,
    pub(super) committed: u64,
    pub(super) is_leader: bool,
    /// The voters as applied.
    pub(super) voters: Voters,
    /// When this node applied them (E3).
    pub(super) voters_since: Time,
    /// The newest voters in the own log, applied or not. None: not known yet.
    pub(super) appended: Option<Voters>,
}

impl Context {
    /// This incarnation in the membership, if it is a member.
    pub(super) fn own(&self) -> Option<&Member> {
        self.membership.incarnation(self.me, self.incarnation)
    }

    /// The terms of the own lease: those in the log, whatever the configuration says now.
    pub(super) fn own_terms(&self) -> Option<LeaseTerms> {
        self.own().map(|member| member.terms)
    }

    /// The newest voters known from the own log, appended or applied: an appended entry may be
    /// reported later than an applied one.
    pub(super) fn newest_voters(&self) -> &Voters {
        match &self.appended {
            Some(appended) if appended.at > self.voters.at => appended,
            Some(_) | None => &self.voters,
        }
    }

    /// N4: the own log has newer voters than were applied, or they are not known yet. A suspicion
    /// in an entry before them may not be applied here.
    pub(super) fn is_behind(&self) -> bool {
        self.appended.as_ref().is_none_or(|appended| self.applied < appended.at)
    }

    /// Whether this node votes, as far as it knows.
    pub(super) fn votes(&self) -> bool {
        self.newest_voters().has(self.me)
    }

    /// All voters, by the applied and by the appended entries.
    pub(super) fn all_voters(&self) -> BTreeSet<NodeId> {
        let mut all = self.voters.all();
        if let Some(appended) = &self.appended {
            all.extend(appended.all());
        }
        all
    }

    /// Whether that node is one of [`Context::all_voters`].
    pub(super) fn is_voter(&self, node: NodeId) -> bool {
        self.voters.has(node) || self.appended.as_ref().is_some_and(|appended| appended.has(node))
    }

    /// How long this node waits before it proposes what any voter may propose: the leader does not
    /// wait, the other voters take turns.
    pub(super) fn proposal_delay(&self) -> Span {
        if self.is_leader {
            return Span::ZERO;
        }
        let before = self.voters.all().iter().filter(|node| **node < self.me).count();
        self.timing.node_ping.times(2 + before as u64)
    }
}
