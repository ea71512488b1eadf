//! Broadcast: a broadcast of a live source reaches every live process once, and nothing else is
//! delivered.
//!
//! - *Validity*: if a process that is alive broadcasts m, every process that is alive delivers m
//!   (vcube-2018 section 6, Lemma 6.1; robust-2012 section 3.2).
//! - *Integrity*: m is delivered only if it was broadcast (no creation), and once by each process
//!   (no duplication): Lemma 6.2.
//! - *Termination*: the source learns that its broadcast has ended, so that it can start its next
//!   (Algorithm 6.1 line 5).
//!
//! These are the properties of a best-effort broadcast (Hadzilacos and Toueg 1993).
//!
//! Not checked: agreement (if the source crashes, its last broadcast may reach some processes and
//! not others; best effort promises no more), and the order of deliveries.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{NodeId, Stamp, Time};

use crate::Violation;

/// Keeps the broadcasts and which processes have delivered each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broadcast {
    sent: BTreeSet<Stamp>,
    delivered: BTreeMap<Stamp, BTreeSet<NodeId>>,
}

impl Broadcast {
    /// The name of validity.
    pub const VALIDITY: &'static str = "a broadcast of a live source reaches every live process";
    /// The name of no creation.
    pub const CREATION: &'static str = "only what was broadcast is delivered";
    /// The name of no duplication.
    pub const DUPLICATION: &'static str = "a broadcast is delivered once";
    /// The name of termination.
    pub const TERMINATION: &'static str = "a broadcast of a live source ends";

    /// A source broadcasts.
    pub fn sent(&mut self, what: Stamp) {
        self.sent.insert(what);
    }

    /// `node` delivers a broadcast.
    pub fn delivered(&mut self, node: NodeId, what: Stamp, now: Time) -> Option<Violation> {
        if !self.sent.contains(&what) {
            return violation(
                Self::CREATION,
                now,
                vec![node],
                format!("{node} delivered {what:?}, which no process sent"),
            );
        }
        if !self.delivered.entry(what).or_default().insert(node) {
            return violation(
                Self::DUPLICATION,
                now,
                vec![node],
                format!("{node} delivered {what:?} again"),
            );
        }
        None
    }

    /// The verdict in a quiescent state: `live` are the live processes, `busy` those whose
    /// broadcast has not ended.
    pub fn verdict(&self, live: &[NodeId], busy: &[NodeId], now: Time) -> Option<Violation> {
        if let Some(&node) = busy.iter().find(|node| live.contains(node)) {
            return violation(
                Self::TERMINATION,
                now,
                vec![node],
                format!("{node} waits for ever for its broadcast to end"),
            );
        }
        let none = BTreeSet::new();
        self.sent.iter().filter(|what| live.contains(&what.node)).find_map(|what| {
            let delivered = self.delivered.get(what).unwrap_or(&none);
            let others = live.iter().copied().filter(|&node| node != what.node);
            let without: Vec<NodeId> = others.filter(|node| !delivered.contains(node)).collect();
            if without.is_empty() {
                return None;
            }
            let text = format!("{without:?} never delivered {what:?}");
            violation(Self::VALIDITY, now, without, text)
        })
    }
}

fn violation(
    property: &'static str,
    at_ns: Time,
    nodes: Vec<NodeId>,
    text: String,
) -> Option<Violation> {
    Some(Violation { property, at_ns, nodes, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: [NodeId; 3] = [NodeId(0), NodeId(1), NodeId(2)];

    fn property(violation: Option<Violation>) -> Option<&'static str> {
        violation.map(|violation| violation.property)
    }

    /// Planted bugs: a process without a delivery, a second delivery, a delivery that no process
    /// sent, a source that waits for ever. A broadcast of a crashed source may reach some
    /// processes.
    #[test]
    fn catches_each_breach() {
        let (ours, dead) =
            (Stamp { clock: 1, node: NodeId(0) }, Stamp { clock: 1, node: NodeId(3) });
        let mut checker = Broadcast::default();
        checker.sent(ours);
        checker.sent(dead);
        assert_eq!(checker.delivered(NodeId(1), ours, Time(1)), None);
        assert_eq!(checker.delivered(NodeId(2), dead, Time(1)), None);
        let lost = checker.verdict(&LIVE, &[], Time(2)).expect("p2 did not deliver it");
        assert_eq!((lost.property, lost.nodes), (Broadcast::VALIDITY, vec![NodeId(2)]));
        assert_eq!(checker.delivered(NodeId(2), ours, Time(3)), None);
        assert_eq!(checker.verdict(&LIVE, &[NodeId(3)], Time(4)), None, "p3 is dead");
        assert_eq!(
            property(checker.verdict(&LIVE, &[NodeId(0)], Time(4))),
            Some(Broadcast::TERMINATION)
        );
        assert_eq!(
            property(checker.delivered(NodeId(2), ours, Time(5))),
            Some(Broadcast::DUPLICATION)
        );
        let forged = Stamp { clock: 9, node: NodeId(0) };
        assert_eq!(
            property(checker.delivered(NodeId(2), forged, Time(5))),
            Some(Broadcast::CREATION)
        );
    }
}
