//! Signals as things to read.
//!
//! A blocked signal waits in a descriptor until it is read. Nothing is done inside a handler,
//! nothing is interrupted, and no disposition is touched: what was ignored when we were started
//! (`nohup`, a job in the background of a script) CMD ignores too. But children inherit what is
//! blocked, so the stage unblocks it again, except what was blocked before us.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// What the front hands on to CMD.
pub(crate) const FORWARDED: [Signal; 9] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTSTP,
];

/// What must neither end nor stop the guard.
pub(crate) const SHRUGGED_OFF: [Signal; 10] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGALRM,
];

/// Blocked signals, to be read.
#[derive(Debug)]
pub(crate) struct Signals(SignalFd);

impl Signals {
    /// Call it before any thread is started: a thread begins with the mask of the one that started
    /// it.
    pub(crate) fn block(signals: &[Signal]) -> io::Result<Self> {
        let set = set_of(signals);
        set.thread_block()?;
        Ok(Signals(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    pub(crate) fn take(&self) -> Vec<Signal> {
        let numbers =
            std::iter::from_fn(|| self.0.read_signal().ok().flatten()).map(|info| info.ssi_signo);
        numbers.filter_map(|number| Signal::try_from(i32::try_from(number).ok()?).ok()).collect()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Which of those that we block were blocked already when we were started.
pub(crate) fn blocked_before() -> io::Result<Vec<i32>> {
    let mask = SigSet::thread_get_mask()?;
    Ok(all_blocked().filter(|signal| mask.contains(*signal)).map(|signal| signal as i32).collect())
}

/// CMD finds the mask that we found.
pub(crate) fn restore(blocked_before: &[i32]) -> io::Result<()> {
    let ours: SigSet =
        all_blocked().filter(|signal| !blocked_before.contains(&(*signal as i32))).collect();
    Ok(ours.thread_unblock()?)
}

fn all_blocked() -> impl Iterator<Item = Signal> {
    FORWARDED.into_iter().chain(SHRUGGED_OFF).chain([Signal::SIGCHLD])
}

pub(crate) fn set_of(signals: &[Signal]) -> SigSet {
    signals.iter().copied().collect()
}

/// The given ones that were not ignored when we were started.
pub(crate) fn not_ignored(signals: &[Signal]) -> Vec<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = ignored_mask(&status);
    signals.iter().copied().filter(|signal| mask >> (*signal as u32 - 1) & 1 == 0).collect()
}

fn ignored_mask(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The same signal, in the words of the crate that sends it.
pub(crate) fn to_send(number: i32) -> Option<rustix::process::Signal> {
    rustix::process::Signal::from_named_raw(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's line counts signals from bit nought.
    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let mask = ignored_mask("Name:\tx\nSigBlk:\tff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n");
        assert_eq!(mask, 1 | 1 << (Signal::SIGPIPE as u32 - 1));
    }
}
