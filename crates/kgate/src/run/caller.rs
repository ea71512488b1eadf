//! The process to which `kgate acquire` binds its permit.
//!
//! It is the parent of `kgate acquire`, except in `token=$(kgate acquire NAME ..)`: there a shell
//! may start a copy of itself that runs the command, hands its output on and ends at once (bash
//! does so as soon as a redirection, a pipe or `||` is involved). The permit belongs to the shell
//! that reads the token. So a process is skipped if its parent reads what it prints, and it is a
//! copy of its parent or a command like `timeout`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{Pid, getppid};

use super::holder::{BoundProcess, fields, parent_of};

/// Commands that start another one with their own standard output, and wait for it.
const WRAPPERS: [&str; 5] = ["timeout", "sudo", "doas", "strace", "time"];

/// The process whose end releases the permit; none if the parent has ended meanwhile.
pub(super) fn calling_process() -> Option<BoundProcess> {
    let parent = getppid()?;
    let mut caller = parent;
    while let Some(above) = parent_of(caller)
        && is_helper(caller)
        && reads_output_of(above, caller)
    {
        caller = above;
    }
    // If the parent has died, this process has another one, and so may a process above have.
    BoundProcess::of(caller).filter(|_| getppid() == Some(parent))
}

fn is_helper(process: Pid) -> bool {
    let name = fs::read_to_string(format!("/proc/{}/comm", process.as_raw_nonzero()));
    name.is_ok_and(|name| WRAPPERS.contains(&name.trim()))
        || parent_of(process).is_some_and(|parent| is_copy(process, parent))
}

/// Whether the process is a fork of its parent that has not executed another program. The kernel
/// places program and stack of each program at random; a fork has them where its parent has.
fn is_copy(process: Pid, parent: Pid) -> bool {
    let identity = |pid: Pid| {
        let pid = pid.as_raw_nonzero().get();
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let places: Vec<String> =
            fields(pid)?.split_whitespace().skip(23).take(3).map(str::to_owned).collect();
        Some((words, places, fs::read_link(format!("/proc/{pid}/exe")).ok()?))
    };
    identity(process).is_some_and(|own| identity(parent) == Some(own))
}

/// Whether the standard output of `process` is a pipe that `reader` has open for reading.
fn reads_output_of(reader: Pid, process: Pid) -> bool {
    let output = fs::read_link(format!("/proc/{}/fd/1", process.as_raw_nonzero()));
    let Ok(pipe) = output else { return false };
    let Ok(open) = fs::read_dir(format!("/proc/{}/fd", reader.as_raw_nonzero())) else {
        return false;
    };
    let readable = |entry: &fs::DirEntry| {
        // The kernel shows how a descriptor is open as the permissions of its link.
        entry.metadata().is_ok_and(|link| link.permissions().mode() & 0o400 != 0)
    };
    pipe.to_string_lossy().starts_with("pipe:")
        && open.flatten().any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|link| link == pipe) && readable(&entry)
        })
}
