//! Real processes: a shell as front, its child as guard, and what they run.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

use kgate_testkit::{TempFolder, wait_for};
use rustix::process::{getuid, kill_process};

use super::*;

struct Family {
    folder: TempFolder,
    front: Child,
}

impl Family {
    /// Front and guard, the guard's child, and a grandchild in a session of its own.
    fn start(name: &str) -> Self {
        let folder = TempFolder::new(name);
        let script = "sh -c 'trap \"\" TERM; setsid sleep 1000 & echo $! > far; \
                      sleep 1000 & echo $! > near; wait' & echo $! > guard; wait";
        let front = Command::new("sh").args(["-c", script]).current_dir(&*folder).spawn().unwrap();
        Self { folder, front }
    }

    fn pid(&self, name: &str) -> Pid {
        let file: PathBuf = self.folder.join(name);
        wait_for(name, || {
            Pid::from_raw(fs::read_to_string(&file).ok()?.strip_suffix('\n')?.parse().ok()?)
        })
    }

    fn front(&self) -> u32 {
        self.front.id()
    }

    fn peer(&self) -> Peer {
        let guard = self.pid("guard").as_raw_nonzero().get();
        Peer { pid: Some(guard), user: getuid().as_raw() }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        let front = Pid::from_child(&self.front);
        for process in Tree::below(vec![front]).living() {
            let _gone = kill_process(process, Signal::KILL);
        }
        let _gone = self.front.kill();
        let _gone = self.front.wait();
    }
}

/// Everything below a frozen front and a frozen guard is killed, also in another session; they
/// themselves are not.
#[test]
fn everything_below_front_and_guard_is_ended() {
    let family = Family::start("holder-tree");
    let members = [family.pid("near"), family.pid("far")];
    let tree = HolderTree::open(family.peer(), family.front(), "").expect("its own processes");
    for process in [family.pid("guard"), Pid::from_child(&family.front)] {
        kill_process(process, Signal::STOP).unwrap();
    }
    wait_for("the end of the tree", || tree.pass().then_some(()));
    for member in members {
        assert!(Handle::open(member).is_none_or(|handle| handle.is_dead()));
    }
    assert!(!tree.front.is_dead() && !tree.guard.is_dead());
}

/// A user's holder is no means to kill processes of another user: they are left alone, and the tree
/// does not count as gone.
#[test]
fn processes_of_another_user_are_left_alone() {
    let family = Family::start("holder-user");
    let member = Handle::open(family.pid("near")).unwrap();
    let tree = HolderTree::open(family.peer(), family.front(), "").expect("its own processes");
    let tree = HolderTree { user: tree.user + 1, ..tree };
    assert!(!tree.pass() && !tree.pass());
    assert!(!member.is_dead());
}

/// Processes that are not what the client says, or not visible, are not guarded.
#[test]
fn only_a_process_and_its_parent_are_taken() {
    let family = Family::start("holder-open");
    let (peer, near) = (family.peer(), family.pid("near").as_raw_nonzero().get());
    let refused = |peer, front| HolderTree::open(peer, front, "").err();
    assert_eq!(refused(peer, 1), Some(NotGuarded::NotVisible), "another process");
    assert_eq!(refused(peer, 0), Some(NotGuarded::NotVisible), "no process");
    assert_eq!(refused(peer, u32::MAX), Some(NotGuarded::NotVisible), "no number");
    let grandchild = Peer { pid: Some(near), ..peer };
    assert_eq!(refused(grandchild, family.front()), Some(NotGuarded::NotVisible), "a grandchild");
    let hidden = Peer { pid: None, ..peer };
    assert_eq!(refused(hidden, family.front()), Some(NotGuarded::NotVisible));
    let other = Peer { user: peer.user + 1, ..peer };
    assert_eq!(refused(other, family.front()), Some(NotGuarded::NotVisible), "another user");
}
