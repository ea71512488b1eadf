//! Numbered slots: a slot is held by one at a time, and the fence of its grants grows (tree-token's tokens are slots).

use std::collections::BTreeMap;

use kgate_core::{Fence, NodeId, Time};

use crate::Violation;

/// Keeps who holds each slot, and its greatest fence. A holder that crashes holds nothing.
#[derive(Clone, Debug, Default)]
pub struct SlotFences {
    holders: BTreeMap<u32, NodeId>,
    fences: BTreeMap<u32, Fence>,
}

impl SlotFences {
    /// The property's name.
    pub const NAME: &'static str = "a slot has one holder and a growing fence";

    /// `node` goes in with `slot` under `fence`.
    pub fn grant(&mut self, slot: u32, fence: Option<Fence>, node: NodeId, now: Time) -> Option<Violation> {
        let wrong = |nodes: Vec<NodeId>, text: String| {
            Some(Violation { property: Self::NAME, at_ns: now, nodes, text })
        };
        if let Some(other) = self.holders.insert(slot, node).filter(|&other| other != node) {
            return wrong(vec![other, node], format!("{node} was granted slot {slot}, which {other} holds"));
        }
        let fence = fence?;
        match self.fences.insert(slot, fence) {
            Some(last) if last >= fence => {
                wrong(vec![node], format!("slot {slot} was granted under {:#x} after {:#x}", fence.0, last.0))
            }
            _ => None,
        }
    }

    /// `node` comes out, or crashes.
    pub fn leave(&mut self, node: NodeId) {
        self.holders.retain(|_, holder| *holder != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The planted bugs: a slot granted twice, and a fence that does not grow, are caught; a hand-over is not.
    #[test]
    fn catches_two_holders_and_old_fences() {
        let mut judge = SlotFences::default();
        let mut grant = |node, fence| judge.grant(1, Some(Fence(fence)), NodeId(node), Time(1));
        assert_eq!(grant(4, 10), None);
        assert_eq!(grant(5, 11).expect("p4 holds it").nodes, [NodeId(4), NodeId(5)]);
        judge.leave(NodeId(5));
        let mut grant = |node, fence| judge.grant(1, Some(Fence(fence)), NodeId(node), Time(1));
        assert_eq!(grant(6, 12), None);
        judge.leave(NodeId(6));
        let mut grant = |node, fence| judge.grant(1, Some(Fence(fence)), NodeId(node), Time(1));
        assert!(grant(7, 12).is_some());
    }
}
