//! Permits that the log holds, by the command line: no process keeps them, any node renews them and
//! takes them back, time or an operator ends them.

use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use kgate_client::LeaseInstant;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::cluster::{Cluster, TIMING};
use crate::scene::{Home, text, wait_for};

struct Scene {
    cluster: Cluster,
    // Goes last: the nodes write into it.
    home: Home,
}

type Said = (Option<i32>, String, String);

impl Scene {
    fn new(name: &str) -> Self {
        let home = Home::new(name);
        Self { cluster: Cluster::start_leased(&home, 3, TIMING), home }
    }

    /// A command, at that node.
    fn at(&self, node: usize, words: &[&str]) -> Said {
        self.home.said(&[words, &["--node", &self.cluster.api[node]]].concat())
    }

    /// A permit of `job`, as JSON.
    fn acquire(&self, node: usize, words: &[&str]) -> Value {
        let (code, out, said) = self.at(node, &[&["acquire", "job", "--json"], words].concat());
        assert_eq!(code, Some(0), "{said}");
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON: {out}"))
    }

    /// `job` as that node shows it, without what changes by itself.
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

    /// Waits until that node has heard of it: the log reaches each node in its own time.
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

/// LEASES section 8: taken at one node, shown at all, renewed and given back at others; who is too
/// late is told 121, and the next one has the slot under a greater fence.
#[test]
fn taken_renewed_and_given_back_at_different_nodes() {
    let scene = Scene::new("held-incarnation");
    let first = scene.acquire(0, &["-k", "1", "--ttl", "1h"]);
    let shown = (&first["gate"], &first["slots"], &first["k"], &first["ttl_ms"], &first["node"]);
    assert_eq!(shown, (&json!("job"), &json!([0]), &json!(1), &json!(3_600_000), &json!(0)));
    for node in 0..3 {
        let job = scene.until_job(node, "it is shown", |job| holds(job, &first));
        let held = &job["durable_permits"][0];
        assert_eq!(
            (&held["slots"], &held["fence"], &held["ttl_ms"]),
            (&json!([0]), &first["fence"], &json!(3_600_000))
        );
        let (_, table, _) = scene.at(node, &["status", "job"]);
        assert!(table.contains(&format!("durable permit {} of", number(&first))), "{table}");
    }
    assert_eq!(scene.at(1, &["acquire", "job", "--ttl", "1h", "-n"]).0, Some(120));
    assert_eq!(
        scene.at(2, &["acquire", "job", "--ttl", "1h", "-w", "100ms", "-E", "9"]).0,
        Some(9)
    );
    let (code, _, said) = scene.at(1, &["renew", token(&first)]);
    assert_eq!(code, Some(0), "{said}");
    for again in [false, true] {
        let (code, _, said) = scene.at(2, &["release", token(&first)]);
        assert_eq!((code, said.contains("warning")), (Some(0), again), "{said}");
    }
    let (code, _, said) = scene.at(1, &["renew", token(&first)]);
    assert_eq!(code, Some(121), "{said}");
    let next = scene.acquire(2, &["--ttl", "1h"]);
    assert!(next["fence"].as_str() > first["fence"].as_str(), "{next} after {first}");
}

/// A time to live that nobody renews ends the permit, not early, and whoever waits at another node
/// has the slot.
#[test]
fn time_runs_out() {
    let scene = Scene::new("held-time");
    let sent = LeaseInstant::now();
    let first = scene.acquire(0, &["-k", "1", "--ttl", "2s"]);
    let next = scene.acquire(1, &["--ttl", "1h"]);
    let lasted = LeaseInstant::now().after(sent);
    assert!(lasted >= Duration::from_secs(2), "taken away after {lasted:?}");
    assert!(next["fence"].as_str() > first["fence"].as_str(), "{next} after {first}");
    assert_eq!(scene.at(2, &["renew", token(&first)]).0, Some(121));
    let (code, _, said) = scene.at(2, &["release", token(&first)]);
    assert!(code == Some(0) && said.contains("warning"), "{code:?} {said}");
    assert_eq!(scene.at(2, &["renew", token(&next)]).0, Some(0));
}

/// An operator takes one back, when somebody has said that it is meant; a gate of policy hold gives
/// permits without an end, and none to `kgate run`.
#[test]
fn operators() {
    let scene = Scene::new("held-operators");
    let first = scene.acquire(0, &["-k", "1", "--ttl", "1h"]);
    let evict = ["evict", "--permit", &number(&first)];
    let (code, _, said) = scene.at(1, &evict);
    assert!(code == Some(2) && said.contains("--yes"), "{code:?} {said}");
    let (code, said) = answered(&scene, &evict, "n\n");
    assert_eq!(code, Some(1), "{said}");
    assert!(holds(&scene.job(0), &first));
    let (code, said) = answered(&scene, &evict, "y\n");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(scene.at(2, &["renew", token(&first)]).0, Some(121));
    assert_eq!(scene.at(0, &["evict", "--gate", "job", "--yes"]).0, Some(1), "nothing is left");

    let (code, _, said) = scene.at(1, &["set", "job", "--policy", "hold", "--wait", "30s"]);
    assert_eq!(code, Some(0), "{said}");
    scene.until_job(2, "the policy is known", |job| job["policy"] == "hold");
    let endless = scene.acquire(2, &["--policy", "hold"]);
    assert_eq!(endless["ttl"], Value::Null);
    let (_, table, _) = scene.at(2, &["status", "job"]);
    assert!(table.contains("no ttl"), "{table}");
    let run = ["run", "job", "-n", "--node", &scene.cluster.api[2], "--", "true"];
    let (code, _, said) = scene.home.said(&run);
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(scene.at(0, &["evict", "--gate", "job", "--slot", "0", "--yes"]).0, Some(0));
    let next = scene.acquire(1, &["--policy", "hold"]);
    assert_eq!(scene.at(0, &["release", token(&next)]).0, Some(0));
}

/// A command at node 1 by somebody who sits at a terminal and types that.
fn answered(scene: &Scene, words: &[&str], keys: &str) -> (Option<i32>, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    grantpt(&terminal).expect("granted");
    unlockpt(&terminal).expect("unlocked");
    let name = ptsname(&terminal, Vec::new()).expect("its name").into_string().expect("plain");
    let side = File::options().read(true).write(true).open(&name).expect("its other side");
    File::from(terminal.try_clone().expect("a copy")).write_all(keys.as_bytes()).expect("typed");
    let mut command = scene.home.kgate(&[words, &["--node", &scene.cluster.api[1]]].concat());
    let output = command.stdin(side).stdout(Stdio::null()).output().expect("it runs");
    (output.status.code(), text(&output.stderr))
}

/// Invalid input is refused with a message and the exit code of its kind, and changes nothing.
#[test]
fn bad_input_changes_nothing() {
    let scene = Scene::new("held-bad-input");
    let first = scene.acquire(0, &["-k", "1", "--ttl", "1h"]);
    let before = scene.until_job(1, "it is shown", |job| holds(job, &first));
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
        (&["renew", &secret], 2),
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
        let (got, out, said) = scene.at(1, words);
        assert!(
            got == Some(*code) && !said.is_empty() && out.is_empty(),
            "{words:?}: {got:?} {said}"
        );
    }
    assert_eq!(scene.job(1), before);
    let dead = ["acquire", "job", "--ttl", "1h", "--node", "127.0.0.1:1"];
    assert_eq!(scene.home.code(&dead), Some(122));
    assert_eq!(scene.at(2, &["release", token(&first)]).0, Some(0), "its holder still has it");
}
