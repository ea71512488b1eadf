//! Nested requests: a command that holds a gate runs another one that requests the same gate.

use std::fs;
use std::process::Stdio;

use rustix::process::Pid;
use serde_json::Value;

use crate::book::Book;
use crate::cluster::{Cluster, TIMING};
use crate::fixture::{Home, KGATE, Process, family, until, wait_for};

/// What a command sees of its permit.
const SHOW: &str = "echo $KGATE_GATE $KGATE_SLOT $KGATE_FENCE";

/// Scripts that call each other by name. `RUN` is `kgate run`, which gives up in the end, so that a
/// request that waits for itself fails the test with 120.
fn scripts(home: &Home, node: &str, scripts: &[(&str, &str)]) {
    let run = format!("{KGATE} run -w 20s {node}");
    for (name, text) in scripts {
        let text = text.replace("RUN", &run).replace("SHOW", SHOW);
        fs::write(home.0.join(name), text).unwrap();
    }
}

fn levels(home: &Home, node: &str) -> (Option<i32>, String, String) {
    scripts(
        home,
        node,
        &[
            ("1", "SHOW; RUN gpu -- sh 2; RUN other -- sh 4"),
            ("2", "SHOW; RUN gpu -- sh 3"),
            ("3", "SHOW; exit 7"),
            ("4", "SHOW; RUN gpu -v -- sh 5"),
            ("5", "SHOW; echo ${KGATE_DEADLINE_FD-none}"),
        ],
    );
    let node: Vec<&str> = node.split_whitespace().collect();
    home.said(&[&["run", "gpu", "-k", "1"], node.as_slice(), &["--", "sh", "1"]].concat())
}

fn check_levels(home: &Home, node: &str) {
    let (code, out, said) = levels(home, node);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, lines.len()), (Some(0), 6), "{out}\n{said}");
    for at in [1, 2, 4] {
        assert_eq!(lines[at], lines[0], "{out}");
    }
    assert!(lines[0].starts_with("gpu 0 ") && lines[3].starts_with("other 0 "), "{out}");
    assert_eq!(lines[5], "none", "the deadline of `other` is not that of `gpu`");
    assert!(said.contains("running under the permit of gate gpu that process"), "{said}");
    let node: Vec<&str> = node.split_whitespace().skip_while(|word| *word != "--node").collect();
    let status = home.run(&[&["status", "--json"], node.as_slice()].concat());
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    for gate in status["gates"].as_array().unwrap() {
        assert_eq!(gate["holders"], Value::Array(Vec::new()), "{gate}");
    }
}

/// Issue 19.4: three levels of one gate with k = 1, and another gate in between. All of them have
/// the one slot and the one fence, and the exit code of the innermost command arrives.
#[test]
fn three_levels_on_one_machine() {
    let home = Home::new("nested");
    check_levels(&home, "");
    scripts(&home, "", &[("1", "RUN gpu -- sh 3")]);
    assert_eq!(home.code(&["run", "gpu", "--", "sh", "1"]), Some(7));
}

/// The same in a cluster with leases: by a Unix socket, where the node knows the processes, and
/// over TCP, where `kgate run` looks for its ancestors itself.
#[test]
fn three_levels_in_a_cluster() {
    let home = Home::new("nested-cluster");
    let cluster = Cluster::start_leased(&home, 1, TIMING);
    for node in [&cluster.api[0], &cluster.unix(0)] {
        check_levels(&home, &format!("--grace 100ms --node {node}"));
    }
}

/// `--nested wait` takes another permit, with a warning, and is refused where it would wait for
/// itself; `--nested fail` fails. What the permit of the ancestor cannot give is refused.
#[test]
fn other_ways() {
    let home = Home::new("nested-ways");
    let inside = |k: &str, words: &str| {
        scripts(&home, "", &[("1", &format!("RUN {words} -- sh 2")), ("2", "echo $KGATE_SLOT")]);
        home.said(&["run", "gpu", "-k", k, "--", "sh", "1"])
    };
    let (code, out, said) = inside("1", "gpu --nested wait");
    assert!(code == Some(2) && out.is_empty(), "{said}");
    assert!(said.contains("wait for itself") && said.ends_with("`kgate set gpu -k 2`"), "{said}");
    let (code, out, said) = inside("2", "gpu --nested wait");
    assert!(code == Some(0) && out == "1" && said.contains("warning"), "{out} {said}");
    for (words, expected) in [
        ("gpu --nested fail", 120),
        ("gpu --nested fail -E 9", 9),
        ("gpu -p 2", 2),
        ("gpu -k 3", 123),
        ("gpu --nested other", 2),
    ] {
        let (code, out, said) = inside("2", words);
        assert!(code == Some(expected) && out.is_empty() && !said.is_empty(), "{words}: {said}");
    }
    let (code, out, said) = inside("2", "gpu -k 2");
    assert!(code == Some(0) && out == "0" && said.is_empty(), "{out} {said}");
    scripts(&home, "", &[("1", &format!("{KGATE} acquire gpu -w 1s"))]);
    let (code, _, said) = home.said(&["run", "gpu", "-k", "1", "--", "sh", "1"]);
    assert!(code == Some(2) && said.contains("wait for itself"), "{code:?} {said}");
}

/// The variables of a process, as `/proc` shows them.
fn permits_of(process: Pid) -> Option<String> {
    let environ = fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).ok()?;
    let mut variables = environ.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    variables.find_map(|variable| Some(variable.strip_prefix("KGATE_PERMITS=")?.to_owned()))
}

/// A variable that is stolen from a live holder, made up, or nonsense lets nobody in who is not a
/// descendant of the holder. A descendant with a wrong key is refused.
#[test]
fn forged_variables() {
    let home = Home::new("nested-forged");
    let book = Book::new(&home, "gpu");
    let held = book.hold(home.kgate(&["run", "gpu", "-k", "1"]), "holder", "");
    let stolen = wait_for("the command's environment", || {
        family(held.pid()).into_iter().find_map(permits_of)
    });
    let mut permits: Value = serde_json::from_str(&stolen).unwrap();
    let key = permits[0]["key"].as_str().unwrap().to_owned();
    let (start, _) = key.rsplit_once('.').unwrap();
    permits[0]["key"] = format!("{start}.{}", "1".repeat(32)).into();
    for forged in [stolen.as_str(), &permits.to_string(), "nonsense", "[]", "[{}]"] {
        let mut command = home.kgate(&["run", "gpu", "-n"]);
        command.env("KGATE_PERMITS", forged);
        let mut thief = book.inside(command, "thief", "");
        assert_eq!(thief.status().unwrap().code(), Some(120), "{forged}");
    }
    drop(held);
    until("the slot is free", || home.code(&["run", "gpu", "-n", "--", "true"]) == Some(0));

    let forge = format!(
        "KGATE_PERMITS=$(printf %s \"$KGATE_PERMITS\" | sed 's/[0-9a-f]\\{{32\\}}/{}/'); \
         RUN gpu -- touch in",
        "1".repeat(32)
    );
    scripts(&home, "", &[("1", &forge)]);
    let (code, _, said) = home.said(&["run", "gpu", "--", "sh", "1"]);
    assert!(code == Some(121) && said.contains("does not confirm"), "{code:?} {said}");
    assert!(!home.0.join("in").exists());
    assert!(book.entries().iter().all(|entry| entry.name != "thief"));
}

/// Nothing starts under a permit that is lost, though its holder has not stopped yet. A node that
/// was killed and started again confirms a permit by the lock of its slot, with the fence that the
/// command around was told.
#[test]
fn an_ancestor_without_a_permit() {
    let home = Home::new("nested-lost");
    let trap = "trap 'RUN gpu -- touch in; echo $? >code; exit' TERM; echo ready >ready; \
                while :; do sleep 0.1; done";
    scripts(
        &home,
        "",
        &[
            ("1", trap),
            ("2", "SHOW; read line; RUN gpu -- sh 3; RUN gpu -- sh -c 'SHOW'"),
            ("3", "RUN gpu -- touch in"),
        ],
    );
    let mut command = home.kgate(&["run", "gpu", "-k", "1", "--grace", "20s", "--", "sh", "1"]);
    let mut held = Process::start(&mut command);
    until("the trap is set", || home.0.join("ready").exists());
    assert_eq!(home.code(&["evict", "--gate", "gpu", "--yes"]), Some(0));
    assert_eq!(held.code(), Some(121));
    assert!(!home.0.join("in").exists(), "nothing was run");

    let mut command = home.kgate(&["run", "gpu", "--", "sh", "2"]);
    let output = fs::File::create(home.0.join("out")).unwrap();
    let mut held = Process::start(command.stdin(Stdio::piped()).stdout(output));
    until("it holds", || home.code(&["run", "gpu", "-n", "--", "true"]) == Some(120));
    home.kill_node();
    assert_eq!(home.code(&["run", "gpu", "-n", "--", "true"]), Some(120), "the next node knows");
    held.close_input();
    assert_eq!(held.code(), Some(0));
    assert!(home.0.join("in").exists(), "it was run");
    let told = fs::read_to_string(home.0.join("out")).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1] && lines[0].starts_with("gpu 0 "), "{told}");
}
