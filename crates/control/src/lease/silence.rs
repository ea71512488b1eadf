//! Who is silent: asks the voters, and proposes a suspicion when a majority has not heard a node
//! for Q (E1).
//!
//! Only for accuracy: a wrong suspicion costs a node a moment, never anybody a slot. What finds no
//! agreement is asked and proposed rarer and rarer: a removed voter that was never told holds
//! everybody for silent.

use std::collections::BTreeMap;

use kgate_core::{Incarnation, NodeId, Span, Time};

use super::known::Known;
use super::message::{LeaseMessage, Proposal};
use super::retry::Retry;

/// What is asked about one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inquiry {
    incarnation: Incarnation,
    opened: Time,
    /// When each voter last said that it had not heard the node for Q.
    silent: BTreeMap<NodeId, Time>,
    ask: Retry,
    propose: Retry,
}

impl Inquiry {
    /// Whether a majority has said so lately.
    fn has_majority(&self, known: &Known, now: Time) -> bool {
        let lately = |said: &Time| now.since(*said) < known.timing.suspect_after;
        known.voters.is_quorum(|node| self.silent.get(&node).is_some_and(lately))
    }

    /// When this node may propose, majority or not.
    fn may_propose(&self, known: &Known) -> Time {
        self.propose.next().max(self.opened + known.turn())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Silence {
    inquiries: BTreeMap<NodeId, Inquiry>,
}

impl Silence {
    /// Asks about that node from now on, if it is a member that nobody suspects yet.
    pub(super) fn suspect(&mut self, known: &Known, now: Time, node: NodeId) {
        let Some(member) = known.membership.get(node) else { return };
        let incarnation = member.incarnation;
        let open =
            self.inquiries.get(&node).is_some_and(|inquiry| inquiry.incarnation == incarnation);
        if open || member.suspected.is_some() || node == known.me {
            return;
        }
        let ask = Retry::at(now, known.timing.node_ping);
        let propose = Retry::at(now, known.timing.node_ping.times(2));
        let silent = BTreeMap::new();
        self.inquiries.insert(node, Inquiry { incarnation, opened: now, silent, ask, propose });
    }

    /// It was heard: nothing is asked about it any more.
    pub(super) fn heard(&mut self, node: NodeId) {
        self.inquiries.remove(&node);
    }

    /// What a voter says.
    pub(super) fn on_silence_reply(
        &mut self,
        known: &Known,
        now: Time,
        from: NodeId,
        (node, incarnation, silence): (NodeId, Incarnation, Span),
    ) {
        let inquiry =
            self.inquiries.get_mut(&node).filter(|inquiry| inquiry.incarnation == incarnation);
        let Some(inquiry) = inquiry.filter(|_| known.voters.has(from)) else { return };
        if silence < known.timing.suspect_after {
            inquiry.silent.remove(&from);
        } else {
            inquiry.silent.insert(from, now);
        }
    }

    /// What is over: suspected, gone, in another incarnation.
    pub(super) fn prune(&mut self, known: &Known) {
        self.inquiries
            .retain(|node, inquiry| known.membership.is_trusted(*node, inquiry.incarnation));
    }

    /// What to ask of every voter now.
    pub(super) fn questions(&mut self, now: Time) -> Vec<LeaseMessage> {
        let ask = |(node, inquiry): (&NodeId, &mut Inquiry)| {
            let question =
                LeaseMessage::SilenceQuery { node: *node, incarnation: inquiry.incarnation };
            inquiry.ask.take(now).then_some(question)
        };
        self.inquiries.iter_mut().filter_map(ask).collect()
    }

    /// Whom to propose for suspicion now.
    pub(super) fn proposals(&mut self, known: &Known, now: Time) -> Vec<Proposal> {
        let propose = |(node, inquiry): (&NodeId, &mut Inquiry)| {
            let due = inquiry.has_majority(known, now) && now >= inquiry.may_propose(known);
            (due && inquiry.propose.take(now))
                .then_some(Proposal::Suspect { node: *node, incarnation: inquiry.incarnation })
        };
        self.inquiries.iter_mut().filter_map(propose).collect()
    }

    pub(super) fn next_due(&self, known: &Known, now: Time) -> Option<Time> {
        let due = |inquiry: &Inquiry| {
            let propose = inquiry.has_majority(known, now).then(|| inquiry.may_propose(known));
            propose.map_or(inquiry.ask.next(), |propose| propose.min(inquiry.ask.next()))
        };
        self.inquiries.values().map(due).min()
    }
}
