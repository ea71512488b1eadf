//! A control group (cgroup v2) for the processes of one command.
//!
//! The tree of a command can be walked while front or guard exists, and a process that forks fast
//! enough outruns a walk. A process cannot leave its control group, and `cgroup.kill` kills all of
//! its members at once, also those that are being forked. A group of one's own needs a directory of
//! the control group file system that may be written: the service manager delegates one to a user's
//! services and scopes (`systemd-run --user --scope`), root may write in any, a container perhaps.
//!
//! A group is created below that of `kgate run`, without controllers, and removed when it is empty.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstatfs, openat};
use rustix::process::{Pid, getpid};

/// The magic number of the file system (`CGROUP2_SUPER_MAGIC`).
const CGROUP2: u64 = 0x6367_7270;

/// Why a command has no control group of its own.
#[derive(Debug, thiserror::Error)]
pub enum NoControlGroup {
    /// The machine has no cgroup v2.
    #[error("no cgroup v2 file system is mounted")]
    NotMounted,
    /// It could not be created.
    #[error(
        "cannot create {0}: {1} (no control group is delegated to this user here; see \
         `systemd-run --user --scope`)"
    )]
    NotCreated(PathBuf, io::Error),
    /// A process could not be moved into it.
    #[error("cannot move the command into {0}: {1}")]
    NotMoved(PathBuf, io::Error),
    /// The kernel is older than 5.14.
    #[error("{0} has no cgroup.kill: the kernel is older than 5.14")]
    NoKill(PathBuf),
    /// The path is not a control group.
    #[error("{0} is not a control group")]
    NotOne(PathBuf),
}

/// A control group, by an open directory: the name cannot come to mean another one.
#[derive(Debug)]
pub struct ControlGroup {
    path: PathBuf,
    folder: OwnedFd,
}

impl ControlGroup {
    /// Creates a group below that of this process and moves a process into it.
    pub fn create(process: Pid) -> Result<Self, NoControlGroup> {
        let own = own_path().ok_or(NoControlGroup::NotMounted)?;
        let path = own.join(format!("kgate-{}", getpid().as_raw_nonzero()));
        // Left behind by a process of the same number: it must be empty.
        let _absent = fs::remove_dir(&path);
        fs::create_dir(&path).map_err(|error| NoControlGroup::NotCreated(path.clone(), error))?;
        let group = Self::open(path.clone()).inspect_err(|_| drop(fs::remove_dir(&path)))?;
        group.set_up(process).inspect_err(|_| group.remove())?;
        Ok(group)
    }

    fn set_up(&self, process: Pid) -> Result<(), NoControlGroup> {
        if self.file("cgroup.kill", OFlags::WRONLY).is_err() {
            return Err(NoControlGroup::NoKill(self.path.clone()));
        }
        let moved = self.write("cgroup.procs", &process.as_raw_nonzero().to_string());
        moved.map_err(|error| NoControlGroup::NotMoved(self.path.clone(), error))
    }

    /// An existing group.
    pub fn open(path: PathBuf) -> Result<Self, NoControlGroup> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let folder = openat(CWD, &path, flags, Mode::empty());
        let is_one = |folder: &OwnedFd| {
            fstatfs(folder).is_ok_and(|found| u64::try_from(found.f_type) == Ok(CGROUP2))
        };
        match folder {
            Ok(folder) if is_one(&folder) => Ok(Self { path, folder }),
            Ok(_) | Err(_) => Err(NoControlGroup::NotOne(path)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The processes in it, and in the groups that they have created in it, that have not ended.
    /// Empty if the group is removed.
    pub fn processes(&self) -> Vec<Pid> {
        let list = self.read("cgroup.procs").unwrap_or_default();
        let own = list.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?));
        own.chain(self.groups().iter().flat_map(Self::processes)).collect()
    }

    fn groups(&self) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        entries.flatten().filter_map(|entry| Self::open(entry.path()).ok()).collect()
    }

    /// Whether it has this process.
    pub fn contains(&self, process: Pid) -> bool {
        self.processes().contains(&process)
    }

    /// Kills every process in it, also those that are being forked.
    pub fn kill(&self) {
        let _removed = self.write("cgroup.kill", "1");
    }

    /// Removes the group if it is empty.
    pub fn remove(&self) {
        self.groups().iter().for_each(Self::remove);
        let _not_empty = fs::remove_dir(&self.path);
    }

    fn file(&self, name: &str, access: OFlags) -> io::Result<File> {
        Ok(openat(self.folder.as_fd(), name, access | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let mut text = String::new();
        self.file(name, OFlags::RDONLY)?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        self.file(name, OFlags::WRONLY)?.write_all(text.as_bytes())
    }
}

/// The directory of the control group of this process.
fn own_path() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    path_in(&groups, &mounts)
}

/// The same from the contents of `/proc/PID/cgroup` and `/proc/PID/mountinfo`.
fn path_in(groups: &str, mounts: &str) -> Option<PathBuf> {
    let own = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (fields, file_system) = line.split_once(" - ")?;
        if file_system.split(' ').next() != Some("cgroup2") {
            return None;
        }
        // The mount shows the hierarchy from `root` on.
        let (root, point) = (fields.split(' ').nth(3)?, fields.split(' ').nth(4)?);
        Some(Path::new(point).join(own.strip_prefix(root).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The mount may be anywhere and show a part of the hierarchy only.
    #[test]
    fn the_own_group_is_found() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
                      35 30 0:30 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw\n";
        let path = |groups: &str, mounts: &str| path_in(groups, mounts);
        assert_eq!(
            path("4:memory:/x\n0::/user.slice/a b\n", mounts),
            Some("/sys/fs/cgroup/unified/user.slice/a b".into())
        );
        let part = mounts.replace("0:30 / ", "0:30 /box ");
        assert_eq!(path("0::/box/a\n", &part), Some("/sys/fs/cgroup/unified/a".into()));
        assert_eq!(path("0::/other\n", &part), None);
        assert_eq!(path("4:memory:/x\n", mounts), None);
        assert_eq!(path("0::/\n", "30 24 0:26 / /sys rw - sysfs sysfs rw\n"), None);
    }

    /// A directory of another file system is not a group: a node of root must not open what a
    /// client names.
    #[test]
    fn only_a_control_group_is_opened() {
        for path in ["/tmp", "/proc/self", "/no/such/path", "/dev/null"] {
            assert!(matches!(ControlGroup::open(path.into()), Err(NoControlGroup::NotOne(_))));
        }
    }

    /// In a real group: the process is in it, `kill` ends it, and the group is removed. Skipped
    /// where no group may be created.
    #[test]
    fn a_group_kills_its_processes() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        match ControlGroup::create(pid) {
            Ok(group) => {
                assert!(group.contains(pid));
                group.kill();
                child.wait().unwrap();
                assert_eq!(group.processes(), []);
                group.remove();
                assert!(!group.path().exists());
            }
            Err(error) => {
                println!("skipped: {error}");
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
    }
}
