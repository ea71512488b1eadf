//! Ends a process tree: TERM to all processes, KILL after the grace, until no process is left.
//!
//! The group gets the signal first, in one call, because no fork can outrun that; then the
//! processes that left the group. A stopped process is continued so that it handles TERM; KILL
//! needs no CONT. The number of the group stays valid while its leader has not been waited for,
//! which happens only after the tree is gone. A process that was reparented during a walk, because
//! its parent handled TERM first, is found by a later walk, and so is one that was forked
//! meanwhile. Every program gets TERM once. A program, not a process: a TERM that a shell's child
//! gets between `fork` and `exec` is lost with the shell's handler, and the shell would wait for a
//! command that never got it.

use std::collections::BTreeMap;
use std::time::Duration;

use kgate_node::process_tree::{Image, Tree, image};
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

use super::lease_clock::LeaseInstant;

/// A tree that is being ended.
#[derive(Debug)]
pub(crate) struct Sweep {
    tree: Tree,
    group: Option<Pid>,
    kill_at: LeaseInstant,
    killing: bool,
    /// Processes that got TERM, and the program of each.
    terminated: BTreeMap<i32, Image>,
}

/// Interval of walks while killing, for processes forked meanwhile.
const KILL_INTERVAL: Duration = Duration::from_millis(10);
/// Interval of walks while terminating: a shell that has just started its next command waits for
/// that before it handles TERM.
const TERM_INTERVAL: Duration = Duration::from_millis(100);

impl Sweep {
    /// TERM now, KILL at `kill_at`.
    pub(crate) fn terminate(tree: Tree, group: Option<Pid>, kill_at: LeaseInstant) -> Self {
        let mut sweep = Sweep { tree, group, kill_at, killing: false, terminated: BTreeMap::new() };
        // A second TERM makes some programs give up their cleanup. A process that joins the group
        // between this walk and the signal gets it twice: that is better than never.
        let in_group = |process: &Pid| group.is_some() && getpgid(Some(*process)).ok() == group;
        let group_members = sweep.tree.living().into_iter().filter(in_group);
        sweep.terminated =
            group_members.map(|process| (process.as_raw_nonzero().get(), image(process))).collect();
        if let Some(group) = group {
            let _empty = kill_process_group(group, Signal::TERM);
            let _empty = kill_process_group(group, Signal::CONT);
        }
        sweep.terminate_rest();
        sweep
    }

    /// KILL now.
    pub(crate) fn kill_now(tree: Tree, group: Option<Pid>) -> Self {
        Sweep {
            tree,
            group,
            kill_at: LeaseInstant::NEVER,
            killing: true,
            terminated: BTreeMap::new(),
        }
    }

    /// Sends what is due; true when no process is left. `latest` is D - K, after which KILL is due.
    pub(crate) fn advance(&mut self, now: LeaseInstant, latest: LeaseInstant) -> bool {
        if now >= self.kill_at.min(latest) {
            self.killing = true;
        }
        if self.tree.is_gone() {
            return true;
        }
        if self.killing {
            self.kill();
        } else {
            self.terminate_rest();
        }
        false
    }

    pub(crate) fn wake_at(&self, now: LeaseInstant, latest: LeaseInstant) -> LeaseInstant {
        if self.killing {
            now + KILL_INTERVAL
        } else {
            (now + TERM_INTERVAL).min(self.kill_at).min(latest)
        }
    }

    /// TERM to every process that has not got it.
    fn terminate_rest(&mut self) {
        for process in self.tree.living() {
            let image = image(process);
            if self.terminated.insert(process.as_raw_nonzero().get(), image) != Some(image) {
                let _gone = kill_process(process, Signal::TERM);
                let _gone = kill_process(process, Signal::CONT);
            }
        }
    }

    fn kill(&self) {
        self.tree.kill_group();
        if let Some(group) = self.group {
            let _empty = kill_process_group(group, Signal::KILL);
        }
        for process in self.tree.living() {
            let _gone = kill_process(process, Signal::KILL);
        }
    }
}
