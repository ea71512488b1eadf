//! A descriptor that becomes readable at an instant of the lease clock, or somewhat before.
//!
//! `CLOCK_BOOTTIME` fires at once when a machine wakes from sleep; a timeout of `poll` would first
//! count the rest. But a time service may slew it by 8.3 percent, the lease clock it may not. So an
//! alarm set far ahead rings after nine tenths of the way and whoever it wakes sets it again: the
//! error shrinks with the way that is left.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::lease_clock::LeaseInstant;

/// Wakes; decides nothing.
#[derive(Debug)]
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Alarm(timerfd_create(TimerfdClockId::Boottime, flags)?))
    }

    /// Rings at `at` or earlier; never, if it is for ever. Setting it also takes back a ring that
    /// nobody heard.
    pub(crate) fn set(&self, at: LeaseInstant, now: LeaseInstant) -> io::Result<()> {
        let wait = if at == LeaseInstant::FOR_EVER { Duration::ZERO } else { way(at.after(now)) };
        let first = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: first };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

/// At least a nanosecond: nought would disarm it.
fn way(rest: Duration) -> Duration {
    const SHORT: Duration = Duration::from_millis(5);
    let part = if rest <= SHORT { rest } else { rest / 10 * 9 };
    part.max(Duration::from_nanos(1))
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slewed by 8.3 percent, nine tenths of the way are still before its end; the last
    /// milliseconds are waited for in one.
    #[test]
    fn it_rings_early_rather_than_late() {
        let rest = Duration::from_secs(4);
        assert!(way(rest).mul_f64(1.09) < rest);
        assert_eq!(way(Duration::from_millis(3)), Duration::from_millis(3));
        assert!(way(Duration::ZERO) > Duration::ZERO);
    }
}
