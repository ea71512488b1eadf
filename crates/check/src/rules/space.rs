//! All configurations of a small network, and all steps of every daemon between them.
//!
//! A configuration has a number, whose digits are the numbers of the processes' states in their
//! domains. What can happen in it is asked of the rules once and kept; the steps of daemons are put
//! together from that when they are wanted.

use std::sync::Arc;

use kgate_core::{Defects, Graph, NodeId, Rules, Setup, Step, Survey, View};

use crate::limits::{LimitGuard, Limits, Stopped};

/// No more configurations than this: they are numbered with 32 bits, and looking at them all is a
/// matter of minutes.
pub const MOST: usize = 50_000_000;
/// Sets of processes are numbers too: a bit each.
const MOST_PROCESSES: u32 = 16;

/// Why a network is not explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// Too many configurations.
    #[error(
        "this network has more than {0} configurations: choose fewer processes, a smaller k, or a network with fewer edges"
    )]
    Configurations(usize),
    /// Too much memory.
    #[error(
        "the {configurations} configurations of this network take some {gibibytes} GiB of memory: allow more, or choose fewer processes, \
         a smaller k, or a network with fewer edges"
    )]
    Memory {
        /// So many there are.
        configurations: usize,
        /// Rounded up.
        gibibytes: u64,
    },
}

/// What every process knows.
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
    /// Whether the process has the privilege while it is enabled.
    pub privileged: bool,
    /// The place in the process's domain of the state after it.
    next: usize,
}

/// The same in few bytes.
#[derive(Clone, Copy, Debug)]
struct Packed {
    next: u32,
    name: u8,
    process: u8,
    privileged: bool,
}

/// A step of the daemon: who moves (a bit each), who of them is privileged, and the configuration
/// after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Who moves.
    pub movers: u32,
    /// Who of them takes a privileged action.
    pub privileged: u32,
    /// Where it leads.
    pub to: usize,
}

/// All configurations.
#[derive(Debug)]
pub struct Space<R: Rules> {
    /// What each process knows.
    pub setups: Vec<Setup>,
    /// Each configuration seen from outside.
    pub surveys: Vec<Survey>,
    /// All states of each process.
    domains: Vec<Vec<R::State>>,
    /// What one step in a process's domain adds to the number.
    weights: Vec<usize>,
    /// All enabled actions, those of one configuration beside each other in the order of processes;
    /// and where those of each begin.
    moves: Vec<Packed>,
    first: Vec<usize>,
    names: Vec<&'static str>,
    pub(crate) guard: LimitGuard,
}

impl<R: Rules> Space<R> {
    /// Looks at every configuration; at less if a limit of time or memory is reached before.
    pub fn new(
        graph: &Arc<Graph>,
        k: u32,
        printed: Defects,
        limits: Limits,
    ) -> Result<Self, TooLarge> {
        let setups = setups(graph, k, printed);
        let most = limits.states.unwrap_or(MOST).min(MOST);
        if graph.nodes() > MOST_PROCESSES {
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
            space.look(number);
        }
        Ok(space)
    }

    /// Asks the rules about a configuration.
    fn look(&mut self, number: usize) {
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

    /// How many configurations were looked at.
    pub fn size(&self) -> usize {
        self.surveys.len()
    }

    /// How many processes there are.
    pub fn processes(&self) -> usize {
        self.setups.len()
    }

    /// The states of a configuration.
    pub fn states(&self, number: usize) -> Vec<R::State> {
        (0..self.domains.len()).map(|at| self.domains[at][self.place(number, at)]).collect()
    }

    /// The place of a process's state in its domain.
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

    /// The action by which process `at` moves in a step.
    pub(crate) fn taken(&self, number: usize, edge: Edge, at: usize) -> Option<Move> {
        let moves = edge.movers >> at & 1 == 1;
        let fits = |step: &Move| {
            step.next == self.place(edge.to, at)
                && step.privileged == (edge.privileged >> at & 1 == 1)
        };
        self.moves(number, at).find(|step| moves && fits(step))
    }

    /// Who is enabled, a bit each.
    pub fn enabled(&self, number: usize) -> u32 {
        self.packed(number).iter().fold(0, |mask, packed| mask | 1 << packed.process)
    }

    /// Every step that the most general daemon can take: any set of enabled processes, any of their
    /// actions. None at all once a limit is reached: whoever asks ends soon then, and what it found
    /// counts no more.
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

    /// How many steps daemons can take in a configuration: each process by one of its actions, or
    /// not; but not nobody.
    pub(crate) fn steps(&self, number: usize) -> usize {
        let choices = |at: usize| 1 + self.moves(number, at).count();
        (0..self.processes()).map(choices).product::<usize>() - 1
    }

    /// The configurations that can be reached from `starts`, these included, in the order in which
    /// they are found.
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

/// Bytes a configuration takes: what is kept of it and what the [laws](super::laws) need; most of
/// it for rounds, in which it may be seen with any set of processes that have still to move.
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

/// All states of a process: whatever its rng can show.
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
