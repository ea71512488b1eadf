//! Nodes that do not answer, or do not run: every command ends in bounded time, and says which.

use std::fs;

use kgate_client::LeaseInstant;
use rustix::process::{Pid, Signal, kill_process};

use crate::book::Book;
use crate::fixture::{Home, text, until};

fn node(home: &Home) -> Pid {
    let pid = fs::read_to_string(home.0.join("run/node.pid")).unwrap();
    Pid::from_raw(pid.parse().unwrap()).unwrap()
}

/// Issue 19: a node that is stopped (SIGSTOP) makes no command wait for ever: 122 within ten
/// seconds, and a request that does not wait sooner. The node works again when it is continued.
#[test]
fn a_stopped_node_makes_no_command_hang() {
    let home = Home::new("stopped");
    assert_eq!(home.code(&["set", "gpu", "-k", "1"]), Some(0));
    let held = Book::new(&home, "gpu").hold(home.kgate(&["run", "gpu"]), "holder", "");
    let node = node(&home);
    kill_process(node, Signal::STOP).unwrap();
    let begun = LeaseInstant::now();
    let commands: [&[&str]; 6] = [
        &["status"],
        &["explain", "gpu"],
        &["set", "gpu", "-k", "3"],
        &["evict", "--gate", "gpu", "--slot", "0", "--yes"],
        &["release", "permit-1-00000000000000000000000000000000"],
        &["run", "gpu", "-n", "--", "true"],
    ];
    let ended = std::thread::scope(|scope| {
        let said = commands.map(|words| scope.spawn(|| home.said(words)));
        said.map(|said| said.join().unwrap())
    });
    let took = LeaseInstant::now().after(begun);
    kill_process(node, Signal::CONT).unwrap();
    for (words, (code, _, error)) in commands.iter().zip(ended) {
        assert_eq!(code, Some(122), "{words:?}: {error}");
        assert!(error.contains("answer"), "{words:?}: {error}");
    }
    assert!(took.as_secs() < 30, "{took:?}");
    until("the node answers again", || home.code(&["status"]) == Some(0));
    drop(held);
}

/// Issue 19: a node that is down says nothing of its holders, but their locks do: the command says
/// that the node does not run, and names them. The next node names them too.
#[test]
fn holders_are_named_by_their_locks() {
    let home = Home::new("named");
    let mut held = Book::new(&home, "gpu").hold(home.kgate(&["run", "gpu"]), "holder", "");
    home.kill_node();
    let user = text(&std::process::Command::new("id").arg("-un").output().unwrap().stdout);
    let front = format!("pid {} {user}@", held.pid().as_raw_nonzero());
    for words in [&["status"][..], &["explain", "gpu"]] {
        let (code, _, error) = home.said(words);
        assert_eq!(code, Some(122), "{error}");
        assert!(error.contains("does not run"), "{error}");
        assert!(error.contains("slot 0 of gate `gpu`") && error.contains(&front), "{error}");
    }
    assert_eq!(home.code(&["run", "gpu", "-n", "--", "true"]), Some(120));
    let (code, status, _) = home.said(&["status"]);
    assert!(code == Some(0) && status.contains(&front), "{status}");
    let (_, explained, _) = home.said(&["explain", "gpu"]);
    let who = format!("(pid {} of {user}@", held.pid().as_raw_nonzero());
    assert!(explained.contains(&who), "{explained}");
    held.close_input();
    assert_eq!(held.code(), Some(0));
    home.kill_node();
    let (code, _, error) = home.said(&["status"]);
    assert!(code == Some(122) && !error.contains("slot 0"), "{error}");
}
