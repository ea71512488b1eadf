//! Guarded commands: algorithms of the state model, in which a process reads its neighbours' states
//! and writes its own.
//!
//! Such an algorithm is a set of rules, each a guard over (own state, neighbours' states) and an
//! action on the own state. A daemon chooses which processes act. The rules are pure functions, so
//! that a state-model engine runs them exactly as their paper does, and a refinement layer runs
//! them over messages.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Graph, NodeId, Setup};

/// The states that a process may read when it evaluates its guards.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, S> {
    /// The process, and the network around it.
    pub setup: &'a Setup,
    /// The state of the process itself.
    pub own: &'a S,
    /// The states of its neighbours, in the order of [`Graph::neighbours`].
    pub neighbours: &'a [S],
}

impl<'a, S> View<'a, S> {
    /// The network.
    pub fn graph(&self) -> &'a Graph {
        self.setup.graph.as_ref().expect("rules run on a graph")
    }

    /// The process itself.
    pub fn me(&self) -> NodeId {
        self.setup.me
    }

    /// The neighbours with their states, in the order of ids.
    pub fn around(&self) -> impl Iterator<Item = (NodeId, &'a S)> + use<'a, S> {
        self.graph().neighbours(self.setup.me).iter().copied().zip(self.neighbours)
    }

    /// The state of `node`, which is the process itself or a neighbour; `None` for any other.
    pub fn of(&self, node: NodeId) -> Option<&'a S> {
        if node == self.setup.me {
            return Some(self.own);
        }
        let at = self.graph().neighbours(self.setup.me).binary_search(&node).ok()?;
        self.neighbours.get(at)
    }
}

/// One enabled action, and the state after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<S> {
    /// The action's name in the paper.
    pub name: &'static str,
    /// The state of the process after the action.
    pub next: S,
    /// Whether the process has the privilege while this action is enabled: it may be inside until
    /// it takes the step.
    pub privileged: bool,
}

/// A property of the whole configuration, as only an observer can evaluate it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// No process is in an abnormal state.
    pub normal: bool,
    /// A wave can start and nothing is left of the one before (the paper's INC).
    pub start: bool,
    /// Every process has been reached by the algorithm's structure (its spanning tree).
    pub joined: bool,
    /// Tokens in the whole network, those still to be sent included.
    pub tokens: u32,
    /// Processes that have the privilege now.
    pub privileged: u32,
}

/// An algorithm of the state model.
pub trait Rules: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// The algorithm's name.
    const NAME: &'static str;
    /// The variables of a process.
    type State: Copy + Debug + Eq + Hash + Send + Sync + Serialize + DeserializeOwned + 'static;

    /// The state of a process at a clean start.
    fn clean(setup: &Setup) -> Self::State;

    /// An arbitrary state of the domain, uniformly; `below(b)` draws a number below `b`.
    fn arbitrary(setup: &Setup, below: &mut dyn FnMut(u64) -> u64) -> Self::State;

    /// Whether this is a possible state of process `setup.me`. A state from memory or from a peer
    /// is checked by this before use.
    fn in_domain(setup: &Setup, state: &Self::State) -> bool;

    /// Pushes all enabled actions into `steps`, which is empty.
    fn enabled(view: View<'_, Self::State>, steps: &mut Vec<Step<Self::State>>);

    /// Parses a state that a person has written; `None` if the text is not one.
    fn parse_state(_text: &str) -> Option<Self::State> {
        None
    }

    /// Prints a state so that [`parse_state`](Self::parse_state) reads it back.
    fn print_state(state: &Self::State) -> String {
        format!("{state:?}")
    }

    /// Evaluates the whole configuration; `setups` and `states` have one entry per process.
    fn survey(setups: &[Setup], states: &[Self::State]) -> Survey;
}
