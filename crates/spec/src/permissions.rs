//! Permissions: each counts once, and only for the request for which it was given.
//!
//! When p enters with the request of stamp s, all but k-1 of the other processes have permitted s
//! by a message that has arrived, or are known to p to have crashed.
//!
//! Source: the invariant of every permission-based algorithm: Ricart and Agrawala 1981, Raymond
//! 1989, vcube-2018 Algorithm 7.1 lines 15-16, robust-2012 Algorithm 2 line 12, timer-free-2009
//! lines 15-16. It implies "at most k slots in use", but a violation shows here at once, and there
//! only if the other processes happen to hold slots at the same time: D2, D4 and T2 (a late
//! permission, or one of a crashed process, counts again) are caught here.
//!
//! Not checked: whether the other process was right to permit (D9, T1: "at most k slots in use" and
//! the order of entry check that); whether the crash is real (the accuracy of detection checks
//! that); algorithms that exclude by other means.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{NodeId, Stamp, Time};

use crate::Violation;

/// Keeps the permissions of each outstanding request, and the crashes that each process knows of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permissions {
    nodes: u32,
    k: u32,
    requests: BTreeMap<NodeId, Request>,
    known: BTreeMap<NodeId, BTreeSet<NodeId>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Request {
    clock: u64,
    given: BTreeSet<NodeId>,
}

impl Permissions {
    /// The property's name.
    pub const NAME: &'static str = "each permission counts once, for its request";

    /// A checker without requests.
    pub fn new(nodes: u32, k: u32) -> Self {
        Self { nodes, k, requests: BTreeMap::new(), known: BTreeMap::new() }
    }

    /// A request leaves its process.
    pub fn asked(&mut self, stamp: Stamp) {
        self.requests.insert(stamp.node, Request { clock: stamp.clock, given: BTreeSet::new() });
    }

    /// A permission for the request of that clock arrives at `to`.
    pub fn delivered(&mut self, from: NodeId, to: NodeId, clock: u64) {
        if self.knows(to, from) {
            return;
        }
        if let Some(request) = self.requests.get_mut(&to).filter(|request| request.clock == clock) {
            request.given.insert(from);
        }
    }

    /// `node` learns that `crashed` has crashed.
    pub fn crash_notified(&mut self, node: NodeId, crashed: NodeId) {
        self.known.entry(node).or_default().insert(crashed);
        if let Some(request) = self.requests.get_mut(&node) {
            request.given.remove(&crashed);
        }
    }

    /// The request of that stamp is granted.
    pub fn granted(&mut self, stamp: Stamp, now: Time) -> Option<Violation> {
        let node = stamp.node;
        let request = self.requests.remove(&node).filter(|request| request.clock == stamp.clock);
        let given = request.map(|request| request.given).unwrap_or_default();
        let others = (0..self.nodes).map(NodeId).filter(|&other| other != node);
        let lacking: Vec<NodeId> =
            others.filter(|other| !given.contains(other) && !self.knows(node, *other)).collect();
        if lacking.len() < self.k as usize {
            return None;
        }
        let text = format!(
            "{node} entered with {stamp:?} without {} permissions, of {lacking:?}, where at most \
             {} may be missing",
            lacking.len(),
            self.k - 1
        );
        Some(Violation { property: Self::NAME, at_ns: now, nodes: vec![node], text })
    }

    /// The request of `node` ended without a grant: it was withdrawn.
    pub fn ended(&mut self, node: NodeId) {
        self.requests.remove(&node);
    }

    /// `node` has crashed.
    pub fn crashed(&mut self, node: NodeId) {
        self.requests.remove(&node);
        self.known.remove(&node);
    }

    fn knows(&self, node: NodeId, crashed: NodeId) -> bool {
        self.known.get(&node).is_some_and(|known| known.contains(&crashed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: NodeId = NodeId(0);

    fn check(clock: u64) -> Permissions {
        let mut checker = Permissions::new(4, 2);
        checker.asked(Stamp { clock, node: P });
        checker
    }

    fn go_in(checker: &mut Permissions, clock: u64) -> bool {
        checker.granted(Stamp { clock, node: P }, Time(9)).is_none()
    }

    /// With three others and k = 2, two permissions suffice, and so do one permission and one known
    /// crash.
    #[test]
    fn all_but_k_minus_one_permissions_suffice() {
        let mut permitted = check(5);
        permitted.delivered(NodeId(1), P, 5);
        permitted.delivered(NodeId(3), P, 5);
        assert!(go_in(&mut permitted, 5));
        let mut crashed = check(5);
        crashed.crash_notified(P, NodeId(1));
        crashed.delivered(NodeId(3), P, 5);
        assert!(go_in(&mut crashed, 5));
    }

    /// Planted bugs: too few permissions; one that counts twice; one for an earlier request (D2,
    /// T2); one of a process that is known to have crashed, counted in addition to the crash (D4);
    /// a crash that only another process knows of.
    #[test]
    fn catches_permissions_that_do_not_count() {
        let mut few = check(5);
        few.delivered(NodeId(1), P, 5);
        few.delivered(NodeId(1), P, 5);
        assert!(!go_in(&mut few, 5), "one process, twice");
        let mut late = check(5);
        late.delivered(NodeId(1), P, 5);
        late.delivered(NodeId(2), P, 4);
        assert!(!go_in(&mut late, 5), "for the request before");
        let mut dead = check(5);
        dead.delivered(NodeId(1), P, 5);
        dead.crash_notified(P, NodeId(1));
        assert!(!go_in(&mut dead, 5), "p1 counts once");
        let mut elsewhere = check(5);
        elsewhere.crash_notified(NodeId(2), NodeId(1));
        elsewhere.delivered(NodeId(3), P, 5);
        assert!(!go_in(&mut elsewhere, 5), "p0 does not know of it");
        let mut ended = check(5);
        ended.delivered(NodeId(1), P, 5);
        ended.delivered(NodeId(2), P, 5);
        ended.ended(P);
        assert!(!go_in(&mut ended, 5), "it was withdrawn");
    }
}
