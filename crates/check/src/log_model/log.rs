//! The log of the log model, and the processes that follow it.

use std::sync::Arc;

use kgate_core::{Directory, Explorable, Incarnation, Input, LogView, NodeId, Outbox, Setup};

use super::LogModel;
use super::action::Entry;
use super::permit::{Durable, Permit};
use super::state::{LogState, Run};
use crate::model::Transition;
use crate::state::{Hashed, Process};

/// The log before its first entry. Its gate has a key by which homes are in the order of ids: the
/// home is the fit member with the smallest id.
pub(super) fn first_view(nodes: u32, k: u32) -> LogView {
    let initial = LogView::initial(nodes, k);
    let is_in_order = |gate: &u64| {
        let mut directory = Directory::clone(&initial.directory);
        (0..nodes).map(NodeId).all(|node| {
            let is_home = directory.home(*gate).is_some_and(|home| home.node == node);
            directory.set_fit(node, Incarnation::default(), false);
            is_home
        })
    };
    let gate = (0..).find(is_in_order).expect("some key of 2^64");
    LogView { gate, ..initial }
}

impl<P: Explorable> LogModel<P> {
    /// A process applies the next entry; what the log holds from now on is released there.
    pub(super) fn apply(&self, state: &mut LogState<P>, node: NodeId) {
        state.nodes[node.index()].applied += 1;
        let view = state.view(state.node(node).applied).value.clone();
        self.handle(state, node, Input::Applied(Arc::new(view)));
        for place in state.handed_over(node) {
            self.release(state, place);
        }
    }

    /// The log grows by an entry.
    pub(super) fn append(&self, state: &mut LogState<P>, entry: Entry) {
        let mut next = state.latest().clone();
        next.index.0 += 1;
        let length = next.index.0;
        let directory = Arc::make_mut(&mut next.directory);
        let present = |node| directory.incarnation(node).unwrap_or_default();
        match entry {
            Entry::Suspect(node) | Entry::Drain(node) => {
                let incarnation = present(node);
                directory.set_fit(node, incarnation, false);
                let at = &mut state.nodes[node.index()];
                at.suspected = true;
                if matches!(entry, Entry::Drain(_)) {
                    at.drained = true;
                    state.spent.drains += 1;
                } else if at.run == Run::Up && !at.is_new {
                    state.spent.suspicions += 1;
                }
            }
            Entry::Clear(node) => {
                let incarnation = present(node);
                directory.set_fit(node, incarnation, true);
                state.nodes[node.index()].suspected = false;
            }
            Entry::Evict(node) => {
                let incarnation = present(node);
                directory.evict(node, incarnation);
                self.end_beliefs_by(state, node, incarnation);
                let at = &mut state.nodes[node.index()];
                (at.suspected, at.drained, at.has_lost) = (false, false, false);
                at.is_new = at.run != Run::Crashed;
            }
            Entry::Add(node) => {
                directory.join(node);
                let at = &mut state.nodes[node.index()];
                (at.added, at.is_new) = (at.added + 1, false);
            }
            Entry::Resize(k) => {
                next.k = k;
                state.spent.resizes += 1;
            }
            Entry::Hold(place) => {
                let permit = &mut state.permits[place];
                permit.durable = Durable::Held(length);
                next.reserved = bits(reserved(&next) | permit.slots);
            }
            Entry::Free(place) => {
                let permit = &mut state.permits[place];
                permit.ended = Some(length - 1);
                next.reserved = bits(reserved(&next) & !permit.slots);
            }
        }
        state.log.push(Arc::new(Hashed::new(next)));
    }

    /// H18: when a node is evicted, no client believes by its lease any more.
    fn end_beliefs_by(&self, state: &mut LogState<P>, node: NodeId, incarnation: Incarnation) {
        let (omissions, now) = (self.bounds.omissions, state.length());
        let by_lease = |permit: &Permit| {
            let by = &permit.by;
            let by_it = (by.node, u32::from(by.incarnation)) == (node, incarnation.0);
            let asked = permit.asked & 1 << node.0 != 0;
            by_it && !omissions.evict || asked && !omissions.evict_asked
        };
        let permits = state.permits.iter_mut();
        permits
            .filter(|permit| permit.believes() && !matches!(permit.durable, Durable::Held(_)))
            .filter(|permit| by_lease(permit))
            .for_each(|permit| permit.end(now));
    }

    /// A process crashes: its clients that wait, its timers and the messages to it are gone. Its
    /// clients inside believe by its lease.
    pub(super) fn crash(&self, state: &mut LogState<P>, node: NodeId, run: Run) {
        state.timers.retain(|timer| timer.0 != node);
        state.in_flight.retain(|in_flight| in_flight.to != node);
        state.permits.iter_mut().for_each(|permit| permit.forget_all(node));
        let at = &mut state.nodes[node.index()];
        (at.run, at.lease, at.applied) = (run, false, 0);
        at.waiting.clear();
        if run == Run::Crashed {
            (at.asked, at.is_new) = (0, false);
        }
        state.processes[node.index()] = self.blank(node);
    }

    /// A process starts again with nothing, as a later incarnation than the log has.
    pub(super) fn restart(&self, state: &mut LogState<P>, node: NodeId) {
        let view = state.log.last().expect("never empty").value.clone();
        let at = &mut state.nodes[node.index()];
        (at.run, at.lease, at.applied, at.is_new) = (Run::Up, true, view.index.0, true);
        let incarnation = Incarnation(u32::from(at.added) + 1);
        let log = Some(Arc::new(view));
        let setup = Setup { me: node, incarnation, log, ..self.setup.clone() };
        let mut out = Outbox::new();
        let protocol = P::start(&setup, None, &mut out);
        self.apply_effects(state, node, &Transition::new(protocol, None, out));
    }

    /// The process of a node that does not run.
    fn blank(&self, node: NodeId) -> Arc<Process<P>> {
        let blank = |node| {
            let setup = Setup { me: node, ..self.setup.clone() };
            Arc::new(Process::new(P::start(&setup, None, &mut Outbox::new()), None))
        };
        let nodes = (0..self.setup.nodes).map(NodeId);
        self.blank.get_or_init(|| nodes.map(blank).collect())[node.index()].clone()
    }
}

/// The reserved slots, one bit each.
fn reserved(view: &LogView) -> u32 {
    view.reserved.iter().fold(0, |all, slot| all | 1 << slot)
}

fn bits(slots: u32) -> Box<[u32]> {
    (0..32).filter(|slot| slots & 1 << slot != 0).collect()
}
