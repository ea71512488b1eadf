//! The evictor: collects promises, waits on its own clock, and proposes to evict (E3).
//!
//! Any voter may be one. Nothing of it is in the log: if it dies, the next one collects anew, and
//! the ages in the promises keep the time that has passed already.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kgate_core::{Incarnation, NodeId, Span, Time};

use super::known::Known;
use super::message::Proposal;
use super::retry::Retry;
use crate::membership::Member;

/// A promise, and when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Promised {
    age: Span,
    received: Time,
}

impl Promised {
    /// Time without an answer of that voter: what it said, and what the own clock has counted
    /// since.
    fn waited(self, now: Time) -> Span {
        self.age + now.since(self.received)
    }

    /// When that is enough.
    fn ripe(self, wait: Span) -> Time {
        self.received + Span(wait.0.saturating_sub(self.age.0))
    }
}

/// One suspicion.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Case {
    incarnation: Incarnation,
    at: u64,
    promises: BTreeMap<NodeId, Promised>,
    retry: Retry,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Evictor {
    cases: BTreeMap<NodeId, Case>,
}

impl Evictor {
    /// A promise of a voter. It counts for the suspicion that this node has applied; others come
    /// again.
    pub(super) fn on_promise(
        &mut self,
        known: &Known,
        now: Time,
        from: NodeId,
        (node, incarnation, at, age): (NodeId, Incarnation, u64, Span),
    ) {
        let suspected =
            known.membership.incarnation(node, incarnation).and_then(|member| member.suspected);
        if suspected != Some(at) || !known.is_voter(from) {
            return;
        }
        let retry = Retry::at(now, known.timing.node_ping.times(2));
        let new = || Case { incarnation, at, promises: BTreeMap::new(), retry };
        let case = self.cases.entry(node).or_insert_with(new);
        if (case.incarnation, case.at) != (incarnation, at) {
            *case = new();
        }
        let promised = Promised { age, received: now };
        let kept = case.promises.entry(from).or_insert(promised);
        if kept.waited(now) < age {
            *kept = promised;
        }
    }

    /// Forgets suspicions that are over, and promises of nodes that do not vote any more.
    pub(super) fn prune(&mut self, known: &Known) {
        self.cases.retain(|node, case| suspicion(known, *node, case).is_some());
        for case in self.cases.values_mut() {
            case.promises.retain(|from, _| known.is_voter(*from));
        }
    }

    /// E3: whom to evict now.
    pub(super) fn proposals(&mut self, known: &Known, now: Time) -> Vec<Proposal> {
        let propose = |(node, case): (&NodeId, &mut Case)| {
            let due = ripe(known, *node, case)?;
            if now < due + known.turn() || !case.retry.take(now) {
                return None;
            }
            let (incarnation, at, voters_at) = (case.incarnation, case.at, known.voters.at);
            let waited = |node| case.promises.get(&node).map(|promised| promised.waited(now));
            let waited = known.voters.reached(waited)?.min(now.since(known.voters_since));
            Some(Proposal::Evict { node: *node, incarnation, at, voters_at, waited })
        };
        self.cases.iter_mut().filter_map(propose).collect()
    }

    pub(super) fn next_due(&self, known: &Known) -> Option<Time> {
        let due = |(node, case): (&NodeId, &Case)| {
            let ripe = ripe(known, *node, case)?;
            Some((ripe + known.turn()).max(case.retry.next()))
        };
        self.cases.iter().filter_map(due).min()
    }
}

/// The suspicion of a case, if it is still the present one. Nobody evicts itself.
fn suspicion<'a>(known: &'a Known, node: NodeId, case: &Case) -> Option<&'a Member> {
    let member = known.membership.incarnation(node, case.incarnation)?;
    (member.suspected == Some(case.at) && (node, case.incarnation) != (known.me, known.incarnation))
        .then_some(member)
}

/// E3: when a quorum of the newest voters is ripe, and W has passed since this node applied them.
/// (Promises that nodes gave before they were voters prove nothing while the old voters could still
/// answer.) None: not by waiting alone.
fn ripe(known: &Known, node: NodeId, case: &Case) -> Option<Time> {
    let wait = suspicion(known, node, case)?.terms.wait();
    if known.is_behind() || known.newest().at != known.voters.at || !known.voters.has(known.me) {
        return None;
    }
    let ripe = |node| case.promises.get(&node).map(|promised| Reverse(promised.ripe(wait)));
    let Reverse(ripe) = known.voters.reached(ripe)?;
    Some(ripe.max(known.voters_since + wait))
}
