//! The processes of a `kgate run` on this machine: the third killer's side of the node.
//!
//! The client of a Unix socket is the guard of `kgate run`, by the kernel's word (`SO_PEERCRED`).
//! It names its parent, the front. This node keeps a handle of both (a pidfd, which cannot come to
//! mean another process), and can then end everything below them, frozen or not: both are
//! subreapers, so no descendant of CMD can leave their tree while one of them exists.
//!
//! Front and guard themselves are left alone: when they wake they find the tree gone, restore the
//! terminal and return the exit code.
//!
//! If the command has a control group of its own, its members are ended too, also when front and
//! guard are both gone, where the tree cannot be found any more.
//!
//! A node that runs as root kills only what the holder's user may kill: a user must not gain the
//! right to end, say, a set-uid program. Such a process keeps its slot in use until it ends.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, test_kill_process};

use crate::control_group::ControlGroup;
use crate::process_tree::{Tree, parent, read_proc};

/// Interval of passes while processes are being ended, for those that were forked meanwhile.
const PASS_INTERVAL: Duration = Duration::from_millis(5);
/// The same after many passes: what is left cannot be killed, and the slot waits for its end.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);
/// Number of passes after which the node's log says that processes are left.
const FAST_PASSES: u32 = 200;

/// Why this node cannot end the processes of a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotGuarded {
    #[error("the client is not connected by a Unix socket of this machine")]
    Remote,
    #[error(
        "its processes are not visible to the node (another PID namespace, or they have ended)"
    )]
    NotVisible,
    #[error(
        "the node runs as user {node} and may not end processes of user {user}: run it as root or \
         as that user"
    )]
    NotPermitted { node: u32, user: u32 },
}

/// The peer of a Unix socket, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Absent if the process is not visible here.
    pub(crate) pid: Option<i32>,
    pub(crate) user: u32,
}

/// A process that cannot be taken for another one.
#[derive(Debug)]
struct Handle {
    pid: Pid,
    handle: OwnedFd,
}

impl Handle {
    fn open(pid: Pid) -> Option<Self> {
        Some(Self { pid, handle: pidfd_open(pid, PidfdFlags::empty()).ok()? })
    }

    fn is_dead(&self) -> bool {
        is_readable(&self.handle)
    }
}

/// A pidfd is readable when its process has ended.
fn is_readable(handle: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(handle, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

/// Front and guard of a `kgate run`, and with them everything below.
#[derive(Debug)]
pub(crate) struct HolderTree {
    front: Handle,
    guard: Handle,
    user: u32,
    /// The control group of the command, if it has one.
    group: Option<Arc<ControlGroup>>,
    /// Processes that were found, also if front and guard are gone meanwhile.
    found: Mutex<BTreeMap<i32, OwnedFd>>,
}

impl HolderTree {
    /// The tree of the process at the other end of a socket, whose parent is `front`, and whose
    /// command may have a control group.
    pub(crate) fn open(peer: Peer, front: u32, group: &str) -> Result<Self, NotGuarded> {
        let pid = |raw: Option<i32>| raw.and_then(Pid::from_raw).ok_or(NotGuarded::NotVisible);
        let front = Handle::open(pid(i32::try_from(front).ok())?).ok_or(NotGuarded::NotVisible)?;
        let guard = Handle::open(pid(peer.pid)?).ok_or(NotGuarded::NotVisible)?;
        // In another PID namespace the client's numbers mean other processes here. A number that
        // was used again before the handle was opened would belong to a process with another
        // parent.
        let are_theirs = parent(guard.pid) == Some(front.pid)
            && user_of(guard.pid).is_some_and(|users| users.contains(&peer.user))
            && user_of(front.pid).is_some_and(|users| users.contains(&peer.user))
            && !front.is_dead()
            && !guard.is_dead();
        if !are_theirs {
            return Err(NotGuarded::NotVisible);
        }
        if test_kill_process(guard.pid).is_err() {
            let node = rustix::process::geteuid().as_raw();
            return Err(NotGuarded::NotPermitted { node, user: peer.user });
        }
        // Without it the tree is walked all the same.
        let group = Some(group).filter(|path| !path.is_empty());
        let group = group.and_then(|path| ControlGroup::open(path.into()).ok()).map(Arc::new);
        Ok(Self { front, guard, user: peer.user, group, found: Mutex::default() })
    }

    /// Whether the front has ended, which stops what a dead guard has left behind. What both have
    /// left in the control group is killed here, and has to be gone too.
    pub(crate) fn is_front_gone(&self) -> bool {
        self.front.is_dead() && self.has_no_leftovers()
    }

    fn has_no_leftovers(&self) -> bool {
        let Some(group) = self.group.as_ref().filter(|_| self.roots().is_empty()) else {
            return true;
        };
        let gone = self.pass();
        if gone {
            group.remove();
        }
        gone
    }

    /// Kills every process of the tree once; true if none is left.
    fn pass(&self) -> bool {
        let roots = self.roots();
        let tree = Tree::below(roots.clone()).and_group(self.group.clone());
        let is_gone = tree.is_gone();
        for process in tree.living() {
            self.kill(process);
        }
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        // A root that ends during a walk hides its children from it.
        is_gone && self.roots() == roots && found.values().all(is_readable)
    }

    /// Front and guard, if they exist.
    fn roots(&self) -> Vec<Pid> {
        let handles = [&self.front, &self.guard].into_iter();
        handles.filter(|root| !root.is_dead()).map(|root| root.pid).collect()
    }

    /// Kills a process that a walk has found, unless its number means another process meanwhile.
    fn kill(&self, process: Pid) {
        let Some(handle) = Handle::open(process) else { return };
        if !self.contains(process) || handle.is_dead() {
            return; // A later walk finds it, if it is in the tree.
        }
        let may_kill = self.user == 0
            || user_of(process).is_some_and(|[real, saved]| [real, saved].contains(&self.user));
        if may_kill {
            let _gone = pidfd_send_signal(&handle.handle, Signal::KILL);
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.retain(|_, handle| !is_readable(handle));
        found.insert(process.as_raw_nonzero().get(), handle.handle);
    }

    /// Whether front or guard is an ancestor of this process, or it is in the control group.
    fn contains(&self, process: Pid) -> bool {
        if self.group.as_ref().is_some_and(|group| group.contains(process)) {
            return true;
        }
        const DEEPEST: usize = 10_000;
        let ancestors = std::iter::successors(parent(process), |next| parent(*next)).take(DEEPEST);
        // A dead root's number may mean another process.
        ancestors.into_iter().any(|ancestor| self.roots().contains(&ancestor))
    }

    /// Ends every process below front and guard, and returns when none is left.
    pub(crate) async fn end(self: Arc<Self>) {
        let guard = self.guard.pid.as_raw_nonzero().get();
        tracing::warn!(
            guard,
            user = self.user,
            "kgate run has not ended its command by the deadline: killing the command"
        );
        for pass in 0_u32.. {
            let tree = self.clone();
            if tokio::task::spawn_blocking(move || tree.pass()).await.unwrap_or(false) {
                return tracing::warn!(guard, "the command is gone");
            }
            if pass == FAST_PASSES {
                tracing::error!(
                    guard,
                    "processes of the command cannot be ended: its slots stay in use until they \
                     end"
                );
            }
            let interval = if pass < FAST_PASSES { PASS_INTERVAL } else { SLOW_INTERVAL };
            tokio::time::sleep(interval).await;
        }
    }
}

/// The real and the saved user of a process: a process of either may be signalled by that user.
fn user_of(process: Pid) -> Option<[u32; 2]> {
    let status = read_proc(format!("/proc/{}/status", process.as_raw_nonzero())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut users = line.split_whitespace().map_while(|user| user.parse().ok());
    let (real, _effective, saved) = (users.next()?, users.next(), users.next()?);
    Some([real, saved])
}

#[cfg(test)]
mod tests;
