//! `kgate run` with the node of a user, which is started on demand.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::book::Book;
use crate::fixture::{Home, Process, is_gone, text, until, wait_for};

/// Each exit code that a user can see, with a node that is started on demand; fences increase from
/// one holder to the next.
#[test]
fn exit_codes_and_fences() {
    let home = Home::new("codes");
    let book = Book::new(&home, "gpu");
    let fence = || {
        text(&home.run(&["run", "gpu", "-k", "1", "--", "sh", "-c", "echo $KGATE_FENCE"]).stdout)
    };
    let (first, second) = (fence(), fence());
    assert!(first.len() == 32 && first < second, "{first} {second}");
    assert_eq!(home.code(&["run", "gpu", "--", "sh", "-c", "exit 7"]), Some(7));
    assert_eq!(home.code(&["run", "gpu", "--", "sh", "-c", "kill -TERM $$"]), Some(128 + 15));
    assert_eq!(home.code(&["run", "gpu", "--", "/no/such/command"]), Some(127));
    assert_eq!(home.code(&["run", "gpu", "-p", "2", "--", "true"]), Some(2));
    let _held = book.hold(home.kgate(&["run", "gpu"]), "holder", "");
    let (code, _, said) = home.said(&["run", "gpu", "-k", "4", "--", "true"]);
    assert!(code == Some(123) && said.contains("k = 1") && said.contains("k = 4"), "{said}");
    assert!(said.ends_with("`kgate set gpu -k 4`"), "{said}");
    assert_eq!(home.code(&["run", "gpu", "-n", "--", "true"]), Some(120));
    assert_eq!(home.code(&["run", "gpu", "-n", "-E", "9", "--", "true"]), Some(9));
    assert_eq!(home.code(&["run", "gpu", "-w", "0.1", "--", "true"]), Some(120));
    assert_eq!(home.code(&["run", "gpu", "--node", "127.0.0.1:1", "--", "true"]), Some(122));
    let explained = text(&home.run(&["explain", "gpu"]).stdout);
    assert!(
        explained.contains("holds slot 0") && explained.contains("No request waits"),
        "{explained}"
    );
    let status = home.run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["gates"][0]["holders"][0]["slots"][0], 0, "{status}");
    book.check(1);
}

/// Many commands at once: never more than k hold, and all are granted.
#[test]
fn never_more_than_k() {
    let home = Home::new("many");
    let book = Book::new(&home, "gpu");
    let run = |name: usize| {
        let command = home.kgate(&["run", "gpu", "-k", "2"]);
        Process::start(&mut book.inside(command, &name.to_string(), ""))
    };
    let all: Vec<Process> = (0..12).map(run).collect();
    for mut process in all {
        assert_eq!(process.code(), Some(0));
    }
    assert_eq!(book.check(2).len(), 12);
}

/// Issue 19: a command that closes the descriptors that it does not know (Python and ssh do) keeps
/// its slot, also when the node is killed meanwhile: the guard has the lock too.
#[test]
fn a_command_may_close_its_descriptors() {
    let home = Home::new("closes");
    let script = "for fd in $(ls /proc/$$/fd); do [ $fd -gt 2 ] && eval \"exec $fd>&-\"; done; \
                  touch closed; read line";
    let mut command = home.kgate(&["run", "gpu", "-k", "1", "--", "bash", "-c", script]);
    let mut holder = Process::start(command.stdin(std::process::Stdio::piped()));
    until("the command has closed them", || home.0.join("closed").exists());
    let next = || home.code(&["run", "gpu", "-n", "--", "true"]);
    assert_eq!(next(), Some(120));
    home.kill_node();
    assert_eq!(next(), Some(120), "the next node finds the holder");
    holder.close_input();
    assert_eq!(holder.code(), Some(1), "its input ended");
    assert_eq!(next(), Some(0));
}

/// A killed user's node loses nothing: the next one sees from the file locks that the slot is in
/// use, and later that it is free.
#[test]
fn a_killed_node_of_a_user_forgets_nothing() {
    let home = Home::new("killed");
    let book = Book::new(&home, "gpu");
    let mut held = book.hold(home.kgate(&["run", "gpu", "-k", "1"]), "holder", "");
    home.kill_node();
    assert_eq!(home.code(&["run", "gpu", "-n", "--", "true"]), Some(120));
    held.close_input();
    let next =
        || book.inside(home.kgate(&["run", "gpu", "-n"]), "next", "").status().unwrap().code();
    until("the slot is free again", || next() == Some(0));
    book.check(1);
    assert!(fs::exists(home.0.join("run/node.pid")).unwrap());
}

/// The guard is killed while the front is frozen, and what CMD has left has given up the lock of
/// its slot: the slot is free only when the front, awake again, has stopped that.
#[test]
fn a_slot_without_its_lock_waits_for_the_front() {
    const UNLOCK: &str = "for file in /proc/$$/fd/*; do case $(readlink $file) in \
         */slots/*) flock -u ${file##*/} ;; esac; done
         trap '' TERM; setsid sleep 1000 & sleep 0.1";
    let home = Home::new("unlocked");
    let book = Book::new(&home, "gpu");
    let held = ["run", "gpu", "-k", "1", "--grace", "100ms"];
    let mut held = book.hold(home.kgate(&held), "holder", UNLOCK);
    held.send(Signal::STOP);
    kill_process(held.guard(), Signal::KILL).unwrap();
    let next = |wait: &str| {
        book.inside(home.kgate(&["run", "gpu", "-w", wait]), "next", "").status().unwrap().code()
    };
    assert_eq!(next("500ms"), Some(120), "the sleep may be at work");
    held.send(Signal::CONT);
    assert_eq!(held.code(), Some(121));
    assert_eq!(next("20s"), Some(0));
    assert_eq!(book.check(1).len(), 2);
}

/// Front and guard are both killed: nobody can find what the command has left, but in its control
/// group the node does, and the slot waits for the end of it.
#[test]
fn a_control_group_outlives_front_and_guard() {
    const LEAVE: &str = "for file in /proc/$$/fd/*; do case $(readlink $file) in \
         */slots/*) flock -u ${file##*/} ;; esac; done
         trap '' TERM; setsid sleep 1000 & echo $! > left";
    let home = Home::new("both-killed");
    if home.code(&["run", "gpu", "-k", "1", "--cgroup", "require", "--", "true"]) != Some(0) {
        println!("skipped: no control group may be created here");
        return;
    }
    let book = Book::new(&home, "gpu");
    let held = book.hold(home.kgate(&["run", "gpu", "--cgroup", "require"]), "holder", LEAVE);
    let left = wait_for("the process that is left", || {
        Pid::from_raw(fs::read_to_string(home.0.join("left")).ok()?.trim().parse().ok()?)
    });
    let guard = held.guard();
    held.send(Signal::STOP);
    kill_process(guard, Signal::KILL).unwrap();
    held.send(Signal::KILL);
    let words = ["run", "gpu", "-w", "20s"];
    assert_eq!(book.inside(home.kgate(&words), "next", "").status().unwrap().code(), Some(0));
    assert!(is_gone(left));
    assert_eq!(book.check(1).len(), 2);
}

/// Issue 19.3: an unused gate takes the next k. `kgate set` changes k with holders inside, up and
/// down, and what it set is remembered by a node that was killed.
#[test]
fn k_changes_when_it_can() {
    let home = Home::new("k");
    let book = Book::new(&home, "gpu");
    assert_eq!(home.code(&["run", "gpu", "--", "true"]), Some(0));
    let k_of = || text(&home.run(&["run", "gpu", "--", "sh", "-c", "echo $KGATE_K"]).stdout);
    assert_eq!(home.code(&["run", "gpu", "-k", "3", "--", "true"]), Some(0), "nobody is inside");
    assert_eq!(k_of(), "3");

    let mut first = book.hold(home.kgate(&["run", "gpu"]), "first", "");
    let mut second = book.hold(home.kgate(&["run", "gpu"]), "second", "");
    let (code, _, said) = home.said(&["set", "gpu", "-k", "1", "--wait", "0.1"]);
    assert!(code == Some(120) && said.contains("slot 1 is held by"), "{said}");
    first.close_input();
    assert_eq!(first.code(), Some(0));
    assert_eq!(home.code(&["run", "gpu", "-n", "--", "true"]), Some(0), "slot 0 is free, k is 1");
    second.close_input();
    assert_eq!(second.code(), Some(0));
    let (code, _, said) = home.said(&["set", "gpu", "-k", "2"]);
    assert!(code == Some(0) && said.contains("k = 2; k was 1"), "{said}");
    home.kill_node();
    let (code, _, said) = home.said(&["run", "gpu", "-k", "3", "--", "true"]);
    assert!(code == Some(123) && said.ends_with("`kgate set gpu -k 3`"), "{said}");
    assert_eq!(k_of(), "2");

    assert_eq!(home.code(&["set", "new", "-k", "0"]), Some(0), "created, closed");
    let (code, _, said) = home.said(&["run", "new", "--", "true"]);
    assert!(code == Some(2) && said.contains("closed"), "{said}");
    let (code, _, said) = home.said(&["run", "new", "-k", "1", "--", "true"]);
    assert!(code == Some(2) && said.ends_with("`kgate set new -k K` opens it"), "{said}");
    assert_eq!(home.code(&["set", "gpu", "--policy", "hold"]), Some(2));
    book.check(3);
}
