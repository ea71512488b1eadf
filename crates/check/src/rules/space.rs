//! All configurations of a small network, and all steps of every daemon between them.
//!
//! A configuration is a number whose digits are the indices of the processes' states in their
//! domains. The enabled actions of each configuration are computed once and kept; the steps of
//! daemons are composed from those on demand.

use std::sync::Arc;

use kgate_core::{Defects, Graph, NodeId, Rules, Setup, Step, Survey, View};

use crate::limits::{LimitGuard, Limits, Stopped};

/// The largest number of configurations: they are numbered with 32 bits, and visiting them all
/// takes minutes.
pub const MOST: usize = 50_000_000;
/// Sets of processes are bit sets.
const PROCESSES_MAX: u32 = 16;

/// Why a network is too large to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// Too many configurations.
    #[error(
        "this network has more than {0} configurations: choose fewer processes, a smaller k, or a \
         network with fewer edges"
    )]
    Configurations(usize),
    /// Too much memory.
    #[error(
        "the {configurations} configurations of this network take some {gibibytes} GiB of memory: \
         allow more, or choose fewer processes, a smaller k, or a network with fewer edges"
    )]
    Memory {
        /// The number of configurations.
        configurations: usize,
        /// The memory needed, rounded up.
        gibibytes: u64,
    },
}

/// The setup of every process.
pub fn setups(graph: &Arc<Graph>, k: u32, printed: Defects) -> Vec<Setup> {
    let known =
        Setup { defects: printed, graph: Some(Arc::clone(graph)), ..Setup::new(graph.nodes(), k) };
    let setup = |me| Setup { me: NodeId(me), ..known.clone() };
    (0..graph.nodes()).map(setup).collect()
}

/// An enabled action of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The action's name.
    pub name: &'static str,
    /// Whether the process has the privilege while the action is enabled.
    pub privileged: bool,
    /// The index of the next state in the process's domain.
    next: usize,
}

/// A [`Move`] in few bytes.
#[derive(Clone, Copy, Debug)]
struct Packed {
    next: u32,
    name: u8,
    process: u8,
    privileged: bool,
}

/// A step of a daemon: the movers, those of them that take a privileged action, and the next
/// configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The movers, one bit each.
    pub movers: u32,
    /// The movers that take a privileged action, one bit each.
    pub privileged: u32,
    /// The next configuration.
    pub to: usize,
}

/// The configurations of a network.
#[derive(Debug)]
pub struct Space<R: Rules> {
    /// The setup of each process.
    pub setups: Vec<Setup>,
    /// The survey of each configuration.
    pub surveys: Vec<Survey>,
    /// The domain of each process: all of its states.
    domains: Vec<Vec<R::State>>,
    /// The value of each process's digit.
    weights: Vec<usize>,
    /// All enabled actions, by configuration and process; and the index of each configuration's
    /// first one.
    moves: Vec<Packed>,
    first: Vec<usize>,
    names: Vec<&'static str>,
    pub(crate) guard: LimitGuard,
}

impl<R: Rules> Space<R> {
    /// Surveys every configuration; fewer if a limit of time or memory is reached.
    pub fn new(
        graph: &Arc<Graph>,
        k: u32,
        printed: Defects,
        limits: Limits,
    ) -> Result<Self, TooLarge> {
        let setups = setups(graph, k, printed);
        let most = limits.states.unwrap_or(MOST).min(MOST);
        if graph.nodes() > PROCESSES_MAX {
            return Err(TooLarge::Configurations(most));
        }
        let (mut domains, mut weights, mut size) = (Vec::new(), Vec::new(), 1);
        for setup in &setups {
            let domain = domain::<R>(setup);
            weights.push(size);
            size *= domain.len();
            if size > most {
                return Err(TooLarge::Configurations(most));
            }
            domains.push(domain);
        }
        let bytes = size as u64 * bytes_each(graph.nodes());
        if limits.memory.is_some_and(|most| bytes > most) {
            return Err(TooLarge::Memory {
                configurations: size,
                gibibytes: bytes.div_ceil(1 << 30),
            });
        }
        let guard = LimitGuard::new(Limits { states: None, ..limits });
        let (surveys, moves, first, names) =
            (Vec::with_capacity(size), Vec::new(), vec![0], Vec::new());
        let mut space = Self { setups, surveys, domains, weights, moves, first, names, guard };
        for number in 0..size {
            if !space.guard.allows() {
                break;
            }
            space.survey(number);
        }
        Ok(space)
    }

    /// Surveys one configuration.
    fn survey(&mut self, number: usize) {
        let states = self.states(number);
        self.surveys.push(R::survey(&self.setups, &states));
        for (process, setup) in (0..).zip(&self.setups) {
            let domain = &self.domains[usize::from(process)];
            for step in enabled::<R>(setup, &states) {
                let next = domain.iter().position(|known| *known == step.next);
                let next = next
                    .unwrap_or_else(|| panic!("{} leaves the domain: {:?}", step.name, step.next));
                let name =
                    self.names.iter().position(|known| *known == step.name).unwrap_or_else(|| {
                        self.names.push(step.name);
                        self.names.len() - 1
                    });
                self.moves.push(Packed {
                    next: u32::try_from(next).expect("fewer states than configurations"),
                    name: u8::try_from(name).expect("a paper has few actions"),
                    process,
                    privileged: step.privileged,
                });
            }
        }
        self.first.push(self.moves.len());
    }

    /// The number of configurations surveyed.
    pub fn size(&self) -> usize {
        self.surveys.len()
    }

    /// The number of processes.
    pub fn processes(&self) -> usize {
        self.setups.len()
    }

    /// The states of a configuration.
    pub fn states(&self, number: usize) -> Vec<R::State> {
        (0..self.domains.len()).map(|at| self.domains[at][self.place(number, at)]).collect()
    }

    /// The index of a process's state in its domain.
    fn place(&self, number: usize, at: usize) -> usize {
        number / self.weights[at] % self.domains[at].len()
    }

    /// The number of the clean start.
    pub fn clean(&self) -> usize {
        let place = |at: usize| {
            let clean = R::clean(&self.setups[at]);
            let place = self.domains[at].iter().position(|state| *state == clean);
            place.expect("in the domain") * self.weights[at]
        };
        (0..self.processes()).map(place).sum()
    }

    fn packed(&self, number: usize) -> &[Packed] {
        &self.moves[self.first[number]..self.first[number + 1]]
    }

    /// The enabled actions of process `at`.
    pub fn moves(&self, number: usize, at: usize) -> impl Iterator<Item = Move> + '_ {
        let mine =
            self.packed(number).iter().filter(move |packed| usize::from(packed.process) == at);
        mine.map(|packed| Move {
            name: self.names[usize::from(packed.name)],
            privileged: packed.privileged,
            next: packed.next as usize,
        })
    }

    /// The action by which process `at` moves in a step; none if it does not move.
    pub(crate) fn taken(&self, number: usize, edge: Edge, at: usize) -> Option<Move> {
        let moves = edge.movers >> at & 1 == 1;
        let fits = |step: &Move| {
            step.next == self.place(edge.to, at)
                && step.privileged == (edge.privileged >> at & 1 == 1)
        };
        self.moves(number, at).find(|step| moves && fits(step))
    }

    /// The enabled processes, one bit each.
    pub fn enabled(&self, number: usize) -> u32 {
        self.packed(number).iter().fold(0, |mask, packed| mask | 1 << packed.process)
    }

    /// Every step of the most general daemon: any set of enabled processes, any of their actions.
    /// Empty once a limit is reached: the search then ends soon, and its result is discarded.
    pub fn edges(&self, number: usize) -> Vec<Edge> {
        if !self.guard.allows() {
            return Vec::new();
        }
        let mut edges = vec![Edge { movers: 0, privileged: 0, to: number }];
        let mut rest = self.packed(number);
        while let Some(&Packed { process, .. }) = rest.first() {
            let (mine, others) =
                rest.split_at(rest.partition_point(|packed| packed.process == process));
            let at = usize::from(process);
            let place = self.place(number, at);
            for known in 0..edges.len() {
                for packed in mine {
                    let Edge { movers, privileged, to } = edges[known];
                    edges.push(Edge {
                        movers: movers | 1 << at,
                        privileged: privileged | u32::from(packed.privileged) << at,
                        to: to - place * self.weights[at] + packed.next as usize * self.weights[at],
                    });
                }
            }
            rest = others;
        }
        edges.swap_remove(0);
        edges
    }

    /// The number of steps of daemons in a configuration: each process takes one of its actions or
    /// none, but not all none.
    pub(crate) fn steps(&self, number: usize) -> usize {
        let choices = |at: usize| 1 + self.moves(number, at).count();
        (0..self.processes()).map(choices).product::<usize>() - 1
    }

    /// The configurations reachable from `starts`, including these, in the order in which they are
    /// found.
    pub fn reachable(&self, starts: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut seen = vec![false; self.size()];
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

    /// The limit that was reached.
    pub fn stopped(&self) -> Option<Stopped> {
        self.guard.stopped()
    }
}

/// The bytes per configuration: those stored and those that the [laws](super::laws) need; most of
/// them for rounds, in which a configuration may occur with any set of processes that must still
/// move.
fn bytes_each(processes: u32) -> u64 {
    80 + (9 << processes)
}

/// The enabled actions of one process.
pub fn enabled<R: Rules>(setup: &Setup, states: &[R::State]) -> Vec<Step<R::State>> {
    let graph = setup.graph.as_ref().expect("a graph");
    let around: Vec<R::State> =
        graph.neighbours(setup.me).iter().map(|node| states[node.index()]).collect();
    let mut steps = Vec::new();
    R::enabled(View { setup, own: &states[setup.me.index()], neighbours: &around }, &mut steps);
    steps
}

/// The domain of a process: every state that [`Rules::arbitrary`] can return.
fn domain<R: Rules>(setup: &Setup) -> Vec<R::State> {
    let mut states = Vec::new();
    let mut choices: Vec<(u64, u64)> = Vec::new();
    loop {
        let mut at = 0;
        let state = R::arbitrary(setup, &mut |bound| {
            if at == choices.len() {
                choices.push((0, bound));
            }
            at += 1;
            choices[at - 1].0
        });
        assert!(R::in_domain(setup, &state), "{state:?}");
        assert!(!states.contains(&state), "generated twice, so not uniform: {state:?}");
        states.push(state);
        // The next choices: count up, like the digits of a number.
        while choices.last().is_some_and(|(value, bound)| value + 1 == *bound) {
            choices.pop();
        }
        match choices.last_mut() {
            Some((value, _)) => *value += 1,
            None => return states,
        }
    }
}
