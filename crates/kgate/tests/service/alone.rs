//! `kgate run` with the node of a user, which starts by itself.

use std::fs;

use crate::book::Book;
use crate::scene::{Home, Process, text, until};

/// Each exit code that a user can meet, with a node that starts by itself; fences grow from one
/// holder to the next.
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
    let conflict = home.run(&["run", "gpu", "-k", "4", "--", "true"]);
    let said = text(&conflict.stderr);
    assert!(
        conflict.status.code() == Some(123) && said.contains("k = 1") && said.contains("k = 4"),
        "{said}"
    );
    assert_eq!(home.code(&["run", "gpu", "-p", "2", "--", "true"]), Some(2));
    let _held = book.hold(home.kgate(&["run", "gpu"]), "holder", "");
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

/// Many at once: never more than k inside, and all get in.
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

/// A user's node that is killed forgets nothing: its successor sees by the locks that the slot is
/// in use, and later that it is free.
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
    assert!(fs::exists(home.0.join("run/kgate/node.pid")).unwrap());
}
