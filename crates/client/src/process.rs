//! The process behind a session or a permit.

use std::path::PathBuf;

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

/// The processes of a client that its node shall end if they outlive the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardedProcesses {
    /// The parent of the client. Its descendants and those of the client are ended.
    pub front_pid: u32,
    /// The directory of their control group (cgroup v2), if they have one of their own.
    pub control_group: Option<PathBuf>,
}

impl Process {
    /// A process of this machine and user.
    pub fn new(pid: u32, command: impl Into<String>) -> Self {
        Self { user: user_name(), ..Self::without_user(pid, command) }
    }

    /// A process of this machine, without the name of its user, which takes a look into the
    /// system's databases. A node knows the user of a client by a Unix socket from the kernel.
    pub fn without_user(pid: u32, command: impl Into<String>) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { pid, host, user: String::new(), command: command.into() }
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

/// The name of this user in the system's databases, or its number. `USER` may be missing (cron) or
/// another user's (`su`).
fn user_name() -> String {
    let user = nix::unistd::getuid();
    let found = nix::unistd::User::from_uid(user).ok().flatten();
    found.map_or_else(|| user.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name is that of `id`, and not of the environment.
    #[test]
    fn a_process_has_the_name_of_its_user() {
        let output = std::process::Command::new("id").arg("-un").output().expect("id runs");
        let name = String::from_utf8(output.stdout).expect("text");
        assert_eq!(Process::new(1, "").user, name.trim());
    }
}
