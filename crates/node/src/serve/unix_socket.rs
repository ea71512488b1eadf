//! A Unix socket of the API: its place, its mode, and who listens on it.
//!
//! Clients take a socket that exists for a node that exists, whether it answers or not. So the path
//! is never without a socket between two nodes: a new socket gets its mode and its group under
//! another name and then replaces the old one in one step, and a node that stops leaves its socket
//! behind. Which node may listen is decided by the lock of a file beside the socket, which the
//! kernel drops when that node has ended.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use tokio::net::{UnixListener, UnixStream};

use super::access::error;
use crate::config::Config;
use crate::user_database::known_group;

/// How long a node waits for another one that is about to end, and how often it looks.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(3);
const TAKEOVER_INTERVAL: Duration = Duration::from_millis(10);

/// A socket on which this node listens.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    listener: UnixListener,
    pub(super) path: PathBuf,
    /// Held for as long as this node runs.
    pub(super) lock: Option<File>,
}

impl UnixSocket {
    /// Listens at this path, by the inherited socket if it is there. A socket that a former node
    /// left behind is replaced; one on which another node listens is an error.
    pub(super) async fn open(
        path: PathBuf,
        config: &Config,
        inherited: &mut Option<StdListener>,
    ) -> io::Result<Self> {
        check_place(&path)?;
        let lock = Some(lock(&path).await?);
        let is_here = |socket: &mut StdListener| {
            socket.local_addr().is_ok_and(|it| it.as_pathname() == Some(&path))
        };
        let listener = match inherited.take_if(is_here) {
            // The service manager has set its mode and its group.
            Some(socket) => socket,
            None => replace(&path, config)?,
        };
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, path, lock })
    }

    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

/// Checks that the path is free or that of a socket, and that no other user can replace what is
/// there.
fn check_place(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let missing = |cause: io::Error| {
        let text = format!("its folder {}: {cause}", folder.display());
        io::Error::new(cause.kind(), text)
    };
    let mode = std::fs::metadata(folder).map_err(missing)?.permissions().mode();
    if mode & 0o1002 == 0o0002 {
        let text = format!(
            "every user may replace what is in {}: remove that right (`chmod o-w`), or choose \
             another folder",
            folder.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let what = match std::fs::symlink_metadata(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(cause),
        Ok(found) if found.file_type().is_socket() => return Ok(()),
        Ok(found) if found.is_dir() => "a directory",
        Ok(found) if found.is_symlink() => "a symbolic link",
        Ok(_) => "a file",
    };
    let text = format!("{what} is there, and no socket: move it away, or choose another path");
    Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
}

/// Waits until no other node listens at this path.
async fn lock(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    let opened = File::options().create(true).append(true).custom_flags(no_link).open(&name);
    let file = opened.map_err(|cause| {
        let text = format!("the lock beside it, {}: {cause}", Path::new(&name).display());
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    })?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    let mut waited = Duration::ZERO;
    while let Err(taken) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if waited >= TAKEOVER_TIMEOUT || taken != rustix::io::Errno::WOULDBLOCK {
            let kind = io::ErrorKind::AddrInUse;
            let text = "another node listens there: stop it first, or use it (`kgate status`)";
            return Err(io::Error::new(kind, text));
        }
        tokio::time::sleep(TAKEOVER_INTERVAL).await;
        waited += TAKEOVER_INTERVAL;
    }
    Ok(file)
}

/// Binds a socket under another name, and gives it its own in one step.
fn replace(path: &Path, config: &Config) -> io::Result<StdListener> {
    let name = path.file_name().ok_or_else(|| error("it names no file"))?;
    let temporary = format!(".{}.{}", name.display(), std::process::id());
    let temporary = path.with_file_name(temporary);
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = StdListener::bind(&temporary)?;
    let done = restrict(&temporary, config).and_then(|()| std::fs::rename(&temporary, path));
    if done.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    done.map(|()| listener)
}

/// Sets group and mode of a socket.
fn restrict(socket: &Path, config: &Config) -> io::Result<()> {
    if let Some(group) = &config.socket_group {
        let missing = |missing| error(format!("socket_group: {missing}"));
        std::os::unix::fs::chown(socket, None, Some(known_group(group).map_err(missing)?))?;
    }
    std::fs::set_permissions(socket, Permissions::from_mode(config.socket_mode.0))
}

#[cfg(test)]
mod tests {
    use kgate_testkit::TempFolder;

    use super::*;

    /// What is at the path and no socket is not replaced, and a link in place of the lock is not
    /// followed.
    #[tokio::test]
    async fn other_files_stay() {
        let folder = TempFolder::new("unix-socket-files");
        let config = Config::alone("unix:x");
        let refused = async |path: &Path| {
            let opened = UnixSocket::open(path.to_owned(), &config, &mut None).await;
            opened.unwrap_err().to_string()
        };
        let path = folder.join("file");
        std::fs::write(&path, "kept").unwrap();
        assert!(refused(&path).await.contains("a file is there"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
        assert!(refused(&folder).await.contains("a directory is there"));
        assert!(refused(&folder.join("none/x")).await.contains("its folder"));
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&path, folder.join("s.lock")).unwrap();
        assert!(refused(&folder.join("s")).await.contains("s.lock"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert!(refused(&folder.join("t")).await.contains("every user may replace"));
    }

    /// A second node is refused while the first one listens; a socket that was left behind is
    /// replaced, with the configured mode.
    #[tokio::test]
    async fn one_node_at_a_time() {
        let folder = TempFolder::new("unix-socket");
        let path = folder.join("node.sock");
        let config = Config { socket_mode: crate::SocketMode(0o660), ..Config::alone("unix:x") };
        let first = UnixSocket::open(path.clone(), &config, &mut None).await.unwrap();
        let second = UnixSocket::open(path.clone(), &config, &mut None).await.unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        assert!(UnixStream::connect(&path).await.is_ok(), "the first one is as it was");
        drop(first);
        assert!(std::fs::metadata(&path).unwrap().file_type().is_socket(), "it stays");
        let _third = UnixSocket::open(path.clone(), &config, &mut None).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert!(UnixStream::connect(&path).await.is_ok());
    }
}
