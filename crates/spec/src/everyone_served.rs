//! Liveness: every request of a process that lives is granted in the end (vcube-2018 section 7.4, Lemma 7.2): no starvation once all
//! faults are over. One is starved though others are served; if *nobody* can be served, it is a [deadlock](crate::NoDeadlock) besides.
//!
//! Judged on a run that was given time to end: no new requests, holders release, faults are over. A request that
//! still waits when nothing is under way any more will wait for ever.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Time};

use crate::Violation;

/// Keeps who waits, and since when.
#[derive(Clone, Debug, Default)]
pub struct EveryoneServed {
    waiting: BTreeMap<NodeId, Time>,
}

impl EveryoneServed {
    /// The property's name.
    pub const NAME: &'static str = "every request of a live process is granted";

    /// `node` asks.
    pub fn ask(&mut self, node: NodeId, now: Time) {
        self.waiting.insert(node, now);
    }

    /// `node` waits no longer: granted, withdrawn or crashed.
    pub fn end(&mut self, node: NodeId) {
        self.waiting.remove(&node);
    }

    /// Whether `node` waits.
    pub fn is_waiting(&self, node: NodeId) -> bool {
        self.waiting.contains_key(&node)
    }

    /// All who wait, in the order of ids.
    pub fn who(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.waiting.keys().copied()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The verdict at the end of a run in which nothing is under way any more.
    pub fn verdict(&self, now: Time) -> Option<Violation> {
        let (first, since) = self.waiting.iter().min_by_key(|(_, since)| **since)?;
        Some(Violation {
            property: Self::NAME,
            at_ns: now,
            nodes: self.waiting.keys().copied().collect(),
            text: format!(
                "{} live process(es) wait for ever, {first} since t={since}, though every holder has released",
                self.waiting.len()
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The planted bug: a request that nobody grants is caught; one that is granted or whose owner crashed is not.
    #[test]
    fn catches_who_waits_for_ever() {
        let mut judge = EveryoneServed::default();
        judge.ask(NodeId(1), Time(5));
        judge.ask(NodeId(2), Time(3));
        judge.end(NodeId(1));
        let violation = judge.verdict(Time(9)).expect("p2 waits");
        assert_eq!(violation.nodes, [NodeId(2)]);
        judge.end(NodeId(2));
        assert_eq!(judge.verdict(Time(9)), None);
    }
}
