//! All states and steps, numbered, as the search for cycles needs them.

use std::collections::{BTreeMap, VecDeque};

use kgate_core::{Explorable, NodeId};
use kgate_spec::Fate;
use stateright::Model;

use crate::action::{Action, ActionOf};
use crate::bounds::Channels;
use crate::model::ProtocolModel;
use crate::properties;
use crate::state::digest;

/// A step: its target, the index of its action among those of the state, and its fairness class, if
/// fairness demands it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) to: u32,
    pub(super) action: u32,
    pub(super) class: Option<u32>,
}

/// All states, by number.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// The index of each state's first step among all steps.
    first: Vec<usize>,
    edges: Vec<Edge>,
    /// The waiting processes in each state, one bit each; none where more has failed than the
    /// protocol tolerates.
    waiting: Vec<u16>,
    /// The state from which each was first reached, and the index of the action; the initial state
    /// is reached from itself.
    pub(super) reached: Vec<(u32, u32)>,
}

impl Graph {
    /// Visits every state; none if a limit was reached.
    pub(super) fn build<P: Explorable>(model: &ProtocolModel<P>) -> Option<Self> {
        let mut graph = Self::default();
        let mut numbers = BTreeMap::new();
        let mut classes = BTreeMap::new();
        let mut todo = VecDeque::new();
        for state in model.init_states() {
            numbers.insert(digest(&state), 0);
            graph.reached.push((0, 0));
            todo.push_back(state);
        }
        let mut from = 0;
        let mut actions = Vec::new();
        while let Some(state) = todo.pop_front() {
            graph.first.push(graph.edges.len());
            let tolerated = properties::is_tolerated(model, &state);
            let waiting = state.ids().filter(|&node| tolerated && state.waits(node));
            graph.waiting.push(waiting.fold(0, |mask, node| mask | 1 << node.0));
            model.actions(&state, &mut actions);
            for (action, what) in (0..).zip(actions.drain(..)) {
                let class = class(model, &what).map(|key| {
                    let fresh = u32::try_from(classes.len()).expect("few");
                    *classes.entry(key).or_insert(fresh)
                });
                let next =
                    model.next_state(&state, what).filter(|next| model.within_boundary(next));
                let Some(next) = next else { continue };
                let fresh = u32::try_from(numbers.len()).expect("below four billion states");
                let to = *numbers.entry(digest(&next)).or_insert(fresh);
                if to == fresh {
                    graph.reached.push((from, action));
                    todo.push_back(next);
                }
                graph.edges.push(Edge { to, action, class });
            }
            from += 1;
        }
        graph.first.push(graph.edges.len());
        model.guard.stopped().is_none().then_some(graph)
    }

    pub(super) fn states(&self) -> u32 {
        u32::try_from(self.waiting.len()).expect("counted in u32")
    }

    pub(super) fn edges(&self, state: u32) -> &[Edge] {
        &self.edges[self.first[state as usize]..self.first[state as usize + 1]]
    }

    pub(super) fn waits(&self, state: u32, who: NodeId) -> bool {
        self.waiting[state as usize] & 1 << who.0 != 0
    }

    fn is_possible(&self, state: u32, class: u32) -> bool {
        self.edges(state).iter().any(|edge| edge.class == Some(class))
    }

    /// The classes that are enabled in every state of a component.
    pub(super) fn always_possible(&self, component: &[u32]) -> Vec<u32> {
        let mut classes: Vec<u32> =
            self.edges(component[0]).iter().filter_map(|edge| edge.class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes.retain(|&class| component.iter().all(|&state| self.is_possible(state, class)));
        classes
    }

    /// Whether a class happens on a step inside a component (sorted).
    pub(super) fn happens_inside(&self, component: &[u32], class: u32) -> bool {
        component.iter().any(|&state| self.step_inside(component, state, class).is_some())
    }

    /// A step of that class from `state` inside a component (sorted).
    pub(super) fn step_inside(&self, component: &[u32], state: u32, class: u32) -> Option<Edge> {
        let inside = |edge: &&Edge| component.binary_search(&edge.to).is_ok();
        self.edges(state).iter().find(|edge| edge.class == Some(class) && inside(edge)).copied()
    }
}

/// The fairness class of an action: what must happen eventually if it stays enabled; none if
/// fairness does not demand it.
fn class<P: Explorable>(model: &ProtocolModel<P>, action: &ActionOf<P>) -> Option<u64> {
    match action {
        Action::Message(_, Fate::Arrives, (from, to, message)) => match model.bounds.channels {
            Channels::Fifo => Some(digest(&(0, from, to))),
            Channels::Unordered => Some(digest(&(0, from, to, message))),
        },
        Action::Release(node, grant) => Some(digest(&(1, node, grant))),
        Action::Expire(node, timer) => Some(digest(&(2, node, timer))),
        Action::Restart(node) => Some(digest(&(3, node))),
        Action::NotifyCrash(node, of, incarnation) => Some(digest(&(4, node, of, incarnation))),
        Action::NotifyReturn(node, of) => Some(digest(&(6, node, of))),
        Action::Resize(node, _) => Some(digest(&(5, node))),
        Action::Acquire(..)
        | Action::Withdraw(_)
        | Action::Message(_, Fate::Lost | Fate::Duplicated, _)
        | Action::Crash(_)
        | Action::Down(_) => None,
    }
}
