//! The stage: the process that becomes CMD.
//!
//! The guard forks it, in a process group of its own, while the request for the permit is pending.
//! The stage sets `PR_SET_PDEATHSIG`, which survives `exec`, so that it dies with the guard. It
//! waits for the message `Go` and becomes CMD.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, getppid, set_parent_process_death_signal};

use super::channel::{Channel, Go, NotRun, Received};
use super::deadline_cell::DeadlineCell;
use super::{exit, signals, terminal};

/// Becomes the command, in a fork of the guard. Returns an exit code only if the command did not
/// start.
pub(crate) fn main(
    command: &[OsString],
    channel: &Channel,
    deadline: &DeadlineCell,
    guard: Pid,
) -> u8 {
    match become_command(command, channel, deadline, guard) {
        // The request failed; the guard reports why.
        Ok(()) => 0,
        Err(error) => {
            super::print_message(&format!("cannot start the command: {error}"));
            exit::FAILED
        }
    }
}

fn become_command(
    command: &[OsString],
    channel: &Channel,
    deadline: &DeadlineCell,
    guard: Pid,
) -> io::Result<()> {
    let [command, rest @ ..] = command else { return Ok(()) };
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The guard may have died before this call.
    if getppid() != Some(guard) {
        return Ok(());
    }
    let deadline = deadline.read_only()?;
    let Received::Message(go, descriptors) = channel.wait::<Go>()? else { return Ok(()) };
    if let Some(group) = go.terminal_of.and_then(Pid::from_raw) {
        // From the background. The guard blocks SIGTTOU, and this process inherits that.
        terminal::take_from(group);
    }
    let mut command = Command::new(command);
    command
        .args(rest)
        .envs(go.variables)
        .env("KGATE_DEADLINE_FD", deadline.as_raw_fd().to_string());
    for descriptor in [deadline].into_iter().chain(descriptors) {
        keep_open(descriptor)?;
    }
    // Signals that were sent before arrive now.
    signals::restore(&go.blocked)?;
    let error = command.exec();
    channel.send(&NotRun { errno: error.raw_os_error().unwrap_or(0) }, &[])
}

/// Lets CMD inherit the descriptor.
fn keep_open(descriptor: OwnedFd) -> io::Result<()> {
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::empty())?;
    let _number = descriptor.into_raw_fd();
    Ok(())
}
