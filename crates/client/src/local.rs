//! The node of this machine or of this user: where its socket is.
//!
//! A machine has at most one node for all its users, at [`MACHINE_SOCKET`]. If there is such a
//! socket, or [`MACHINE_CONFIG`] says that there should be one, every user uses it, and what
//! cannot be used is an error: another node would not know its permits. On a machine without one
//! each user has a node, whose folder is [`user_folder`].
//!
//! Neither place depends on an environment variable, so a login shell, cron, `sudo` and a service
//! meet at the same node (docs/internals/rendezvous.md).

mod folder;

pub use folder::{UnusableFolder, create_user_folder, private_folder, user_folder};

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kgate_api::LeaseInstant;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The socket of the node that serves all users of a machine.
pub const MACHINE_SOCKET: &str = "/run/kgate/node.sock";

/// The configuration of the node that serves all users of a machine. Where it exists, the machine
/// has such a node, even before the node has started.
pub const MACHINE_CONFIG: &str = "/etc/kgate/machine.toml";

/// The name of a node's socket in its folder.
const SOCKET: &str = "node.sock";

/// Why the default node cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// This machine has a node, and its socket is missing.
    #[error(
        "this machine has a node for all users ({MACHINE_CONFIG}), and its socket {MACHINE_SOCKET} \
         is missing: start it (`systemctl start kgate.socket`, or `kgate node --machine` as root)"
    )]
    NoSocket,
    /// The node of this machine does not run.
    #[error(
        "the node of this machine does not run ({MACHINE_SOCKET}: {0}): start it (`systemctl start \
         kgate.socket`, or `kgate node --machine` as root); it knows who holds which permit, so no \
         other node is used instead"
    )]
    Stopped(io::Error),
    /// This user may not connect to the node of this machine.
    #[error(
        "this user may not connect to the node of this machine ({MACHINE_SOCKET}: {0}): ask its \
         administrator (socket_mode and socket_group in {MACHINE_CONFIG}), or use a node that \
         knows nothing of this machine's permits by `--private`"
    )]
    Forbidden(io::Error),
    /// The folder of this user's node cannot be used.
    #[error(transparent)]
    Folder(#[from] UnusableFolder),
}

/// The node that a command without an address uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rendezvous {
    /// The machine's node, by its socket.
    Machine(PathBuf),
    /// This user's own node, by its folder. Neither may exist yet.
    User(PathBuf),
}

impl Rendezvous {
    /// The socket of the node.
    pub fn socket(&self) -> PathBuf {
        match self {
            Self::Machine(socket) => socket.clone(),
            Self::User(folder) => socket_in(folder),
        }
    }
}

/// The socket of the node in that folder.
pub fn socket_in(folder: &Path) -> PathBuf {
    folder.join(SOCKET)
}

/// Finds the node that a command without an address uses: the machine's if there is one, whether it
/// answers or not; else this user's.
pub fn rendezvous() -> Result<Rendezvous, Unusable> {
    if let Some(socket) = machine_socket()? {
        return Ok(Rendezvous::Machine(socket));
    }
    Ok(Rendezvous::User(user_folder()?))
}

/// The socket of the machine's node; none if this machine has no such node.
fn machine_socket() -> Result<Option<PathBuf>, Unusable> {
    let socket = PathBuf::from(MACHINE_SOCKET);
    match std::fs::symlink_metadata(&socket) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let configured = std::fs::symlink_metadata(MACHINE_CONFIG);
            let absent = configured.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            return if absent { Ok(None) } else { Err(Unusable::NoSocket) };
        }
        Err(error) => return Err(Unusable::Forbidden(error)),
    }
    match accepts(&socket) {
        Ok(()) => Ok(Some(socket)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(Unusable::Forbidden(error))
        }
        Err(error) => Err(Unusable::Stopped(error)),
    }
}

/// Whether a node listens on this socket. Never waits: a node that is too busy to accept counts as
/// one that listens.
pub fn accepts(socket: &Path) -> io::Result<()> {
    let stream = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    match connect(&stream, &SocketAddrUnix::new(socket)?) {
        Ok(()) | Err(Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The file in which a user's own node leaves its process id.
pub const PID_FILE: &str = "node.pid";

/// Whether a user's own node serves in this folder. A node that was killed accepts connections
/// until its last thread has ended: this waits for the end of it.
pub fn serves(folder: &Path) -> bool {
    let (socket, until) = (socket_in(folder), LeaseInstant::now() + STOP_TIMEOUT);
    while accepts(&socket).is_ok() {
        if !is_killed(folder) {
            return true;
        }
        if LeaseInstant::now() >= until {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    false
}

/// Whether the node in this folder is ending. The file may name an earlier node, which is gone.
fn is_killed(folder: &Path) -> bool {
    let node = std::fs::read_to_string(folder.join(PID_FILE)).ok();
    let node = node.and_then(|text| text.trim().parse::<u32>().ok());
    let stat = node.and_then(|node| std::fs::read_to_string(format!("/proc/{node}/stat")).ok());
    stat.is_some_and(|stat| is_ending(&stat))
}

/// Whether the process of this line of `/proc/PID/stat` is ending: it is dead, its main thread has
/// begun to exit, or SIGKILL awaits it.
fn is_ending(stat: &str) -> bool {
    const EXITING: u64 = 4;
    const KILLED: u64 = 1 << (9 - 1);
    // The name of the program may contain spaces and parentheses.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let mut fields = fields.split(' ');
    let is_dead = matches!(fields.next(), Some("Z" | "X"));
    let mut number = |skipped| fields.nth(skipped).and_then(|word| word.parse::<u64>().ok());
    let (flags, pending) = (number(5).unwrap_or(0), number(21).unwrap_or(0));
    is_dead || flags & EXITING != 0 || pending & KILLED != 0
}

/// The longest time that a node without clients takes to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps a user's own node in this folder, if it runs, from stopping for lack of clients, for as
/// long as the returned lock is held: until this process is connected. Waits for the end of a node
/// that is just stopping. It is an error if the folder does not exist.
pub fn keep_running(folder: &Path) -> io::Result<File> {
    let path = folder.join(kgate_api::CLIENTS_LOCK);
    let file = File::options().create(true).append(true).mode(0o600).open(path)?;
    let until = LeaseInstant::now() + STOP_TIMEOUT;
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockShared) {
        if error != Errno::WOULDBLOCK {
            return Err(error.into());
        }
        if LeaseInstant::now() >= until {
            let text = format!("it is stopping, and has not ended within {STOP_TIMEOUT:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    Ok(file)
}

/// Locks the file of a granted slot ([`Permit::lock_files`](crate::Permit::lock_files)). It is an
/// error if the file is gone, because the node has granted the slot to another holder meanwhile, or
/// if another process has the lock.
pub fn lock_file(path: &Path) -> io::Result<File> {
    // The files of a user's own node may be on a network, where a lock needs the right to write.
    let file = match File::options().read(true).append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(path),
        opened => opened,
    }?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    // The node may have removed the file before it was locked.
    let (open, named) = (file.metadata()?, std::fs::metadata(path)?);
    if (open.dev(), open.ino()) != (named.dev(), named.ino()) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the grant has ended"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that was killed still accepts, and does not serve. A zombie stands for it, and a live
    /// process for a node that serves.
    #[test]
    fn a_killed_node_does_not_serve() {
        let folder = std::env::temp_dir().join(format!("kgate-serves-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let node = std::os::unix::net::UnixListener::bind(socket_in(&folder)).expect("a socket");
        let leave = |pid: u32| std::fs::write(folder.join(PID_FILE), pid.to_string());
        leave(std::process::id()).expect("written");
        assert!(serves(&folder), "this process runs");
        let mut killed = std::process::Command::new("true").spawn().expect("a process");
        leave(killed.id()).expect("written");
        while !is_killed(&folder) {
            std::thread::yield_now();
        }
        let ends = std::thread::spawn(move || {
            std::thread::park_timeout(Duration::from_millis(20));
            drop(node);
        });
        assert!(!serves(&folder), "it accepts, but it is dead");
        ends.join().expect("no panic");
        killed.wait().expect("a child");
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    /// A process is ending when it is dead, exits, or is killed, whatever its name.
    #[test]
    fn a_process_that_ends_is_recognised() {
        let stat = |state: &str, flags: u64, pending: u64| {
            format!(
                "77 (a) S (b) {state} 1 77 77 0 -1 {flags} 9 0 0 0 1 2 0 0 20 0 3 0 4 5 6 7 8 9 10 \
                 11 12 {pending} 0 0 0 17 1"
            )
        };
        let cases = [
            ("S", 4_194_560, 0, false),
            ("R", 4_194_560, 1 << 14, false),
            ("Z", 4_194_560, 0, true),
            ("S", 4_194_564, 0, true),
            ("S", 4_194_560, 256, true),
        ];
        for (state, flags, pending, ending) in cases {
            assert_eq!(
                is_ending(&stat(state, flags, pending)),
                ending,
                "{state} {flags} {pending}"
            );
        }
        let own = std::fs::read_to_string("/proc/self/stat").expect("this process");
        assert!(!is_ending(&own), "{own}");
    }
}
