//! Rounds (Dolev, Israeli and Moran 1997): the time of the slowest.
//!
//! A round is the shortest stretch of steps in which everybody who was enabled at its start has
//! moved, or has been disabled for a moment by a neighbour's move.

use fixedbitset::FixedBitSet;
use kgate_core::{NodeId, Rules};

use super::processes::Processes;

pub(super) struct Rounds {
    finished: u64,
    /// Who must still move or become disabled before this round is over.
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

    /// Rounds that are over.
    pub(super) fn finished(&self) -> u64 {
        self.finished
    }

    /// The round in which the present configuration is reached: one that ends a round belongs to
    /// it.
    pub(super) fn now(&self) -> u64 {
        self.finished + u64::from(self.begun)
    }

    /// `movers` have moved; true if that ends the round.
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

    /// A fault has changed who is enabled: a new round begins.
    pub(super) fn restart<R: Rules>(&mut self, processes: &Processes<R>) {
        self.pending.clear();
        self.begin(processes);
    }
}
