//! Liveness: every request of a process that is alive is granted in the end (vcube-2018 section
//! 7.4, Lemma 7.2): no starvation once all faults are over. One is starved though others are
//! served; if *nobody* can be served, it is a [deadlock](crate::NoDeadlock) besides.
//!
//! Checked on a run that was given time to end: no new requests, holders release, faults are over.
//! A request that still waits when nothing is under way any more will wait for ever. A process may
//! have several requests that wait, in the order in which they were asked.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Time};

use crate::Violation;

/// Keeps who waits, and since when.
#[derive(Clone, Debug, Default)]
pub struct EveryoneServed {
    /// By process and, of one process, in the order of asking.
    waiting: BTreeMap<(NodeId, u64), Time>,
    asked: u64,
}

impl EveryoneServed {
    /// The property's name.
    pub const NAME: &'static str = "every request of a live process is granted";

    /// `node` asks.
    pub fn ask(&mut self, node: NodeId, now: Time) {
        self.waiting.insert((node, self.asked), now);
        self.asked += 1;
    }

    /// `node` waits no longer, with all its requests: it has crashed.
    pub fn end(&mut self, node: NodeId) {
        while self.end_first(node).is_some() {}
    }

    /// The first request of `node` that waits has ended; since when it waited.
    pub fn end_first(&mut self, node: NodeId) -> Option<Time> {
        self.end_at(node, 0)
    }

    /// The request of `node` at that place of those that wait has ended; since when it waited.
    pub fn end_at(&mut self, node: NodeId, place: usize) -> Option<Time> {
        let key = *self.of(node).nth(place)?.0;
        self.waiting.remove(&key)
    }

    /// The last request of `node` that waits was taken back.
    pub fn end_last(&mut self, node: NodeId) {
        let last = self.of(node).next_back().map(|(key, _)| *key);
        last.map(|last| self.waiting.remove(&last));
    }

    /// How many requests of `node` wait.
    pub fn waiting_of(&self, node: NodeId) -> usize {
        self.of(node).count()
    }

    /// Whether `node` waits.
    pub fn is_waiting(&self, node: NodeId) -> bool {
        self.of(node).next().is_some()
    }

    /// All who wait, in the order of ids.
    pub fn who(&self) -> impl Iterator<Item = NodeId> + '_ {
        let mut last = None;
        self.waiting
            .keys()
            .map(|(node, _)| *node)
            .filter(move |&node| last.replace(node) != Some(node))
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The verdict at the end of a run in which nothing is under way any more.
    pub fn verdict(&self, now: Time) -> Option<Violation> {
        let ((first, _), since) = self.waiting.iter().min_by_key(|(_, since)| **since)?;
        let nodes: Vec<NodeId> = self.who().collect();
        let text = format!(
            "{} live process(es) wait for ever, {first} since t={since}, though every holder has released",
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

    /// The planted bug: a request that nobody grants is caught; one that is granted or whose owner
    /// crashed is not.
    #[test]
    fn catches_who_waits_for_ever() {
        let mut checker = EveryoneServed::default();
        checker.ask(NodeId(1), Time(5));
        checker.ask(NodeId(2), Time(3));
        checker.end(NodeId(1));
        let violation = checker.verdict(Time(9)).expect("p2 waits");
        assert_eq!(violation.nodes, [NodeId(2)]);
        checker.end(NodeId(2));
        assert_eq!(checker.verdict(Time(9)), None);
    }

    /// The planted bug: the second of three requests of one process is never granted.
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
