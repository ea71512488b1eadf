//! The real clock, by which everything is checked: `CLOCK_MONOTONIC_RAW`, the same in all processes
//! and namespaces of this machine.
//!
//! Nodes and clients may run by a lease clock of a wrong rate. The process that records a deadline
//! converts it to the real clock.

use std::time::Duration;

use kgate_client::LeaseInstant;
use rustix::time::{ClockId, clock_gettime};

/// Error of a process's lease clock in parts per million; only builds with debug assertions read
/// it.
pub(crate) const RATE: &str = "KGATE_TEST_CLOCK_RATE";

const MILLION: i128 = 1_000_000;

/// Now, in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The reading of the real clock at the instant at which this process's lease clock shows `until`.
pub(crate) fn real(until: LeaseInstant) -> u64 {
    if until == LeaseInstant::FOR_EVER {
        return u64::MAX;
    }
    let rate = std::env::var(RATE).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (lease, real) = (LeaseInstant::now(), now());
    turned(until.0, lease.0, real, rate)
}

fn turned(until: u64, lease: u64, real: u64, rate_ppm: i64) -> u64 {
    let left = i128::from(until) - i128::from(lease);
    let left = left * MILLION / (MILLION + i128::from(rate_ppm)).max(1);
    u64::try_from((i128::from(real) + left).max(0)).unwrap_or(u64::MAX)
}

/// Waits for time to pass: the schedule of faults and the holds are made of real time.
#[allow(clippy::disallowed_methods)]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Polls until `look` returns a value; after `within` an error that names `what`.
pub(crate) fn wait_for<T>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let last = now() + nanoseconds(within);
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        anyhow::ensure!(now() < last, "timed out after {within:?}: {what}");
        pause(Duration::from_millis(10));
    }
}

/// A span in nanoseconds.
pub(crate) fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deadline of a clock that runs fast comes earlier in real time, of one that runs slow
    /// later; past ones stay past.
    #[test]
    fn deadlines_are_turned_into_real_time() {
        assert_eq!(turned(1_500, 1_000, 9_000, 0), 9_500);
        assert_eq!(turned(2_000_000, 1_000_000, 0, 250_000), 800_000);
        assert_eq!(turned(2_000_000, 1_000_000, 0, -200_000), 1_250_000);
        assert_eq!(turned(900, 1_000, 9_000, 0), 8_900);
    }
}
