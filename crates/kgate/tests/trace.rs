//! `kgate trace FILE` and `kgate sim --diagram`, as one types them.

use std::process::{Command, Output};

use kgate_testkit::TempFolder;

fn kgate(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kgate"))
        .args(line.split_whitespace())
        .output()
        .expect("kgate runs")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Every form of one trace, by file and by standard output, and `kgate trace check`; the diagram of
/// the simulator is that of its trace.
#[test]
fn a_trace_in_every_form() {
    let folder = TempFolder::new("trace-forms");
    let path = |name: &str| folder.join(name).display().to_string();
    let (trace, diagram) = (path("run.ndjson"), path("run.svg"));
    let sim = "sim --protocol raymond -n 4 -k 2 --load high --hold 1 --duration 10";
    let output = kgate(&format!("{sim} --trace {trace} --diagram {diagram} --window 2..6"));
    assert!(output.status.success(), "{}", said(&output.stderr));
    let drawn = std::fs::read_to_string(&diagram).expect("a diagram");
    let again = kgate(&format!("trace {trace} --as svg --window 2..6"));
    let again = said(&again.stdout);
    let arrows = |svg: &str| svg.matches("class=\"message\"").count();
    assert!(arrows(&drawn) > 10 && arrows(&drawn) == arrows(&again), "{again}");
    let text = said(&kgate(&format!("trace {trace} --processes 0")).stdout);
    assert!(
        text.lines().skip(1).all(|line| line.contains("  p0  ")) && text.contains("acquires"),
        "{text}"
    );
    let log = said(&kgate(&format!("trace {trace} --as shiviz --show 0..3")).stdout);
    assert!(log.starts_with("(?<host>"), "{log}");
    let out = path("run.json");
    assert!(kgate(&format!("trace {trace} --as perfetto --out {out}")).status.success());
    let chrome: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&out).expect("a file")).expect("JSON");
    assert!(chrome["traceEvents"].as_array().is_some_and(|events| events.len() > 50));
    assert!(kgate(&format!("trace check {trace}")).status.success());
}

/// Impossible options, and runs that do not fit, exit with 2, say what to do, and leave files as
/// they are.
#[test]
fn usage_errors() {
    let folder = TempFolder::new("trace-refused");
    let path = |name: &str| folder.join(name).display().to_string();
    let (trace, old) = (path("run.ndjson"), path("old.svg"));
    assert!(kgate(&format!("sim --trace {trace} --duration 200")).status.success());
    std::fs::write(&old, "old").expect("a file");
    for (line, part) in [
        (format!("trace {trace} --as svg --out {old}"), "--window 0.."),
        (format!("sim --duration 200 --diagram {old}"), "--window 0.."),
        (format!("sim -n 100 --duration 5 --diagram {old}"), "--show 0..15"),
        (format!("trace {trace} --as text --out {trace}"), "is the trace itself"),
        (format!("trace {trace} --show 99"), "0..15"),
        (format!("sim --trace {old} --diagram {old}"), "a file of its own"),
        ("trace nosuchfile --as svg".into(), "cannot read the trace"),
        ("trace".into(), "FILE"),
        ("sim --window 1..2".into(), "--diagram"),
        ("sim --runs 2 --diagram x.svg".into(), "--diagram records one run"),
        (format!("sim --protocol stabilizing --model state --diagram {old}"), "kgate scenario"),
    ] {
        let output = kgate(&line);
        let text = said(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(text.contains(part), "{line}: {text}");
    }
    assert_eq!(std::fs::read_to_string(&old).expect("a file"), "old");
}
