//! All configurations of a small network, and all steps of every daemon between them.

use std::sync::Arc;

use kgate_core::{Graph, NodeId, Printed, Rules, Setup, Step, Survey, View};

/// What every process knows.
pub(crate) fn setups(graph: &Arc<Graph>, permits: u32, printed: Printed) -> Vec<Setup> {
    let known = Setup { printed, graph: Some(Arc::clone(graph)), ..Setup::new(graph.nodes(), permits) };
    let setup = |me| Setup { me: NodeId(me), ..known.clone() };
    (0..graph.nodes()).map(setup).collect()
}

/// An enabled action of a process: which, whether it is privileged, and what it adds to the number of the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) name: &'static str,
    pub(crate) privileged: bool,
    change: isize,
}

/// A step of the daemon: who moves (a bit each), who of them is privileged, and the configuration after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) movers: u32,
    pub(crate) privileged: u32,
    pub(crate) to: usize,
}

/// Every configuration has a number; the digits are the numbers of the processes' states.
pub(crate) struct Space<R: Rules> {
    pub(crate) setups: Vec<Setup>,
    /// All states of each process.
    domains: Vec<Vec<R::State>>,
    /// What one step in a process's domain adds to the number.
    weights: Vec<usize>,
    /// The enabled actions of each process in each configuration.
    moves: Vec<Vec<Move>>,
    pub(crate) surveys: Vec<Survey>,
}

impl<R: Rules> Space<R> {
    pub(crate) fn new(graph: &Arc<Graph>, permits: u32, printed: Printed) -> Self {
        let setups = setups(graph, permits, printed);
        let domains: Vec<Vec<R::State>> = setups.iter().map(domain::<R>).collect();
        let weights: Vec<usize> =
            (0..domains.len()).map(|at| domains[..at].iter().map(Vec::len).product()).collect();
        let mut space = Self { setups, domains, weights, moves: Vec::new(), surveys: Vec::new() };
        for number in 0..space.len() {
            let states = space.states(number);
            space.surveys.push(R::survey(&space.setups, &states));
            for at in 0..space.setups.len() {
                let moves = enabled::<R>(&space.setups[at], &states).into_iter().map(|step| {
                    let place = |state| space.domains[at].iter().position(|known| *known == state);
                    let from = place(states[at]).expect("in the domain");
                    let to = place(step.next).expect("an action stays in the domain");
                    let change = (to.cast_signed() - from.cast_signed()) * space.weights[at].cast_signed();
                    Move { name: step.name, privileged: step.privileged, change }
                });
                let moves = moves.collect();
                space.moves.push(moves);
            }
        }
        space
    }

    /// How many configurations there are.
    pub(crate) fn len(&self) -> usize {
        self.domains.iter().map(Vec::len).product()
    }

    pub(crate) fn states(&self, number: usize) -> Vec<R::State> {
        let digit = |(domain, weight): (&Vec<R::State>, &usize)| domain[number / weight % domain.len()];
        self.domains.iter().zip(&self.weights).map(digit).collect()
    }

    /// The number of the clean start.
    pub(crate) fn clean(&self) -> usize {
        let place = |at: usize| {
            let clean = R::clean(&self.setups[at]);
            self.domains[at].iter().position(|state| *state == clean).expect("in the domain")
                * self.weights[at]
        };
        (0..self.setups.len()).map(place).sum()
    }

    /// The enabled actions of process `at`.
    pub(crate) fn moves(&self, number: usize, at: usize) -> &[Move] {
        &self.moves[number * self.setups.len() + at]
    }

    /// Who is enabled, a bit each.
    pub(crate) fn enabled(&self, number: usize) -> u32 {
        let bit = |at: usize| u32::from(!self.moves(number, at).is_empty()) << at;
        (0..self.setups.len()).map(bit).sum()
    }

    /// Every step that the most general daemon can take: any set of enabled processes, any of their actions.
    pub(crate) fn edges(&self, number: usize) -> Vec<Edge> {
        let mut edges = vec![Edge { movers: 0, privileged: 0, to: number }];
        for at in 0..self.setups.len() {
            for known in 0..edges.len() {
                for step in self.moves(number, at) {
                    let Edge { movers, privileged, to } = edges[known];
                    edges.push(Edge {
                        movers: movers | 1 << at,
                        privileged: privileged | u32::from(step.privileged) << at,
                        to: to.checked_add_signed(step.change).expect("a number"),
                    });
                }
            }
        }
        edges.remove(0);
        edges
    }

    /// The configurations that can be reached from `starts`, these included, in the order in which they are found.
    pub(crate) fn reachable(&self, starts: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut seen = vec![false; self.len()];
        let mut found = Vec::new();
        let mut meet = |number: usize, found: &mut Vec<usize>| {
            if !std::mem::replace(&mut seen[number], true) {
                found.push(number);
            }
        };
        starts.into_iter().for_each(|number| meet(number, &mut found));
        let mut at = 0;
        while at < found.len() {
            self.edges(found[at]).into_iter().for_each(|edge| meet(edge.to, &mut found));
            at += 1;
        }
        found
    }
}

/// The enabled actions of one process.
pub(crate) fn enabled<R: Rules>(setup: &Setup, states: &[R::State]) -> Vec<Step<R::State>> {
    let graph = setup.graph.as_ref().expect("a graph");
    let around: Vec<R::State> = graph.neighbours(setup.me).iter().map(|node| states[node.index()]).collect();
    let mut steps = Vec::new();
    R::enabled(View { setup, own: &states[setup.me.index()], neighbours: &around }, &mut steps);
    steps
}

/// All states of a process: whatever its dice can show.
fn domain<R: Rules>(setup: &Setup) -> Vec<R::State> {
    let mut states = Vec::new();
    let mut draws: Vec<(u64, u64)> = Vec::new();
    loop {
        let mut at = 0;
        let state = R::arbitrary(setup, &mut |bound| {
            if at == draws.len() {
                draws.push((0, bound));
            }
            at += 1;
            draws[at - 1].0
        });
        assert!(R::in_domain(setup, &state), "{state:?}");
        assert!(!states.contains(&state), "drawn twice, so not evenly: {state:?}");
        states.push(state);
        // The next draws: count up, like the digits of a number.
        while draws.last().is_some_and(|(drawn, bound)| drawn + 1 == *bound) {
            draws.pop();
        }
        match draws.last_mut() {
            Some((drawn, _)) => *drawn += 1,
            None => return states,
        }
    }
}
