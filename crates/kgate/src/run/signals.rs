//! Signals read from a descriptor.
//!
//! A blocked signal stays in a `signalfd` until it is read. No handler runs, no call is
//! interrupted, and no disposition changes: CMD ignores the signals that were ignored when kgate
//! was started (`nohup`, a background job of a script). Children inherit the blocked signals, so
//! the stage unblocks them, except those that were blocked before.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use kgate_node::process_tree::read_proc;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Signals that the front forwards to CMD.
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

/// Signals that must neither end nor stop the guard.
pub(crate) const IGNORED_BY_GUARD: [Signal; 10] = [
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

/// Blocked signals that can be read.
#[derive(Debug)]
pub(crate) struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals. Must be called before any thread starts: a thread inherits the mask of
    /// its parent.
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

/// The signals of this module that were blocked when this process was started.
pub(crate) fn blocked_before() -> io::Result<Vec<i32>> {
    let mask = SigSet::thread_get_mask()?;
    Ok(all_blocked().filter(|signal| mask.contains(*signal)).map(|signal| signal as i32).collect())
}

/// Restores the mask that this process was started with.
pub(crate) fn restore(blocked_before: &[i32]) -> io::Result<()> {
    let ours: SigSet =
        all_blocked().filter(|signal| !blocked_before.contains(&(*signal as i32))).collect();
    Ok(ours.thread_unblock()?)
}

fn all_blocked() -> impl Iterator<Item = Signal> {
    FORWARDED.into_iter().chain(IGNORED_BY_GUARD).chain([Signal::SIGCHLD])
}

pub(crate) fn set_of(signals: &[Signal]) -> SigSet {
    signals.iter().copied().collect()
}

/// Those of the given signals that were not ignored when this process was started.
pub(crate) fn not_ignored(signals: &[Signal]) -> Vec<Signal> {
    let status = read_proc("/proc/self/status").unwrap_or_default();
    let mask = ignored_mask(&status);
    signals.iter().copied().filter(|signal| mask >> (*signal as u32 - 1) & 1 == 0).collect()
}

fn ignored_mask(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The same signal as a type of `rustix`, which sends it.
pub(crate) fn to_send(number: i32) -> Option<rustix::process::Signal> {
    rustix::process::Signal::from_named_raw(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the kernel's mask, signal 1 is bit 0.
    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let mask = ignored_mask("Name:\tx\nSigBlk:\tff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n");
        assert_eq!(mask, 1 | 1 << (Signal::SIGPIPE as u32 - 1));
    }
}
