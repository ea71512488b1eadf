//! The lease clock: the only clock that decides whether a permit is valid.
//!
//! `CLOCK_MONOTONIC_RAW + (CLOCK_BOOTTIME - CLOCK_MONOTONIC)`: no time service slews it, and it
//! advances while the machine is suspended. `std::time::Instant` has neither property. The sum is
//! the same in every process of a machine, so processes can exchange instants.
//!
//! Timers only wake a task. Every decision reads this clock.
//!
//! In a debug build, `KGATE_TEST_CLOCK_RATE` (parts per million) makes the clock run at a wrong
//! rate, to test the bound on clock errors with real processes. Processes that exchange instants
//! need the same rate.

use std::ops::{Add, Sub};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// An instant of the lease clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseInstant(pub u64);

impl LeaseInstant {
    /// Before every other instant: no permit was valid yet.
    pub const NEVER: LeaseInstant = LeaseInstant(0);
    /// After every other instant: a permit that is bound to a process instead of time.
    pub const FOR_EVER: LeaseInstant = LeaseInstant(u64::MAX);

    /// The current instant.
    pub fn now() -> Self {
        let asleep = time_asleep_ns();
        let right = nanoseconds(clock_gettime(ClockId::MonotonicRaw)).saturating_add(asleep);
        LeaseInstant(if cfg!(debug_assertions) { rated(right, rate_ppm()) } else { right })
    }

    /// The time from `earlier` to this instant; zero if this instant is not later.
    pub fn after(self, earlier: LeaseInstant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for LeaseInstant {
    type Output = LeaseInstant;
    fn add(self, span: Duration) -> LeaseInstant {
        LeaseInstant(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Any span before [`LeaseInstant::FOR_EVER`] is still for ever.
impl Sub<Duration> for LeaseInstant {
    type Output = LeaseInstant;
    fn sub(self, span: Duration) -> LeaseInstant {
        if self == LeaseInstant::FOR_EVER {
            return self;
        }
        LeaseInstant(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The intended error of this process's clock, in parts per million.
fn rate_ppm() -> i64 {
    static RATE: OnceLock<i64> = OnceLock::new();
    let told = || {
        std::env::var("KGATE_TEST_CLOCK_RATE").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    *RATE.get_or_init(told)
}

fn rated(ns: u64, ppm: i64) -> u64 {
    let wrong = i128::from(ns) * (1_000_000 + i128::from(ppm)) / 1_000_000;
    u64::try_from(wrong.max(0)).unwrap_or(u64::MAX)
}

/// The greatest accepted error of a measured offset.
const CLOSE_NS: u64 = 10_000;

/// How far `CLOCK_BOOTTIME` is ahead: how long the machine has been suspended. This changes only
/// when it is suspended, so one comparison of the two clocks confirms the offset that was measured
/// last. A preemption between the two readings makes them look further apart; then it is measured.
fn time_asleep_ns() -> u64 {
    static MEASURED: AtomicU64 = AtomicU64::new(u64::MAX);
    let measured = MEASURED.load(Ordering::Relaxed);
    let monotonic = nanoseconds(clock_gettime(ClockId::Monotonic));
    let boot = nanoseconds(clock_gettime(ClockId::Boottime));
    if boot.saturating_sub(monotonic).abs_diff(measured) < CLOSE_NS {
        return measured;
    }
    let measured = measure_asleep_ns();
    MEASURED.store(measured, Ordering::Relaxed);
    measured
}

/// Measures how far `CLOCK_BOOTTIME` is ahead. The two clocks are read one after the other, and the
/// process may be preempted in between. An offset that is too large would make a sending time too
/// late, and its deadline with it: the unsafe direction. Therefore `CLOCK_BOOTTIME` is read between
/// two readings of the other clock, and again until those are close together.
fn measure_asleep_ns() -> u64 {
    const TRIES: u32 = 20;
    let mut best = (u64::MAX, 0);
    for _ in 0..TRIES {
        let before = nanoseconds(clock_gettime(ClockId::Monotonic));
        let boot = nanoseconds(clock_gettime(ClockId::Boottime));
        let after = nanoseconds(clock_gettime(ClockId::Monotonic));
        let width = after.saturating_sub(before);
        best = best.min((width, boot.saturating_sub(after)));
        if width < CLOSE_NS {
            break;
        }
    }
    best.1
}

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock never steps back.
    #[test]
    fn it_only_grows() {
        let mut last = LeaseInstant::now();
        for _ in 0..10_000 {
            let next = LeaseInstant::now();
            // Two readings of the offset may differ by the width of the window in which they were
            // taken.
            assert!(next + Duration::from_micros(10) >= last, "{next:?} after {last:?}");
            last = next;
        }
    }

    /// A clock with an intended error is wrong by exactly that rate; otherwise it is unchanged.
    #[test]
    fn wrong_on_purpose() {
        assert_eq!((rated(7_000_000, 0), rated(7_000_000, 10_000)), (7_000_000, 7_070_000));
        assert_eq!((rated(7_000_000, -10_000), rated(7, i64::MIN)), (6_930_000, 0));
    }

    /// Arithmetic saturates: for ever stays for ever, and never stays never.
    #[test]
    fn the_ends_hold() {
        let second = Duration::from_secs(1);
        assert_eq!(LeaseInstant::FOR_EVER - second, LeaseInstant::FOR_EVER);
        assert_eq!(LeaseInstant::FOR_EVER + second, LeaseInstant::FOR_EVER);
        assert_eq!(LeaseInstant::NEVER - second, LeaseInstant::NEVER);
        assert_eq!(LeaseInstant(5).after(LeaseInstant(7)), Duration::ZERO);
    }
}
