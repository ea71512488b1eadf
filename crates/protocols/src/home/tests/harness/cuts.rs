//! Links between two processes that are cut to the end of the run.

use alloc::vec::Vec;

use super::{Harness, Verdict};

impl Harness {
    /// Cuts a link, and now and then the way back as well. What is on its way there is lost.
    pub(super) fn cut(&mut self, from: u32, b: u32) -> Verdict {
        let to = (from + 1 + b % self.config.nodes.max(2)) % self.config.nodes;
        self.cut_one(from, to);
        if b.is_multiple_of(3) {
            self.cut_one(to, from);
        }
        Ok(())
    }

    /// Cuts one direction, if every two processes still reach each other.
    fn cut_one(&mut self, from: u32, to: u32) {
        let all: Vec<u32> = (0..self.config.nodes).collect();
        if from == to || !self.net.cuts.insert((from, to)) {
            return;
        }
        let apart =
            |(one, other): (u32, u32)| self.is_cut(one, other) && !self.has_relay(&all, one, other);
        if pairs(&all).any(apart) {
            self.net.cuts.remove(&(from, to));
            return;
        }
        trace!(self, "p{from} -> p{to} is cut");
        self.net.flights.retain(|_, copy| (copy.from.0, copy.to.0) != (from, to));
    }

    /// Whether one direction between two processes is cut, or both are.
    fn is_cut(&self, one: u32, other: u32) -> bool {
        self.net.cuts.contains(&(one, other)) || self.net.cuts.contains(&(other, one))
    }

    /// Whether one of these processes reaches both, in both directions.
    fn has_relay(&self, of: &[u32], one: u32, other: u32) -> bool {
        let reaches = |relay: &u32| {
            ![one, other].contains(relay)
                && !self.is_cut(one, *relay)
                && !self.is_cut(other, *relay)
        };
        of.iter().any(reaches)
    }

    /// At the end of a run cuts stay, but for those that only a process which is gone could relay
    /// across.
    pub(super) fn mend_hopeless_cuts(&mut self) {
        let live = self.net.live();
        for (one, other) in pairs(&live) {
            if self.is_cut(one, other) && !self.has_relay(&live, one, other) {
                self.net.cuts.retain(|cut| ![(one, other), (other, one)].contains(cut));
            }
        }
    }
}

fn pairs(of: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    let before = |(place, other): (usize, &u32)| (place, *other);
    of.iter()
        .enumerate()
        .map(before)
        .flat_map(|(place, other)| of[..place].iter().map(move |one| (*one, other)))
}
