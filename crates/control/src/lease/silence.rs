//! Suspicion: a node asks the voters about a silent node, and proposes to suspect it when a
//! majority has not heard from it for Q (E1).
//!
//! This is about accuracy only: a wrong suspicion costs a node a moment, and frees nobody's slots.
//! Queries and proposals back off while there is no majority, or no suspicion comes of them: a
//! removed voter that does not know of its removal believes that every node is silent.

use std::collections::BTreeMap;

use kgate_core::{Incarnation, NodeId, Span, Time};

use super::context::Context;
use super::message::{LeaseMessage, Proposal};
use super::retry::Retry;

/// The queries about one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inquiry {
    incarnation: Incarnation,
    opened: Time,
    /// When each voter last said that it had not heard from the node for Q.
    silent: BTreeMap<NodeId, Time>,
    query: Retry,
    propose: Retry,
}

impl Inquiry {
    /// Whether a majority has said so recently.
    fn has_majority(&self, context: &Context, now: Time) -> bool {
        let recent = |said: &Time| now.since(*said) < context.timing.suspect_after;
        context.voters.is_quorum(|node| self.silent.get(&node).is_some_and(recent))
    }

    /// When this node may propose, if there is a majority.
    fn may_propose(&self, context: &Context) -> Time {
        self.propose.next().max(self.opened + context.proposal_delay())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SilenceDetector {
    inquiries: BTreeMap<NodeId, Inquiry>,
}

impl SilenceDetector {
    /// Asks about that node from now on, if it is a member and not suspected yet.
    pub(super) fn open(&mut self, context: &Context, now: Time, node: NodeId) {
        let Some(member) = context.membership.get(node) else { return };
        let incarnation = member.incarnation;
        let is_open =
            self.inquiries.get(&node).is_some_and(|inquiry| inquiry.incarnation == incarnation);
        if is_open || member.suspected.is_some() || node == context.me {
            return;
        }
        let query = Retry::at(now, context.timing.node_ping);
        let propose = Retry::at(now, context.timing.node_ping.times(2));
        let silent = BTreeMap::new();
        self.inquiries.insert(node, Inquiry { incarnation, opened: now, silent, query, propose });
    }

    /// The node was heard: nothing is asked about it any more.
    pub(super) fn close(&mut self, node: NodeId) {
        self.inquiries.remove(&node);
    }

    /// The reply of a voter.
    pub(super) fn on_silence_reply(
        &mut self,
        context: &Context,
        now: Time,
        from: NodeId,
        node: NodeId,
        incarnation: Incarnation,
        silence: Span,
    ) {
        let inquiry =
            self.inquiries.get_mut(&node).filter(|inquiry| inquiry.incarnation == incarnation);
        let Some(inquiry) = inquiry.filter(|_| context.voters.has(from)) else { return };
        if silence < context.timing.suspect_after {
            inquiry.silent.remove(&from);
        } else {
            inquiry.silent.insert(from, now);
        }
    }

    /// Closes the inquiries about incarnations that are suspected or no members any more.
    pub(super) fn prune(&mut self, context: &Context) {
        self.inquiries
            .retain(|node, inquiry| context.membership.is_trusted(*node, inquiry.incarnation));
    }

    /// The queries to send to every voter now.
    pub(super) fn queries(&mut self, now: Time) -> Vec<LeaseMessage> {
        let query = |(node, inquiry): (&NodeId, &mut Inquiry)| {
            let incarnation = inquiry.incarnation;
            let query = LeaseMessage::SilenceQuery { node: *node, incarnation };
            inquiry.query.take(now).then_some(query)
        };
        self.inquiries.iter_mut().filter_map(query).collect()
    }

    /// The suspicions to propose now.
    pub(super) fn proposals(&mut self, context: &Context, now: Time) -> Vec<Proposal> {
        let propose = |(node, inquiry): (&NodeId, &mut Inquiry)| {
            let due = inquiry.has_majority(context, now) && now >= inquiry.may_propose(context);
            (due && inquiry.propose.take(now))
                .then_some(Proposal::Suspect { node: *node, incarnation: inquiry.incarnation })
        };
        self.inquiries.iter_mut().filter_map(propose).collect()
    }

    pub(super) fn next_due(&self, context: &Context, now: Time) -> Option<Time> {
        let due = |inquiry: &Inquiry| {
            let propose = inquiry.has_majority(context, now).then(|| inquiry.may_propose(context));
            propose.map_or(inquiry.query.next(), |propose| propose.min(inquiry.query.next()))
        };
        self.inquiries.values().map(due).min()
    }
}
