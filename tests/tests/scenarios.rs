//! Every scenario under `scenarios/` passes, and a wrong scenario is caught.

use std::fs;
use std::path::{Path, PathBuf};

use kgate_lab::scenario::{Outcome, RunError, run};
use kgate_protocols::registry;
use kgate_spec::Scenario;
use kgate_spec::history;

/// All scenarios, sorted, with their texts.
fn all() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios"), &mut files);
    files
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(&path).expect("a text")))
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("the directory scenarios/");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            files.push(path);
        }
    }
}

fn played(path: &Path, text: &str) -> Outcome {
    let scenario: Scenario =
        text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    run(&scenario).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Each scenario passes, is in canonical form, is correct with its repair, and names its source.
#[test]
fn every_scenario_passes() {
    let all = all();
    assert!(all.len() >= 4);
    for (path, text) in all {
        let (name, came) = (path.display(), played(&path, &text));
        assert_eq!(came.unexpected, None, "{name}");
        assert!(came.difference.is_empty(), "{name}:\n{}", came.difference.join("\n"));
        assert_eq!(
            came.scenario.to_string(),
            text,
            "{name}: not in canonical form: run kgate scenario --rewrite"
        );
        assert_eq!(text.parse::<Scenario>().expect("read before"), came.scenario, "{name}");
        let repaired = came.repaired.iter().flat_map(|repaired| &repaired.violations);
        assert_eq!(
            repaired.collect::<Vec<_>>(),
            Vec::<&kgate_spec::Violation>::new(),
            "{name}, repaired"
        );
        assert!(
            came.scenario.description.iter().any(|line| line.starts_with("Source: ")),
            "{name}: no line `Source: ..`"
        );
        assert!(came.passes());
    }
}

/// The independent oracle agrees with the simulator's checkers on the safety of each scenario over
/// messages.
#[test]
fn the_oracle_agrees() {
    for (path, text) in all() {
        let came = played(&path, &text);
        if came.scenario.model == kgate_spec::scenario::Model::Messages {
            let verdict = history::check(&came.trace[..]).expect("a trace");
            let unsafe_ = |violations: &[kgate_spec::Violation]| {
                violations.iter().any(|violation| violation.property == kgate_spec::AtMostK::NAME)
            };
            assert_eq!(
                unsafe_(&verdict.violations),
                unsafe_(&came.violations),
                "{}",
                path.display()
            );
        }
    }
}

/// The hash of a scenario is the same in every run.
#[test]
fn the_same_scenario_twice() {
    for (path, text) in all() {
        assert_eq!(played(&path, &text).hash, played(&path, &text).hash, "{}", path.display());
    }
}

fn text_of(of: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(of);
    fs::read_to_string(path).expect("a scenario")
}

fn changed(of: &str, from: &str, to: &str) -> Outcome {
    let text = text_of(of);
    assert!(text.contains(from), "{of} has no `{from}`");
    played(Path::new(of), &text.replacen(from, to, 1))
}

/// Planted errors: another effect of a step, another expectation, a defect without its repair.
#[test]
fn a_wrong_scenario_is_caught() {
    let wrong = changed("vcube/d1.txt", "    p1 acquires\n", "    p0 acquires\n");
    assert!(!wrong.passes());
    let difference = wrong.difference.join("\n");
    assert!(difference.contains("-    p0 acquires\n+    p1 acquires"), "{difference}");
    let wrong = changed(
        "vcube/d1.txt",
        "expect \"every request of a live process is granted\"",
        "expect correct",
    );
    assert!(
        !wrong.passes() && wrong.unexpected.is_some_and(|why| why.contains("expected correct"))
    );
    let wrong =
        changed("raymond/two-of-three.txt", "expect correct", "expect \"at most k slots in use\"");
    assert!(wrong.unexpected.is_some_and(|why| why.contains("no property was violated")));
    let wrong =
        changed("tree-token/r1.txt", "at most k slots in use", "no live process is suspected");
    assert!(wrong.unexpected.is_some_and(|why| why.contains("but only")));
}

/// Impossible scenarios are rejected: an impossible step with its line and the possible steps, an
/// invalid state, an unknown protocol.
#[test]
fn impossible_scenarios_are_rejected() {
    let rejected = |of: &str, from: &str, to: &str| {
        let text = text_of(of);
        assert!(text.contains(from), "{of} has no `{from}`");
        run(&text.replacen(from, to, 1).parse().expect("a scenario"))
            .map(drop)
            .expect_err("not possible")
    };
    let RunError::Step { line, error } =
        rejected("vcube/d1.txt", "\np0 -> p1: reply\n", "\np0 -> p1: token\n")
    else {
        panic!("a step");
    };
    assert_eq!(text_of("vcube/d1.txt").lines().nth(line - 1), Some("p0 -> p1: reply"));
    assert!(error.possible.contains(&"p0 -> p1: reply".to_owned()), "{error}");
    let text = |failed: RunError| failed.to_string();
    assert!(
        text(rejected("vcube/d1.txt", "protocol vcube", "protocol cube")).contains("choose one of")
    );
    assert!(
        text(rejected("vcube/d1.txt", "as-printed D1", "as-printed D6"))
            .contains("not a published defect of vcube")
    );
    assert!(text(rejected("vcube/d1.txt", "\nk 1", "\nk 2")).contains("nothing is excluded"));
    assert!(
        text(rejected("vcube/d1.txt", "\nk 1", "\nk 1\ntolerate 1"))
            .contains("leave out `tolerate`")
    );
    assert!(
        text(rejected("vcube/d1.txt", "\nk 1", "\nk 1\ngraph path")).contains("leave out `graph`")
    );
    assert!(
        text(rejected("tree-token/r1.txt", "graph path", "graph 0-x"))
            .contains("write edges such as")
    );
    let state = |state: &str| {
        text(rejected("stabilizing/c1.txt", "as-printed", &format!("state {state}\nas-printed")))
    };
    assert!(state("p1 T=R S=- P=- L=1").contains("is not a state of p1"));
    assert!(state("p4 T=C S=- P=- L=1").contains("p4 does not exist"));
    let moves = text(rejected("stabilizing/c1.txt", "\nall move\n", "\np2 moves\n"));
    assert!(moves.contains("p2 is not enabled") && moves.contains("p0(a1) moves"), "{moves}");
}

/// Each scenario is in the directory of its protocol.
#[test]
fn folders_are_protocols() {
    for (path, text) in all() {
        let scenario: Scenario = text.parse().expect("a scenario");
        let folder = path.parent().and_then(Path::file_name).expect("a folder");
        assert_eq!(folder.to_string_lossy(), scenario.protocol, "{}", path.display());
        assert!(registry::entry(&scenario.protocol).is_ok());
    }
}

/// Many processes need many steps before the first grant; this is not mistaken for a deadlock.
#[test]
fn many_steps_are_no_deadlock() {
    let requests: String = (0..120).map(|node| format!("p{node} requests\n")).collect();
    let text = format!("protocol raymond\nprocesses 120\nk 1\nexpect correct\n\n{requests}");
    let came = run(&text.parse().expect("a scenario")).expect("played");
    assert_eq!(came.unexpected, None);
    assert!(
        came.violations.is_empty()
            && came.scenario.end.last().is_some_and(|end| end.starts_with("quiescent"))
    );
}

/// Errors about headers name headers, not options of the command line.
#[test]
fn header_errors_name_headers() {
    for (header, says) in [
        ("timer-free\nprocesses 4\nk 2\ntolerate 9", "`tolerate 9` with `k 2`"),
        (
            "stabilizing\nprocesses 2\nk 1\nmodel state\nstate p4 T=C S=- P=- L=1",
            "p4 does not exist",
        ),
    ] {
        let text = format!("protocol {header}\nexpect correct\n\n");
        let error =
            run(&text.parse().expect("a scenario")).map(drop).expect_err("rejected").to_string();
        assert!(
            error.contains(says) && !error.contains("--") && !error.contains("corrupted"),
            "{error}"
        );
    }
}
