//! A child process that goes on where this one is, without an `exec`.
//!
//! An `exec` of kgate costs more than everything else that `kgate run` does: the kernel maps the
//! program, and the dynamic linker relocates it. A fork has all that already. What has to happen
//! between `fork` and `exec` of CMD happens in such a child too, in safe code.
//!
//! A fork copies only the calling thread, whatever locks the others hold. So a process with several
//! threads is refused: front and guard fork before they start any.

use std::ffi::CStr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::{Pid, setpgid};

/// The two returns of a fork.
#[derive(Debug)]
pub(crate) enum Forked {
    /// In the child. It goes on by [`exit_after`].
    Child,
    Parent(Pid),
}

/// Forks. The child has this name and a process group of its own.
pub(crate) fn fork(name: &CStr) -> io::Result<Forked> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("cannot fork: this process has several threads"));
    }
    match fork::fork()? {
        fork::Fork::Child => {
            // `ps` shows it.
            let _too_long = rustix::thread::set_name(name);
            setpgid(None, None)?;
            Ok(Forked::Child)
        }
        fork::Fork::Parent(child) => {
            let child = Pid::from_raw(child).ok_or_else(|| io::Error::other("no process id"))?;
            // Parent and child both set the group, because either may need it first.
            let _set_by_itself = setpgid(Some(child), Some(child));
            Ok(Forked::Parent(child))
        }
    }
}

/// Runs the child to its end. No return and no panic reaches the frames of its parent.
pub(crate) fn exit_after(main: impl FnOnce() -> u8) -> ! {
    let code = catch_unwind(AssertUnwindSafe(main)).unwrap_or(super::exit::FAILED);
    std::process::exit(i32::from(code))
}
