//! The processes: their states and their enabled actions. A step changes the movers, so only they
//! and their neighbours are evaluated again.

use std::sync::Arc;

use kgate_core::{Graph, NodeId, Rules, Setup, Step, View};

use super::StateConfig;

pub(super) struct Processes<R: Rules> {
    graph: Arc<Graph>,
    pub(super) setups: Vec<Setup>,
    pub(super) states: Vec<R::State>,
    /// The enabled actions of each process.
    steps: Vec<Vec<Step<R::State>>>,
    /// The enabled processes, in no particular order, and the place of each process in that list.
    enabled: Vec<NodeId>,
    place: Vec<Option<usize>>,
    /// The step since which each process has been enabled without moving.
    since: Vec<u64>,
    /// The number of processes with the privilege.
    privileged: usize,
    /// The processes evaluated again in the last step, and the number of each process's last
    /// evaluation.
    touched: Vec<NodeId>,
    evaluated: Vec<u64>,
    evaluation: u64,
    around: Vec<R::State>,
}

impl<R: Rules> Processes<R> {
    pub(super) fn new(config: &StateConfig, mut start: impl FnMut(&Setup) -> R::State) -> Self {
        let graph = Arc::clone(&config.graph);
        let (printed, shape) = (config.printed, Some(Arc::clone(&graph)));
        let known = Setup { defects: printed, graph: shape, ..Setup::new(graph.nodes(), config.k) };
        let setup = |me| Setup { me, ..known.clone() };
        let setups: Vec<Setup> = (0..graph.nodes()).map(NodeId).map(setup).collect();
        let states = setups.iter().map(&mut start).collect();
        let nodes = setups.len();
        let mut processes = Self {
            graph,
            setups,
            states,
            steps: vec![Vec::new(); nodes],
            enabled: Vec::new(),
            place: vec![None; nodes],
            since: vec![0; nodes],
            privileged: 0,
            touched: Vec::new(),
            evaluated: vec![0; nodes],
            evaluation: 0,
            around: Vec::new(),
        };
        (0..processes.graph.nodes()).for_each(|node| processes.evaluate(NodeId(node), 0));
        processes
    }

    pub(super) fn enabled(&self) -> &[NodeId] {
        &self.enabled
    }

    pub(super) fn is_enabled(&self, node: NodeId) -> bool {
        self.place[node.index()].is_some()
    }

    pub(super) fn steps(&self, node: NodeId) -> &[Step<R::State>] {
        &self.steps[node.index()]
    }

    pub(super) fn since(&self, node: NodeId) -> u64 {
        self.since[node.index()]
    }

    pub(super) fn privileged(&self) -> usize {
        self.privileged
    }

    /// The processes evaluated again in the last step: only these can have become enabled or
    /// disabled.
    pub(super) fn touched(&self) -> &[NodeId] {
        &self.touched
    }

    /// Applies all of `moves` at once, as step number `now`: each mover has read the states from
    /// before.
    pub(super) fn apply(&mut self, moves: &[(NodeId, Step<R::State>)], now: u64) {
        for (node, step) in moves {
            let at = node.index();
            debug_assert!(
                R::in_domain(&self.setups[at], &step.next),
                "{node} left its domain: {step:?}"
            );
            self.states[at] = step.next;
            self.since[at] = now;
        }
        self.evaluate_around(moves.iter().map(|(node, _)| *node), now);
    }

    /// Applies a fault: `node` changes to `state`.
    pub(super) fn corrupt(&mut self, node: NodeId, state: R::State, now: u64) {
        self.states[node.index()] = state;
        self.evaluate_around([node].into_iter(), now);
    }

    fn evaluate_around(&mut self, movers: impl Iterator<Item = NodeId>, now: u64) {
        self.evaluation += 1;
        self.touched.clear();
        let graph = Arc::clone(&self.graph);
        for mover in movers {
            for &node in [mover].iter().chain(graph.neighbours(mover)) {
                if std::mem::replace(&mut self.evaluated[node.index()], self.evaluation)
                    != self.evaluation
                {
                    self.touched.push(node);
                }
            }
        }
        let touched = std::mem::take(&mut self.touched);
        touched.iter().for_each(|&node| self.evaluate(node, now));
        self.touched = touched;
    }

    fn evaluate(&mut self, node: NodeId, now: u64) {
        let at = node.index();
        self.around.clear();
        self.around
            .extend(self.graph.neighbours(node).iter().map(|other| self.states[other.index()]));
        let view =
            View { setup: &self.setups[at], own: &self.states[at], neighbours: &self.around };
        let steps = &mut self.steps[at];
        self.privileged -= usize::from(is_privileged(steps));
        steps.clear();
        R::enabled(view, steps);
        self.privileged += usize::from(is_privileged(steps));
        match (self.place[at], self.steps[at].is_empty()) {
            (None, false) => {
                self.place[at] = Some(self.enabled.len());
                self.enabled.push(node);
                self.since[at] = now;
            }
            (Some(place), true) => {
                self.enabled.swap_remove(place);
                if let Some(moved) = self.enabled.get(place) {
                    self.place[moved.index()] = Some(place);
                }
                self.place[at] = None;
            }
            (None, true) | (Some(_), false) => {}
        }
    }
}

fn is_privileged<S>(steps: &[Step<S>]) -> bool {
    steps.iter().any(|step| step.privileged)
}
