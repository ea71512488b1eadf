//! Each exit code of `kgate run` (DESIGN section 7) and its message, at a real node of a cluster.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::book::Book;
use crate::cluster::Cluster;
use crate::fixture::{Home, Process, text, until, until_waiting};

fn said(mut command: Command, words: &[&str]) -> (Option<i32>, String) {
    let output = command.args(words).output().unwrap();
    (output.status.code(), text(&output.stderr))
}

/// The exit code of CMD, and those of kgate: 120 or the one given with -E, 122, 123 with both
/// values and who set the first, 126, 127, 2, and 128 + signal while running and while waiting.
/// (The tests that kill a process check 121.)
#[test]
fn every_code() {
    let home = Home::new("every-code");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 2, "");
    let at = |words: &[&str]| said(cluster.run(&home, 1, "gpu", 1), words);
    assert_eq!(at(&["--", "sh", "-c", "exit 7"]), (Some(7), String::new()));
    assert_eq!(at(&["--", "sh", "-c", "kill -KILL $$"]).0, Some(128 + 9));
    assert_eq!(at(&["--", "/no/such/command"]).0, Some(127));
    let not_executable = home.0.join("text");
    fs::write(&not_executable, "text").unwrap();
    assert_eq!(at(&["--", not_executable.to_str().unwrap()]).0, Some(126));
    let (code, text) = said(cluster.run(&home, 0, "gpu", 4), &["--", "true"]);
    let named = ["`gpu`", "k = 1", "set by ", "through node 1", "k = 4"];
    assert!(code == Some(123) && named.iter().all(|part| text.contains(part)), "{code:?} {text}");
    let (code, text) =
        said(home.kgate(&["run", "gpu", "-p", "2", "--node", &cluster.api[0]]), &["--", "true"]);
    assert!(code == Some(2) && text.contains("1 to 1 permits at once, not 2"), "{code:?} {text}");
    let late = ["run", "gpu", "--grace", "1h", "--node", &cluster.api[0]];
    let (code, text) = said(home.kgate(&late), &["--", "true"]);
    assert!(code == Some(2) && text.contains("does not fit"), "{code:?} {text}");
    let (code, text) = said(home.kgate(&["run", "gpu", "--node", "127.0.0.1:1"]), &["--", "true"]);
    assert!(code == Some(122) && text.contains("127.0.0.1:1"), "{code:?} {text}");
    let mut held = book.hold(cluster.run(&home, 0, "gpu", 1), "holder", "");
    let (code, text) = at(&["-n", "--", "true"]);
    assert!(code == Some(120) && text.contains("kgate explain gpu"), "{code:?} {text}");
    assert_eq!(at(&["-n", "-E", "9", "--", "true"]).0, Some(9));
    assert_eq!(at(&["-w", "0.1", "--", "true"]).0, Some(120));
    for signal in [Signal::INT, Signal::TERM] {
        let mut waits =
            Process::start(&mut book.inside(cluster.run(&home, 1, "gpu", 1), "never", ""));
        until_waiting(&cluster.api[0], "gpu", 1);
        waits.send(signal);
        assert_eq!(waits.code(), Some(128 + signal.as_raw()));
        until_waiting(&cluster.api[0], "gpu", 0);
    }
    held.close_input();
    assert_eq!(held.code(), Some(0));
    assert_eq!(book.check(1).len(), 1);
}

/// LEASES section 1: a node with short leases tells `kgate run` its kill time. The default grace
/// period shrinks to what fits; an explicit one that is too long is refused with the longest value
/// that fits, and that value is accepted.
#[test]
fn a_grace_for_short_leases() {
    let home = Home::new("short-leases");
    let cluster = Cluster::start_leased(&home, 1, "[timing]\npreset = \"fast\"\n");
    let at = |words: &[&str]| {
        let run = ["run", "gpu", "-k", "1", "--node", &cluster.api[0]];
        said(home.kgate(&[&run, words].concat()), &["--", "true"])
    };
    let (code, text) = at(&["--grace", "221ms"]);
    assert!(code == Some(2) && text.contains("--grace 220ms or less"), "{code:?} {text}");
    // On a busy machine a short lease may expire before the command starts.
    until("the usual grace fits", || at(&[]).0 == Some(0));
    until("the longest grace fits", || at(&["--grace", "220ms"]).0 == Some(0));
}

/// A request beyond the limit of waiting requests is refused with the limit, and the others are
/// served.
#[test]
fn a_full_queue() {
    let home = Home::new("full");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 2, "queue_max = 2\n");
    let mut held = book.hold(cluster.run(&home, 0, "gpu", 1), "holder", "");
    let waits =
        |name: &str| Process::start(&mut book.inside(cluster.run(&home, 0, "gpu", 1), name, ""));
    let mut waiting = [waits("first"), waits("second")];
    until_waiting(&cluster.api[0], "gpu", 2);
    let (code, text) = said(cluster.run(&home, 0, "gpu", 1), &["--", "true"]);
    assert!(
        code == Some(120) && text.contains("2 wait at gate `gpu` of this node already"),
        "{code:?} {text}"
    );
    held.close_input();
    assert_eq!(waiting.each_mut().map(Process::code), [Some(0); 2]);
    assert_eq!(book.check(1).len(), 3);
}

/// Two configurations that differ in one gate: exit code 123 with both values and both nodes. An
/// unknown gate, where clients may not create gates: exit code 2 with the existing ones.
#[test]
fn gates_of_the_configuration() {
    let home = Home::new("configured");
    let more = |id: usize| format!("new_gates = false\n[[gate]]\nname = \"gpu\"\nk = {}\n", id + 1);
    let cluster = Cluster::start_each(&home, 2, more);
    let (code, text) =
        said(home.kgate(&["run", "gpu", "--node", &cluster.api[0]]), &["--", "true"]);
    let named = ["`gpu`", "k = 1", "node 0", "k = 2", "node 1"];
    assert!(code == Some(123) && named.iter().all(|part| text.contains(part)), "{code:?} {text}");
    let (code, text) = said(cluster.run(&home, 0, "disk", 1), &["--", "true"]);
    assert!(
        code == Some(2) && text.contains("gate `disk`") && text.contains("gpu"),
        "{code:?} {text}"
    );
}

/// A node that cannot start says why: 125 if its port is in use, 2 if its configuration cannot be
/// read or is not valid, whether the parser or a later check finds that.
#[test]
fn of_a_node() {
    let home = Home::new("node-codes");
    let cluster = Cluster::start(&home, 2, "");
    let node = |config: &str| {
        fs::write(home.0.join("other.toml"), config).unwrap();
        let output =
            home.kgate(&["node", "--config", "other.toml"]).stdout(Stdio::null()).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, text) = node(&format!(
        "id = 0\nnodes = {:?}\napi = \"127.0.0.1:0\"\nfaults = \"crash-stop\"\n",
        cluster.peer
    ));
    assert!(
        code == Some(125) && text.contains("cannot listen") && text.contains(&cluster.peer[0]),
        "{code:?} {text}"
    );
    let (code, text) = node("id = 0\nnodes = []\nwhat = 1\n");
    assert!(
        code == Some(2) && text.contains("other.toml") && text.contains("what"),
        "{code:?} {text}"
    );
    let alone = "id = 0\nnodes = [\"127.0.0.1:0\"]\n";
    for (config, why) in [
        ("id = 1\nnodes = [\"127.0.0.1:0\"]\n".to_owned(), "id = 1 is not in the list"),
        (format!("{alone}[[gate]]\nname = \"gpu\"\nk = 0\n"), "between 1 and 65536"),
        (format!("{alone}api = \"https://127.0.0.1:0\"\n"), "tls"),
        (
            "id = 0\nnodes = [\"127.0.0.1:0\", \"192.0.2.1:1\"]\napi = \"127.0.0.1:0\"\n\
             faults = \"crash-stop\"\n"
                .into(),
            "plain",
        ),
    ] {
        let (code, text) = node(&config);
        assert!(code == Some(2) && text.contains(why), "{code:?} {text}");
    }
}
