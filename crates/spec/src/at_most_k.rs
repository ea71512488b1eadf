//! Safety: at most k slots are in use at any time (vcube-2018 section 7.4, Lemma 7.1; the same in
//! every paper).
//!
//! If each process holds at most one slot, this means at most k holders. With numbered slots a
//! process may have several grants, each of several slots, and k may change. Then k is the greatest
//! value that a live process knows, and slots beyond it do not count: they drain, and are not
//! granted again ([`WithinK`](crate::WithinK)).

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{GrantId, NodeId, Time};

use crate::Violation;

/// Counts the slots in use. A holder that crashes holds nothing any more.
#[derive(Clone, Debug)]
pub struct AtMostK {
    k: u32,
    grants: BTreeMap<(NodeId, GrantId), Granted>,
    in_use: usize,
    most: usize,
}

/// The weight of a grant, and its slots if they are numbered.
#[derive(Clone, Debug)]
struct Granted {
    weight: u32,
    slots: Vec<u32>,
}

/// The grant of a process that has at most one at a time.
const ONLY: GrantId = GrantId(0);

impl AtMostK {
    /// The property's name.
    pub const NAME: &'static str = "at most k slots in use";

    /// A checker with no slot in use.
    pub fn new(k: u32) -> Self {
        Self { k, grants: BTreeMap::new(), in_use: 0, most: 0 }
    }

    /// `node`, which has at most one grant at a time, is granted one slot.
    pub fn enter(&mut self, node: NodeId, now: Time) -> Option<Violation> {
        if self.is_inside(node) {
            let text = format!("{node} was granted a second slot while it holds one");
            return self.wrong(now, text);
        }
        self.insert(node, ONLY, 1, &[]);
        if self.in_use <= self.k as usize {
            return None;
        }
        let text =
            format!("{} processes hold slots, k is {}: {:?}", self.in_use, self.k, self.who());
        self.wrong(now, text)
    }

    /// A client of `node` is granted `weight` slots: these, if they are numbered.
    pub fn enter_with(
        &mut self,
        node: NodeId,
        grant: GrantId,
        weight: u32,
        slots: &[u32],
        now: Time,
    ) -> Option<Violation> {
        if self.grants.contains_key(&(node, grant)) {
            let text = format!("{node} used the grant id {} twice", grant.0);
            return self.wrong(now, text);
        }
        self.insert(node, grant, weight, slots);
        let within = self.in_use - self.beyond();
        if within <= self.k as usize {
            return None;
        }
        let text = format!("{within} slots are in use, k is {}, at {:?}", self.k, self.who());
        self.wrong(now, text)
    }

    /// Sets k; existing grants stay.
    pub fn resize(&mut self, k: u32) {
        self.k = k;
    }

    /// `node` releases all its grants, or crashes; false if it held none.
    pub fn leave(&mut self, node: NodeId) -> bool {
        let mut left = false;
        while let Some((&(of, grant), _)) = self.grants.range((node, GrantId(0))..).next() {
            if of != node {
                break;
            }
            left |= self.leave_with(node, grant);
        }
        left
    }

    /// The grant of `node` is released; false if there is no such grant.
    pub fn leave_with(&mut self, node: NodeId, grant: GrantId) -> bool {
        let left = self.grants.remove(&(node, grant));
        self.in_use -= left.as_ref().map_or(0, |granted| granted.weight as usize);
        left.is_some()
    }

    /// Restarts the maximum from the present number, for example when a run has recovered from a
    /// transient fault.
    pub fn forget_most(&mut self) {
        self.most = self.in_use;
    }

    /// The number of slots in use now.
    pub fn now(&self) -> usize {
        self.in_use
    }

    /// The greatest number of slots in use at once.
    pub fn most(&self) -> usize {
        self.most
    }

    fn insert(&mut self, node: NodeId, grant: GrantId, weight: u32, slots: &[u32]) {
        self.grants.insert((node, grant), Granted { weight, slots: slots.to_vec() });
        self.in_use += weight as usize;
        self.most = self.most.max(self.in_use);
    }

    fn is_inside(&self, node: NodeId) -> bool {
        self.grants.range((node, GrantId(0))..).next().is_some_and(|((of, _), _)| *of == node)
    }

    /// The number of slots beyond k that are in use.
    fn beyond(&self) -> usize {
        if self.in_use <= self.k as usize {
            return 0; // Counting is not free; skip it unless there are too many.
        }
        let slots = self.grants.values().flat_map(|granted| &granted.slots);
        slots.filter(|slot| **slot >= self.k).count()
    }

    fn who(&self) -> BTreeSet<NodeId> {
        self.grants.keys().map(|(node, _)| *node).collect()
    }

    fn wrong(&self, now: Time, text: String) -> Option<Violation> {
        let nodes = self.who().into_iter().collect();
        Some(Violation { property: Self::NAME, at_ns: now, nodes, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planted bug: k+1 holders are caught and named; k holders, or a crash in between, are not.
    #[test]
    fn catches_one_too_many() {
        let mut checker = AtMostK::new(2);
        assert_eq!(checker.enter(NodeId(4), Time(1)), None);
        assert_eq!(checker.enter(NodeId(7), Time(2)), None);
        let violation = checker.enter(NodeId(1), Time(3)).expect("three holders, k is 2");
        assert_eq!(violation.nodes, [NodeId(1), NodeId(4), NodeId(7)]);
        assert!(checker.leave(NodeId(4)) && checker.leave(NodeId(7)) && !checker.leave(NodeId(7)));
        assert_eq!(checker.enter(NodeId(2), Time(4)), None);
        assert!(checker.enter(NodeId(2), Time(5)).is_some(), "a second slot");
        assert_eq!(checker.most(), 3);
    }

    /// Planted bugs with weights: k+1 slots held by two processes; and a grant id used twice.
    #[test]
    fn catches_one_slot_too_many() {
        let mut checker = AtMostK::new(4);
        let mut enter = |node, grant, weight| {
            checker.enter_with(NodeId(node), GrantId(grant), weight, &[], Time(1))
        };
        assert_eq!(enter(0, 1, 2), None);
        assert!(enter(0, 1, 1).is_some(), "the id is in use");
        assert_eq!(enter(0, 2, 1), None, "two grants with three slots");
        assert_eq!(enter(1, 1, 2).expect("five slots, k is 4").nodes, [NodeId(0), NodeId(1)]);
        assert!(
            checker.leave_with(NodeId(0), GrantId(1)) && !checker.leave_with(NodeId(0), GrantId(1))
        );
        assert_eq!((checker.now(), checker.most()), (3, 5));
        assert!(checker.leave(NodeId(0)) && checker.leave(NodeId(1)));
        assert_eq!(checker.now(), 0);
    }

    /// After k shrinks, a slot beyond k that is still held does not count; all others do.
    #[test]
    fn slots_that_drain_do_not_count() {
        let mut checker = AtMostK::new(3);
        let mut enter = |k: Option<u32>, node, slot| {
            k.into_iter().for_each(|k| checker.resize(k));
            checker.enter_with(NodeId(node), GrantId(1), 1, &[slot], Time(1))
        };
        assert_eq!((enter(None, 0, 2), enter(None, 1, 1)), (None, None));
        assert_eq!(enter(Some(2), 2, 0), None, "slot 2 drains");
        assert!(enter(None, 3, 0).is_some(), "slots 0, 0 and 1, k is 2");
    }
}
