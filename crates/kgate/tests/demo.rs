//! `kgate demo` and `kgate bench cluster`: real node processes, checked.

mod common;

use common::{json, kgate, stderr, stdout};
use kgate_testkit::{TempFolder, wait_until};

fn number(report: &serde_json::Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("{field} of {report}"))
}

/// Three nodes of `slots` without faults: permits are granted, never more than k at once, and the
/// report has the fields that scripts need.
#[test]
fn three_nodes() {
    let report = json("demo --nodes 3 --seconds 3 --seed 0x2a --json");
    assert!(number(&report, "grants") > 10, "{report}");
    assert!((1..=2).contains(&number(&report, "max_in_use")), "{report}");
    assert_eq!((number(&report, "nodes"), number(&report, "k")), (3, 2));
    assert_eq!((number(&report, "kills"), number(&report, "restarts")), (0, 0));
    assert_eq!(
        (report["protocol"].as_str(), report["seed"].as_str()),
        (Some("slots"), Some("0x2a"))
    );
    assert_eq!(report["violations"], serde_json::json!([]));
    assert!(report["wait"]["p99_ms"].as_f64() >= report["wait"]["p50_ms"].as_f64(), "{report}");
}

/// As many nodes of `vcube` are killed as it tolerates, and the others continue; the saved history
/// gets the same verdict.
#[test]
fn killed_for_good() {
    let folder = TempFolder::new("demo-test");
    let trace = folder.join("run.ndjson");
    let output = kgate(&format!(
        "demo --nodes 4 --seconds 6 --chaos --protocol vcube --json --trace {}",
        trace.display()
    ));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(output.status.success(), "{report}");
    assert_eq!((number(&report, "kills"), number(&report, "restarts")), (2, 0));
    assert!(
        number(&report, "grants_after_last_kill") > 0,
        "no grants after the last kill: {report}"
    );
    let checked = json(&format!("trace check {} --json", trace.display()));
    assert_eq!(checked["grants"], report["grants"]);
}

/// Nodes of `slots` are killed and restarted as a new incarnation, when the lease of the earlier
/// one has expired.
#[test]
fn another_incarnation() {
    let report = json("demo --nodes 3 --seconds 8 --chaos --json");
    assert_eq!(report["errors"], serde_json::json!([]));
    assert_eq!(report["violations"], serde_json::json!([]));
    assert!(
        number(&report, "kills") > 0 && number(&report, "restarts") == number(&report, "kills"),
        "{report}"
    );
    assert!(
        number(&report, "grants_after_last_kill") > 0,
        "no grants after the last kill: {report}"
    );
}

/// The same with `home`: members and homes are killed and restarted, and the homes of their gates
/// move.
#[test]
fn homes_move() {
    let report = json("demo --nodes 3 --seconds 8 --chaos --protocol home --json");
    assert_eq!(report["errors"], serde_json::json!([]));
    assert_eq!(report["violations"], serde_json::json!([]));
    assert!(
        number(&report, "kills") > 0 && number(&report, "restarts") == number(&report, "kills"),
        "{report}"
    );
    assert!(
        number(&report, "grants_after_last_kill") > 0,
        "no grants after the last kill: {report}"
    );
}

/// Nodes of `tree-token` are killed and recover from stable storage.
#[test]
fn killed_and_recovered() {
    let report = json("demo --nodes 3 --seconds 6 --chaos --protocol tree-token --json");
    assert_eq!(report["errors"], serde_json::json!([]));
    assert_eq!(report["violations"], serde_json::json!([]));
    assert!(number(&report, "kills") >= 2 && number(&report, "restarts") >= 1, "{report}");
    assert!(number(&report, "grants_after_last_kill") > 0, "{report}");
}

/// Without a terminal the output is plain lines that end with the verdict.
#[test]
fn plain_lines() {
    let output = kgate("demo --nodes 1 -k 1 --clients 2 --seconds 1 --chaos");
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("no node is killed") && text.contains("verdict     PASS"), "{text}");
    assert!(!text.contains('\x1b'), "no colours or cursors: {text}");
}

/// Usage errors are detected before anything starts.
#[test]
fn usage_errors() {
    for (line, part) in [
        ("demo --protocol nonsense", "unknown protocol"),
        ("demo --nodes 0", "--nodes"),
        ("demo -k 0", "--k <K>"),
        ("demo --seconds 0", "--seconds"),
        ("bench cluster --protocol nonsense", "unknown protocol"),
        ("bench cluster --clients 1,x", "--clients"),
        ("bench", "Usage"),
    ] {
        let output = kgate(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(part), "{line}: {}", stderr(&output));
    }
}

/// A killed parent leaves no node and no file behind.
#[test]
fn nothing_is_left_behind() {
    let folder = TempFolder::new("demo-left");
    let mut demo = std::process::Command::new(env!("CARGO_BIN_EXE_kgate"))
        .args(["demo", "--nodes", "2", "--seconds", "60", "--json"])
        .env("TMPDIR", &*folder)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let entries = || std::fs::read_dir(&folder).expect("there").count();
    let logs = || {
        let inner = std::fs::read_dir(&folder).expect("there").flatten().next();
        inner.map_or(0, |inner| std::fs::read_dir(inner.path()).map_or(0, Iterator::count))
    };
    // Two configurations and two logs at least: both nodes were started.
    wait_until("the nodes to start", || logs() >= 4);
    demo.kill().expect("it runs");
    demo.wait().expect("it ends");
    wait_until("the nodes to clear away", || entries() == 0);
}

/// The bench measures, and checks the history.
#[test]
fn a_small_bench() {
    let report = json("bench cluster --nodes 2 -k 1,2 --clients 3 --seconds 1 --json");
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(number(row, "acquisitions") > 0 && number(row, "violations") == 0, "{row}");
        assert!(row["messages_per_acquisition"].as_f64() > Some(0.0), "{row}");
        assert!(row["jain"].as_f64() > Some(0.3), "{row}");
    }
    assert_eq!(number(&rows[0], "max_in_use"), 1);
}
