//! The folder of a user's own node: its socket, the locks of its slots, and its state.
//!
//! It is `.local/state/kgate/MACHINE` below the home directory that the user database names, where
//! MACHINE is the beginning of `/etc/machine-id`: machines that share home directories share no
//! node. The home directory is the only place that belongs to a user in every environment and that
//! nobody else can create first; `/run/user/UID` exists only during a login, `/tmp` differs in
//! services with `PrivateTmp`, and `$HOME`, `$XDG_RUNTIME_DIR` and `$TMPDIR` are whatever the
//! caller says.
//!
//! Each step below the home directory is opened without following a symbolic link, and must belong
//! to the user. So nobody else can put a node there, or move the user to another one.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat};
use rustix::io::Errno;

/// The steps from the home directory to the folders of all machines.
const STEPS: [&str; 3] = [".local", "state", "kgate"];
/// Digits of the machine id in the folder's name: 48 bits, and a short path.
const MACHINE_DIGITS: usize = 12;
/// The kernel's limit of the path of a socket, with the longest name in the folder.
const PATH_MAX: usize = 107 - "/.node.sock.4194304".len();

/// Why the folder of a user's node cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot use a node of user {user} alone: {cause}; or run a node for the whole machine \
     (`kgate setup machine` as root), or name a node with --node"
)]
pub struct UnusableFolder {
    /// The user, by name if known.
    user: String,
    cause: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("the user database cannot be read ({0}): try again")]
    Database(io::Error),
    #[error("the user database has no entry for this user: add one")]
    NoUser,
    #[error("{0} cannot be read ({1}): make it readable for this user")]
    MachineId(&'static str, io::Error),
    #[error("its home directory {0} cannot be opened ({1}): make it accessible")]
    NoHome(PathBuf, io::Error),
    #[error("{0} belongs to user {1}: give this user a home directory of its own")]
    Owner(PathBuf, String),
    #[error("{0} is writable for everybody: `chmod o-w` it")]
    Writable(PathBuf),
    #[error("{0} is accessible for other users (mode {1:o}): `chmod 700` it")]
    Accessible(PathBuf, u32),
    #[error("{0} is a symbolic link or no directory: replace it by a directory")]
    NotDirectory(PathBuf),
    #[error("{0} cannot be opened or created ({1})")]
    Io(PathBuf, io::Error),
    #[error("the path {0} is too long for a socket: use a shorter one")]
    TooLong(PathBuf),
}

/// The folder of this user's node, which may not exist yet.
pub fn user_folder() -> Result<PathBuf, UnusableFolder> {
    open_user_folder(Missing::IsFine)
}

/// The folder of this user's node. Created if necessary.
pub fn create_user_folder() -> Result<PathBuf, UnusableFolder> {
    open_user_folder(Missing::IsCreated)
}

/// Checks that only this user can access a folder; creates it if there is nothing of that name.
pub fn private_folder(path: &Path) -> Result<PathBuf, UnusableFolder> {
    let walk = Walk { user: rustix::process::geteuid().as_raw(), missing: Missing::IsCreated };
    let checked = || {
        let path = std::path::absolute(path).map_err(|error| Cause::Io(path.into(), error))?;
        let name = path.file_name().ok_or_else(|| Cause::NotDirectory(path.clone()))?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        let opened = open(CWD, parent, OFlags::empty());
        let opened = opened.map_err(|error| Cause::Io(parent.into(), error.into()))?;
        walk.step(&opened, Path::new(name), &path)?;
        walk.is_private(&path)?;
        checked_length(path)
    };
    checked().map_err(|cause| UnusableFolder { user: name_of(walk.user), cause })
}

/// The name of a user, or its number if the user database does not know it.
fn name_of(user: u32) -> String {
    let entry = User::from_uid(Uid::from_raw(user)).ok().flatten();
    entry.map_or_else(|| user.to_string(), |entry| entry.name)
}

/// What to do about a folder that does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    IsFine,
    IsCreated,
}

/// One way down from the home directory.
struct Walk {
    user: u32,
    missing: Missing,
}

fn open_user_folder(missing: Missing) -> Result<PathBuf, UnusableFolder> {
    // The user of new files, which is what the checks compare with.
    let user = rustix::process::geteuid().as_raw();
    let unnamed = |cause| UnusableFolder { user: user.to_string(), cause };
    let entry = User::from_uid(Uid::from_raw(user))
        .map_err(|error| unnamed(Cause::Database(error.into())))?
        .ok_or_else(|| unnamed(Cause::NoUser))?;
    let machine = machine().map_err(unnamed)?;
    let walk = Walk { user, missing };
    let found = walk.below(&entry.dir, &machine).and_then(checked_length);
    found.map_err(|cause| UnusableFolder { user: entry.name, cause })
}

/// The name of this machine's folder. Containers often have no machine id.
fn machine() -> Result<String, Cause> {
    const FILE: &str = "/etc/machine-id";
    let text = match std::fs::read_to_string(FILE) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Cause::MachineId(FILE, error)),
    };
    let id = text.trim();
    let is_id = id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    Ok(if is_id { id[..MACHINE_DIGITS].to_owned() } else { "machine".to_owned() })
}

fn checked_length(path: PathBuf) -> Result<PathBuf, Cause> {
    if path.as_os_str().len() > PATH_MAX { Err(Cause::TooLong(path)) } else { Ok(path) }
}

impl Walk {
    fn below(&self, home: &Path, machine: &str) -> Result<PathBuf, Cause> {
        let no_home = |error: Errno| Cause::NoHome(home.into(), error.into());
        // The administrator chose this path, so links in it are followed.
        let mut folder = open(CWD, home, OFlags::empty()).map_err(no_home)?;
        let stat = fstat(&folder).map_err(no_home)?;
        if stat.st_uid != self.user {
            return Err(Cause::Owner(home.into(), name_of(stat.st_uid)));
        }
        self.check_mode(home, &stat)?;
        let mut path = home.to_owned();
        for name in STEPS.into_iter().chain([machine]) {
            path.push(name);
            match self.step(&folder, Path::new(name), &path)? {
                Some(next) => folder = next,
                None => {
                    let rest = STEPS.into_iter().chain([machine]);
                    return Ok(rest.fold(home.to_owned(), |path, name| path.join(name)));
                }
            }
        }
        self.is_private(path.parent().unwrap_or(home))?;
        self.is_private(&path)?;
        Ok(path)
    }

    /// Opens the next folder, without following a link; none if it does not exist.
    fn step(&self, at: &OwnedFd, name: &Path, path: &Path) -> Result<Option<OwnedFd>, Cause> {
        let failed = |error: Errno| match error {
            Errno::LOOP | Errno::NOTDIR => Cause::NotDirectory(path.into()),
            error => Cause::Io(path.into(), error.into()),
        };
        let opened = match open(at, name, OFlags::NOFOLLOW) {
            Err(Errno::NOENT) if self.missing == Missing::IsFine => return Ok(None),
            Err(Errno::NOENT) => {
                match mkdirat(at, name, Mode::RWXU) {
                    // Another process of this user may have been faster.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(failed(error)),
                }
                open(at, name, OFlags::NOFOLLOW)
            }
            opened => opened,
        };
        let opened = opened.map_err(failed)?;
        let stat = fstat(&opened).map_err(failed)?;
        if !FileType::from_raw_mode(stat.st_mode).is_dir() {
            return Err(Cause::NotDirectory(path.into()));
        }
        if stat.st_uid != self.user && stat.st_uid != 0 {
            return Err(Cause::Owner(path.into(), name_of(stat.st_uid)));
        }
        self.check_mode(path, &stat)?;
        Ok(Some(opened))
    }

    /// Refuses a folder in which anybody could replace the next one. A sticky folder is none.
    fn check_mode(&self, path: &Path, stat: &Stat) -> Result<(), Cause> {
        let mode = Mode::from_raw_mode(stat.st_mode);
        let is_open = mode.contains(Mode::WOTH) && !mode.contains(Mode::SVTX);
        if is_open { Err(Cause::Writable(path.into())) } else { Ok(()) }
    }

    /// Whether only this user can access the folder, which nobody else can replace.
    fn is_private(&self, path: &Path) -> Result<(), Cause> {
        let folder = open(CWD, path, OFlags::NOFOLLOW);
        let stat = folder.and_then(fstat).map_err(|error| Cause::Io(path.into(), error.into()))?;
        if stat.st_uid != self.user {
            return Err(Cause::Owner(path.into(), name_of(stat.st_uid)));
        }
        let mode = stat.st_mode & 0o7777;
        if mode & 0o077 != 0 { Err(Cause::Accessible(path.into(), mode)) } else { Ok(()) }
    }
}

fn open(at: impl std::os::fd::AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(at, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | flags, Mode::empty())
}
