//! Finds all descendants of some processes: of this one for `kgate run`, of a holder for its node.
//!
//! `setsid` leaves a process group and not the tree, because a subreaper inherits every orphan
//! below it. The tree is therefore walked through `/proc/PID/task/*/children`, signalled, and
//! walked again.
//!
//! One walk that finds no living process does not prove that there is none: a process may have died
//! during the walk, and its child been reparented. A child is reparented before its parent shows as
//! dead. Two walks that find no living process and the same dead ones do prove it: a child of one
//! of the dead would be new in the second walk.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::string::FromUtf8Error;
use std::sync::Arc;

use crate::control_group::ControlGroup;
use rustix::process::{Pid, WaitOptions, getpid, waitpid};

/// More than most files of `/proc` have.
const PROC_BYTES: usize = 2048;

/// The descendants of some processes, without these processes. The roots are processes of kgate.
#[derive(Debug)]
pub struct Tree {
    roots: Vec<Pid>,
    group: Option<Arc<ControlGroup>>,
}

impl Tree {
    /// All descendants of this process.
    pub fn own() -> Self {
        Self::below(vec![getpid()])
    }

    /// All descendants of this process, without that child but with the child's descendants.
    pub fn own_and_below(child: Pid) -> Self {
        Self::below(vec![getpid(), child])
    }

    /// All descendants of these processes.
    pub fn below(roots: Vec<Pid>) -> Self {
        Tree { roots, group: None }
    }

    /// The same and all processes of a control group.
    pub fn and_group(self, group: Option<Arc<ControlGroup>>) -> Self {
        Tree { group, ..self }
    }

    /// Kills the control group, if there is one, in one call.
    pub fn kill_group(&self) {
        if let Some(group) = &self.group {
            group.kill();
        }
    }

    /// The processes that one walk finds alive.
    pub fn living(&self) -> Vec<Pid> {
        self.walk().living
    }

    /// Whether no process is left.
    pub fn is_gone(&self) -> bool {
        let first = self.walk();
        first.living.is_empty() && {
            let second = self.walk();
            second.living.is_empty() && second.dead == first.dead
        }
    }

    fn walk(&self) -> Walk {
        let mut walk = Walk::default();
        let mut ahead: Vec<Pid> = self.roots.iter().flat_map(|root| own_children(*root)).collect();
        while let Some(process) = ahead.pop() {
            // A root is not part of the tree; its descendants are.
            if self.roots.contains(&process) {
                continue;
            }
            if is_dead(process) {
                walk.dead.insert(process.as_raw_nonzero().get());
            } else {
                walk.living.push(process);
                ahead.extend(children(process));
            }
        }
        let in_group = self.group.iter().flat_map(|group| group.processes());
        let others: Vec<Pid> = in_group
            .filter(|process| !walk.living.contains(process) && !is_dead(*process))
            .collect();
        walk.living.extend(others);
        walk
    }
}

#[derive(Debug, Default)]
struct Walk {
    living: Vec<Pid>,
    dead: BTreeSet<i32>,
}

/// Waits for all dead children except one, whose number must stay valid.
pub fn reap_except(kept: Option<Pid>) {
    for child in own_children(getpid()) {
        if Some(child) != kept && is_dead(child) {
            let _status = waitpid(Some(child), WaitOptions::NOHANG);
        }
    }
}

/// Checks that the files exist without which processes outside CMD's group could not be found.
pub fn check() -> io::Result<()> {
    let process = getpid().as_raw_nonzero();
    fs::read(format!("/proc/{process}/task/{process}/children")).map(drop)
}

/// Reads a file of `/proc`. The name of a process in it may be any bytes: the kernel cuts a long
/// one in the middle of a character. Such a process must be found as any other.
pub fn read_proc(path: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(PROC_BYTES);
    // Through `take`, because a read of a whole file asks for its size, which is 0 here, and begins
    // with small pieces.
    fs::File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
    Ok(String::from_utf8(bytes).unwrap_or_else(lossy))
}

/// Children of a process of kgate: its first thread starts all children and inherits all orphans.
/// Reading the other threads' files is expensive: the kernel must drop the cached entries when the
/// threads end, and the end of the process waits for that.
fn own_children(process: Pid) -> Vec<Pid> {
    let process = process.as_raw_nonzero();
    let list = read_proc(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(pid_of).collect()
}

/// Children of any process; none if it is gone.
fn children(process: Pid) -> Vec<Pid> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())) else {
        return Vec::new();
    };
    let lists = tasks.flatten().filter_map(|task| read_proc(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(pid_of).collect::<Vec<_>>()).collect()
}

fn pid_of(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

/// The parent of a process; none if it is gone.
pub(crate) fn parent(process: Pid) -> Option<Pid> {
    let stat = read_proc(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    pid_of(rest.split_whitespace().nth(1)?)
}

fn is_dead(process: Pid) -> bool {
    match read_proc(format!("/proc/{}/stat", process.as_raw_nonzero())) {
        Ok(stat) => shows_dead(&stat),
        Err(_) => true,
    }
}

/// Identifies the program of a process: the start of its stack, which a fork keeps and every exec
/// draws at random.
pub type Image = u64;

/// The program that the process runs now; 0 if it cannot be read.
pub fn image(process: Pid) -> Image {
    const START_OF_STACK: usize = 25;
    let stat = read_proc(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    let start =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(START_OF_STACK));
    start.and_then(|start| start.parse().ok()).unwrap_or(0)
}

/// Parses a line of `stat`. The name in parentheses may hold anything. A process whose first thread
/// has ended shows as a zombie while its other threads run.
fn shows_dead(stat: &str) -> bool {
    const THREADS: usize = 17;
    let Some((_, rest)) = stat.rsplit_once(')') else { return true };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ended = matches!(fields.first(), Some(&("Z" | "X" | "x")));
    let threads: u32 = fields.get(THREADS).and_then(|count| count.parse().ok()).unwrap_or(0);
    ended && threads <= 1
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    use super::*;

    /// A process whose name is not valid text is as alive as any other.
    #[test]
    fn a_name_may_be_any_bytes() {
        let folder = kgate_testkit::TempFolder::new("names");
        let program = folder.join(OsStr::from_bytes(b"\xff\xc3 sleeps"));
        fs::copy("/bin/sleep", &program).expect("copied");
        let mut child = Command::new(&program).arg("60").spawn().expect("started");
        let pid = Pid::from_child(&child);
        assert!(children(getpid()).contains(&pid) && !is_dead(pid));
        assert_eq!(parent(pid), Some(getpid()));
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert!(is_dead(pid));
    }

    /// A zombie is dead, and one of which only the first thread has ended is not; parentheses and
    /// spaces in a name do no harm.
    #[test]
    fn dead_processes_are_recognised() {
        let line = |state: &str, threads: u32| {
            format!("7 (a) Z b) {state} 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 {threads} 0 99")
        };
        assert!(shows_dead(&line("Z", 1)));
        assert!(!shows_dead(&line("Z", 2)));
        assert!(!shows_dead(&line("S", 1)));
        assert!(!shows_dead(&line("T", 1)));
    }
}
