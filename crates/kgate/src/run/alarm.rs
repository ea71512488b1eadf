//! A descriptor that becomes readable at an instant of the lease clock, or slightly before.
//!
//! `CLOCK_BOOTTIME` fires at once when a machine wakes from sleep; a timeout of `poll` would count
//! the remaining time first. A time service may slew `CLOCK_BOOTTIME` by 8.3 percent, and never the
//! lease clock. A distant alarm therefore fires after nine tenths of the remaining time, and its
//! owner sets it again: the error shrinks with the remaining time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::lease_clock::LeaseInstant;

/// A timer that wakes its owner and decides nothing.
#[derive(Debug)]
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Alarm(timerfd_create(TimerfdClockId::Boottime, flags)?))
    }

    /// Fires at `at` or earlier; never at `FOR_EVER`. Setting it clears an expiry that was not
    /// read.
    pub(crate) fn set(&self, at: LeaseInstant, now: LeaseInstant) -> io::Result<()> {
        let wait = if at == LeaseInstant::FOR_EVER { Duration::ZERO } else { delay(at.after(now)) };
        let first = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: first };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

/// The delay to set for a remaining time. At least a nanosecond: zero would disarm the timer.
fn delay(rest: Duration) -> Duration {
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

    /// Nine tenths of the remaining time, slewed by 8.3 percent, are before its end. The last
    /// milliseconds are one delay.
    #[test]
    fn it_fires_early_rather_than_late() {
        let rest = Duration::from_secs(4);
        assert!(delay(rest).mul_f64(1.09) < rest);
        assert_eq!(delay(Duration::from_millis(3)), Duration::from_millis(3));
        assert!(delay(Duration::ZERO) > Duration::ZERO);
    }
}
