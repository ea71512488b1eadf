//! The spanning-tree algorithm STA of robust-2012 (Algorithm 1), over the clusters of Hi-ADSD.
//!
//! The root sends TREE to the first live process of each of its clusters. A process that receives
//! it from its cluster `s` forwards it within its own clusters below `s` (the paper's `hops` is
//! just that number), and sends ACK straight to the root the first time. The root starts its next
//! broadcast only when every process that it considers alive has acknowledged.
//!
//! Invariant: as long as a root lacks an ACK, every process on the path remembers the request and
//! the clusters for which it was made responsible, and reassigns a cluster to its next live process
//! when it learns that the responsible one has crashed.
//!
//! Cost: n-1 TREE and n-1 ACK, the latter all at the root; log2 n delays down, one back. State: for
//! each known root, its last clock and the height; at a root, n bits while it waits for ACKs.
//!
//! Deviations from the paper: D7 and D8 (duplicates are recognised by the root, and new means
//! newer). The paper's root sends everything again every 2 log2 n round trips until all ACKs are
//! there (lines 5-10), which floods; here a cluster is sent again if and only if its responsible
//! process is known to have crashed, by the process that had assigned it, root or not. A relay does
//! not know whether the root still lacks an ACK, so some of these messages are unnecessary.

use alloc::boxed::Box;
use alloc::vec::Vec;

use fixedbitset::FixedBitSet;
use kgate_core::{NodeId, Stamp, To};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{Broadcast, Place, Sink};
use crate::defects::{D7, D8};
use crate::topology::{ClusterOrder, cluster_of, dimension, first_member};

/// The messages of [`Sta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StaMessage {
    /// A request on its way down. Answered by `Ack` to its root.
    Tree {
        /// The root's clock and the root.
        request: Stamp,
    },
    /// An acknowledgement to the root. There is no answer.
    Ack {
        /// The clock of the request.
        clock: u64,
    },
}

kgate_core::kinds!(StaMessage { Tree => "tree", Ack => "ack" });

/// The last request seen under a key, and the greatest height from which it had to be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Newest {
    key: NodeId,
    request: Stamp,
    height: u32,
}

/// A broadcast of this process that lacks ACKs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Unacknowledged {
    clock: u64,
    lacking: FixedBitSet,
    left: u32,
}

/// The broadcast's state at one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sta {
    /// Sorted by key, which is the root (D7: as printed, the forwarder).
    last: SmallVec<[Newest; 1]>,
    unacknowledged: Option<Box<Unacknowledged>>,
}

impl Sta {
    fn on_ack(&mut self, from: NodeId, clock: u64) {
        let Some(own) = self.unacknowledged.as_mut().filter(|own| own.clock == clock) else {
            return;
        };
        if own.lacking.contains(from.index()) {
            own.lacking.remove(from.index());
            own.left -= 1;
            if own.left == 0 {
                self.unacknowledged = None;
            }
        }
    }

    /// The process to make responsible for cluster `s` after the crash of `node`: none, unless
    /// `node` was responsible.
    fn heir(at: &Place<'_>, s: u32, node: NodeId) -> Option<NodeId> {
        let before = first_member(at.me, s, ClusterOrder::HiAdsd, &at.members.with(node));
        if before == Some(node) {
            first_member(at.me, s, ClusterOrder::HiAdsd, &at.members)
        } else {
            None
        }
    }
}

impl Broadcast for Sta {
    type Message = StaMessage;

    fn ready(&self, _me: NodeId) -> bool {
        self.unacknowledged.is_none()
    }

    /// Lines 4-10.
    fn broadcast(&mut self, at: Place<'_>, clock: u64, send: &mut Sink<'_, StaMessage>) {
        assert!(self.ready(at.me), "the last broadcast has not ended");
        let mut lacking = FixedBitSet::with_capacity(at.members.nodes() as usize);
        let mut left = 0;
        for node in (0..at.members.nodes()).map(NodeId) {
            if node != at.me && at.members.contains(node) {
                lacking.insert(node.index());
                left += 1;
            }
        }
        if left == 0 {
            return;
        }
        self.unacknowledged = Some(Box::new(Unacknowledged { clock, lacking, left }));
        let clusters = 1..=dimension(at.members.nodes());
        let heads: Vec<NodeId> = clusters
            .filter_map(|s| first_member(at.me, s, ClusterOrder::HiAdsd, &at.members))
            .collect();
        send(To::Many(heads.into()), StaMessage::Tree { request: Stamp { clock, node: at.me } });
    }

    fn source(message: &StaMessage) -> Option<NodeId> {
        match message {
            StaMessage::Tree { request } => Some(request.node),
            StaMessage::Ack { .. } => None,
        }
    }

    fn clock(message: &StaMessage) -> u64 {
        match message {
            StaMessage::Tree { request } => request.clock,
            StaMessage::Ack { clock } => *clock,
        }
    }

    /// Lines 11-14.
    fn accept(&mut self, at: Place<'_>, from: NodeId, message: &StaMessage) -> Option<Stamp> {
        let StaMessage::Tree { request } = *message else { return None };
        if request.node == at.me || !at.members.contains(request.node) {
            return None;
        }
        let height = cluster_of(at.me, from) - 1;
        // D7: as printed, an earlier message of the same forwarder decides whether this one is new.
        let key = if at.defects.has(D7) { from } else { request.node };
        match self.last.binary_search_by_key(&key, |seen| seen.key) {
            Err(place) => self.last.insert(place, Newest { key, request, height }),
            Ok(place) => {
                let seen = &mut self.last[place];
                // D8: as printed, an older request that comes late is different, and so counts as
                // new.
                let different = at.defects.has(D7) || at.defects.has(D8);
                let new = if different {
                    request != seen.request
                } else {
                    request.clock > seen.request.clock
                };
                if !new {
                    if request == seen.request {
                        seen.height = seen.height.max(height);
                    }
                    return None;
                }
                *seen = Newest { key, request, height };
            }
        }
        Some(request)
    }

    /// Lines 15-19: acknowledged and delivered once, forwarded every time.
    fn relay(
        &mut self,
        at: Place<'_>,
        from: NodeId,
        message: StaMessage,
        fresh: bool,
        send: &mut Sink<'_, StaMessage>,
    ) {
        match message {
            StaMessage::Tree { request } => {
                if request.node == at.me || !at.members.contains(request.node) {
                    return;
                }
                if fresh {
                    send(To::One(request.node), StaMessage::Ack { clock: request.clock });
                }
                let below = (1..cluster_of(at.me, from)).rev();
                let heads: Vec<NodeId> = below
                    .filter_map(|s| first_member(at.me, s, ClusterOrder::HiAdsd, &at.members))
                    .collect();
                if !heads.is_empty() {
                    send(To::Many(heads.into()), StaMessage::Tree { request });
                }
            }
            StaMessage::Ack { clock } => self.on_ack(from, clock),
        }
    }

    fn crashed(&mut self, at: Place<'_>, node: NodeId, send: &mut Sink<'_, StaMessage>) {
        if let Some(own) = &self.unacknowledged {
            self.on_ack(node, own.clock); // No root waits for a crashed process.
        }
        let s = cluster_of(at.me, node);
        let Some(heir) = Self::heir(&at, s, node) else { return };
        if let Some(own) = &self.unacknowledged {
            let request = Stamp { clock: own.clock, node: at.me };
            send(To::One(heir), StaMessage::Tree { request });
        }
        for seen in &self.last {
            if s <= seen.height && at.members.contains(seen.request.node) {
                send(To::One(heir), StaMessage::Tree { request: seen.request });
            }
        }
    }
}
