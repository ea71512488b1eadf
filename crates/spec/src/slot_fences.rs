//! Numbered slots: each slot has at most one holder, and the fences of its grants increase (the
//! tokens of tree-token are slots).

use std::collections::BTreeMap;

use kgate_core::{Fence, GrantId, NodeId, Time};

use crate::Violation;

/// Keeps the holder and the greatest fence of each slot. A holder that crashes holds nothing.
#[derive(Clone, Debug, Default)]
pub struct SlotFences {
    holders: BTreeMap<u32, Holder>,
    fences: BTreeMap<u32, Fence>,
}

/// A process, and its grant where it may have several.
type Holder = (NodeId, Option<GrantId>);

impl SlotFences {
    /// The property's name.
    pub const NAME: &'static str = "one holder and increasing fences per slot";

    /// `node` is granted `slot` under `fence`; `grant` identifies the grant where a process may
    /// have several.
    pub fn grant(
        &mut self,
        slot: u32,
        fence: Option<Fence>,
        (node, grant): (NodeId, Option<GrantId>),
        now: Time,
    ) -> Option<Violation> {
        let wrong = |nodes: Vec<NodeId>, text: String| {
            Some(Violation { property: Self::NAME, at_ns: now, nodes, text })
        };
        let another = |&(other, of): &Holder| other != node || of != grant;
        if let Some((other, _)) = self.holders.insert(slot, (node, grant)).filter(another) {
            return wrong(
                vec![other, node],
                format!("{node} was granted slot {slot}, which {other} holds"),
            );
        }
        let fence = fence?;
        match self.fences.insert(slot, fence) {
            Some(last) if last >= fence => wrong(
                vec![node],
                format!("slot {slot} was granted under {:#x} after {:#x}", fence.0, last.0),
            ),
            _ => None,
        }
    }

    /// `node` releases all its grants, or crashes.
    pub fn leave(&mut self, node: NodeId) {
        self.holders.retain(|_, (holder, _)| *holder != node);
    }

    /// The grant of `node` is released.
    pub fn leave_with(&mut self, node: NodeId, grant: GrantId) {
        self.holders.retain(|_, holder| *holder != (node, Some(grant)));
    }

    /// The verdict on the slots that all live processes report, held or cached: no slot may be
    /// reported twice.
    pub fn shown_twice(shown: impl Iterator<Item = (NodeId, u32)>, now: Time) -> Option<Violation> {
        let mut where_is = BTreeMap::new();
        for (node, slot) in shown {
            if let Some(other) = where_is.insert(slot, node) {
                let text = format!("slot {slot} is at {other} and at {node}");
                return Some(Violation {
                    property: Self::NAME,
                    at_ns: now,
                    nodes: vec![other, node],
                    text,
                });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planted bugs: a slot granted twice, and a fence that does not increase, are caught; a
    /// hand-over is not.
    #[test]
    fn catches_two_holders_and_old_fences() {
        let mut checker = SlotFences::default();
        let mut grant =
            |node, fence| checker.grant(1, Some(Fence(fence)), (NodeId(node), None), Time(1));
        assert_eq!(grant(4, 10), None);
        assert_eq!(grant(5, 11).expect("p4 holds it").nodes, [NodeId(4), NodeId(5)]);
        checker.leave(NodeId(5));
        let mut grant =
            |node, fence| checker.grant(1, Some(Fence(fence)), (NodeId(node), None), Time(1));
        assert_eq!(grant(6, 12), None);
        checker.leave(NodeId(6));
        let mut grant =
            |node, fence| checker.grant(1, Some(Fence(fence)), (NodeId(node), None), Time(1));
        assert!(grant(7, 12).is_some());
    }

    /// Planted bug: a process grants a slot to a second client of its own while the first holds it.
    #[test]
    fn catches_two_clients_of_one_process() {
        let mut checker = SlotFences::default();
        let holder = |grant| (NodeId(4), Some(GrantId(grant)));
        assert_eq!(checker.grant(1, Some(Fence(10)), holder(1), Time(1)), None);
        assert_eq!(checker.grant(2, Some(Fence(10)), holder(1), Time(1)), None);
        assert!(checker.grant(1, Some(Fence(11)), holder(2), Time(1)).is_some());
        checker.leave_with(NodeId(4), GrantId(2));
        checker.leave_with(NodeId(4), GrantId(1));
        assert_eq!(checker.grant(2, Some(Fence(12)), holder(3), Time(1)), None);
    }

    /// Planted bug: two live processes report the same slot.
    #[test]
    fn catches_a_slot_at_two_processes() {
        let shown =
            |slots: [u32; 3]| SlotFences::shown_twice((0..).map(NodeId).zip(slots), Time(1));
        assert_eq!(shown([0, 1, 2]), None);
        assert_eq!(shown([0, 1, 0]).expect("twice").nodes, [NodeId(0), NodeId(2)]);
    }
}
