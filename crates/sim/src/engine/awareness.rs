//! Which process knows of which permanent crash, and how long it took until all knew.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;
use kgate_core::{NodeId, Span, Time};

/// The permanent crashes, and the processes that have learned of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Awareness {
    losses: Vec<Loss>,
    place: BTreeMap<NodeId, usize>,
    /// The number of pairs of a live process and a crash that it does not know of.
    unnotified: u64,
}

#[derive(Clone, Debug)]
struct Loss {
    node: NodeId,
    at: Time,
    unaware: FixedBitSet,
    left: u64,
    /// Whether a process has learned of it: `left` is 0 also if no process remains that could.
    learnt: bool,
    took: Option<Span>,
}

impl Awareness {
    /// `node` is gone for good: it need not learn of any crash.
    pub(super) fn gone(&mut self, node: NodeId, now: Time) {
        for loss in &mut self.losses {
            loss.forget(node, now, &mut self.unnotified);
        }
    }

    /// `node` crashes permanently at `now`; `others` have to learn of it.
    pub(super) fn lost(&mut self, node: NodeId, now: Time, others: FixedBitSet) {
        self.gone(node, now);
        let left = others.count_ones(..) as u64;
        self.unnotified += left;
        self.place.insert(node, self.losses.len());
        self.losses.push(Loss { node, at: now, unaware: others, left, learnt: false, took: None });
    }

    /// `who` learns of the crash of `of`; false if `of` is alive.
    pub(super) fn learn(&mut self, who: NodeId, of: NodeId, now: Time) -> bool {
        let Some(&place) = self.place.get(&of) else { return false };
        self.losses[place].learnt = true;
        self.losses[place].forget(who, now, &mut self.unnotified);
        true
    }

    /// `who` will restart without state and then knows of no crash.
    pub(super) fn forgets(&mut self, who: NodeId) {
        for loss in self.losses.iter_mut().filter(|loss| loss.node != who) {
            if !loss.unaware.put(who.index()) {
                loss.left += 1;
                self.unnotified += 1;
            }
        }
    }

    /// The crashed processes that `who` does not know of, in the order of crashes.
    pub(super) fn unnotified_of(&self, who: NodeId) -> Vec<NodeId> {
        let unknown = self.losses.iter().filter(|loss| loss.unaware.contains(who.index()));
        unknown.map(|loss| loss.node).collect()
    }

    /// Whether every process knows of every crash.
    pub(super) fn complete(&self) -> bool {
        self.unnotified == 0
    }

    /// All permanent crashes, for their checker.
    pub(super) fn losses(&self) -> Vec<kgate_spec::Loss> {
        let losses = self.losses.iter().map(|loss| kgate_spec::Loss {
            node: loss.node,
            at: loss.at,
            known_at: loss.took.map(|took| loss.at + took),
            unaware: super::node_ids(&loss.unaware).collect(),
        });
        losses.collect()
    }

    /// The detection times of the crashes that became known to all, and the number of other
    /// crashes.
    pub(super) fn times(&self) -> (Vec<Span>, u64) {
        let times: Vec<Span> = self.losses.iter().filter_map(|loss| loss.took).collect();
        let open = (self.losses.len() - times.len()) as u64;
        (times, open)
    }
}

impl Loss {
    fn forget(&mut self, who: NodeId, now: Time, unnotified: &mut u64) {
        if self.unaware.contains(who.index()) {
            self.unaware.remove(who.index());
            self.left -= 1;
            *unnotified -= 1;
            if self.left == 0 && self.learnt {
                self.took.get_or_insert(now.since(self.at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The detection time ends when the last live process knows; a process that crashes meanwhile
    /// need not know.
    #[test]
    fn detection_ends_with_the_last_live_process() {
        let mut all = FixedBitSet::with_capacity(4);
        all.insert_range(1..);
        let mut awareness = Awareness::default();
        awareness.lost(NodeId(0), Time(10), all.clone());
        assert!(
            awareness.learn(NodeId(1), NodeId(0), Time(20))
                && !awareness.learn(NodeId(1), NodeId(2), Time(20))
        );
        awareness.learn(NodeId(1), NodeId(0), Time(25));
        assert_eq!((awareness.times(), awareness.complete()), ((vec![], 1), false));
        all.remove(3);
        awareness.lost(NodeId(3), Time(30), all);
        assert_eq!(awareness.unnotified_of(NodeId(2)), [NodeId(0), NodeId(3)]);
        awareness.learn(NodeId(2), NodeId(0), Time(50));
        assert_eq!(awareness.times(), (vec![Span(40)], 1));
        awareness.learn(NodeId(1), NodeId(3), Time(51));
        awareness.learn(NodeId(2), NodeId(3), Time(51));
        assert!(awareness.complete());
        awareness.forgets(NodeId(2));
        awareness.forgets(NodeId(2));
        assert_eq!((awareness.complete(), awareness.unnotified_of(NodeId(2)).len()), (false, 2));
        awareness.learn(NodeId(2), NodeId(0), Time(60));
        awareness.learn(NodeId(2), NodeId(3), Time(60));
        assert_eq!(
            (awareness.complete(), awareness.times()),
            (true, (vec![Span(40), Span(21)], 0))
        );
    }
}
