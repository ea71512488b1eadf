//! Rounds (Dolev, Israeli and Moran 1997): time measured by the slowest process.
//!
//! A round is the shortest sequence of steps in which every process that was enabled at its start
//! has moved, or has been disabled for a moment by a neighbour's move.

use fixedbitset::FixedBitSet;
use kgate_core::{NodeId, Rules};

use super::processes::Processes;

pub(super) struct Rounds {
    finished: u64,
    /// The processes that must still move or become disabled before this round is over.
    pending: FixedBitSet,
    left: usize,
    /// Whether a step of this round was taken.
    begun: bool,
}

impl Rounds {
    pub(super) fn new<R: Rules>(processes: &Processes<R>) -> Self {
        let pending = FixedBitSet::with_capacity(processes.states.len());
        let mut rounds = Self { finished: 0, pending, left: 0, begun: false };
        rounds.begin(processes);
        rounds
    }

    fn begin<R: Rules>(&mut self, processes: &Processes<R>) {
        self.begun = false;
        self.left = processes.enabled().len();
        processes.enabled().iter().for_each(|node| self.pending.insert(node.index()));
    }

    /// The number of finished rounds.
    pub(super) fn finished(&self) -> u64 {
        self.finished
    }

    /// The round in which the current configuration is reached: a configuration that ends a round
    /// belongs to that round.
    pub(super) fn now(&self) -> u64 {
        self.finished + u64::from(self.begun)
    }

    /// Records the moves of a step; true if they end the round.
    pub(super) fn step<R: Rules>(&mut self, processes: &Processes<R>, movers: &[NodeId]) -> bool {
        self.begun = true;
        let disabled = processes.touched().iter().filter(|node| !processes.is_enabled(**node));
        for node in movers.iter().chain(disabled) {
            self.left -= usize::from(self.pending.contains(node.index()));
            self.pending.set(node.index(), false);
        }
        let over = self.left == 0;
        if over {
            self.finished += 1;
            self.begin(processes);
        }
        over
    }

    /// A fault has changed the enabled processes: a new round begins.
    pub(super) fn restart<R: Rules>(&mut self, processes: &Processes<R>) {
        self.pending.clear();
        self.begin(processes);
    }
}
