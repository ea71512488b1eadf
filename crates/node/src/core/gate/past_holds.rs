//! How long the last permits were held: what a waiting request may expect.

use std::collections::VecDeque;

/// Number of holds that are kept: enough for a median, and little in every status reply.
pub(crate) const KEPT: usize = 16;

/// The durations of the last holds at this node, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct PastHolds(VecDeque<u64>);

impl PastHolds {
    pub(super) fn add(&mut self, duration_ns: u64) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(duration_ns);
    }

    /// All of them, the last one last.
    pub(super) fn all(&self) -> Vec<u64> {
        self.0.iter().copied().collect()
    }
}
