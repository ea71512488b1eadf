//! `kgate stage`: the process that becomes CMD.
//!
//! The guard starts it in its own process group while the request for the permit is pending. The
//! stage sets `PR_SET_PDEATHSIG`, which survives `exec`, so that it dies with the guard. It waits
//! for the message `Go` and becomes CMD. Doing this between fork and exec would need `unsafe`.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, getppid, set_parent_process_death_signal};

use super::channel::{Channel, Go, NotRun, Received};
use super::{signals, terminal};

/// `kgate stage GUARD CMD [ARG..]`. Returns only if CMD did not start.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    match become_command(arguments) {
        // The request failed; the guard reports why.
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&format!("cannot start the command: {error}")),
    }
}

fn become_command(arguments: &[OsString]) -> io::Result<()> {
    let misuse = || io::Error::other("`kgate stage` is an internal part of `kgate run`");
    let [guard, command, rest @ ..] = arguments else { return Err(misuse()) };
    let guard =
        guard.to_str().and_then(|text| Pid::from_raw(text.parse().ok()?)).ok_or_else(misuse)?;
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The guard may have died before this call.
    if getppid() != Some(guard) {
        return Ok(());
    }
    let channel = Channel::from_standard_input()?;
    let Received::Message(go, descriptors) = channel.wait::<Go>()? else { return Ok(()) };
    let mut descriptors = descriptors.into_iter();
    let (Some(standard_input), Some(deadline)) = (descriptors.next(), descriptors.next()) else {
        return Err(misuse());
    };
    rustix::stdio::dup2_stdin(&standard_input)?;
    drop(standard_input);
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
