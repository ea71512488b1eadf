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

    const fn milliseconds(heartbeat: u64, election_min: u64, election_max: u64, patience: u64) -> Self {
        Self {
            heartbeat: Span(heartbeat * MILLISECOND),
            election_min: Span(election_min * MILLISECOND),
            election_max: Span(election_max * MILLISECOND),
            patience: Span(patience * MILLISECOND),
        }
    }
}

impl Default for LogTiming {
    fn default() -> Self {
        Self::DEFAULT
    }
}
