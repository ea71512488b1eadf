//! kill -9 of clients, of parts of `kgate run`, and of nodes. A slot is free only when no process
//! can use it any more, and then the next client gets it.

use std::fs;
use std::process::Stdio;
use std::thread;

use kgate_client::LeaseInstant;
use rustix::process::{Pid, Signal, kill_process};

use crate::book::Book;
use crate::client::{ApiClient, make_gate, next};
use crate::cluster::{Cluster, LEASE, QUICK, RENEWAL};
use crate::fixture::{Home, Process, expect_gone, family, text, until_gate, until_waiting};

/// All processes of `kgate run` at once, so that none is left to release the permit, and a client
/// of the API: each session ends only when it expires, although its stream ended long before, and
/// then the next client gets the slot.
#[test]
fn whole_clients() {
    let home = Home::new("clients");
    let cluster = Cluster::start(&home, 2, QUICK);
    let test = |gate: &str, kill: &dyn Fn(&Cluster, &Book)| {
        let book = Book::new(&home, gate);
        make_gate(&home, &cluster.api[0], gate, 1);
        kill(&cluster, &book);
        let killed = LeaseInstant::now();
        // The node has noticed the end of the stream, and has freed nothing.
        until_gate(&cluster.api[0], gate, |gate| {
            gate.holders().all(|holder| holder.is_disconnected())
        });
        let granted = next(&cluster.api[1], gate, &book, "next");
        // The validity in the answer to its last renewal.
        let earliest = killed + (LEASE - RENEWAL).mul_f32(0.9);
        assert!(granted > earliest, "{gate}: freed when the stream ended");
        let names: Vec<String> = book.check(1).into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["client", "next"]);
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            test("run", &|cluster, book| {
                let run = book.hold(cluster.run(&home, 0, "run", 1), "client", "");
                let all = family(run.pid());
                assert_eq!(all.len(), 3, "front, guard, CMD");
                all.iter().for_each(|process| kill_process(*process, Signal::KILL).unwrap());
                expect_gone(&all);
            });
        });
        scope.spawn(|| {
            test("api", &|cluster, book| {
                let client = ApiClient::start(&cluster.api[0], "api", Some(book));
                client.told("in");
            });
        });
    });
}

/// The front of `kgate run`: the guard stops the processes of CMD and releases the permit at once.
#[test]
fn the_front_of_a_run() {
    let home = Home::new("front");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 2, "lease_ms = 60000\n");
    let mut run = book.hold(
        cluster.run(&home, 0, "gpu", 1),
        "first",
        "trap '' TERM; sleep 1000 & setsid sleep 1000 &",
    );
    let members = family(run.guard());
    run.send(Signal::KILL);
    assert_eq!(run.code(), Some(137));
    // The lease lasts a minute, longer than these tests wait: the permit was released.
    next(&cluster.api[1], "gpu", &book, "next");
    expect_gone(&members);
    assert_eq!(book.check(1).len(), 2);
}

/// The guard of `kgate run`: the front stops the remaining processes and releases the permit in its
/// place.
#[test]
fn the_guard_of_a_run() {
    let home = Home::new("guard");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 1, "lease_ms = 60000\n");
    let mut run =
        book.hold(cluster.run(&home, 0, "gpu", 1), "first", "trap '' TERM; setsid sleep 1000 &");
    let members = family(run.guard());
    kill_process(run.guard(), Signal::KILL).unwrap();
    assert_eq!(run.code(), Some(121));
    next(&cluster.api[0], "gpu", &book, "next");
    expect_gone(&members);
    assert_eq!(book.check(1).len(), 2);
}

/// The holder of `kgate acquire`: if it was killed, `kgate release` exits with 121 and the permit
/// is free; if it is alive, with 0. Its token is shown to no client.
#[test]
fn the_holder_of_a_script() {
    let home = Home::new("script");
    let cluster = Cluster::start(&home, 1, "lease_ms = 60000\n");
    let acquire = || {
        let got = home.run(&["acquire", "gpu", "-k", "1", "--json", "--node", &cluster.api[0]]);
        let got: serde_json::Value = serde_json::from_slice(&got.stdout).unwrap();
        got["token"].as_str().unwrap().to_owned()
    };
    let token = acquire();
    assert_eq!(
        home.code(&["run", "gpu", "-n", "--node", &cluster.api[0], "--", "true"]),
        Some(120)
    );
    let status = home.run(&["status", "gpu", "--node", &cluster.api[0]]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(
        status.contains("kgate acquire gpu (until process ") && !status.contains(&token),
        "{status}"
    );
    assert_eq!(home.code(&["release", &token]), Some(0));
    let token = acquire();
    let holder = Pid::from_raw(pid_of_holder("gpu")).unwrap();
    kill_process(holder, Signal::KILL).unwrap();
    next(&cluster.api[0], "gpu", &Book::new(&home, "gpu"), "next");
    assert_eq!(home.code(&["release", &token]), Some(121));
}

/// The `kgate hold` process started by this one.
fn pid_of_holder(gate: &str) -> i32 {
    let asker = format!("kgate acquire {gate} (until process {} ", std::process::id());
    let holds = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.get(1) == Some(&&b"hold"[..])
            && words.get(2).is_some_and(|words| words.starts_with(asker.as_bytes()))
    };
    let processes = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.into_iter().find(holds).expect("the holder")
}

/// A node whose client waits, then one whose client holds: the first command exits with 122, the
/// second with 121. All descendants of the second, one of them in another session, are dead before
/// the remaining node grants the slot to the next client.
#[test]
fn nodes_of_waiters_and_holders() {
    let home = Home::new("nodes");
    let book = Book::new(&home, "gpu");
    let mut cluster = Cluster::start(&home, 3, QUICK);
    // All of them ignore SIGTERM.
    let stubborn = "trap '' TERM; sleep 1000 & setsid sh -c \"trap '' TERM; sleep 1000 & sleep \
                    1000\" & sleep 1000";
    let mut held = book.hold(cluster.run(&home, 0, "gpu", 1), "first", stubborn);
    let members = crate::fixture::wait_for("all of them", || {
        Some(family(held.guard())).filter(|all| all.len() >= 6)
    });
    let waits = |node: usize, name: &str| {
        let mut command = book.inside(cluster.run(&home, node, "gpu", 1), name, "");
        Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let mut unlucky = waits(1, "unlucky");
    until_waiting(&cluster.api[2], "gpu", 1);
    let mut lucky = waits(2, "lucky");
    until_waiting(&cluster.api[2], "gpu", 2);
    cluster.kill(1);
    let (code, _, said) = unlucky.output();
    assert_eq!(code, Some(122), "{said}");
    assert!(said.contains(&cluster.api[1]), "{said}");
    cluster.kill(0);
    assert_eq!(held.code(), Some(121));
    expect_gone(&members);
    assert_eq!(lucky.output().0, Some(0));
    let names: Vec<String> = book.check(1).into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["first", "lucky"]);
    // The remaining node continues.
    assert_eq!(
        cluster.run(&home, 2, "gpu", 1).args(["--", "true"]).status().unwrap().code(),
        Some(0)
    );
    let status = text(&home.run(&["status", "--node", &cluster.api[2]]).stdout);
    assert!(status.contains("declared dead: node 0, 1"), "{status}");
}
