//! How long a log waits for what.

use kgate_core::Span;

/// The times of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTiming {
    /// A leader says so often that it is there.
    pub heartbeat: Span,
    /// After so long without a leader a voter asks for votes, at the earliest.
    pub election_min: Span,
    /// And at the latest.
    pub election_max: Span,
    /// So long is a proposal tried.
    pub patience: Span,
}

const MILLISECOND: u64 = 1_000_000;

impl LogTiming {
    /// For leases of 4 s: an election ends well within one.
    pub const DEFAULT: Self = Self::milliseconds(150, 600, 1200, 5000);
    /// For leases of 700 ms.
    pub const FAST: Self = Self::milliseconds(40, 150, 300, 2000);

    /// The same on a disk that takes so long for one write. A vote and an entry must be on disk
    /// before they count: times that leave no room for that would have voters stand against each
    /// other for ever.
    #[must_use]
    pub fn with_disk(self, write: Span) -> Self {
        let wanted = WRITES.saturating_mul(write.0).min(ELECTION.0);
        let stretch = wanted.div_ceil(self.election_min.0.max(1)).max(1);
        if stretch > 1 {
            tracing::warn!(
                "a write of the log takes {} ms on this disk: its heartbeats and elections take {stretch} times as long as on a quick one",
                write.0 / MILLISECOND
            );
        }
        let election_min = self.election_min.times(stretch);
        Self {
            heartbeat: self.heartbeat.times(stretch),
            election_min,
            election_max: self.election_max.times(stretch),
            // What is tried again too soon only adds to the queue.
            patience: self.patience.max(election_min.times(3)),
        }
    }

    const fn milliseconds(
        heartbeat: u64,
        election_min: u64,
        election_max: u64,
        patience: u64,
    ) -> Self {
        Self {
            heartbeat: Span(heartbeat * MILLISECOND),
            election_min: Span(election_min * MILLISECOND),
            election_max: Span(election_max * MILLISECOND),
            patience: Span(patience * MILLISECOND),
        }
    }
}

/// So many writes fit into the shortest time without a leader.
const WRITES: u64 = 8;
/// It is never made longer than this.
const ELECTION: Span = Span(10_000 * MILLISECOND);

impl Default for LogTiming {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quick disks change nothing; slow ones make room for their writes, within a bound.
    #[test]
    fn slow_disks() {
        let with = |milliseconds| LogTiming::DEFAULT.with_disk(Span(milliseconds * MILLISECOND));
        assert_eq!(with(0), LogTiming::DEFAULT);
        assert_eq!(with(75), LogTiming::DEFAULT);
        assert_eq!(with(100).election_min, LogTiming::DEFAULT.election_min.times(2));
        assert_eq!(with(100).patience, LogTiming::DEFAULT.patience);
        assert_eq!(with(600).patience, Span(14_400 * MILLISECOND));
        assert!(with(100_000).election_min < ELECTION + LogTiming::DEFAULT.election_min);
    }
}
