//! All that descends from us, found and ended.
//!
//! A process group is left by `setsid`; the tree is not, since a subreaper inherits every orphan
//! below it. So the tree is walked through `/proc/PID/task/*/children`, killed, and walked again.
//!
//! That a walk finds nobody alive does not prove that nobody is: a process may have died in the
//! middle of it and its child moved up behind our back. A child moves up before its parent shows as
//! dead. So two walks that both find nobody alive and the same dead prove it: whatever the dead
//! left behind would have been new in the second.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use rustix::process::{Pid, WaitOptions, getpid, waitpid};

/// Whose descendants are meant, and who of them is not.
#[derive(Debug)]
pub(crate) struct Tree {
    roots: Vec<Pid>,
}

impl Tree {
    /// Everything below this process.
    pub(crate) fn own() -> Self {
        Tree { roots: vec![getpid()] }
    }

    /// Everything below this process and below that child of it, but not the child.
    pub(crate) fn own_and_below(child: Pid) -> Self {
        Tree { roots: vec![getpid(), child] }
    }

    pub(crate) fn living(&self) -> Vec<Pid> {
        self.walk().living
    }

    pub(crate) fn is_gone(&self) -> bool {
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
            // Who spares a root walks below it anyway.
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
        walk
    }
}

#[derive(Debug, Default)]
struct Walk {
    living: Vec<Pid>,
    dead: BTreeSet<i32>,
}

/// Takes the dead children off the kernel's hands, except one, whose number must stay taken.
pub(crate) fn reap_except(kept: Option<Pid>) {
    for child in own_children(getpid()) {
        if Some(child) != kept && is_dead(child) {
            let _status = waitpid(Some(child), WaitOptions::NOHANG);
        }
    }
}

/// Without these files nothing that leaves CMD's group could be found.
pub(crate) fn check() -> io::Result<()> {
    let process = getpid().as_raw_nonzero();
    fs::read(format!("/proc/{process}/task/{process}/children")).map(drop)
}

/// Of a process of ours: its first thread starts all children and inherits all orphans. To look at
/// the other threads would cost more than it seems: the kernel must forget each look when they end,
/// and whoever waits for the process waits for that.
fn own_children(process: Pid) -> Vec<Pid> {
    let process = process.as_raw_nonzero();
    let list =
        fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(pid_of).collect()
}

/// Of any process. Nobody, if it is gone.
fn children(process: Pid) -> Vec<Pid> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())) else {
        return Vec::new();
    };
    let lists =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(pid_of).collect::<Vec<_>>()).collect()
}

fn pid_of(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

fn is_dead(process: Pid) -> bool {
    match fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())) {
        Ok(stat) => says_dead(&stat),
        Err(_) => true,
    }
}

/// What a process runs, as far as it can be told: where its stack begins, which a fork keeps and
/// every exec throws rng for.
pub(crate) type Image = u64;

/// What that process runs now; 0 if that cannot be seen.
pub(crate) fn image(process: Pid) -> Image {
    const START_OF_STACK: usize = 25;
    let stat =
        fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    let start =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(START_OF_STACK));
    start.and_then(|start| start.parse().ok()).unwrap_or(0)
}

/// The name in brackets may hold anything. A process whose first thread ended shows as a zombie
/// while the others run on.
fn says_dead(stat: &str) -> bool {
    const THREADS: usize = 17;
    let Some((_, rest)) = stat.rsplit_once(')') else { return true };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ended = matches!(fields.first(), Some(&("Z" | "X" | "x")));
    let threads: u32 = fields.get(THREADS).and_then(|count| count.parse().ok()).unwrap_or(0);
    ended && threads <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zombie is dead; one whose first thread alone has ended is not; brackets and spaces in a
    /// name confuse nobody.
    #[test]
    fn the_dead_are_told_from_the_living() {
        let line = |state: &str, threads: u32| {
            format!("7 (a) Z b) {state} 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 {threads} 0 99")
        };
        assert!(says_dead(&line("Z", 1)));
        assert!(!says_dead(&line("Z", 2)));
        assert!(!says_dead(&line("S", 1)));
        assert!(!says_dead(&line("T", 1)));
    }
}
