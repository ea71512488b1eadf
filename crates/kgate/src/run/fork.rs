//! A child process that goes on where this one is, without an `exec`.
//!
//! An `exec` of kgate takes longer than a fork: the kernel maps the program, and the dynamic linker
//! relocates it. A fork has all that already. What has to happen between `fork` and `exec` of CMD
//! happens in such a child too, in safe code.
//!
//! A fork copies only the calling thread, whatever locks the others hold. So a process with several
//! threads is refused: front and guard fork before they start any.

use std::ffi::CStr;
use std::io;
use std::os::unix::fs::MetadataExt;
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
    if threads()? != 1 {
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

/// The number of threads of this process. The kernel counts them as links of that directory, each
/// directory having two of its own. To read the directory takes several times as long, and leaves
/// entries in the kernel's cache that the end of the process has to wait for.
fn threads() -> io::Result<u64> {
    let links = std::fs::metadata("/proc/self/task")?.nlink();
    links.checked_sub(2).ok_or_else(|| io::Error::other("/proc does not count threads"))
}

/// Runs the child to its end. No return and no panic reaches the frames of its parent.
pub(crate) fn exit_after(main: impl FnOnce() -> u8) -> ! {
    let code = catch_unwind(AssertUnwindSafe(main)).unwrap_or(super::exit::FAILED);
    std::process::exit(i32::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fork copies one thread only, so every other one is noticed.
    #[test]
    fn threads_are_counted() {
        let (stay, wait) = std::sync::mpsc::channel::<()>();
        let before = threads().unwrap();
        let thread = std::thread::spawn(move || wait.recv());
        // Other tests start and end threads meanwhile; this one has its own and this one at least.
        assert!(before >= 1 && threads().unwrap() >= 2);
        assert!(fork(c"never").is_err(), "several threads");
        drop(stay);
        assert!(thread.join().unwrap().is_err(), "no message was sent");
    }
}
