//! Safety: at most k units in use at any time (vcube-2018 section 7.4, Lemma 7.1; the same in every
//! paper).
//!
//! Where a process goes in once at a time with one unit, that is: at most k slots in use. With numbered
//! slots a process may be inside several times, each time with several units, and k may change:
//! then k is the greatest that any live process believes in, and slots beyond it, which are used up
//! but not taken again ([`WithinK`](crate::WithinK)), do not count.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{GrantId, NodeId, Time};

use crate::Violation;

/// Counts who is inside with how many units. A holder that crashes is no longer inside.
#[derive(Clone, Debug)]
pub struct AtMostK {
    k: u32,
    inside: BTreeMap<(NodeId, GrantId), Units>,
    units: usize,
    most: usize,
}

#[derive(Clone, Debug)]
struct Units {
    count: u32,
    slots: Vec<u32>,
}

/// Of a process that is inside once at a time.
const ONLY: GrantId = GrantId(0);

impl AtMostK {
    /// The property's name.
    pub const NAME: &'static str = "at most k slots in use";

    /// Nobody is inside.
    pub fn new(k: u32) -> Self {
        Self { k, inside: BTreeMap::new(), units: 0, most: 0 }
    }

    /// `node`, which is inside once at a time, goes in with one unit.
    pub fn enter(&mut self, node: NodeId, now: Time) -> Option<Violation> {
        if self.is_inside(node) {
            let text = format!("{node} was granted a second unit while it was inside");
            return self.wrong(now, text);
        }
        self.insert(node, ONLY, 1, &[]);
        if self.units <= self.k as usize {
            return None;
        }
        let text =
            format!("{} processes are inside, k is {}: {:?}", self.units, self.k, self.who());
        self.wrong(now, text)
    }

    /// A client of `node` goes in with `count` units: those slots, if they are numbered.
    pub fn enter_with(
        &mut self,
        node: NodeId,
        grant: GrantId,
        count: u32,
        slots: &[u32],
        now: Time,
    ) -> Option<Violation> {
        if self.inside.contains_key(&(node, grant)) {
            let text = format!("{node} was granted under a name that is in use: {}", grant.0);
            return self.wrong(now, text);
        }
        self.insert(node, grant, count, slots);
        let within = self.units - self.beyond();
        if within <= self.k as usize {
            return None;
        }
        let text = format!("{within} units are in use, k is {}, at {:?}", self.k, self.who());
        self.wrong(now, text)
    }

    /// k is another one from now on; whoever is inside stays.
    pub fn resize(&mut self, k: u32) {
        self.k = k;
    }

    /// `node` comes out, or crashes; false if it was not inside.
    pub fn leave(&mut self, node: NodeId) -> bool {
        let mut left = false;
        while let Some((&(of, grant), _)) = self.inside.range((node, GrantId(0))..).next() {
            if of != node {
                break;
            }
            left |= self.leave_with(node, grant);
        }
        left
    }

    /// The client of that grant comes out; false if it was not inside.
    pub fn leave_with(&mut self, node: NodeId, grant: GrantId) -> bool {
        let left = self.inside.remove(&(node, grant));
        self.units -= left.as_ref().map_or(0, |units| units.count as usize);
        left.is_some()
    }

    /// Starts anew with those inside now, for instance when a run has recovered from a fault.
    pub fn forget_most(&mut self) {
        self.most = self.units;
    }

    /// How many units are in use now.
    pub fn now(&self) -> usize {
        self.units
    }

    /// The most that were ever in use at once.
    pub fn most(&self) -> usize {
        self.most
    }

    fn insert(&mut self, node: NodeId, grant: GrantId, count: u32, slots: &[u32]) {
        self.inside.insert((node, grant), Units { count, slots: slots.to_vec() });
        self.units += count as usize;
        self.most = self.most.max(self.units);
    }

    fn is_inside(&self, node: NodeId) -> bool {
        self.inside.range((node, GrantId(0))..).next().is_some_and(|((of, _), _)| *of == node)
    }

    /// How many slots beyond k are in use.
    fn beyond(&self) -> usize {
        if self.units <= self.k as usize {
            return 0; // What is there to be excused is not even asked.
        }
        self.inside.values().flat_map(|units| &units.slots).filter(|slot| **slot >= self.k).count()
    }

    fn who(&self) -> BTreeSet<NodeId> {
        self.inside.keys().map(|(node, _)| *node).collect()
    }

    fn wrong(&self, now: Time, text: String) -> Option<Violation> {
        let nodes = self.who().into_iter().collect();
        Some(Violation { property: Self::NAME, at_ns: now, nodes, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The planted bug: k+1 inside is caught, with those inside; k inside, or a crash in between,
    /// is not.
    #[test]
    fn catches_one_too_many() {
        let mut checker = AtMostK::new(2);
        assert_eq!(checker.enter(NodeId(4), Time(1)), None);
        assert_eq!(checker.enter(NodeId(7), Time(2)), None);
        let violation = checker.enter(NodeId(1), Time(3)).expect("three inside, k is 2");
        assert_eq!(violation.nodes, [NodeId(1), NodeId(4), NodeId(7)]);
        assert!(checker.leave(NodeId(4)) && checker.leave(NodeId(7)) && !checker.leave(NodeId(7)));
        assert_eq!(checker.enter(NodeId(2), Time(4)), None);
        assert!(checker.enter(NodeId(2), Time(5)).is_some(), "twice inside");
        assert_eq!(checker.most(), 3);
    }

    /// The planted bugs with weights: k+1 units, though by two processes only; and a grant under a
    /// name that is in use.
    #[test]
    fn catches_one_unit_too_many() {
        let mut checker = AtMostK::new(4);
        let mut enter = |node, grant, count| {
            checker.enter_with(NodeId(node), GrantId(grant), count, &[], Time(1))
        };
        assert_eq!(enter(0, 1, 2), None);
        assert!(enter(0, 1, 1).is_some(), "in use");
        assert_eq!(enter(0, 2, 1), None, "inside twice, with three units");
        assert_eq!(enter(1, 1, 2).expect("five units, k is 4").nodes, [NodeId(0), NodeId(1)]);
        assert!(
            checker.leave_with(NodeId(0), GrantId(1)) && !checker.leave_with(NodeId(0), GrantId(1))
        );
        assert_eq!((checker.now(), checker.most()), (3, 5));
        assert!(checker.leave(NodeId(0)) && checker.leave(NodeId(1)));
        assert_eq!(checker.now(), 0);
    }

    /// After a shrink, who is still inside with a slot beyond k does not count; everybody else
    /// does.
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
