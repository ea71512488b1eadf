//! Detection of clock jumps: whether the wall clock moves along with the lease clock.
//!
//! A machine that was suspended from outside, or reset to an earlier state, may not count that
//! time. When its wall clock is set right afterwards, the two clocks have moved apart: the lease
//! may be older than it seems (docs/internals/leases.md section 1).

use kgate_api::LeaseInstant;
use rustix::time::{ClockId, clock_gettime};

/// How far, in nanoseconds, the clocks may move apart between two checks: clocks are adjusted in
/// small steps.
const APART: i128 = 250_000_000;

/// The distance of the clocks at the last check.
#[derive(Debug)]
pub(crate) struct WallClock {
    apart: i128,
}

impl WallClock {
    /// Checks for the first time.
    pub(crate) fn new() -> Self {
        Self { apart: apart() }
    }

    /// Whether the clocks have moved apart since the last check.
    pub(crate) fn jumped(&mut self) -> bool {
        self.moved_to(apart())
    }

    fn moved_to(&mut self, now: i128) -> bool {
        let before = std::mem::replace(&mut self.apart, now);
        (now - before).abs() > APART
    }
}

fn apart() -> i128 {
    let wall = clock_gettime(ClockId::Realtime);
    let wall = i128::from(wall.tv_sec) * 1_000_000_000 + i128::from(wall.tv_nsec);
    wall - i128::from(LeaseInstant::now().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step beyond the bound is a jump, in either direction, and is reported once. Smaller steps
    /// are not.
    #[test]
    fn jumps() {
        let mut clock = WallClock { apart: 5_000_000_000 };
        let steps = [
            (5_250_000_000, false),
            (5_500_000_001, true),
            (5_500_000_001, false),
            (4_000_000_000, true),
        ];
        for (at, jumped) in steps {
            assert_eq!(clock.moved_to(at), jumped, "{at}");
        }
        assert!(!WallClock::new().jumped());
    }
}
