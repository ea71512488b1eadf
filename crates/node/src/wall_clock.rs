//! The clock on the wall, looked at for one thing only: whether it moves along with the lease
//! clock.
//!
//! A machine that was stopped from outside, or put back to an earlier state, may count no time for
//! it. When its wall clock is then set right, the two have moved apart: the lease may be older than
//! it seems (docs/internals/leases.md section 1).

use kgate_api::LeaseInstant;
use rustix::time::{ClockId, clock_gettime};

/// So far, in nanoseconds, the two may move apart between two looks: clocks are set, in small
/// steps.
const APART: i128 = 250_000_000;

/// How far the two clocks were apart when they were looked at last.
#[derive(Debug)]
pub(crate) struct WallClock {
    apart: i128,
}

impl WallClock {
    /// Looks for the first time.
    pub(crate) fn new() -> Self {
        Self { apart: apart() }
    }

    /// Whether they have moved apart since the last look.
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

    /// A step beyond the bound is a jump, in either direction, and each is told once; smaller ones
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
