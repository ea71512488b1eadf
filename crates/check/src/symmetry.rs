//! Symmetry reduction: states that differ only by a renaming of processes count as one.
//!
//! It is sound where the algorithm does not compare names ([`Explorable::renamed`]), for renamings
//! that preserve the network and the bounds: then whatever can happen in a state can happen,
//! renamed, in every state of its class, and every property has the same value in both. The search
//! visits the first state of each class that it meets, so a counterexample is a schedule that can
//! happen. Infinite schedules cannot be checked this way: a cycle of classes need not be a cycle of
//! states.

use std::sync::Arc;

use kgate_core::{Explorable, Graph, NodeId};

use crate::bounds::Bounds;
use crate::model::ProtocolModel;
use crate::state::{Hashed, InFlight, Process, State, digest};

/// Renamings: for each, the new name of every process. The first one is the identity.
pub type Renamings = Arc<[Vec<NodeId>]>;

/// Why symmetry reduction cannot be used. Each message says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSymmetry {
    /// The algorithm compares names.
    #[error(
        "this protocol compares names in this setting, so renamed states differ: leave out \
         --symmetry, or choose tree-token with k = 1"
    )]
    Names,
    /// Only the identity preserves the network and the bounds.
    #[error(
        "no two processes of this network and these bounds are interchangeable: leave out \
         --symmetry, or choose --graph star"
    )]
    None,
    /// Permanent crashes are reported in an order and repaired by name.
    #[error("permanent crashes are repaired by name: leave out --symmetry or --crashes")]
    Crashes,
}

/// The renamings that preserve the model.
pub fn of<P: Explorable>(model: &ProtocolModel<P>) -> Result<Renamings, NoSymmetry> {
    if model.bounds.crashes > 0 {
        return Err(NoSymmetry::Crashes);
    }
    let graph = model.setup.graph.as_deref();
    let mut renamings = Vec::new();
    let mut names: Vec<NodeId> = (0..model.setup.nodes).map(NodeId).collect();
    permutations(&mut names, 0, &mut |names| {
        if graph.is_none_or(|graph| fits(graph, names)) && same_entries(&model.bounds, names) {
            renamings.push(names.to_vec());
        }
    });
    let start = model.first_state();
    if renamings.iter().any(|names| renamed(&start, names).is_none()) {
        return Err(NoSymmetry::Names);
    }
    if renamings.len() < 2 { Err(NoSymmetry::None) } else { Ok(renamings.into()) }
}

/// The representative of a state's class: the renaming with the smallest fingerprint.
pub(crate) fn representative<P: Explorable>(state: &State<P>) -> State<P> {
    let Some(renamings) = &state.renamings.0 else { return state.clone() };
    let all =
        renamings.iter().map(|names| renamed(state, names).expect("the model has symmetries"));
    all.min_by_key(digest).expect("at least the identity")
}

fn permutations(names: &mut [NodeId], from: usize, each: &mut impl FnMut(&[NodeId])) {
    if from == names.len() {
        return each(names);
    }
    for with in from..names.len() {
        names.swap(from, with);
        permutations(names, from + 1, each);
        names.swap(from, with);
    }
}

/// Whether a renaming preserves the network and its root.
fn fits(graph: &Graph, names: &[NodeId]) -> bool {
    let nodes = || (0..graph.nodes()).map(NodeId);
    let name = |node: NodeId| names[node.index()];
    name(graph.root()) == graph.root()
        && nodes().all(|node| {
            let around = graph.neighbours(node);
            around.iter().all(|&other| graph.neighbours(name(node)).contains(&name(other)))
        })
}

/// Whether exchanged processes have the same number of requests.
fn same_entries(bounds: &Bounds, names: &[NodeId]) -> bool {
    names
        .iter()
        .enumerate()
        .all(|(old, new)| bounds.entries_of(old) == bounds.entries_of(new.index()))
}

/// The state under a renaming; none if the algorithm compares names.
fn renamed<P: Explorable>(state: &State<P>, names: &[NodeId]) -> Option<State<P>> {
    let name = |node: NodeId| names[node.index()];
    let mut renamed = state.clone();
    for (old, process) in state.processes.iter().enumerate() {
        let stored = match process.stored() {
            Some(stored) => Some(P::stored_renamed(stored, names)?),
            None => None,
        };
        let process = Process::new(process.protocol().renamed(names)?, stored);
        renamed.processes[names[old].index()] = Arc::new(process);
        renamed.clients[names[old].index()] = state.clients[old].clone();
    }
    for in_flight in &mut renamed.in_flight {
        let message = Arc::new(Hashed::new(P::message_renamed(&in_flight.message.value, names)?));
        *in_flight = InFlight { from: name(in_flight.from), to: name(in_flight.to), message };
    }
    renamed.in_flight.sort_by_key(InFlight::channel); // Stable: keeps the order within a channel.
    for timer in &mut renamed.timers {
        timer.0 = name(timer.0);
    }
    renamed.timers.sort();
    renamed.down.iter_mut().for_each(|node| *node = name(*node));
    renamed.down.sort_unstable();
    if let Some((node, _)) = &mut renamed.refused {
        *node = name(*node);
    }
    Some(renamed)
}
