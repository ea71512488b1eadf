//! A configuration in the terms of the paper's proofs: whether it is normal, whether it is in INC,
//! whether every process is in the tree, and the number of tokens.
//!
//! It is evaluated after every step, so it inspects closely only those processes to which a token
//! is offered.

use alloc::vec;
use alloc::vec::Vec;

use kgate_core::{Graph, NodeId, Setup, Survey, View};

use super::macros::potential;
use super::state::{Phase, State, graph};
use super::{others, root};

pub(super) fn survey(setups: &[Setup], states: &[State]) -> Survey {
    let graph = graph(&setups[0]);
    let top = graph.root();
    let own = &states[top.index()];
    let around = around(graph, top, states);
    let mut steps = Vec::new();
    root::enabled(View { setup: &setups[top.index()], own, neighbours: &around }, &mut steps);
    let (waiting, taking) = below(setups, states);
    let parent = |state: &State| state.parent.map(|parent| &states[parent.index()]);
    let others = states.iter().enumerate().filter(|(at, _)| *at != top.index());
    let normal = others.clone().all(|(_, state)| others::goes_with(state, parent(state)));
    let depths = depths(top, states);
    let over = depths.iter().zip(states).all(|(depth, state)| is_over(*depth, state.phase));
    Survey {
        normal,
        start: normal && over,
        joined: depths.iter().all(Option::is_some),
        tokens: at_root(own.phase, setups[0].k) + waiting + taking,
        privileged: taking + u32::from(steps.iter().any(|step| step.privileged)),
    }
}

/// T_potl and Token(p) of all but the root: the clean processes that wait with a token before them,
/// and those that can take it.
///
/// The paper counts a waiting one only if its Next is in Tok. A token before a process that waits
/// for another reason is no less a token, so it is counted too: what holds for this sum holds for
/// the paper's.
fn below(setups: &[Setup], states: &[State]) -> (u32, u32) {
    let graph = graph(&setups[0]);
    let mut offered: Vec<NodeId> =
        states.iter().filter(|state| state.sends()).filter_map(|state| state.sent).collect();
    offered.sort_unstable();
    offered.dedup();
    let (mut waiting, mut taking) = (0, 0);
    for node in offered {
        let own = &states[node.index()];
        if node == graph.root() || own.phase != Phase::Clean {
            continue;
        }
        let around = around(graph, node, states);
        let view = View { setup: &setups[node.index()], own, neighbours: &around };
        if others::token(view).is_some() {
            taking += 1;
        } else if potential(view).next().is_some() {
            waiting += 1;
        }
    }
    (waiting, taking)
}

fn around(graph: &Graph, node: NodeId, states: &[State]) -> Vec<State> {
    graph.neighbours(node).iter().map(|other| states[other.index()]).collect()
}

/// T_potr and Token(r) together: the tokens that the root has still to send, the one in its hand
/// included.
///
/// The paper counts them apart, and print has lost the negations (C12): in C there are l, or l-1
/// and the one in hand if a1 is enabled; in i there are l-i-1, or l-i-2 and the one in hand if a2
/// is enabled.
fn at_root(phase: Phase, k: u32) -> u32 {
    match phase {
        Phase::Clean => k,
        Phase::Sending(token) | Phase::Between(token) => k - token - 1,
        Phase::Ready | Phase::Broadcast | Phase::Feedback | Phase::Token => 0,
    }
}

/// INC for one process of the tree: the root and its children are clean, the others clean or in
/// feedback.
fn is_over(depth: Option<u32>, phase: Phase) -> bool {
    match depth {
        None => true,
        Some(0 | 1) => phase == Phase::Clean,
        Some(_) => matches!(phase, Phase::Clean | Phase::Feedback),
    }
}

/// The distance of each process from the root along the parents; none outside Tree(r).
fn depths(root: NodeId, states: &[State]) -> Vec<Option<u32>> {
    // Unknown, or known. A process on the present path counts as known to be outside, which is
    // right if the path is a circle.
    let mut known: Vec<Option<Option<u32>>> = vec![None; states.len()];
    known[root.index()] = Some(Some(0));
    let mut way: Vec<usize> = Vec::new();
    for start in 0..states.len() {
        let mut at = start;
        while known[at].is_none() {
            known[at] = Some(None);
            way.push(at);
            match states[at].parent {
                Some(parent) => at = parent.index(),
                None => break,
            }
        }
        let mut depth = known[at].flatten();
        while let Some(below) = way.pop() {
            depth = depth.map(|depth| depth + 1);
            known[below] = Some(depth);
        }
    }
    known.into_iter().map(Option::flatten).collect()
}
