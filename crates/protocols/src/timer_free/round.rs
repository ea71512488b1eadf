//! One round of question and answers, from which crashes are detected (lines 8-9 and 34-38).
//!
//! The paper keeps `X_i`, the `not_rec_from` set of every replier and the requester's own of the
//! last round, and intersects them all. The own set is one of them, so only its at most f members
//! can be in the intersection. `X_i` is therefore kept inverted: for each of those suspects, the
//! processes that have heard from it, according to the newest reply of each. A suspect that no
//! process has heard from is in the intersection.

use alloc::vec::Vec;

use kgate_core::NodeId;

use super::node_set::NodeSet;
use crate::collections::NodeList;

/// A round, from its question until the next one, or until no process is left to answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Round {
    /// The round's name: every reply carries it.
    pub(super) clock: u64,
    /// The processes that have not answered (`new_not_rec_from`).
    missing: NodeSet,
    /// The processes that have answered neither the round before nor this one.
    suspects: Vec<Suspect>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Suspect {
    node: NodeId,
    /// The processes whose newest reply to this round says that this one had answered theirs.
    heard_by: NodeSet,
}

impl Round {
    /// Lines 8-9. A process that missed the last round is suspect, unless its crash is known.
    pub(super) fn new(
        clock: u64,
        me: NodeId,
        nodes: u32,
        not_received: &NodeList,
        crashed: &NodeList,
    ) -> Self {
        let suspects = not_received.iter().filter(|&node| !crashed.contains(node));
        Self {
            clock,
            missing: NodeSet::all_but(me, nodes),
            suspects: suspects
                .map(|node| Suspect { node, heard_by: NodeSet::none_of(nodes) })
                .collect(),
        }
    }

    /// Lines 34-35; a second reply replaces the first. Returns whether this was the first.
    pub(super) fn answer(&mut self, from: NodeId, not_received: &NodeList) -> bool {
        let first = self.missing.remove(from);
        if first {
            // A process always hears from itself.
            self.suspects.retain(|suspect| suspect.node != from);
        }
        for suspect in &mut self.suspects {
            if not_received.contains(suspect.node) {
                suspect.heard_by.remove(from);
            } else {
                suspect.heard_by.insert(from);
            }
        }
        first
    }

    /// Line 36: whether enough have answered, so that at most `tolerate` have not.
    pub(super) fn terminated(&self, tolerate: u32) -> bool {
        self.missing.len() <= tolerate
    }

    /// Line 37: the processes that have not answered yet.
    pub(super) fn not_received(&self) -> NodeList {
        self.missing.iter().collect()
    }

    /// Line 38: the intersection of all sets in `X_i`.
    pub(super) fn heard_by_nobody(&self) -> Vec<NodeId> {
        self.suspects
            .iter()
            .filter(|suspect| suspect.heard_by.len() == 0)
            .map(|suspect| suspect.node)
            .collect()
    }

    /// Whether only crashed processes have not answered. Then the round can detect no other crash.
    pub(super) fn over(&self, crashed: &NodeList) -> bool {
        let unanswered = crashed.iter().filter(|&node| self.missing.contains(node)).count();
        unanswered == self.missing.len() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(nodes: &[u32]) -> NodeList {
        nodes.iter().copied().map(NodeId).collect()
    }

    /// Line 35, `Update(X_i, ..)`: the set of a second reply replaces that of the first, both ways.
    #[test]
    fn a_second_reply_replaces_the_first() {
        let mut round = Round::new(1, NodeId(0), 4, &list(&[3]), &list(&[]));
        assert!(round.answer(NodeId(1), &list(&[3])));
        assert!(round.answer(NodeId(2), &list(&[])));
        assert_eq!(round.heard_by_nobody(), [], "p2 has heard p3");
        assert!(!round.answer(NodeId(2), &list(&[3])));
        assert_eq!(round.heard_by_nobody(), [NodeId(3)], "and then it has not");
        assert!(!round.answer(NodeId(2), &list(&[1])));
        assert_eq!(round.heard_by_nobody(), []);
    }

    /// Line 38 is an intersection with the own last set: a process outside that set is never
    /// detected, whatever others report; nor is one that answers.
    #[test]
    fn only_the_silent_of_two_rounds_are_found() {
        let mut round = Round::new(1, NodeId(0), 5, &list(&[2, 4]), &list(&[]));
        round.answer(NodeId(1), &list(&[2, 3, 4]));
        assert_eq!(round.heard_by_nobody(), [NodeId(2), NodeId(4)]);
        round.answer(NodeId(2), &list(&[3, 4]));
        assert_eq!(round.heard_by_nobody(), [NodeId(4)]);
        assert_eq!(round.not_received(), list(&[3, 4]));
        assert!(round.terminated(2) && !round.terminated(1));
        assert!(round.over(&list(&[1, 3, 4])) && !round.over(&list(&[1, 2, 4])));
    }
}
