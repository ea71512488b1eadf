//! The variables of a process, and their domains.
//!
//! One type serves the root and the others: the root has no variables P and L, and keeps in their
//! place what the paper fixes (P_r = r, L_r = 0), so that a reader of a neighbour's state need not
//! distinguish them.

use kgate_core::{Graph, NodeId, Setup};
use serde::{Deserialize, Serialize};

use super::defects::{C6, C9};

/// The variable T.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// C: clean, ready for a token or a broadcast.
    Clean,
    /// 0 .. l-1, root only: this token of the wave is on its way to S.
    Sending(u32),
    /// g_0 .. g_{l-2}, a root with one neighbour only: this token was taken, the next waits until
    /// the neighbour is clean (C9).
    Between(u32),
    /// R, root only: all tokens of the wave are taken.
    Ready,
    /// B: the cleaning broadcast has arrived.
    Broadcast,
    /// F, not at the root: the broadcast has reached all processes below.
    Feedback,
    /// Tok, not at the root: a token arrived and is on its way to S, or ended here if S is none.
    Token,
}

/// The variables T, S, P and L.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// T: the phase of the process.
    pub phase: Phase,
    /// S: the receiver of the last token; none for a leaf (C4), never none at a root that has a
    /// neighbour.
    pub sent: Option<NodeId>,
    /// P: the sender of the last token; none outside the tree (C4), the root itself at the root.
    pub parent: Option<NodeId>,
    /// L: the number of parents up to the root; 0 at the root and nowhere else.
    pub level: u32,
}

impl State {
    /// Whether a token is on its way from here: T in {Tok, 0, .., l-1}.
    pub(super) fn sends(&self) -> bool {
        matches!(self.phase, Phase::Token | Phase::Sending(_))
    }
}

/// The network around the process of `setup`.
pub(super) fn graph(setup: &Setup) -> &Graph {
    setup.graph.as_ref().expect("rules run on a graph")
}

/// D, the greatest level. C6: as printed beside the space bound it is the diameter; paths of the
/// tree can be longer.
pub(super) fn deepest(setup: &Setup) -> u32 {
    if setup.defects.has(C6) {
        let graph = graph(setup);
        let far = |node| graph.distances(NodeId(node)).into_iter().max().unwrap_or(0);
        return (0..graph.nodes()).map(far).max().unwrap_or(0);
    }
    setup.nodes - 1
}

/// The state of a clean start: no process has a parent, and the root begins with its first
/// neighbour.
pub(super) fn clean(setup: &Setup) -> State {
    let graph = graph(setup);
    if setup.me == graph.root() {
        let sent = graph.neighbours(setup.me).last().copied();
        return State { phase: Phase::Clean, sent, parent: Some(setup.me), level: 0 };
    }
    State { phase: Phase::Clean, sent: None, parent: None, level: 1 }
}

/// Any state of the domain, uniformly.
pub(super) fn arbitrary(setup: &Setup, below: &mut dyn FnMut(u64) -> u64) -> State {
    let graph = graph(setup);
    let neighbours = graph.neighbours(setup.me);
    let mut draw = |bound: u64| u32::try_from(below(bound)).expect("below a number of 32 bits");
    if setup.me == graph.root() {
        let phase = draw_phase(setup, &mut draw);
        let sent =
            (!neighbours.is_empty()).then(|| neighbours[draw(neighbours.len() as u64) as usize]);
        return State { phase, sent, parent: Some(setup.me), level: 0 };
    }
    let mut one_or_none = || neighbours.get(draw(neighbours.len() as u64 + 1) as usize).copied();
    let (sent, parent) = (one_or_none(), one_or_none());
    let phase = [Phase::Token, Phase::Clean, Phase::Broadcast, Phase::Feedback][draw(4) as usize];
    State { phase, sent, parent, level: 1 + draw(u64::from(deepest(setup))) }
}

/// Any phase of the root: three, one per token, and one between two tokens if it pauses there.
fn draw_phase(setup: &Setup, draw: &mut impl FnMut(u64) -> u32) -> Phase {
    let k = setup.k;
    let between = if pauses(setup) { k - 1 } else { 0 };
    match draw(3 + u64::from(k) + u64::from(between)) {
        0 => Phase::Clean,
        1 => Phase::Ready,
        2 => Phase::Broadcast,
        number if number - 3 < k => Phase::Sending(number - 3),
        number => Phase::Between(number - 3 - k),
    }
}

/// Whether the root must wait between two tokens: both go to its one neighbour (C9).
pub(super) fn pauses(setup: &Setup) -> bool {
    let graph = graph(setup);
    graph.neighbours(graph.root()).len() == 1 && !setup.defects.has(C9)
}

/// Whether process `setup.me` can be in this state at all.
pub(super) fn in_domain(setup: &Setup, state: &State) -> bool {
    let graph = graph(setup);
    let neighbours = graph.neighbours(setup.me);
    let beside =
        |node: Option<NodeId>| node.is_none_or(|node| neighbours.binary_search(&node).is_ok());
    let here = setup.me == graph.root();
    let phase = match state.phase {
        Phase::Clean | Phase::Broadcast => true,
        Phase::Sending(token) => here && token < setup.k,
        Phase::Between(token) => here && pauses(setup) && token < setup.k - 1,
        Phase::Ready => here,
        Phase::Feedback | Phase::Token => !here,
    };
    let rest = if here {
        state.parent == Some(setup.me)
            && state.level == 0
            && state.sent.is_some() != neighbours.is_empty()
    } else {
        beside(state.parent) && (1..=deepest(setup)).contains(&state.level)
    };
    phase && rest && beside(state.sent)
}
