//! The daemon: which of the enabled processes move in the next step.
//!
//! All daemons but one are weakly fair: a process that stays enabled is chosen eventually. A random
//! choice alone is fair almost surely; a bound on the wait makes it certain and keeps a round
//! short.

use std::fmt;

use kgate_core::{Graph, NodeId, Rules};

use super::processes::Processes;
use crate::rng::Rng;

/// How the next movers are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// All enabled processes.
    Synchronous,
    /// One random enabled process.
    Central,
    /// A random non-empty set of enabled processes.
    Distributed,
    /// The enabled process nearest to the root: a distant one starves as long as a nearer one is
    /// enabled.
    Unfair,
}

/// Every daemon with its name.
pub const DAEMONS: [(&str, Daemon); 4] = [
    ("synchronous", Daemon::Synchronous),
    ("central", Daemon::Central),
    ("distributed", Daemon::Distributed),
    ("unfair", Daemon::Unfair),
];

impl Daemon {
    /// Whether a process that stays enabled moves eventually.
    pub fn is_fair(self) -> bool {
        self != Self::Unfair
    }
}

impl fmt::Display for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = DAEMONS.iter().find(|(_, daemon)| daemon == self);
        f.write_str(named.map_or("?", |(name, _)| name))
    }
}

/// A daemon at work.
pub(super) struct Chooser {
    daemon: Daemon,
    rng: Rng,
    /// The number of steps for which an enabled process may wait before a fair daemon chooses it.
    patience: u64,
    /// The distance of each process from the root.
    far: Vec<u32>,
}

impl Chooser {
    pub(super) fn new(daemon: Daemon, graph: &Graph, seed: u64) -> Self {
        let per_process = match daemon {
            Daemon::Synchronous | Daemon::Distributed | Daemon::Unfair => 4,
            // It takes n steps to move n processes once.
            Daemon::Central => 8,
        };
        Self {
            daemon,
            rng: Rng::fork(seed, "daemon"),
            patience: per_process * u64::from(graph.nodes()),
            far: graph.distances(graph.root()),
        }
    }

    /// Chooses the movers of step number `now` into `chosen`. At least one process must be enabled.
    pub(super) fn choose<R: Rules>(
        &mut self,
        processes: &Processes<R>,
        now: u64,
        chosen: &mut Vec<NodeId>,
    ) {
        let enabled = processes.enabled();
        chosen.clear();
        let late = |node: &NodeId| now - processes.since(*node) > self.patience;
        match self.daemon {
            Daemon::Synchronous => chosen.extend(enabled),
            Daemon::Central => {
                let waiting = enabled.iter().filter(|node| late(node));
                let first = waiting.min_by_key(|node| (processes.since(**node), **node)).copied();
                chosen.push(first.unwrap_or_else(|| one_of(enabled, &mut self.rng)));
            }
            Daemon::Distributed => {
                let eighths = self.rng.within(1, 7);
                chosen.extend(
                    enabled.iter().filter(|node| late(node) || self.rng.below(8) < eighths),
                );
                if chosen.is_empty() {
                    chosen.push(one_of(enabled, &mut self.rng));
                }
            }
            Daemon::Unfair => {
                chosen.extend(enabled.iter().min_by_key(|node| (self.far[node.index()], **node)))
            }
        }
    }

    /// Chooses one of `actions` enabled actions of a mover.
    pub(super) fn action(&mut self, actions: usize) -> usize {
        if actions == 1 { 0 } else { index(self.rng.below(actions as u64)) }
    }
}

fn one_of(enabled: &[NodeId], rng: &mut Rng) -> NodeId {
    enabled[index(rng.below(enabled.len() as u64))]
}

fn index(place: u64) -> usize {
    usize::try_from(place).expect("below a length")
}
