//! Durable permits through the command line: no process holds them, any node renews and releases
//! them, and they end by time or by an operator.

use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use kgate_client::LeaseInstant;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::cluster::{Cluster, TIMING};
use crate::fixture::{Home, text, wait_for};

/// A cluster of three nodes with leases.
struct Fixture {
    cluster: Cluster,
    // Dropped last: the nodes write into it.
    home: Home,
}

type Said = (Option<i32>, String, String);

impl Fixture {
    fn new(name: &str) -> Self {
        let home = Home::new(name);
        Self { cluster: Cluster::start_leased(&home, 3, TIMING), home }
    }

    /// Runs a command at a node.
    fn at(&self, node: usize, words: &[&str]) -> Said {
        self.home.said(&[words, &["--node", &self.cluster.api[node]]].concat())
    }

    /// Acquires a permit of `job` and returns it as JSON.
    fn acquire(&self, node: usize, words: &[&str]) -> Value {
        let (code, out, said) = self.at(node, &[&["acquire", "job", "--json"], words].concat());
        assert_eq!(code, Some(0), "{said}");
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON: {out}"))
    }

    /// The status of `job` at a node, without the fields that change with time.
    fn job(&self, node: usize) -> Value {
        let (code, out, said) = self.at(node, &["status", "job", "--json"]);
        assert_eq!(code, Some(0), "{said}");
        let status: Value = serde_json::from_str(&out).expect("JSON");
        let mut job = status["gates"][0].clone();
        for held in job["durable_permits"].as_array_mut().expect("a list") {
            let held = held.as_object_mut().expect("an object");
            held.remove("age_ms");
            held.remove("ttl_left_ms");
        }
        job
    }

    /// Waits until a node shows the expected status: the log reaches each node at its own time.
    fn until_job(&self, node: usize, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, || Some(self.job(node)).filter(&is_so))
    }
}

fn token(permit: &Value) -> &str {
    permit["token"].as_str().expect("a token")
}

fn number(permit: &Value) -> String {
    permit["permit_id"].as_u64().expect("a number").to_string()
}

fn holds(job: &Value, permit: &Value) -> bool {
    job["durable_permits"]
        .as_array()
        .is_some_and(|held| held.iter().any(|held| held["permit_id"] == permit["permit_id"]))
}

/// LEASES section 8: acquired at one node, shown at all, renewed and released at others. A renewal
/// that is too late exits with 121, and the next holder has the slot with a greater fence.
#[test]
fn acquired_renewed_and_released_at_different_nodes() {
    let fixture = Fixture::new("held-incarnation");
    let first = fixture.acquire(0, &["-k", "1", "--ttl", "1h"]);
    let shown = (&first["gate"], &first["slots"], &first["k"], &first["ttl_ms"], &first["node"]);
    assert_eq!(shown, (&json!("job"), &json!([0]), &json!(1), &json!(3_600_000), &json!(0)));
    for node in 0..3 {
        let job = fixture.until_job(node, "it is shown", |job| holds(job, &first));
        let held = &job["durable_permits"][0];
        assert_eq!(
            (&held["slots"], &held["fence"], &held["ttl_ms"]),
            (&json!([0]), &first["fence"], &json!(3_600_000))
        );
        let (_, table, _) = fixture.at(node, &["status", "job"]);
        assert!(table.contains(&format!("durable permit {} of", number(&first))), "{table}");
    }
    assert_eq!(fixture.at(1, &["acquire", "job", "--ttl", "1h", "-n"]).0, Some(120));
    assert_eq!(
        fixture.at(2, &["acquire", "job", "--ttl", "1h", "-w", "100ms", "-E", "9"]).0,
        Some(9)
    );
    let (code, _, said) = fixture.at(1, &["renew", token(&first)]);
    assert_eq!(code, Some(0), "{said}");
    for again in [false, true] {
        let (code, _, said) = fixture.at(2, &["release", token(&first)]);
        assert_eq!((code, said.contains("warning")), (Some(0), again), "{said}");
    }
    let (code, _, said) = fixture.at(1, &["renew", token(&first)]);
    assert_eq!(code, Some(121), "{said}");
    let next = fixture.acquire(2, &["--ttl", "1h"]);
    assert!(next["fence"].as_str() > first["fence"].as_str(), "{next} after {first}");
}

/// A time to live that is not renewed ends the permit, never early, and a client that waits at
/// another node gets the slot.
#[test]
fn time_runs_out() {
    let fixture = Fixture::new("held-time");
    let sent = LeaseInstant::now();
    let first = fixture.acquire(0, &["-k", "1", "--ttl", "2s"]);
    let next = fixture.acquire(1, &["--ttl", "1h"]);
    let lasted = LeaseInstant::now().after(sent);
    assert!(lasted >= Duration::from_secs(2), "taken away after {lasted:?}");
    assert!(next["fence"].as_str() > first["fence"].as_str(), "{next} after {first}");
    assert_eq!(fixture.at(2, &["renew", token(&first)]).0, Some(121));
    let (code, _, said) = fixture.at(2, &["release", token(&first)]);
    assert!(code == Some(0) && said.contains("warning"), "{code:?} {said}");
    assert_eq!(fixture.at(2, &["renew", token(&next)]).0, Some(0));
}

/// An operator evicts a permit after a confirmation. A gate with policy hold grants permits without
/// a time to live, and none to `kgate run`.
#[test]
fn operators() {
    let fixture = Fixture::new("held-operators");
    let first = fixture.acquire(0, &["-k", "1", "--ttl", "1h"]);
    let evict = ["evict", "--permit", &number(&first)];
    let (code, _, said) = fixture.at(1, &evict);
    assert!(code == Some(2) && said.contains("--yes"), "{code:?} {said}");
    let (code, said) = answered(&fixture, &evict, "n\n");
    assert_eq!(code, Some(1), "{said}");
    assert!(holds(&fixture.job(0), &first));
    let (code, said) = answered(&fixture, &evict, "y\n");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fixture.at(2, &["renew", token(&first)]).0, Some(121));
    assert_eq!(fixture.at(0, &["evict", "--gate", "job", "--yes"]).0, Some(1), "nothing is left");

    let (code, _, said) = fixture.at(1, &["set", "job", "--policy", "hold", "--wait", "30s"]);
    assert_eq!(code, Some(0), "{said}");
    fixture.until_job(2, "the policy is known", |job| job["policy"] == "hold");
    let endless = fixture.acquire(2, &["--policy", "hold"]);
    assert_eq!(endless["ttl"], Value::Null);
    let (_, table, _) = fixture.at(2, &["status", "job"]);
    assert!(table.contains("no ttl"), "{table}");
    let run = ["run", "job", "-n", "--node", &fixture.cluster.api[2], "--", "true"];
    let (code, _, said) = fixture.home.said(&run);
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(fixture.at(0, &["evict", "--gate", "job", "--slot", "0", "--yes"]).0, Some(0));
    let next = fixture.acquire(1, &["--policy", "hold"]);
    assert_eq!(fixture.at(0, &["release", token(&next)]).0, Some(0));
}

/// Runs a command at node 1 from a terminal at which somebody types `keys`.
fn answered(fixture: &Fixture, words: &[&str], keys: &str) -> (Option<i32>, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    grantpt(&terminal).expect("granted");
    unlockpt(&terminal).expect("unlocked");
    let name = ptsname(&terminal, Vec::new()).expect("its name").into_string().expect("plain");
    let side = File::options().read(true).write(true).open(&name).expect("its other side");
    File::from(terminal.try_clone().expect("a copy")).write_all(keys.as_bytes()).expect("typed");
    let mut command = fixture.home.kgate(&[words, &["--node", &fixture.cluster.api[1]]].concat());
    let output = command.stdin(side).stdout(Stdio::null()).output().expect("it runs");
    (output.status.code(), text(&output.stderr))
}

/// Invalid input is refused with a message and the exit code of its kind, and changes nothing.
#[test]
fn bad_input_changes_nothing() {
    let fixture = Fixture::new("held-bad-input");
    let first = fixture.acquire(0, &["-k", "1", "--ttl", "1h"]);
    let before = fixture.until_job(1, "it is shown", |job| holds(job, &first));
    let secret = "1".repeat(32);
    let (wrong, none) =
        (format!("permit-{}-{secret}", number(&first)), format!("permit-999999-{secret}"));
    let table: &[(&[&str], i32)] = &[
        (&["acquire", "job", "--ttl", "0"], 2),
        (&["acquire", "job", "--ttl", "999ms"], 2),
        (&["acquire", "job", "--ttl", "400d"], 2),
        (&["acquire", "job", "--ttl", "soon"], 2),
        (&["acquire", "job", "--ttl", "1h", "-p", "2"], 2),
        (&["acquire", "job", "--ttl", "1h", "-k", "7"], 123),
        (&["acquire", "job", "--policy", "hold"], 123),
        (&["acquire", "job", "--policy", "keep"], 2),
        (&["renew", "nonsense"], 2),
        (&["renew", &secret], 121),
        (&["renew", &wrong], 125),
        (&["renew", &none], 121),
        (&["release", "permit-1-short"], 2),
        (&["release", &wrong], 125),
        (&["evict", "--permit", "999999", "--yes"], 1),
        (&["evict", "--permit", "first", "--yes"], 2),
        (&["evict", "--gate", "none", "--yes"], 1),
        (&["evict", "--gate", "job", "--slot", "3", "--yes"], 1),
        (&["evict", "1", "--permit", &number(&first), "--yes"], 2),
        (&["evict", "--yes"], 2),
        (&["set", "none", "--policy", "hold"], 1),
        (&["set", "job", "--policy", "keep"], 2),
        (&["set", "job"], 2),
        (&["status", "none"], 1),
    ];
    for (words, code) in table {
        let (got, out, said) = fixture.at(1, words);
        assert!(
            got == Some(*code) && !said.is_empty() && out.is_empty(),
            "{words:?}: {got:?} {said}"
        );
    }
    assert_eq!(fixture.job(1), before);
    let dead = ["acquire", "job", "--ttl", "1h", "--node", "127.0.0.1:1"];
    assert_eq!(fixture.home.code(&dead), Some(122));
    assert_eq!(fixture.at(2, &["release", token(&first)]).0, Some(0), "its holder still has it");
}
