//! Ending a process tree: TERM to all, KILL after the grace, until nobody is left.
//!
//! The group is told first and at once, since that cannot be outrun by forking; then everybody who
//! left it. A stopped process is woken so that it hears the TERM; KILL needs no waking. The number
//! of the group stays ours as long as its first process is not waited for, which nobody does before
//! the tree is gone. Whoever moved up in the tree while it was walked, since its parent heard the
//! TERM first, is found by a later walk and told then, and so is whoever was forked meanwhile:
//! every program hears TERM, and once. A program, not a process: what a shell's child hears between
//! `fork` and `exec` is lost with the shell's handler, and the shell would wait for a command that
//! knows of nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};

use super::lease_clock::LeaseInstant;
use super::tree::{Image, Tree, image};

/// A tree that is being ended.
#[derive(Debug)]
pub(crate) struct Sweep {
    tree: Tree,
    group: Option<Pid>,
    kill_at: LeaseInstant,
    killing: bool,
    /// Who has heard TERM, and as which program.
    told: BTreeMap<i32, Image>,
}

/// Whoever forks while it is being killed is met again so soon.
const AGAIN: Duration = Duration::from_millis(10);
/// Whoever forks while it is being told: a shell that was about to start its next command waits for
/// that before it heeds the TERM.
const TOLD_AGAIN: Duration = Duration::from_millis(100);

impl Sweep {
    /// TERM now, KILL then.
    pub(crate) fn gently(tree: Tree, group: Option<Pid>, kill_at: LeaseInstant) -> Self {
        let mut sweep = Sweep { tree, group, kill_at, killing: false, told: BTreeMap::new() };
        // TERM to the same process twice would make some give up their cleaning. Whoever joins the
        // group between this look and the signal hears it twice all the same: that is better than
        // never.
        let in_group = |process: &Pid| group.is_some() && getpgid(Some(*process)).ok() == group;
        let heard = sweep.tree.living().into_iter().filter(in_group);
        sweep.told =
            heard.map(|process| (process.as_raw_nonzero().get(), image(process))).collect();
        if let Some(group) = group {
            let _empty = kill_process_group(group, Signal::TERM);
            let _empty = kill_process_group(group, Signal::CONT);
        }
        sweep.tell_the_others();
        sweep
    }

    /// KILL now.
    pub(crate) fn at_once(tree: Tree, group: Option<Pid>) -> Self {
        Sweep { tree, group, kill_at: LeaseInstant::NEVER, killing: true, told: BTreeMap::new() }
    }

    /// Does what the instant asks for; true when nobody is left. `latest` is D - K, which may not
    /// be passed.
    pub(crate) fn is_done(&mut self, now: LeaseInstant, latest: LeaseInstant) -> bool {
        if now >= self.kill_at.min(latest) {
            self.killing = true;
        }
        if self.tree.is_gone() {
            return true;
        }
        if self.killing {
            self.kill();
        } else {
            self.tell_the_others();
        }
        false
    }

    pub(crate) fn wake_at(&self, now: LeaseInstant, latest: LeaseInstant) -> LeaseInstant {
        if self.killing { now + AGAIN } else { (now + TOLD_AGAIN).min(self.kill_at).min(latest) }
    }

    /// TERM to everybody who has not heard it.
    fn tell_the_others(&mut self) {
        for process in self.tree.living() {
            let image = image(process);
            if self.told.insert(process.as_raw_nonzero().get(), image) != Some(image) {
                let _gone = kill_process(process, Signal::TERM);
                let _gone = kill_process(process, Signal::CONT);
            }
        }
    }

    fn kill(&self) {
        if let Some(group) = self.group {
            let _empty = kill_process_group(group, Signal::KILL);
        }
        for process in self.tree.living() {
            let _gone = kill_process(process, Signal::KILL);
        }
    }
}
