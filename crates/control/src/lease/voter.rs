//! A voter gives shares in leases (N3, N4), and promises to give none to a suspected node (E2).

use std::collections::BTreeMap;

use kgate_core::{Incarnation, NodeId, Span, Time};

use super::context::Context;
use super::message::{LeaseMessage, Refusal};
use crate::membership::{Member, MembershipChange};

/// What a voter remembers about one incarnation of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Contact {
    incarnation: Incarnation,
    /// When this node learned of the incarnation, or applied that it was cleared.
    known_since: Time,
    last_ping: Option<Time>,
    last_answer: Option<Time>,
}

impl Contact {
    fn new(incarnation: Incarnation, now: Time) -> Self {
        Self { incarnation, known_since: now, last_ping: None, last_answer: None }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Voter {
    /// Only members have one, so there are no more contacts than members.
    contacts: BTreeMap<NodeId, Contact>,
    /// When the promises are sent again. None while no member is suspected.
    promises_due: Option<Time>,
}

impl Voter {
    /// The contacts follow the membership; the one in `context` has the change already.
    pub(super) fn membership_changed(&mut self, now: Time, change: MembershipChange) {
        match change {
            MembershipChange::Added(node, incarnation, _) => {
                if self.contact(node, incarnation).is_none() {
                    self.contacts.insert(node, Contact::new(incarnation, now));
                }
            }
            MembershipChange::Suspected(..) => self.promises_due = Some(now),
            // Its silence is forgiven: Q counts anew.
            MembershipChange::Unsuspected(node, incarnation) => {
                if let Some(contact) = self.contact_mut(node, incarnation) {
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

    fn contact(&self, node: NodeId, incarnation: Incarnation) -> Option<&Contact> {
        self.contacts.get(&node).filter(|contact| contact.incarnation == incarnation)
    }

    fn contact_mut(&mut self, node: NodeId, incarnation: Incarnation) -> Option<&mut Contact> {
        self.contacts.get_mut(&node).filter(|contact| contact.incarnation == incarnation)
    }

    /// N3, N4: a share, or the reason why there is none. Either way the node was heard (E1).
    pub(super) fn on_ping(
        &mut self,
        context: &Context,
        now: Time,
        from: NodeId,
        incarnation: Incarnation,
        seq: u64,
    ) -> LeaseMessage {
        if let Some(contact) = self.contact_mut(from, incarnation) {
            contact.last_ping = Some(now);
        }
        if let Some(reason) = refusal(context, from, incarnation) {
            return LeaseMessage::Refusal { incarnation, seq, reason };
        }
        self.answered(now, from, incarnation);
        LeaseMessage::Answer {
            incarnation,
            seq,
            store: context.store,
            voters: context.newest_voters().clone(),
            committed: context.committed.max(context.applied),
        }
    }

    /// A share is given now.
    pub(super) fn answered(&mut self, now: Time, to: NodeId, incarnation: Incarnation) {
        if let Some(contact) = self.contact_mut(to, incarnation) {
            contact.last_answer = Some(now);
        }
    }

    /// E2: the time since the last answer, or since the own start, because this process does not
    /// know what an earlier one answered.
    fn age(&self, context: &Context, now: Time, node: NodeId) -> Span {
        let last_answer = self.contacts.get(&node).and_then(|contact| contact.last_answer);
        now.since(last_answer.unwrap_or(context.start).max(context.start))
    }

    /// E1: how long this voter has not heard from that incarnation. None if the incarnation is not
    /// a member, or this node does not vote.
    pub(super) fn silence(
        &self,
        context: &Context,
        now: Time,
        node: NodeId,
        incarnation: Incarnation,
    ) -> Option<Span> {
        let contact = self.contact(node, incarnation)?;
        let last = contact.last_ping.unwrap_or(contact.known_since).max(contact.known_since);
        context.votes().then(|| now.since(last))
    }

    /// E2: the promises for all suspicions in force, if they are due. They go to every voter, this
    /// node included.
    pub(super) fn promises(&mut self, context: &Context, now: Time) -> Vec<LeaseMessage> {
        if self.promises_due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        let promise = |(node, member): (NodeId, &Member)| {
            let age = self.age(context, now, node);
            let (incarnation, at) = (member.incarnation, member.suspected?);
            Some(LeaseMessage::Promise { node, incarnation, at, age })
        };
        let promises: Vec<_> = context.membership.iter().filter_map(promise).collect();
        self.promises_due = (!promises.is_empty()).then(|| now + context.timing.node_ping);
        if context.votes() { promises } else { Vec::new() }
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.promises_due
    }
}

/// N3, N4, N7: why this node gives that incarnation no share. None: it gives one.
pub(super) fn refusal(
    context: &Context,
    node: NodeId,
    incarnation: Incarnation,
) -> Option<Refusal> {
    if context.is_behind() {
        return Some(Refusal::Behind);
    }
    if !context.votes() {
        return Some(Refusal::NotVoter(context.newest_voters().clone()));
    }
    match context.membership.incarnation(node, incarnation) {
        None => Some(Refusal::NotMember),
        Some(member) => member.suspected.map(Refusal::Suspected),
    }
}
