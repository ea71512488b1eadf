//! The times of a log.

use kgate_core::Span;

/// The times of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTiming {
    /// The interval of a leader's heartbeats.
    pub heartbeat: Span,
    /// The least time without a leader after which a voter stands for election.
    pub election_min: Span,
    /// The greatest such time.
    pub election_max: Span,
    /// The timeout of a proposal.
    pub propose_timeout: Span,
}

const MILLISECOND: u64 = 1_000_000;

impl LogTiming {
    /// For leases of 4 s: an election takes much less than one lease.
    pub const DEFAULT: Self = Self::milliseconds(150, 600, 1200, 5000);
    /// For leases of 700 ms.
    pub const FAST: Self = Self::milliseconds(40, 150, 300, 2000);

    /// The times for a disk that takes `write` for one write. A vote and an entry must be on disk
    /// before they count: with times that leave no room for that, voters would stand against each
    /// other forever.
    #[must_use]
    pub fn with_disk(self, write: Span) -> Self {
        let wanted = WRITES.saturating_mul(write.0).min(ELECTION_MIN_MAX.0);
        let stretch = wanted.div_ceil(self.election_min.0.max(1)).max(1);
        if stretch > 1 {
            tracing::warn!(
                "a write takes {} ms on this disk: heartbeats and elections of the log take \
                {stretch} times as long as on a fast one",
                write.0 / MILLISECOND
            );
        }
        let election_min = self.election_min.times(stretch);
        Self {
            heartbeat: self.heartbeat.times(stretch),
            election_min,
            election_max: self.election_max.times(stretch),
            // A retry that comes too soon only adds to the queue.
            propose_timeout: self.propose_timeout.max(election_min.times(3)),
        }
    }

    const fn milliseconds(
        heartbeat: u64,
        election_min: u64,
        election_max: u64,
        propose_timeout: u64,
    ) -> Self {
        Self {
            heartbeat: Span(heartbeat * MILLISECOND),
            election_min: Span(election_min * MILLISECOND),
            election_max: Span(election_max * MILLISECOND),
            propose_timeout: Span(propose_timeout * MILLISECOND),
        }
    }
}

/// The number of writes that fit into the shortest time without a leader.
const WRITES: u64 = 8;
/// The shortest time without a leader is never stretched beyond this.
const ELECTION_MIN_MAX: Span = Span(10_000 * MILLISECOND);

impl Default for LogTiming {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fast disks change nothing. Slow ones stretch all times, within a bound.
    #[test]
    fn slow_disks() {
        let with = |milliseconds| LogTiming::DEFAULT.with_disk(Span(milliseconds * MILLISECOND));
        assert_eq!(with(0), LogTiming::DEFAULT);
        assert_eq!(with(75), LogTiming::DEFAULT);
        assert_eq!(with(100).election_min, LogTiming::DEFAULT.election_min.times(2));
        assert_eq!(with(100).propose_timeout, LogTiming::DEFAULT.propose_timeout);
        assert_eq!(with(600).propose_timeout, Span(14_400 * MILLISECOND));
        assert!(with(100_000).election_min < ELECTION_MIN_MAX + LogTiming::DEFAULT.election_min);
    }
}
