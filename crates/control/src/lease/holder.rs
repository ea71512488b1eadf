//! The holder of a lease: pings the voters (N1), adds up their shares (N2, N4), watches how far it
//! is behind in the log (N6), and asks to be cleared of a suspicion (E5).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kgate_core::{NodeId, Span, Time};

use super::context::Context;
use super::message::{Proposal, Refusal};
use super::retry::Retry;
use super::voter;
use crate::membership::StoreId;
use crate::voters::Voters;

/// N6: how long a node may be behind an index that it has heard of.
const BEHIND_MAX: Span = Span(1_000_000_000);
/// The most pings that are remembered; those that do not fit into a lease are of no use.
const PINGS_MAX: usize = 256;

/// An answer of a voter ([`super::LeaseMessage::Answer`]).
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) seq: u64,
    pub(super) store: StoreId,
    pub(super) voters: Voters,
    pub(super) committed: u64,
}

/// What a voter replied last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct VoterReply {
    /// When the newest ping that it has answered was sent (N1).
    pub(super) answered: Option<Time>,
    /// The refusal of the newest ping that it has refused, and when that ping was sent.
    pub(super) refused: Option<(Time, Refusal)>,
    /// The voter's store. The same voter with another store has forgotten what it promised (R4).
    store: Option<StoreId>,
    /// An answer came from another store.
    pub(super) other_store: bool,
}

/// An index of the log that was heard of, and when first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct HeardIndex {
    index: u64,
    since: Time,
}

/// A suspicion of this node, of which it asks to be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Clearing {
    at: u64,
    since: Time,
    retry: Retry,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holder {
    next_ping: Time,
    seq: u64,
    sent: VecDeque<(u64, Time)>,
    replies: BTreeMap<NodeId, VoterReply>,
    /// The newest voters that an answer has shown. They are committed, because the answering voter
    /// had applied them (N4).
    shown: Option<Voters>,
    /// The newest voters that a refusal has named: pinged, never counted (N4).
    named: Option<Voters>,
    /// N2: the greatest t such that a quorum has answered pings sent at or after t.
    since: Option<Time>,
    /// No grant before a quorum has answered pings sent at or after this.
    doubt: Option<Time>,
    /// N6: the oldest index heard of that is not applied yet, and the newest.
    unapplied: Option<(HeardIndex, HeardIndex)>,
    clearing: Option<Clearing>,
}

impl Holder {
    pub(super) fn new(now: Time, seq: u64) -> Self {
        Self {
            next_ping: now,
            seq,
            sent: VecDeque::new(),
            replies: BTreeMap::new(),
            shown: None,
            named: None,
            since: None,
            doubt: None,
            unapplied: None,
            clearing: None,
        }
    }

    /// The nodes to ping: all that vote by anything that this node has heard of.
    pub(super) fn targets(&self, context: &Context) -> BTreeSet<NodeId> {
        let mut all = context.all_voters();
        all.extend(self.shown.iter().chain(&self.named).flat_map(Voters::all));
        all
    }

    /// N4: the voters of which a quorum is needed, in each of these. The newest voters known to be
    /// committed; and the newest in the own log, if they are newer. The latter may never be
    /// committed, so they add to the former and must not replace them.
    fn binding<'a>(&'a self, context: &'a Context) -> impl Iterator<Item = &'a Voters> {
        let applied = &context.voters;
        let committed =
            self.shown.as_ref().filter(|shown| shown.at > applied.at).unwrap_or(applied);
        let appended = context.appended.as_ref().filter(|appended| appended.at > committed.at);
        std::iter::once(committed).chain(appended)
    }

    /// N1: the number of the pings to send now, if they are due.
    pub(super) fn ping(&mut self, context: &Context, now: Time) -> Option<u64> {
        if now < self.next_ping {
            return None;
        }
        self.next_ping = now + context.timing.node_ping;
        self.seq += 1;
        self.sent.push_back((self.seq, now));
        let lease = context.own_terms().map_or(context.timing.lease, |terms| terms.lease);
        while self.sent.len() > PINGS_MAX
            || self.sent.front().is_some_and(|(_, sent)| now.since(*sent) > lease)
        {
            self.sent.pop_front();
        }
        Some(self.seq)
    }

    /// Numbers pings from half of that number, so that there is always a greater one.
    pub(super) fn number_from(&mut self, seq: u64) {
        self.seq = seq / 2;
    }

    /// The next pings are due now: there are new voters to ask, or the lease is in doubt.
    pub(super) fn ping_soon(&mut self, now: Time) {
        self.next_ping = self.next_ping.min(now);
    }

    fn sent_at(&self, seq: u64) -> Option<Time> {
        let found = self.sent.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        self.sent.get(found).map(|(_, sent)| *sent)
    }

    /// What that voter replied before. None if this node does not ping it: then nothing is kept.
    fn reply_of(&mut self, context: &Context, from: NodeId) -> Option<&mut VoterReply> {
        let is_target = context.is_voter(from)
            || self.shown.iter().chain(&self.named).any(|voters| voters.has(from));
        is_target.then(|| self.replies.entry(from).or_default())
    }

    /// A share (N1, N2, N4, N6).
    pub(super) fn on_answer(&mut self, context: &Context, now: Time, from: NodeId, answer: Answer) {
        let Answer { seq, store, voters, committed } = answer;
        let Some(sent) = self.sent_at(seq) else { return };
        if !voters.is_plausible() {
            return;
        }
        let Some(reply) = self.reply_of(context, from) else { return };
        if *reply.store.get_or_insert(store) != store {
            reply.other_store = true;
            return;
        }
        reply.answered = reply.answered.max(Some(sent));
        if self.shown.as_ref().is_none_or(|shown| shown.at < voters.at) {
            let is_new = !voters.all().is_subset(&self.targets(context));
            self.shown = Some(voters);
            if is_new {
                self.ping_soon(now);
            }
        }
        self.heard_of(context, now, committed);
        self.renew(context);
    }

    /// No share, and why (E5).
    pub(super) fn on_refusal(
        &mut self,
        context: &Context,
        now: Time,
        from: NodeId,
        seq: u64,
        reason: Refusal,
    ) {
        let Some(sent) = self.sent_at(seq) else { return };
        let Some(reply) = self.reply_of(context, from) else { return };
        if reply.refused.as_ref().is_none_or(|(before, _)| *before <= sent) {
            reply.refused = Some((sent, reason.clone()));
        }
        match reason {
            Refusal::Suspected(at) => self.on_suspected(context, now, at),
            Refusal::NotVoter(voters) => {
                let newer = self.named.as_ref().is_none_or(|named| named.at < voters.at);
                if newer && voters.is_plausible() {
                    self.named = Some(voters);
                    self.ping_soon(now);
                }
            }
            Refusal::NotMember | Refusal::Behind => {}
        }
    }

    /// E5: asks to be cleared, if a quorum has heard this node recently; otherwise it would be
    /// suspected again at once.
    fn on_suspected(&mut self, context: &Context, now: Time, at: u64) {
        let recently = |node: NodeId| {
            let reply = self.replies.get(&node)?;
            let refused = reply.refused.as_ref().map(|(sent, _)| *sent);
            let sent = reply.answered.max(refused)?;
            (now.since(sent) <= context.timing.suspect_after).then_some(())
        };
        let heard = self.binding(context).all(|voters| voters.reached(recently).is_some());
        if heard && self.clearing.is_none_or(|clearing| clearing.at < at) {
            let retry = Retry::at(now, context.timing.node_ping.times(2));
            self.clearing = Some(Clearing { at, since: now, retry });
        }
    }

    /// E5: the proposal to be cleared, if it is due.
    pub(super) fn clear(&mut self, context: &Context, now: Time) -> Option<Proposal> {
        let Context { me: node, incarnation, .. } = *context;
        let clearing = self.clearing.as_mut()?;
        let at = clearing.at;
        clearing.retry.take(now).then_some(Proposal::Unsuspect { node, incarnation, at })
    }

    /// The suspicion is over: cleared, or the incarnation is gone.
    pub(super) fn stop_clearing(&mut self) {
        self.clearing = None;
    }

    /// N2: adds up the shares. A lease that was reached must not be shortened when newer voters
    /// become known: it was a lease by the voters of that time.
    pub(super) fn renew(&mut self, context: &Context) {
        let answered = |node: NodeId| self.replies.get(&node).and_then(|reply| reply.answered);
        let reached = self.binding(context).map(|voters| voters.reached(answered)).min().flatten();
        self.since = self.since.max(reached);
        if self.clearing.is_some_and(|clearing| self.since > Some(clearing.since)) {
            self.clearing = None;
        }
    }

    /// Whether the own vote is a quorum and is given: one voter, which is this node. Then the lease
    /// does not end.
    pub(super) fn is_alone(&self, context: &Context) -> bool {
        self.binding(context).all(|voters| voters.is_quorum(|node| node == context.me))
            && voter::refusal(context, context.me, context.incarnation).is_none()
    }

    /// A lease from now, by the own vote alone.
    pub(super) fn renew_alone(&mut self, now: Time) {
        self.since = self.since.max(Some(now));
    }

    /// N2: when the lease ends. An incarnation that is not a member has none.
    pub(super) fn end(&self, context: &Context) -> Time {
        match (context.own_terms(), self.since) {
            (Some(_), _) if self.is_alone(context) => Time::NEVER,
            (Some(terms), Some(since)) => since + terms.lease,
            (None, _) | (Some(_), None) => Time::ZERO,
        }
    }

    /// Whether `now` is before [`Holder::end`]. This is asked for every input of a node: the usual
    /// case comes first.
    pub(super) fn holds(&self, context: &Context, now: Time) -> bool {
        let Some(terms) = context.own_terms() else { return false };
        self.since.is_some_and(|since| now < since + terms.lease) || self.is_alone(context)
    }

    /// From now on nothing is granted until a quorum answers.
    pub(super) fn doubt(&mut self, now: Time) {
        self.doubt = Some(now);
        self.ping_soon(now);
    }

    pub(super) fn in_doubt(&self, context: &Context) -> bool {
        self.doubt.is_some_and(|doubt| self.since < Some(doubt)) && !self.is_alone(context)
    }

    /// N6: a voter knows that the log is committed up to that index.
    fn heard_of(&mut self, context: &Context, now: Time, index: u64) {
        if index <= context.applied {
            return;
        }
        let heard = HeardIndex { index, since: now };
        self.unapplied = match self.unapplied {
            None => Some((heard, heard)),
            Some((oldest, newest)) if newest.index < index => Some((oldest, heard)),
            Some(both) => Some(both),
        };
    }

    /// N6: this node has applied the log up to that index.
    pub(super) fn applied(&mut self, index: u64) {
        self.unapplied = match self.unapplied {
            Some((_, newest)) if newest.index <= index => None,
            Some((oldest, newest)) if oldest.index <= index => Some((newest, newest)),
            unchanged @ (Some(_) | None) => unchanged,
        };
    }

    /// N6: the index that this node should have applied long ago, if there is one.
    pub(super) fn behind(&self, now: Time) -> Option<u64> {
        self.unapplied
            .filter(|(oldest, _)| now.since(oldest.since) > BEHIND_MAX)
            .map(|(oldest, _)| oldest.index)
    }

    /// Forgets the replies of nodes that do not vote any more.
    pub(super) fn prune(&mut self, context: &Context) {
        let targets = self.targets(context);
        self.replies.retain(|node, _| targets.contains(node));
    }

    /// The voters whose shares count, and what each replied last.
    pub(super) fn voters(&self, context: &Context) -> Vec<(NodeId, Option<&VoterReply>)> {
        let counted: BTreeSet<NodeId> = self.binding(context).flat_map(Voters::all).collect();
        counted.into_iter().map(|node| (node, self.replies.get(&node))).collect()
    }

    pub(super) fn next_due(&self) -> Time {
        self.clearing.map_or(self.next_ping, |clearing| clearing.retry.next().min(self.next_ping))
    }
}
