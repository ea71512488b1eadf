//! `kgate stage`: the process that becomes CMD.
//!
//! The guard starts it while the permit is still being asked for, in a process group of its own. It
//! makes sure that it dies with the guard (`PR_SET_PDEATHSIG`, which survives `exec`), waits for
//! the word, and becomes CMD. `unsafe` would be needed to do this between fork and exec; a process
//! of its own does it in the open.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, getppid, set_parent_process_death_signal};

use super::channel::{Channel, Go, NotRun, Received};
use super::{signals, terminal};

/// `kgate stage GUARD CMD [ARG..]`. Comes back only if CMD did not start.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    match become_command(arguments) {
        // Nobody wants CMD to run; whoever knows why says it.
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&format!("cannot start the command: {error}")),
    }
}

fn become_command(arguments: &[OsString]) -> io::Result<()> {
    let misuse = || io::Error::other("`kgate stage` is a part of `kgate run`, not for use by hand");
    let [guard, command, rest @ ..] = arguments else { return Err(misuse()) };
    let guard =
        guard.to_str().and_then(|text| Pid::from_raw(text.parse().ok()?)).ok_or_else(misuse)?;
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // It may have died before that took hold.
    if getppid() != Some(guard) {
        return Ok(());
    }
    let channel = Channel::from_standard_input()?;
    let Received::Message(go, descriptors) = channel.wait::<Go>()? else { return Ok(()) };
    let mut descriptors = descriptors.into_iter();
    let (Some(standard_input), Some(page)) = (descriptors.next(), descriptors.next()) else {
        return Err(misuse());
    };
    rustix::stdio::dup2_stdin(&standard_input)?;
    drop(standard_input);
    if let Some(group) = go.terminal_of.and_then(Pid::from_raw) {
        // From the background. The guard, and so we, block the signal that would stop us.
        terminal::take_from(group);
    }
    let mut command = Command::new(command);
    command.args(rest).envs(go.variables).env("KGATE_DEADLINE_FD", page.as_raw_fd().to_string());
    for descriptor in [page].into_iter().chain(descriptors) {
        keep_open(descriptor)?;
    }
    // What was sent while we waited arrives now.
    signals::restore(&go.blocked)?;
    let error = command.exec();
    channel.send(&NotRun { errno: error.raw_os_error().unwrap_or(0) }, &[])
}

/// For CMD, which inherits it.
fn keep_open(descriptor: OwnedFd) -> io::Result<()> {
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::empty())?;
    let _number = descriptor.into_raw_fd();
    Ok(())
}
