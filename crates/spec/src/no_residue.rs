//! What has ended leaves nothing behind: once nobody waits, nobody is inside and nothing is under
//! way, nobody puts answers together for anybody, and nobody owes anything, but for slots that it
//! still has.
//!
//! Source: `slots`, P5. A request ends by being granted and released, by being withdrawn, or with
//! its process. What is owed is news of slots that are here; a process that keeps slots owes it
//! until it gives them back.

use kgate_core::{NodeId, Observation};

/// Looks at all processes of a quiet moment; it needs no memory.
#[derive(Clone, Copy, Debug)]
pub struct NoResidue;

impl NoResidue {
    /// The property's name.
    pub const NAME: &'static str = "an ended request leaves no state behind";

    /// The first process that still owes or relays something, of those that live; each is given
    /// with what it shows.
    pub fn left<'a>(live: impl Iterator<Item = (NodeId, &'a Observation)>) -> Option<NodeId> {
        let owes = |shown: &Observation| !shown.owing.is_empty() && shown.slots.is_empty();
        let mut left = live.filter(|(_, shown)| owes(shown) || !shown.relaying.is_empty());
        left.next().map(|(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The planted bugs: a debt that nobody will collect, and an aggregator that waits for ever.
    #[test]
    fn catches_what_is_left() {
        let clean = Observation::default();
        let owing = Observation { owing: vec![NodeId(1)], ..clean.clone() };
        let relaying = Observation { relaying: vec![NodeId(1)], ..clean.clone() };
        let keeping = Observation { slots: vec![(0, kgate_core::Fence(1))], ..owing.clone() };
        let left = |second| NoResidue::left([(NodeId(0), &clean), (NodeId(2), second)].into_iter());
        assert_eq!(left(&clean), None);
        assert_eq!(left(&keeping), None);
        assert_eq!(left(&owing), Some(NodeId(2)));
        assert_eq!(left(&relaying), Some(NodeId(2)));
    }
}
