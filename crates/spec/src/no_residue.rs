//! An ended request leaves no state behind: in a quiescent state without requests and holders, no
//! process aggregates answers for others or has a request in its queue, and no process owes an
//! update, except for slots that it still has.
//!
//! Source: `slots`, P5. A request ends when its grant is released, when it is withdrawn, or when
//! its process crashes. A process owes updates about the slots it has; with cached slots it owes
//! them until it returns the slots.

use kgate_core::{NodeId, Observation};

/// Checks all processes in a quiescent state; stateless.
#[derive(Clone, Copy, Debug)]
pub struct NoResidue;

impl NoResidue {
    /// The property's name.
    pub const NAME: &'static str = "an ended request leaves no state behind";

    /// The first live process that still owes an update or relays answers; each process comes with
    /// its observation.
    pub fn left<'a>(live: impl Iterator<Item = (NodeId, &'a Observation)>) -> Option<NodeId> {
        let owes = |shown: &Observation| !shown.owing.is_empty() && shown.slots.is_empty();
        let serves = |shown: &Observation| !shown.relaying.is_empty() || !shown.queue.is_empty();
        let mut left = live.filter(|(_, shown)| owes(shown) || serves(shown));
        left.next().map(|(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planted bugs: an update that is owed for ever, and an aggregator that waits for ever.
    #[test]
    fn catches_left_over_state() {
        let clean = Observation::default();
        let owing = Observation { owing: vec![NodeId(1)], ..clean.clone() };
        let relaying = Observation { relaying: vec![NodeId(1)], ..clean.clone() };
        let keeping = Observation { slots: vec![(0, kgate_core::Fence(1))], ..owing.clone() };
        let left = |second| NoResidue::left([(NodeId(0), &clean), (NodeId(2), second)].into_iter());
        assert_eq!(left(&clean), None);
        assert_eq!(left(&keeping), None);
        assert_eq!(left(&owing), Some(NodeId(2)));
        assert_eq!(left(&relaying), Some(NodeId(2)));
        let queueing = Observation { queue: vec![(NodeId(1), 1, 1)], ..clean.clone() };
        assert_eq!(left(&queueing), Some(NodeId(2)));
    }
}
