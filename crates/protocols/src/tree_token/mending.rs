//! The permanent loss of a process: the tree closes over it, and a token that was lost with it is
//! regenerated.
//!
//! Every process learns of the same losses in the same order, and passes on the ones that it knows,
//! so the list of one process is always a prefix of another's. The mended tree is a function of the
//! tree and the lost: the parent of a process is its nearest ancestor that is left, or, if none is,
//! the first that is left in the walk down the tree, which is then the root. So a lost process is
//! merged into one of its neighbours, its *hub*; the others become the hub's neighbours, and an
//! edge between two that are left stays. A process that knows of a loss accepts nothing more from
//! the lost one.
//!
//! A token that was in the direction of the lost process is now in the direction of the hub, for
//! all but the hub. The hub asks the processes that became its neighbours there (RESTART, ADVISE).
//! If one reports that the token is on its side, there it is. If all report that it is not, it was
//! lost with the process, because all around have refused it since; and the hub regenerates it. No
//! other process does, so that there is only one. The hub waits for a neighbour that is down: it
//! may have the token. No two hubs wait for each other: to every process that is not behind the
//! lost one, a hub reports at once that the token is on its side, found or not. To those behind, it
//! reports that the question is open, and not that the token is theirs: a process that had given it
//! to the lost one would conclude that the token did not arrive, and send it to the hub again.
//!
//! The new token's epoch is the number of the lost process in the list of losses. It is greater
//! than that of the old one: a process that had the old token knew of at least as many losses as
//! its epoch, and not of its own. So the fences of the new one are greater as well, and if a
//! process was declared lost and is alive, all processes and the guarded resource refuse it.

use alloc::vec::Vec;

use kgate_core::{Graph, NodeId, Outbox};

use super::link::Link;
use super::place::{Place, Revision};
use super::{Side, Statement, TreeToken};
use crate::collections::NodeList;

/// A token that may have been lost with a neighbour that was merged into this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    slot: usize,
    /// The number of processes that became neighbours there and have not answered.
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

    /// The nearest ancestor of `node` that is not lost, which replaces `node` if `node` is lost;
    /// the root if there is none.
    fn hub(&self, node: NodeId) -> NodeId {
        self.ancestor(node).unwrap_or(self.root)
    }

    /// The processes that share an edge with `node`, in the order of ids. Looks only at these and
    /// the lost ones between.
    pub(super) fn neighbours(&self, node: NodeId) -> Vec<NodeId> {
        let mut found = Vec::new();
        self.collect_below(node, &mut found);
        if node != self.root {
            found.push(self.hub(node));
        } else if node != self.graph.root() {
            // All processes that have no ancestor left, this one included.
            self.collect_below(self.graph.root(), &mut found);
            found.retain(|&other| other != node);
        }
        found.sort_unstable();
        found
    }

    /// The first processes that are left on each path down from `node`.
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

/// Whether `node` is `above` or below it in the initial tree.
fn descends(graph: &Graph, mut node: NodeId, above: NodeId) -> bool {
    while graph.preorder(node) > graph.preorder(above) {
        node = graph.parent(node).expect("only the root is first in the walk");
    }
    node == above
}

impl TreeToken {
    /// Losses that this process may not know yet.
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
            // The process that should have sent INITIALIZE is lost.
            self.on_initialize(self.me, out);
        }
        self.decide(out);
        self.progress(out); // Requests to the lost process are sent elsewhere.
    }

    /// Redirects from the lost processes to their hubs.
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

    /// Whether this process is the hub that must find out where the token is.
    pub(super) fn is_open(&self, slot: usize) -> bool {
        self.lost.contains(self.places[slot].towards)
    }

    /// Whether `node`, now a neighbour, was behind `gone`, a former neighbour that was merged into
    /// this process since.
    pub(super) fn is_behind(&self, node: NodeId, gone: NodeId) -> bool {
        let above = self.graph.preorder(gone) < self.graph.preorder(self.me);
        if above {
            !descends(&self.graph, node, self.me)
        } else {
            descends(&self.graph, node, gone)
        }
    }

    /// Counts again the awaited answers: the neighbours have changed.
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

    /// A neighbour's answer to the open questions.
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
                // Two hubs for one lost process: not among correct peers, and no answer.
                Side::Open => {}
            }
        }
        self.decide(out);
    }

    /// Regenerates the tokens that all neighbours have denied having.
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
            // The loss became known after the token was known to be there.
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
