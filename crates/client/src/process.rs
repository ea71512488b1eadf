//! The process behind a session or a permit.

use kgate_api::v1;

/// A process, as `kgate status` and other clients see it. It is a description only: it grants no
/// rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// The process ID; 0 if unknown.
    pub pid: u32,
    /// The host name.
    pub host: String,
    /// The user name.
    pub user: String,
    /// The command line.
    pub command: String,
}

impl Process {
    /// A process of this machine and user.
    pub fn new(pid: u32, command: impl Into<String>) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let user = std::env::var("USER")
            .unwrap_or_else(|_| rustix::process::getuid().as_raw().to_string());
        Self { pid, host, user, command: command.into() }
    }

    /// This process.
    pub fn current() -> Self {
        let words: Vec<String> =
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        Self::new(std::process::id(), words.join(" "))
    }

    pub(crate) fn to_message(&self) -> v1::Process {
        let Self { pid, host, user, command } = self.clone();
        v1::Process { pid, host, user, command }
    }

    pub(crate) fn from_message(process: v1::Process) -> Self {
        let v1::Process { pid, host, user, command } = process;
        Self { pid, host, user, command }
    }
}
