//! Ending a process tree: TERM to all, KILL after the grace, until nobody is left.
//!
//! The group is told first and at once, since that cannot be outrun by forking; then everybody who left it. A stopped process
//! is woken so that it hears the TERM; KILL needs no waking. The number of the group stays ours as long as its first process
//! is not waited for, which nobody does before the tree is gone.

use std::time::Duration;

use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

use super::lease_clock::LeaseInstant;
use super::tree::Tree;

/// A tree that is being ended.
#[derive(Debug)]
pub(crate) struct Sweep {
    tree: Tree,
    group: Option<Pid>,
    kill_at: LeaseInstant,
    killing: bool,
}

/// Whoever forks while it is being killed is met again so soon.
const AGAIN: Duration = Duration::from_millis(10);

impl Sweep {
    /// TERM now, KILL then.
    pub(crate) fn gently(tree: Tree, group: Option<Pid>, kill_at: LeaseInstant) -> Self {
        let sweep = Sweep { tree, group, kill_at, killing: false };
        sweep.send(Signal::TERM);
        sweep.send(Signal::CONT);
        sweep
    }

    /// KILL now.
    pub(crate) fn at_once(tree: Tree, group: Option<Pid>) -> Self {
        Sweep { tree, group, kill_at: LeaseInstant::NEVER, killing: true }
    }

    /// Does what the instant asks for; true when nobody is left. `latest` is D - K, which may not be passed.
    pub(crate) fn is_done(&mut self, now: LeaseInstant, latest: LeaseInstant) -> bool {
        if now >= self.kill_at.min(latest) {
            self.killing = true;
        }
        if self.tree.is_gone() {
            return true;
        }
        if self.killing {
            self.send(Signal::KILL);
        }
        false
    }

    pub(crate) fn wake_at(&self, now: LeaseInstant, latest: LeaseInstant) -> LeaseInstant {
        if self.killing { now + AGAIN } else { self.kill_at.min(latest) }
    }

    fn send(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _empty = kill_process_group(group, signal);
        }
        for process in self.tree.living() {
            // TERM to the same process twice would make some give up their cleaning.
            let told = self.group.is_some() && getpgid(Some(process)).ok() == self.group;
            if !told || signal == Signal::KILL {
                let _gone = kill_process(process, signal);
            }
        }
    }
}
