//! The hierarchical best-effort broadcast of vcube-2018 (Algorithm 6.1 over the trees of Algorithm 5.1).
//!
//! The source sends TREE to the first live process of each of its clusters; whoever gets TREE from its cluster
//! `s` sends it on to the first live process of each of its own clusters below `s`, and sends ACK back when all
//! of these have acknowledged (a leaf at once). When a process learns that one it waits for has crashed, it
//! sends TREE to the next live process of that cluster instead. The source starts its next broadcast only after
//! all ACKs of the last one (line 5).
//!
//! Invariant: whoever sent TREE for m to a process that has not acknowledged it keeps `<parent, child, m>`
//! until that child acknowledges, or is known to have crashed and its cluster has been handed to the next one.
//! So a broadcast from a live source reaches every live process.
//!
//! Cost: n-1 TREE and n-1 ACK; log2 n delays down, log2 n back up. State: one clock for each source heard of,
//! and the ACKs waited for.
//!
//! Deviations from the paper: D1 (new means a greater clock, not the next one), D5 (an ACK clears every parent
//! that waits for it). A process sends to its largest cluster first, which the text leaves open.

use alloc::vec::Vec;

use kgate_core::{Message, NodeId, Stamp, To};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{Place, Sink, Spread};
use crate::collections::SortedMap;
use crate::defects::{D1, D5};
use crate::topology::{Order, cluster_of, dimension, first_member};

/// The messages of [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TreeMessage {
    /// A request on its way down. Answered by `Ack` when the whole branch has it.
    Tree {
        /// The source's clock and the source.
        request: Stamp,
    },
    /// Everybody below me has that request. Nobody answers.
    Ack {
        /// Which request.
        request: Stamp,
    },
}

impl Message for TreeMessage {
    const KINDS: usize = 2;
    fn kind(&self) -> usize {
        match self {
            Self::Tree { .. } => 0,
            Self::Ack { .. } => 1,
        }
    }
    fn kind_name(kind: usize) -> &'static str {
        ["tree", "ack"][kind]
    }
}

/// An ACK that is waited for, `<parent, child, m>` of the paper; the parent of one's own broadcast is oneself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Pending {
    source: NodeId,
    clock: u64,
    parent: NodeId,
    child: NodeId,
}

impl Pending {
    fn new(request: Stamp, parent: NodeId, child: NodeId) -> Self {
        Self { source: request.node, clock: request.clock, parent, child }
    }

    fn request(&self) -> Stamp {
        Stamp { clock: self.clock, node: self.source }
    }
}

/// The broadcast's state at one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tree {
    /// The clock of the last request delivered from each source, sorted by source.
    last: SmallVec<[(NodeId, u64); 1]>,
    /// The ACKs waited for.
    pending: SortedMap<Pending, ()>,
    /// How many of them are for the broadcast from here.
    own: u32,
}

impl Tree {
    /// The first live process of each cluster up to `height`, the largest cluster first (`neighborhood_i(h)`).
    fn neighbourhood(at: &Place<'_>, height: u32) -> impl Iterator<Item = NodeId> {
        (1..=height).rev().filter_map(|s| first_member(at.me, s, Order::VCube, &at.members))
    }

    /// Lines 8-10 and 22-25: sends to those from whom no ACK is awaited yet.
    fn send_down(
        &mut self,
        at: Place<'_>,
        request: Stamp,
        parent: NodeId,
        height: u32,
        send: &mut Sink<'_, TreeMessage>,
    ) {
        let mut children: SmallVec<[NodeId; 32]> = Self::neighbourhood(&at, height).collect();
        children.retain(|child| self.pending.get(Pending::new(request, parent, *child)).is_none());
        if children.is_empty() {
            return;
        }
        self.pending.reserve(children.len());
        for &child in &children {
            self.insert(at.me, Pending::new(request, parent, child));
        }
        send(To::Many(children.as_slice().into()), TreeMessage::Tree { request });
    }

    /// Lines 11-14: when nothing is awaited for `parent` any more, it gets its ACK.
    fn check_acks(&self, at: Place<'_>, request: Stamp, parent: NodeId, send: &mut Sink<'_, TreeMessage>) {
        let least = Pending::new(request, parent, NodeId(0));
        let awaited = self
            .pending
            .first_from(least)
            .is_some_and(|(found, ())| found.request() == request && found.parent == parent);
        if !awaited && at.members.contains(request.node) && at.members.contains(parent) {
            send(To::One(parent), TreeMessage::Ack { request });
        }
    }

    /// Lines 27-31.
    fn on_ack(&mut self, at: Place<'_>, from: NodeId, request: Stamp, send: &mut Sink<'_, TreeMessage>) {
        let parents: SmallVec<[NodeId; 4]> = self
            .pending_of(request)
            .filter(|pending| pending.child == from)
            .map(|pending| pending.parent)
            .collect();
        // D5: as printed, one ACK clears one parent, and the other waits for ever.
        let cleared = if at.printed.has(D5) { parents.len().min(1) } else { parents.len() };
        for &parent in &parents[..cleared] {
            self.remove(at.me, Pending::new(request, parent, from));
            if parent != at.me {
                self.check_acks(at, request, parent, send);
            }
        }
    }

    /// All that is awaited for one request.
    fn pending_of(&self, request: Stamp) -> impl Iterator<Item = Pending> + '_ {
        let mut from = Some(Pending::new(request, NodeId(0), NodeId(0)));
        core::iter::from_fn(move || {
            let (found, ()) = self.pending.first_from(from?)?;
            if found.request() != request {
                return None;
            }
            from = found.child.0.checked_add(1).map(|child| Pending { child: NodeId(child), ..found });
            Some(found)
        })
    }

    fn insert(&mut self, me: NodeId, pending: Pending) {
        if self.pending.insert(pending, ()).is_none() && pending.parent == me {
            self.own += 1;
        }
    }

    fn remove(&mut self, me: NodeId, pending: Pending) {
        if self.pending.remove(pending).is_some() && pending.parent == me {
            self.own -= 1;
        }
    }
}

impl Spread for Tree {
    type Message = TreeMessage;

    fn ready(&self) -> bool {
        self.own == 0
    }

    fn broadcast(&mut self, at: Place<'_>, clock: u64, send: &mut Sink<'_, TreeMessage>) {
        assert!(self.ready(), "the last broadcast has not ended");
        let request = Stamp { clock, node: at.me };
        self.send_down(at, request, at.me, dimension(at.members.nodes()), send);
    }

    fn names(message: &TreeMessage) -> Option<NodeId> {
        match message {
            TreeMessage::Tree { request } | TreeMessage::Ack { request } => Some(request.node),
        }
    }

    /// Lines 15-21.
    fn accept(&mut self, at: Place<'_>, from: NodeId, message: &TreeMessage) -> Option<Stamp> {
        let TreeMessage::Tree { request } = *message else { return None };
        let source = request.node;
        if source == at.me || !at.members.contains(source) || !at.members.contains(from) {
            return None;
        }
        let found = self.last.binary_search_by_key(&source, |entry| entry.0);
        match found {
            Ok(place) => {
                let last = &mut self.last[place].1;
                // D1: as printed, the clock must be the next one; but clocks also advance for others' requests.
                let new = if at.printed.has(D1) { request.clock == *last + 1 } else { request.clock > *last };
                if !new {
                    return None;
                }
                *last = request.clock;
            }
            Err(place) => self.last.insert(place, (source, request.clock)),
        }
        Some(request)
    }

    /// Lines 16-17 and 22-31: a TREE that was seen before is passed on too, since it may have come to replace a
    /// process that crashed before it did.
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
                    self.send_down(at, request, from, cluster_of(at.me, from) - 1, send);
                    self.check_acks(at, request, from, send);
                }
            }
            TreeMessage::Ack { request } => self.on_ack(at, from, request, send),
        }
    }

    /// Lines 32-43.
    fn crashed(&mut self, at: Place<'_>, node: NodeId, send: &mut Sink<'_, TreeMessage>) {
        let next = first_member(at.me, cluster_of(at.me, node), Order::VCube, &at.members);
        let pending: Vec<Pending> = self.pending.iter().map(|(pending, ())| pending).collect();
        for lost in pending {
            let orphan = !at.members.contains(lost.source) || !at.members.contains(lost.parent);
            if orphan {
                self.remove(at.me, lost);
            } else if lost.child == node {
                if let Some(child) = next {
                    let replaced = Pending { child, ..lost };
                    if self.pending.get(replaced).is_none() {
                        self.insert(at.me, replaced);
                        send(To::One(child), TreeMessage::Tree { request: lost.request() });
                    }
                }
                self.remove(at.me, lost);
                if lost.parent != at.me {
                    self.check_acks(at, lost.request(), lost.parent, send);
                }
            }
        }
    }
}
