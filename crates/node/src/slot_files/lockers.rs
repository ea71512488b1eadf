//! Which process has the lock of a file: the holder of a slot, for people.
//!
//! The kernel lists locks with the process that took them (`/proc/locks`), for every user to read.
//! That process may have ended while its children still have the lock; then one that has the file
//! open is named, as far as this user may look. Nothing depends on the answer but messages.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::core::Process;
use crate::user_database::user_name;

/// The name of the process of `kgate run` that has the locks.
const GUARD: &str = "kgate guard";

/// The processes that have locked these files, as far as they are found; none for a file that
/// nobody has locked.
pub(super) fn lockers(files: &[PathBuf]) -> BTreeMap<PathBuf, Process> {
    let locks = locks(&fs::read_to_string("/proc/locks").unwrap_or_default());
    let (mut found, mut orphaned) = (BTreeMap::new(), BTreeMap::new());
    for file in files {
        let Ok(inode) = fs::metadata(file).map(|file| file.ino()) else { continue };
        let Some(pids) = locks.get(&inode) else { continue };
        // The kernel names an open file by its path without links.
        let real = fs::canonicalize(file).unwrap_or_else(|_| file.clone());
        match pids.iter().find(|pid| has_open(**pid, &real) != Some(false)) {
            Some(pid) => drop(found.insert(file.clone(), process(*pid))),
            None => drop(orphaned.insert(real, file)),
        }
    }
    if !orphaned.is_empty() {
        add_by_descriptor(&orphaned, &mut found);
    }
    found
}

/// The processes that have locked each inode. Numbers of devices are not compared: some file
/// systems (btrfs, overlays) show another one there. [`has_open`] tells inodes apart.
fn locks(text: &str) -> BTreeMap<u64, Vec<u32>> {
    let mut locks: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for line in text.lines() {
        // `1: FLOCK  ADVISORY  WRITE 4711 fe:01:131074 0 EOF`; `->` marks one that waits.
        let mut words = line.split_whitespace().skip(1);
        if words.next() != Some("FLOCK") {
            continue;
        }
        let pid = words.nth(2).and_then(|pid| pid.parse().ok());
        let inode = words.next().and_then(|place| place.rsplit(':').next()?.parse().ok());
        if let (Some(pid), Some(inode)) = (pid, inode) {
            locks.entry(inode).or_default().push(pid);
        }
    }
    locks
}

/// Whether the process has the file open; none if this user may not look. A process that does not
/// exist has no file open.
fn has_open(pid: u32, file: &Path) -> Option<bool> {
    match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(open) => Some(
            open.flatten().any(|open| fs::read_link(open.path()).is_ok_and(|open| open == file)),
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(false),
        Err(_) => None,
    }
}

/// Finds the first process that has each file open.
fn add_by_descriptor(files: &BTreeMap<PathBuf, &PathBuf>, found: &mut BTreeMap<PathBuf, Process>) {
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for pid in processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for open in open.flatten().filter_map(|open| fs::read_link(open.path()).ok()) {
            if let Some(file) = files.get(&open) {
                found.entry((*file).clone()).or_insert_with(|| process(pid));
            }
        }
    }
}

/// Describes a process. The guard of a `kgate run` is described as that command, with the process
/// that the user started.
pub(crate) fn process(pid: u32) -> Process {
    let read = |pid: u32, file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let status = String::from_utf8_lossy(&read(pid, "status")).into_owned();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().split_whitespace().next()?.parse::<u32>().ok()
    };
    let line = read(pid, "cmdline");
    let mut described = Process {
        pid,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        user: field("Uid").map(user_name).unwrap_or_default(),
        command: words(&line),
        ..Process::default()
    };
    if read(pid, "comm").trim_ascii_end() == GUARD.as_bytes() {
        let front = field("PPid").filter(|front| read(*front, "cmdline") == line);
        described.pid = front.unwrap_or(pid);
        let children = read(pid, &format!("task/{pid}/children"));
        let child = String::from_utf8_lossy(&children);
        let child = child.split_whitespace().next().and_then(|child| child.parse().ok());
        let command = child.map(|child| words(&read(child, "cmdline")));
        described.command = command.filter(|text| !text.is_empty()).unwrap_or(described.command);
    }
    described.cut()
}

fn words(cmdline: &[u8]) -> String {
    let words = cmdline.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use kgate_testkit::{TempFolder, wait_for};
    use rustix::fs::{FlockOperation, flock};

    use super::*;

    /// Lines of the kernel are read; other locks, waiting processes and malformed lines are not.
    #[test]
    fn lines_of_the_kernel() {
        let text = "1: POSIX  ADVISORY  READ 7 fe:01:5 0 EOF\n\
                    2: FLOCK  ADVISORY  WRITE 42 fe:01:131074 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 43 fe:01:131074 0 EOF\n\
                    3: FLOCK\n4: FLOCK  ADVISORY  WRITE x y 0 EOF\n\n";
        assert_eq!(locks(text), BTreeMap::from([(131_074, vec![42])]));
    }

    /// The process that took the lock is named; when it has ended, one that inherited it; and none
    /// for a file that is not locked.
    #[test]
    fn who_has_a_lock_is_named() {
        let folder = TempFolder::new("lockers");
        let (held, free) = (folder.join("held"), folder.join("free"));
        for file in [&held, &free] {
            fs::write(file, "").unwrap();
        }
        let all = [held.clone(), free.clone()];
        let own = fs::File::open(&held).unwrap();
        let _open = fs::File::open(&free).unwrap();
        flock(&own, FlockOperation::LockExclusive).unwrap();
        let found = lockers(&all);
        assert_eq!(found.keys().collect::<Vec<_>>(), [&held]);
        assert_eq!(found[&held].pid, std::process::id());
        assert_eq!(found[&held].user, user_name(rustix::process::getuid().as_raw()));
        drop(own);
        assert!(lockers(&all).is_empty());
        let script = "exec 9<\"$1\"; flock 9; sleep 100 & echo $!";
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script, "x"]).arg(&held).stdin(Stdio::null());
        let output = {
            use std::io::{BufRead, BufReader};
            let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            child.wait().unwrap();
            line
        };
        let sleep: u32 = output.trim().parse().unwrap();
        let holder = wait_for("a shell that has become sleep", || {
            lockers(&all).remove(&held).filter(|holder| holder.command == "sleep 100")
        });
        let pid = rustix::process::Pid::from_raw(sleep.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        assert_eq!(holder.pid, sleep);
    }
}
