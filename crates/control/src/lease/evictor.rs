//! An evictor collects promises, waits on its own clock, and proposes to evict (E3).
//!
//! Any voter may be one. The log knows nothing of it: if an evictor dies, the next one collects the
//! promises anew, and the ages in them keep the time that has passed already.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kgate_core::{Incarnation, NodeId, Span, Time};

use super::context::Context;
use super::message::Proposal;
use super::retry::Retry;
use crate::membership::{Eviction, Member};

/// What a promise says ([`super::LeaseMessage::Promise`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) at: u64,
    pub(super) age: Span,
}

/// A promise that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Received {
    age: Span,
    at: Time,
}

impl Received {
    /// The time for which that voter has not answered: its age when it was received, and what the
    /// own clock has counted since.
    fn waited(self, now: Time) -> Span {
        self.age + now.since(self.at)
    }

    /// When that voter is ripe: it has not answered for `wait`.
    fn ripe_at(self, wait: Span) -> Time {
        self.at + Span(wait.0.saturating_sub(self.age.0))
    }
}

/// The promises for one suspicion.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Case {
    incarnation: Incarnation,
    at: u64,
    promises: BTreeMap<NodeId, Received>,
    retry: Retry,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Evictor {
    cases: BTreeMap<NodeId, Case>,
}

impl Evictor {
    /// A promise of a voter. It counts only for the suspicion that this node has applied. One that
    /// comes before the suspicion is applied here is dropped: it is sent again.
    pub(super) fn on_promise(
        &mut self,
        context: &Context,
        now: Time,
        from: NodeId,
        promise: Promise,
    ) {
        let Promise { node, incarnation, at, age } = promise;
        let member = context.membership.incarnation(node, incarnation);
        let suspected = member.and_then(|member| member.suspected);
        if suspected != Some(at) || !context.is_voter(from) {
            return;
        }
        let retry = Retry::at(now, context.timing.node_ping.times(2));
        let new = || Case { incarnation, at, promises: BTreeMap::new(), retry };
        let case = self.cases.entry(node).or_insert_with(new);
        if (case.incarnation, case.at) != (incarnation, at) {
            *case = new();
        }
        let received = Received { age, at: now };
        let kept = case.promises.entry(from).or_insert(received);
        if kept.waited(now) < age {
            *kept = received;
        }
    }

    /// Forgets suspicions that are over, and promises of nodes that do not vote any more.
    pub(super) fn prune(&mut self, context: &Context) {
        self.cases.retain(|node, case| suspect(context, *node, case).is_some());
        for case in self.cases.values_mut() {
            case.promises.retain(|from, _| context.is_voter(*from));
        }
    }

    /// E3: the evictions to propose now.
    pub(super) fn proposals(&mut self, context: &Context, now: Time) -> Vec<Proposal> {
        let propose = |(node, case): (&NodeId, &mut Case)| {
            let ripe = ripe_at(context, *node, case)?;
            if now < ripe + context.proposal_delay() || !case.retry.take(now) {
                return None;
            }
            let (incarnation, at, voters_at) = (case.incarnation, case.at, context.voters.at);
            let waited = |node| case.promises.get(&node).map(|promise| promise.waited(now));
            let waited = context.voters.reached(waited)?.min(now.since(context.voters_since));
            Some(Proposal::Evict(Eviction { node: *node, incarnation, at, voters_at, waited }))
        };
        self.cases.iter_mut().filter_map(propose).collect()
    }

    pub(super) fn next_due(&self, context: &Context) -> Option<Time> {
        let due = |(node, case): (&NodeId, &Case)| {
            let ripe = ripe_at(context, *node, case)?;
            Some((ripe + context.proposal_delay()).max(case.retry.next()))
        };
        self.cases.iter().filter_map(due).min()
    }
}

/// The suspected member of a case, if the suspicion is still in force. No incarnation evicts
/// itself.
fn suspect<'a>(context: &'a Context, node: NodeId, case: &Case) -> Option<&'a Member> {
    let member = context.membership.incarnation(node, case.incarnation)?;
    let is_self = (node, case.incarnation) == (context.me, context.incarnation);
    (member.suspected == Some(case.at) && !is_self).then_some(member)
}

/// E3: when a quorum of the newest voters is ripe, and W has also passed since this node applied
/// them. (A promise that a node gave before it was a voter proves nothing while the old voters
/// could still answer.) None: waiting alone is not enough.
fn ripe_at(context: &Context, node: NodeId, case: &Case) -> Option<Time> {
    let wait = suspect(context, node, case)?.terms.wait();
    let (newest, voters) = (context.newest_voters(), &context.voters);
    if context.is_behind() || newest.at != voters.at || !voters.has(context.me) {
        return None;
    }
    let ripe = |node| case.promises.get(&node).map(|promise| Reverse(promise.ripe_at(wait)));
    let Reverse(ripe) = voters.reached(ripe)?;
    Some(ripe.max(context.voters_since + wait))
}
