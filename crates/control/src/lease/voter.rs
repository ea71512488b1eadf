//! A voter: gives shares in leases (N3, N4), and promises to give none to a suspected node (E2).

use std::collections::BTreeMap;

use kgate_core::{Incarnation, NodeId, Span, Time};

use super::known::Known;
use super::message::{LeaseMessage, Refusal};
use crate::membership::MembershipChange;

/// What a voter remembers of one incarnation of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Contact {
    incarnation: Incarnation,
    /// Since when this node knows of it.
    known_since: Time,
    heard: Option<Time>,
    answered: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Voter {
    /// Of members only, so that it is no longer than the membership.
    contacts: BTreeMap<NodeId, Contact>,
    /// When the promises are said again; none while nobody is suspected.
    promises_due: Option<Time>,
}

impl Voter {
    /// The contacts follow the membership. (The membership in `known` has taken the change over
    /// already.)
    pub(super) fn membership_changed(&mut self, now: Time, change: MembershipChange) {
        match change {
            MembershipChange::Added(node, incarnation, _) => {
                if self.contacts.get(&node).is_none_or(|contact| contact.incarnation != incarnation)
                {
                    let contact =
                        Contact { incarnation, known_since: now, heard: None, answered: None };
                    self.contacts.insert(node, contact);
                }
            }
            MembershipChange::Suspected(..) => self.promises_due = Some(now),
            // It starts afresh: its silence was forgiven, it has Q again.
            MembershipChange::Unsuspected(node, incarnation) => {
                if let Some(contact) = self.contact(node, incarnation) {
                    contact.known_since = now;
                }
            }
            MembershipChange::Gone(node, incarnation) => {
                if self.contact(node, incarnation).is_some() {
                    self.contacts.remove(&node);
                }
            }
        }
    }

    fn contact(&mut self, node: NodeId, incarnation: Incarnation) -> Option<&mut Contact> {
        self.contacts.get_mut(&node).filter(|contact| contact.incarnation == incarnation)
    }

    /// N3, N4: a share, or why not. Whatever it is, the node was heard (E1).
    pub(super) fn on_ping(
        &mut self,
        known: &Known,
        now: Time,
        from: NodeId,
        incarnation: Incarnation,
        seq: u64,
    ) -> LeaseMessage {
        if let Some(contact) = self.contact(from, incarnation) {
            contact.heard = Some(now);
        }
        if let Some(why) = refusal(known, from, incarnation) {
            return LeaseMessage::Refusal { incarnation, seq, why };
        }
        self.gave(now, from, incarnation);
        LeaseMessage::Answer {
            incarnation,
            seq,
            store: known.store,
            voters: known.newest().clone(),
            committed: known.committed.max(known.applied),
        }
    }

    /// A share was given now.
    pub(super) fn gave(&mut self, now: Time, to: NodeId, incarnation: Incarnation) {
        if let Some(contact) = self.contact(to, incarnation) {
            contact.answered = Some(now);
        }
    }

    /// E2: how long ago the last answer was, or the own start: what was answered before that is
    /// forgotten.
    fn age(&self, known: &Known, now: Time, node: NodeId) -> Span {
        let answered = self.contacts.get(&node).and_then(|contact| contact.answered);
        now.since(answered.unwrap_or(known.start).max(known.start))
    }

    /// E1: how long that incarnation was not heard of. None: it is not a member, or this node does
    /// not vote.
    pub(super) fn silence(
        &self,
        known: &Known,
        now: Time,
        node: NodeId,
        incarnation: Incarnation,
    ) -> Option<Span> {
        let contact =
            self.contacts.get(&node).filter(|contact| contact.incarnation == incarnation)?;
        let last =
            contact.heard.map_or(contact.known_since, |heard| heard.max(contact.known_since));
        known.votes().then(|| now.since(last))
    }

    /// E2: the promises of all present suspicions, if it is time. To whom: every voter, this node
    /// too.
    pub(super) fn promises(&mut self, known: &Known, now: Time) -> Vec<LeaseMessage> {
        if self.promises_due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        let promise = |(node, member): (NodeId, &crate::membership::Member)| {
            let age = self.age(known, now, node);
            let (incarnation, at) = (member.incarnation, member.suspected?);
            Some(LeaseMessage::Promise { node, incarnation, at, age })
        };
        let promises: Vec<_> = known.membership.iter().filter_map(promise).collect();
        self.promises_due = (!promises.is_empty()).then(|| now + known.timing.node_ping);
        if known.votes() { promises } else { Vec::new() }
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.promises_due
    }
}

/// N3, N4, N7: why that incarnation gets no share of this node. None: it gets one.
pub(super) fn refusal(known: &Known, node: NodeId, incarnation: Incarnation) -> Option<Refusal> {
    if known.is_behind() {
        return Some(Refusal::Behind);
    }
    if !known.votes() {
        return Some(Refusal::NotVoter(known.newest().clone()));
    }
    match known.membership.incarnation(node, incarnation) {
        None => Some(Refusal::NotMember),
        Some(member) => member.suspected.map(Refusal::Suspected),
    }
}
