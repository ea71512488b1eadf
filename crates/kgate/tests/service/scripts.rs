//! Scripts: `kgate acquire` bound to a process or to time, and evictions of single holders.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::book::Book;
use crate::cluster::{Cluster, TIMING};
use crate::fixture::{Home, KGATE, Process, expect_gone, family, text, until, wait_for};

/// Issue 19.5: a script that is killed frees its permit, as it does with `flock`. By default that
/// is the process that calls `kgate acquire`, with `--for-pid` any other.
#[test]
fn a_killed_script_leaves_no_permit() {
    let home = Home::new("script-killed");
    for more in ["", "--for-pid $$"] {
        // With something after it in the subshell, that is the caller: --for-pid names the script.
        let after = if more.is_empty() { "" } else { "; true" };
        let script = format!(
            "token=$({KGATE} acquire gpu -k 1 {more}{after}) && echo $token && exec sleep 1000"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdout(Stdio::piped()).stdin(Stdio::null());
        for (name, value) in home.kgate(&[]).get_envs() {
            value.map(|value| command.env(name, value));
        }
        let mut script = Process::start(&mut command);
        let free = || home.code(&["run", "gpu", "-n", "--", "true"]);
        until("the script holds", || free() == Some(120));
        until("the script sleeps", || {
            fs::read_to_string(format!("/proc/{}/comm", script.pid().as_raw_nonzero()))
                .is_ok_and(|name| name.trim() == "sleep")
        });
        assert_eq!(free(), Some(120), "it is alive");
        script.send(Signal::KILL);
        let (_, token, _) = script.output();
        until("the permit is free", || free() == Some(0));
        assert_eq!(home.code(&["release", &token]), Some(121));
    }
}

/// A script in this shell, with `{acquire}` for `kgate acquire gpu -k 1`. It prints `got` and reads
/// a line when it has the permit.
fn script(home: &Home, shell: &str, text: &str) -> Process {
    let text = text.replace("{acquire}", &format!("{KGATE} acquire gpu -k 1"));
    let mut command = Command::new(shell);
    command.args(["-c", &text]).current_dir(&home.0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    for (name, value) in home.kgate(&[]).get_envs() {
        value.map(|value| command.env(name, value));
    }
    Process::start(&mut command)
}

/// The first line of its output.
fn first_line(script: &mut Process) -> String {
    let mut line = String::new();
    let output = script.0.stdout.as_mut().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("text");
    line.trim().to_owned()
}

/// Issue 19.5: the permit belongs to the script that reads the token, whatever stands between the
/// two. Many shells start a copy of themselves for `$(..)`, which ends at once.
#[test]
fn the_script_that_reads_the_token_is_the_caller() {
    let home = Home::new("script-reads");
    let free = || home.code(&["run", "gpu", "-n", "--", "true"]);
    for shell in ["bash", "sh"] {
        for acquire in [
            "{acquire}",
            "{acquire} 2>>errors",
            "{acquire} || echo failed",
            "true; {acquire}; true",
            "timeout 60 {acquire}",
            "{acquire} | cat",
        ] {
            let text = format!("f() {{ token=$({acquire}); }}; f; echo got; read line");
            let mut script = script(&home, shell, &text);
            assert_eq!(first_line(&mut script), "got");
            // What was bound to a process that has ended would be free after some milliseconds.
            for _ in 0..3 {
                assert_eq!(free(), Some(120), "{shell}: {acquire}");
            }
            script.send(Signal::KILL);
            until("the permit is free", || free() == Some(0));
        }
    }
}

/// A subshell whose output the script does not read is a caller of its own: its end releases the
/// permit, and that of the script does not.
#[test]
fn a_subshell_in_the_background_is_a_caller() {
    let home = Home::new("script-subshell");
    let free = || home.code(&["run", "gpu", "-n", "--", "true"]);
    let text = "( token=$({acquire}); echo $BASHPID; exec 1>&-; sleep 1000 ) & wait";
    let mut script = script(&home, "bash", text);
    let subshell = first_line(&mut script).parse().ok().and_then(Pid::from_raw).expect("its id");
    script.send(Signal::KILL);
    script.code();
    for _ in 0..3 {
        assert_eq!(free(), Some(120), "the subshell is alive");
    }
    for process in family(subshell) {
        kill_process(process, Signal::KILL).expect("it is there");
    }
    until("the permit is free", || free() == Some(0));
}

/// A permit can be bound to no process. A process that does not exist is refused, and nothing is
/// acquired.
#[test]
fn a_permit_bound_to_no_process() {
    let home = Home::new("script-none");
    let mut process = Process::start(Command::new("true").stdin(Stdio::null()));
    let pid = process.pid().as_raw_nonzero().to_string();
    process.code();
    for wrong in [pid.as_str(), "0", "-1", "self"] {
        let (code, out, said) = home.said(&["acquire", "gpu", &format!("--for-pid={wrong}")]);
        assert!(code == Some(2) && out.is_empty() && said.contains(wrong), "{code:?} {said}");
    }
    let script = format!("{KGATE} acquire gpu --for-pid none; true");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::null());
    for (name, value) in home.kgate(&[]).get_envs() {
        value.map(|value| command.env(name, value));
    }
    let token = text(&command.output().unwrap().stdout);
    assert_eq!(home.code(&["run", "gpu", "-n", "--", "true"]), Some(120), "the script has ended");
    assert_eq!(home.code(&["renew", &token]), Some(0), "without effect");
    assert_eq!(home.code(&["release", &token]), Some(0));
    assert_eq!(home.code(&["run", "gpu", "-n", "--", "true"]), Some(0));
}

/// `--ttl` without a cluster: the permit ends by time unless it is renewed, outlives the script,
/// and is released as any other. `--policy hold` needs a cluster.
#[test]
fn a_time_to_live_on_one_machine() {
    let home = Home::new("script-ttl");
    let free = || home.code(&["run", "gpu", "-n", "--", "true"]);
    let (code, held, said) = home.said(&["acquire", "gpu", "-k", "1", "--ttl", "1h", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let held: serde_json::Value = serde_json::from_str(&held).unwrap();
    assert_eq!(held["ttl_ms"], 3_600_000, "{held}");
    let token = held["token"].as_str().unwrap();
    let (code, _, said) = home.said(&["renew", token]);
    assert!(code == Some(0) && said.contains("3600s"), "{said}");
    assert_eq!(free(), Some(120));
    assert_eq!(home.code(&["release", token]), Some(0));
    assert_eq!(home.code(&["renew", token]), Some(121));

    let (_, token, _) = home.said(&["acquire", "gpu", "--ttl", "1s"]);
    until("its time is over", || free() == Some(0));
    assert_eq!(home.code(&["renew", &token]), Some(121));
    for wrong in ["0", "999ms", "400d"] {
        assert_eq!(home.code(&["acquire", "gpu", "--ttl", wrong]), Some(2), "{wrong}");
    }
    let (code, _, said) = home.said(&["acquire", "gpu", "--policy", "hold"]);
    assert!(code == Some(2) && said.contains("agreed log"), "{said}");
    assert_eq!(free(), Some(0), "nothing was acquired");
}

/// Evicts a holder with descendants that ignore SIGTERM, one of them in a session of its own.
/// Returns when the tree is dead and the slot is free: the next one is granted at once.
fn evicted(home: &Home, book: &Book, node: &[&str], evict: &[&str]) {
    let command = home.kgate(&[&["run", "gpu", "-k", "2", "--grace", "200ms"], node].concat());
    let wild = "trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &";
    let name = format!("holder-{}", evict.join(""));
    let mut held = book.hold(command, &name, wild);
    let tree: Vec<Pid> = family(held.pid());
    let session = || {
        let status = text(&home.run(&[&["status", "gpu"], node].concat()).stdout);
        let of_slot = status.lines().find(|line| line.trim().starts_with("slot 0"))?;
        let (_, rest) = of_slot.split_once("session ")?;
        Some(rest.split_whitespace().next()?.to_owned())
    };
    let session = wait_for("the holder is shown", session);
    let evict: Vec<&str> =
        evict.iter().map(|word| if *word == "SESSION" { &session } else { *word }).collect();
    let (code, _, said) = home.said(&[&["evict"], evict.as_slice(), node].concat());
    assert!(code == Some(2) && said.contains("--yes"), "not confirmed: {said}");
    let (code, _, said) = home.said(&[&["evict", "--yes"], evict.as_slice(), node].concat());
    assert!(code == Some(0) && said.contains("slot 0 of gate gpu"), "{code:?} {said}");
    expect_gone(&tree[2..]);
    let next = home.kgate(&[&["run", "gpu", "-n"], node].concat());
    let mut next = book.inside(next, "next", "");
    assert_eq!(next.status().unwrap().code(), Some(0), "free as soon as evict returns");
    assert_eq!(held.code(), Some(121));
    let (code, _, said) = home.said(&[&["evict", "--yes"], evict.as_slice(), node].concat());
    assert_eq!(code, Some(1), "{said}");
}

/// Issue 19.5: a single holder of a local node is evicted by slot, by gate, and by session.
#[test]
fn a_holder_of_a_local_node_is_evicted() {
    let home = Home::new("evict-local");
    let book = Book::new(&home, "gpu");
    for evict in [["--gate", "gpu"].as_slice(), &["--gate", "gpu", "--slot", "0"]] {
        evicted(&home, &book, &[], evict);
    }
    evicted(&home, &book, &[], &["--session", "SESSION"]);
    let _one = book.hold(home.kgate(&["run", "gpu"]), "one", "");
    let _two = book.hold(home.kgate(&["run", "gpu"]), "two", "");
    let (code, _, said) = home.said(&["evict", "--gate", "gpu", "--yes"]);
    assert!(code == Some(2) && said.contains("slot 0") && said.contains("slot 1"), "{said}");
    book.check(2);
}

/// The same in a cluster with leases, by way of another node than the holder's.
#[test]
fn a_holder_of_a_cluster_is_evicted() {
    let home = Home::new("evict-cluster");
    let cluster = Cluster::start_leased(&home, 2, TIMING);
    let book = Book::new(&home, "gpu");
    let mut held = book.hold(
        home.kgate(&["run", "gpu", "-k", "1", "--grace", "100ms", "--node", &cluster.api[1]]),
        "elsewhere",
        "",
    );
    let evict = ["evict", "--gate", "gpu", "--slot", "0", "--yes", "--node", &cluster.api[0]];
    let (code, _, said) =
        wait_for("its node is heard", || Some(home.said(&evict)).filter(|said| said.0 != Some(1)));
    assert!(code == Some(0) && said.contains("held at node 1"), "{code:?} {said}");
    assert_eq!(held.code(), Some(121));
    let next = home.kgate(&["run", "gpu", "-n", "--node", &cluster.api[0]]);
    until("the slot is free", || {
        let mut next = home.kgate(&["run", "gpu", "-n", "--node", &cluster.api[0]]);
        next.args(["--", "true"]).status().unwrap().code() == Some(0)
    });
    assert_eq!(book.inside(next, "next", "").status().unwrap().code(), Some(0));
    book.check(1);
}

/// A frozen `kgate run` on one machine does not stop, so its slot is not given away: the eviction
/// says so, and holds as soon as it wakes.
#[test]
fn a_frozen_holder_keeps_its_slot_until_it_stops() {
    let home = Home::new("evict-frozen");
    let book = Book::new(&home, "gpu");
    let mut held = book.hold(home.kgate(&["run", "gpu", "-k", "1"]), "frozen", "");
    let guard = held.guard();
    kill_process(guard, Signal::STOP).unwrap();
    let mut evict =
        Process::start(home.kgate(&["evict", "--gate", "gpu", "--yes"]).stderr(Stdio::piped()));
    assert_eq!(home.code(&["run", "gpu", "-w", "1s", "--", "true"]), Some(120), "not free");
    assert!(evict.0.try_wait().unwrap().is_none(), "it waits");
    kill_process(guard, Signal::CONT).unwrap();
    assert_eq!(evict.code(), Some(0));
    assert_eq!(held.code(), Some(121));
    assert_eq!(home.code(&["run", "gpu", "-n", "--", "true"]), Some(0));
    book.check(1);
}
