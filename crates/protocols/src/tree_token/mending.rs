//! The loss of a process for good: the tree closes over it, and a token that was lost with it is
//! made anew.
//!
//! Every process is told of the same losses in the same order, and passes on what it was told, so
//! what one knows is always a beginning of what another knows. The mended tree is a function of the
//! tree and the lost: the parent of a process is its nearest ancestor that is left, or, if none is,
//! the first that is left in the walk down the tree, which is then the root. So a lost process is
//! melted into one of its neighbours, its *hub*; the others become the hub's neighbours, and an
//! edge between two that are left stays. Who knows of a loss takes nothing more from the lost.
//!
//! A token that was in the direction of the lost is now in the direction of the hub, for all but
//! the hub. The hub asks those who became its neighbours there (RESTART, ADVISE). If one says that
//! the token is on its side, there it is. If all say that it is not, it went with the lost, because
//! all around have refused it since; and the hub makes it anew. Nobody else does, so that there is
//! one. A neighbour that is down is waited for: it may have the token. No two hubs wait for each
//! other: to whomever is not behind the lost, a hub says at once that the token is on its side,
//! found or not. To those behind, it says that the question is open, and not that the token is
//! theirs: who had given it to the lost would take that for a token that did not arrive, and send
//! it to the hub again.
//!
//! The new token's epoch is the number of the lost. It is greater than that of the old one: whoever
//! had that knew of as many losses as its epoch at least, and not of its own. So the fences of the
//! new one are greater as well, and if somebody was held for lost and incarnations, it is refused
//! by all processes and by the guarded resource.

use alloc::vec::Vec;

use kgate_core::{Graph, NodeId, Outbox};

use super::link::Link;
use super::place::{Place, Revision};
use super::{Side, Statement, TreeToken};
use crate::collections::NodeList;

/// A token that may have been lost with a neighbour that was melted into us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    slot: usize,
    /// How many that became our neighbours there have not answered.
    awaited: usize,
}

/// The tree that is left.
pub(super) struct Mended<'a> {
    graph: &'a Graph,
    lost: &'a NodeList,
    root: NodeId,
}

impl<'a> Mended<'a> {
    pub(super) fn new(graph: &'a Graph, lost: &'a NodeList) -> Self {
        let mut walk = graph.walk().iter().copied();
        let root = walk.find(|&node| !lost.contains(node)).expect("who asks is left");
        Self { graph, lost, root }
    }

    /// The nearest ancestor that is left.
    fn ancestor(&self, mut node: NodeId) -> Option<NodeId> {
        loop {
            node = self.graph.parent(node)?;
            if !self.lost.contains(node) {
                return Some(node);
            }
        }
    }

    /// Who took the place of a lost process; the parent of any other, but the root.
    fn hub(&self, node: NodeId) -> NodeId {
        self.ancestor(node).unwrap_or(self.root)
    }

    /// Who shares an edge with `node`, in the order of ids. Looks at nobody but these and the lost
    /// between.
    pub(super) fn neighbours(&self, node: NodeId) -> Vec<NodeId> {
        let mut found = Vec::new();
        self.collect_below(node, &mut found);
        if node != self.root {
            found.push(self.hub(node));
        } else if node != self.graph.root() {
            // All that have no ancestor left; ourselves among them.
            self.collect_below(self.graph.root(), &mut found);
            found.retain(|&other| other != node);
        }
        found.sort_unstable();
        found
    }

    /// The first that are left on each way down from `node`.
    fn collect_below(&self, node: NodeId, found: &mut Vec<NodeId>) {
        let mut gone = Vec::from([node]);
        while let Some(node) = gone.pop() {
            for &child in self.graph.neighbours(node) {
                if self.graph.parent(node) == Some(child) {
                    continue;
                }
                if self.lost.contains(child) { gone.push(child) } else { found.push(child) }
            }
        }
    }
}

/// Whether `node` is `above` or below it in the tree of the start.
fn descends(graph: &Graph, mut node: NodeId, above: NodeId) -> bool {
    while graph.preorder(node) > graph.preorder(above) {
        node = graph.parent(node).expect("only the root is first in the walk");
    }
    node == above
}

impl TreeToken {
    /// Losses of which we may not have heard yet.
    pub(super) fn learn(&mut self, lost: &NodeList, out: &mut Outbox<Self>) {
        let known = self.lost.len();
        for node in lost.iter() {
            self.lost.insert(node);
        }
        if self.lost.len() == known {
            return;
        }
        self.links.retain(|link| !self.lost.contains(link.node));
        self.queue.retain(|&entry| !self.lost.contains(entry));
        let tree = Mended::new(&self.graph, &self.lost);
        let first = tree.root == self.me && !self.initialized;
        let mut met = Vec::new();
        for node in tree.neighbours(self.me) {
            if let Err(at) = self.links.binary_search_by_key(&node, |link| link.node) {
                self.links.insert(at, Link::new(node, 0));
                met.push(node);
            }
        }
        self.turn();
        self.wonder();
        self.store(out);
        for node in met {
            self.send_restart(node, out);
        }
        if first {
            self.on_initialize(self.me, out); // Who should have told us is gone.
        }
        self.decide(out);
        self.progress(out); // What was asked of the lost is asked elsewhere.
    }

    /// Turns from the lost to their hubs.
    pub(super) fn turn(&mut self) {
        if self.lost.is_empty() {
            return;
        }
        let tree = Mended::new(&self.graph, &self.lost);
        for place in &mut self.places {
            if self.lost.contains(place.towards) {
                let hub = tree.hub(place.towards);
                if hub != self.me {
                    let at = self.links.binary_search_by_key(&hub, |link| link.node);
                    assert!(
                        at.is_ok(),
                        "{}: the hub {hub} of a former parent is the parent",
                        self.me
                    );
                    place.towards = hub;
                }
            }
        }
    }

    /// Whether we are the hub that must find out where this token is.
    pub(super) fn is_open(&self, slot: usize) -> bool {
        self.lost.contains(self.places[slot].towards)
    }

    /// Whether `node`, now our neighbour, was behind `gone`, our neighbour then and melted into us
    /// since.
    pub(super) fn is_behind(&self, node: NodeId, gone: NodeId) -> bool {
        let above = self.graph.preorder(gone) < self.graph.preorder(self.me);
        if above {
            !descends(&self.graph, node, self.me)
        } else {
            descends(&self.graph, node, gone)
        }
    }

    /// Counts anew whose answers are awaited: who is a neighbour has changed.
    pub(super) fn wonder(&mut self) {
        let open = (0..self.places.len()).filter(|&slot| self.is_open(slot));
        let question = |slot: usize| {
            let behind = |link: &&Link| self.is_behind(link.node, self.places[slot].towards);
            Question {
                slot,
                awaited: self.links.iter().filter(|link| !link.stated).filter(behind).count(),
            }
        };
        self.questions = open.map(question).collect();
    }

    /// A neighbour's answer to our questions.
    pub(super) fn find(&mut self, from: NodeId, statement: &Statement, out: &mut Outbox<Self>) {
        let stated =
            core::mem::replace(&mut self.link_mut(from).expect("a neighbour").stated, true);
        for at in 0..self.questions.len() {
            let slot = self.questions[at].slot;
            if !self.is_open(slot) || !self.is_behind(from, self.places[slot].towards) {
                continue;
            }
            match statement.tokens[slot].side {
                Side::Mine => {
                    self.places[slot].towards = from;
                    self.store(out);
                }
                Side::Yours => self.questions[at].awaited -= usize::from(!stated),
                Side::Open => {} // Two hubs for one lost process: not among correct peers, and no answer.
            }
        }
        self.decide(out);
    }

    /// Makes the tokens anew of which all have said that they have them not.
    pub(super) fn decide(&mut self, out: &mut Outbox<Self>) {
        for Question { slot, awaited } in core::mem::take(&mut self.questions) {
            if !self.is_open(slot) {
                continue;
            }
            if awaited > 0 {
                self.questions.push(Question { slot, awaited });
                continue;
            }
            let epoch = self.lost.len();
            // We learned of its loss after we knew the token to be there.
            assert!(
                epoch > self.places[slot].revision.epoch,
                "{}: token {slot} was there after its loss",
                self.me
            );
            self.places[slot] =
                Place { towards: self.me, revision: Revision { epoch, version: 0 } };
            self.store(out);
        }
    }
}
