//! The hierarchical best-effort broadcast of vcube-2018 (Algorithm 6.1 over the trees of Algorithm
//! 5.1).
//!
//! The source sends TREE to the first live process of each of its clusters. A process that receives
//! TREE from its cluster `s` forwards it to the first live process of each of its own clusters
//! below `s`, and sends ACK back when all of these have acknowledged (a leaf at once). A process
//! that learns of the crash of one whose ACK it awaits sends TREE to the next live process of that
//! cluster instead. The source starts its next broadcast only after all ACKs of the last one (line
//! 5).
//!
//! Invariant: a process that sent TREE for m into a cluster awaits an ACK from it, on behalf of the
//! parent that had sent it m, until the first live process of the cluster acknowledges or none is
//! alive there. So a broadcast from a live source reaches every live process.
//!
//! Cost: n-1 TREE and n-1 ACK; log2 n delays down, log2 n back up. State: one clock for each known
//! source, and the awaited ACKs.
//!
//! Deviations from the paper: D1 (new means a greater clock, not the next one), D5 (an ACK clears
//! every parent that waits for it). A process sends to its largest cluster first, which the text
//! leaves open.

use alloc::vec::Vec;

use kgate_core::{NodeId, Stamp, To};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{Broadcast, Place, Sink};
use crate::collections::SortedMap;
use crate::defects::{D1, D5};
use crate::topology::{ClusterOrder, cluster_of, dimension, first_member};

/// The messages of [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TreeMessage {
    /// A request on its way down. Answered by `Ack` when the whole branch has it.
    Tree {
        /// The source's clock and the source.
        request: Stamp,
    },
    /// The whole branch of the sender has that request. There is no answer.
    Ack {
        /// The request.
        request: Stamp,
    },
}

kgate_core::kinds!(TreeMessage { Tree => "tree", Ack => "ack" });

/// A branch of a broadcast for which this process is responsible, on behalf of one parent; for its
/// own broadcast, the parent is the process itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Branch {
    source: NodeId,
    clock: u64,
    parent: NodeId,
}

impl Branch {
    fn new(request: Stamp, parent: NodeId) -> Self {
        Self { source: request.node, parent, clock: request.clock }
    }

    fn request(&self) -> Stamp {
        Stamp { clock: self.clock, node: self.source }
    }
}

/// The clusters from which an ACK is awaited, bit s-1 for cluster s. There is one child a cluster,
/// its first live process, so this is the paper's set of `<parent, child, m>`.
type Clusters = u32;

/// The broadcast's state at one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tree {
    /// The clock of the last request delivered from each source, sorted by source.
    last: SmallVec<[(NodeId, u64); 1]>,
    /// The branches whose ACKs are awaited.
    pending: SortedMap<Branch, Clusters>,
}

impl Tree {
    /// The place of `source` among the known sources. Once all sources are known, it is its own
    /// number or, since a process does not receive its own requests, the one before.
    #[inline]
    fn place_of(&self, source: NodeId) -> Result<usize, usize> {
        let guess = source.index();
        for place in [guess, guess.wrapping_sub(1)] {
            if self.last.get(place).is_some_and(|entry| entry.0 == source) {
                return Ok(place);
            }
        }
        self.last.binary_search_by_key(&source, |entry| entry.0)
    }

    /// Lines 8-10 and 22-25: sends to the first live process of each cluster up to `height`, the
    /// largest cluster first, unless its ACK is awaited already. False if no ACK is awaited then.
    fn send_down(
        &mut self,
        at: Place<'_>,
        branch: Branch,
        height: u32,
        send: &mut Sink<'_, TreeMessage>,
    ) -> bool {
        let awaited = self.pending.get(branch).unwrap_or(0);
        let mut clusters = awaited;
        let mut children: SmallVec<[NodeId; 32]> = SmallVec::new();
        for s in (1..=height).rev().filter(|&s| awaited & bit(s) == 0) {
            if let Some(child) = first_member(at.me, s, ClusterOrder::VCube, &at.members) {
                clusters |= bit(s);
                children.push(child);
            }
        }
        match children.as_slice() {
            [] => return clusters != 0,
            &[child] => send(To::One(child), TreeMessage::Tree { request: branch.request() }),
            many => send(To::Many(many.into()), TreeMessage::Tree { request: branch.request() }),
        }
        self.pending.insert(branch, clusters);
        true
    }

    /// Lines 11-14: nothing is awaited for the branch any more; its parent gets its ACK.
    fn acknowledge(at: Place<'_>, branch: Branch, send: &mut Sink<'_, TreeMessage>) {
        if branch.parent != at.me
            && at.members.contains(branch.source)
            && at.members.contains(branch.parent)
        {
            send(To::One(branch.parent), TreeMessage::Ack { request: branch.request() });
        }
    }

    /// Lines 27-31. The branches of one request differ in their parents.
    fn on_ack(
        &mut self,
        at: Place<'_>,
        from: NodeId,
        request: Stamp,
        send: &mut Sink<'_, TreeMessage>,
    ) {
        if !at.members.contains(from) {
            return; // Its cluster has been reassigned to another process, whose ACK counts.
        }
        let cluster = bit(cluster_of(at.me, from));
        let mut next = Some(Branch::new(request, NodeId(0)));
        while let Some((branch, awaited)) = next.and_then(|next| self.pending.first_from(next)) {
            if branch.request() != request {
                break;
            }
            next =
                branch.parent.0.checked_add(1).map(|parent| Branch::new(request, NodeId(parent)));
            if awaited & cluster != 0 {
                self.clear(at, branch, awaited & !cluster, send);
                if at.defects.has(D5) {
                    // D5: as printed, one ACK clears one parent, and the other waits for ever.
                    break;
                }
            }
        }
    }

    /// Awaits only `clusters` for the branch.
    fn clear(
        &mut self,
        at: Place<'_>,
        branch: Branch,
        clusters: Clusters,
        send: &mut Sink<'_, TreeMessage>,
    ) {
        if clusters != 0 {
            self.pending.insert(branch, clusters);
            return;
        }
        self.pending.remove(branch);
        Self::acknowledge(at, branch, send);
    }
}

fn bit(s: u32) -> Clusters {
    1 << (s - 1)
}

impl Broadcast for Tree {
    type Message = TreeMessage;

    fn ready(&self, me: NodeId) -> bool {
        let own = Branch { source: me, clock: 0, parent: NodeId(0) };
        self.pending.first_from(own).is_none_or(|(branch, _)| branch.source != me)
    }

    fn broadcast(&mut self, at: Place<'_>, clock: u64, send: &mut Sink<'_, TreeMessage>) {
        assert!(self.ready(at.me), "the last broadcast has not ended");
        let branch = Branch { source: at.me, parent: at.me, clock };
        self.send_down(at, branch, dimension(at.members.nodes()), send);
    }

    fn source(message: &TreeMessage) -> Option<NodeId> {
        match message {
            TreeMessage::Tree { request } | TreeMessage::Ack { request } => Some(request.node),
        }
    }

    fn clock(message: &TreeMessage) -> u64 {
        match message {
            TreeMessage::Tree { request } | TreeMessage::Ack { request } => request.clock,
        }
    }

    /// Lines 15-21.
    fn accept(&mut self, at: Place<'_>, from: NodeId, message: &TreeMessage) -> Option<Stamp> {
        let TreeMessage::Tree { request } = *message else { return None };
        let source = request.node;
        if source == at.me || !at.members.contains(source) || !at.members.contains(from) {
            return None;
        }
        match self.place_of(source) {
            Ok(place) => {
                let last = &mut self.last[place].1;
                // D1: as printed, the clock must be the next one; but clocks also advance for
                // others' requests.
                let new = if at.defects.has(D1) {
                    request.clock == *last + 1
                } else {
                    request.clock > *last
                };
                if !new {
                    return None;
                }
                *last = request.clock;
            }
            Err(place) => self.last.insert(place, (source, request.clock)),
        }
        Some(request)
    }

    /// Lines 16-17 and 22-31: a TREE that was seen before is forwarded too, since it may replace
    /// the one of a process that crashed before it did.
    fn relay(
        &mut self,
        at: Place<'_>,
        from: NodeId,
        message: TreeMessage,
        _fresh: bool,
        send: &mut Sink<'_, TreeMessage>,
    ) {
        match message {
            TreeMessage::Tree { request } => {
                let known = at.members.contains(request.node) && at.members.contains(from);
                if known && request.node != at.me {
                    let branch = Branch::new(request, from);
                    if !self.send_down(at, branch, cluster_of(at.me, from) - 1, send) {
                        Self::acknowledge(at, branch, send);
                    }
                }
            }
            TreeMessage::Ack { request } => self.on_ack(at, from, request, send),
        }
    }

    /// Lines 32-43.
    fn crashed(&mut self, at: Place<'_>, node: NodeId, send: &mut Sink<'_, TreeMessage>) {
        let s = cluster_of(at.me, node);
        // Whether the crashed process was the child in its cluster; no other process of it was.
        let was_child =
            first_member(at.me, s, ClusterOrder::VCube, &at.members.with(node)) == Some(node);
        let next = first_member(at.me, s, ClusterOrder::VCube, &at.members);
        let pending: Vec<(Branch, Clusters)> = self.pending.iter().collect();
        for (branch, awaited) in pending {
            if !at.members.contains(branch.source) || !at.members.contains(branch.parent) {
                self.pending.remove(branch);
            } else if was_child && awaited & bit(s) != 0 {
                match next {
                    Some(child) => {
                        send(To::One(child), TreeMessage::Tree { request: branch.request() })
                    }
                    None => self.clear(at, branch, awaited & !bit(s), send),
                }
            }
        }
    }
}
