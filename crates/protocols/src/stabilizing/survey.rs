//! A configuration as the paper's proofs see it: is it normal, is it in INC, is everybody in the tree, how many tokens.

use alloc::vec;
use alloc::vec::Vec;

use kgate_core::{NodeId, Setup, Step, Survey, View};

use super::macros::potential;
use super::others;
use super::root;
use super::state::{Phase, State, graph};

pub(super) fn survey(setups: &[Setup], states: &[State]) -> Survey {
    let graph = graph(&setups[0]);
    let top = graph.root();
    let mut around: Vec<State> = Vec::new();
    let mut steps: Vec<Step<State>> = Vec::new();
    let mut survey = Survey { normal: true, ..Survey::default() };
    for (setup, own) in setups.iter().zip(states) {
        around.clear();
        around.extend(graph.neighbours(setup.me).iter().map(|node| states[node.index()]));
        let view = View { setup, own, neighbours: &around };
        if setup.me == top {
            steps.clear();
            root::enabled(view, &mut steps);
            let privileged = steps.iter().any(|step| step.privileged);
            survey.privileged += u32::from(privileged);
            survey.tokens += at_root(own.phase, setup.permits);
            continue;
        }
        survey.normal &= others::is_normal(view);
        let token = others::token(view).is_some();
        let waiting = own.phase == Phase::Clean && potential(view).next().is_some();
        survey.privileged += u32::from(token);
        survey.tokens += u32::from(token || waiting);
    }
    let depths = depths(top, states);
    survey.joined = depths.iter().all(Option::is_some);
    survey.start =
        survey.normal && depths.iter().zip(states).all(|(depth, state)| is_over(*depth, state.phase));
    survey
}

/// T_potr and Token(r) together: the tokens that the root has still to send, the one in its hand included (C12).
///
/// The paper counts them apart: l - 1 and the one in hand if a1 is enabled, l if not; and so on.
fn at_root(phase: Phase, permits: u32) -> u32 {
    match phase {
        Phase::Clean => permits,
        Phase::Sending(token) | Phase::Between(token) => permits - token - 1,
        Phase::Ready | Phase::Broadcast | Phase::Feedback | Phase::Token => 0,
    }
}

/// INC for one process of the tree: the root and its children are clean, the others clean or in feedback.
fn is_over(depth: Option<u32>, phase: Phase) -> bool {
    match depth {
        None => true,
        Some(0 | 1) => phase == Phase::Clean,
        Some(_) => matches!(phase, Phase::Clean | Phase::Feedback),
    }
}

/// How far each process is from the root along the parents; none outside Tree(r).
fn depths(root: NodeId, states: &[State]) -> Vec<Option<u32>> {
    // Unknown, then known: a process on the way is taken for one outside, which a circle of parents is.
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
