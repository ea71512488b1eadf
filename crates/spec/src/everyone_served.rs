//! Liveness: every request of a live process is eventually granted (vcube-2018 section 7.4, Lemma
//! 7.2): no starvation after the last fault. Starvation means that one process waits while others
//! are served; if no process can be served, it is a [deadlock](crate::NoDeadlock) too.
//!
//! Checked at the end of a run: no new requests, holders release, no more faults. A request that
//! waits in a quiescent state waits for ever. A process may have several waiting requests, in the
//! order in which they were issued.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Time};

use crate::Violation;

/// Keeps the waiting requests, with the time of each.
#[derive(Clone, Debug, Default)]
pub struct EveryoneServed {
    /// By process, and per process in the order of requests.
    waiting: BTreeMap<(NodeId, u64), Time>,
    asked: u64,
}

impl EveryoneServed {
    /// The property's name.
    pub const NAME: &'static str = "every request of a live process is granted";

    /// `node` issues a request.
    pub fn ask(&mut self, node: NodeId, now: Time) {
        self.waiting.insert((node, self.asked), now);
        self.asked += 1;
    }

    /// All requests of `node` end: it has crashed.
    pub fn end(&mut self, node: NodeId) {
        while self.end_first(node).is_some() {}
    }

    /// The first waiting request of `node` ends; returns the time at which it was issued.
    pub fn end_first(&mut self, node: NodeId) -> Option<Time> {
        self.end_at(node, 0)
    }

    /// The waiting request of `node` at that place ends; returns the time at which it was issued.
    pub fn end_at(&mut self, node: NodeId, place: usize) -> Option<Time> {
        let key = *self.of(node).nth(place)?.0;
        self.waiting.remove(&key)
    }

    /// The last waiting request of `node` is withdrawn.
    pub fn end_last(&mut self, node: NodeId) {
        let last = self.of(node).next_back().map(|(key, _)| *key);
        last.map(|last| self.waiting.remove(&last));
    }

    /// The number of waiting requests of `node`.
    pub fn waiting_of(&self, node: NodeId) -> usize {
        self.of(node).count()
    }

    /// Whether `node` waits.
    pub fn is_waiting(&self, node: NodeId) -> bool {
        self.of(node).next().is_some()
    }

    /// All processes with waiting requests, in the order of ids.
    pub fn who(&self) -> impl Iterator<Item = NodeId> + '_ {
        let mut last = None;
        self.waiting
            .keys()
            .map(|(node, _)| *node)
            .filter(move |&node| last.replace(node) != Some(node))
    }

    /// The number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The verdict at the end of a quiescent run.
    pub fn verdict(&self, now: Time) -> Option<Violation> {
        let ((first, _), since) = self.waiting.iter().min_by_key(|(_, since)| **since)?;
        let nodes: Vec<NodeId> = self.who().collect();
        let text = format!(
            "{} live process(es) wait for ever, {first} since t={since}, although every holder \
             released",
            nodes.len()
        );
        Some(Violation { property: Self::NAME, at_ns: now, nodes, text })
    }

    fn of(&self, node: NodeId) -> impl DoubleEndedIterator<Item = (&(NodeId, u64), &Time)> {
        self.waiting.range((node, 0)..=(node, u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planted bug: a request that is never granted is caught; a granted request, or one whose
    /// process crashed, is not.
    #[test]
    fn catches_a_request_that_waits_for_ever() {
        let mut checker = EveryoneServed::default();
        checker.ask(NodeId(1), Time(5));
        checker.ask(NodeId(2), Time(3));
        checker.end(NodeId(1));
        let violation = checker.verdict(Time(9)).expect("p2 waits");
        assert_eq!(violation.nodes, [NodeId(2)]);
        checker.end(NodeId(2));
        assert_eq!(checker.verdict(Time(9)), None);
    }

    /// Planted bug: the second of three requests of one process is never granted.
    #[test]
    fn catches_one_request_of_several() {
        let mut checker = EveryoneServed::default();
        (1..=3).for_each(|at| checker.ask(NodeId(1), Time(at)));
        assert_eq!(checker.end_first(NodeId(1)), Some(Time(1)));
        checker.end_last(NodeId(1));
        assert_eq!((checker.waiting(), checker.who().collect::<Vec<_>>()), (1, vec![NodeId(1)]));
        assert!(
            checker.verdict(Time(9)).expect("p1 waits").text.contains("p1 since t=0.000000002")
        );
        checker.ask(NodeId(1), Time(4));
        assert_eq!(
            (checker.end_at(NodeId(1), 1), checker.end_at(NodeId(1), 1)),
            (Some(Time(4)), None)
        );
        assert_eq!(checker.end_first(NodeId(1)), Some(Time(2)));
        assert_eq!((checker.end_first(NodeId(1)), checker.verdict(Time(9))), (None, None));
    }
}
