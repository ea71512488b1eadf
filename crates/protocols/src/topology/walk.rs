//! Walking a cluster in the order of either paper.

use kgate_core::NodeId;
use smallvec::SmallVec;

use super::Members;

/// The order of a cluster's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterOrder {
    /// vcube-2018: small parts first, `c(0,3) = 4,5,6,7`.
    VCube,
    /// Hi-ADSD (robust-2012): large parts first, `C(0,3) = 4,6,7,5`.
    HiAdsd,
}

/// The state of a walk: below `head`, `done` of its `parts` parts have been walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Frame {
    head: NodeId,
    parts: u32,
    done: u32,
}

/// A walk through one cluster. It holds no reference to the members, so that it survives changes of
/// them: each step gets the present members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    order: ClusterOrder,
    start: Option<(NodeId, u32)>,
    frames: SmallVec<[Frame; 4]>,
}

impl Walk {
    /// A walk through cluster `s` of process `i`.
    pub fn new(i: NodeId, s: u32, order: ClusterOrder) -> Self {
        assert!((1..=u32::BITS).contains(&s), "clusters are numbered from 1");
        Self { order, start: Some((NodeId(i.0 ^ (1 << (s - 1))), s - 1)), frames: SmallVec::new() }
    }

    /// The next member, in order.
    pub fn next(&mut self, members: &Members<'_>) -> Option<NodeId> {
        if let Some((head, parts)) = self.start.take()
            && let Some(member) = self.enter(head, parts, members)
        {
            return Some(member);
        }
        while let Some(frame) = self.frames.last_mut() {
            if frame.done == frame.parts {
                self.frames.pop();
                continue;
            }
            let part = match self.order {
                ClusterOrder::VCube => frame.done + 1,
                ClusterOrder::HiAdsd => frame.parts - frame.done,
            };
            frame.done += 1;
            let head = NodeId(frame.head.0 ^ (1 << (part - 1)));
            if let Some(member) = self.enter(head, part - 1, members) {
                return Some(member);
            }
        }
        None
    }

    /// Enters the part with that head unless it has no members; the head itself comes first.
    fn enter(&mut self, head: NodeId, parts: u32, members: &Members<'_>) -> Option<NodeId> {
        if members.none_near(head, parts) {
            return None;
        }
        self.frames.push(Frame { head, parts, done: 0 });
        members.contains(head).then_some(head)
    }
}

/// The first member of cluster `s` of process `i` (vcube-2018 section 5.1, `FF_neighbor_i(s)`).
pub fn first_member(
    i: NodeId,
    s: u32,
    order: ClusterOrder,
    members: &Members<'_>,
) -> Option<NodeId> {
    Walk::new(i, s, order).next(members)
}
