//! Experiments that are interrupted, changed and repeated.

use std::sync::atomic::{AtomicUsize, Ordering};

use kgate_testkit::TempFolder;

use super::{files, flags, options, run_in, runner, small};
use crate::experiment::run::{Options, Shard, run};
use crate::experiment::store::{RUNS, Store};
use crate::experiment::{Experiment, Ran, StoreError, Taken};

/// Wherever the file of runs is truncated, also within a line, the experiment completes with the
/// same bytes in every file.
#[test]
fn a_cut_file_is_completed() {
    let folder = TempFolder::new("cut");
    let whole = folder.join("whole");
    assert_eq!(run_in(&whole, &small()).expect("runs").made, 20);
    let expected = files(&whole);
    let names: Vec<&str> = expected.keys().map(String::as_str).collect();
    assert!(
        ["experiment.toml", "runs.csv", "runs.ndjson", "runs.parquet", "series.csv"]
            .iter()
            .all(|name| names.contains(name))
    );
    let runs = &expected[RUNS];
    for cut in [0, 1, runs.len() / 3, runs.len() / 2, runs.len() - 1, runs.len()] {
        let dir = folder.join(format!("cut-{cut}"));
        std::fs::create_dir_all(&dir).expect("a folder");
        std::fs::write(dir.join(RUNS), &runs[..cut]).expect("a file");
        let there = runs[..cut].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(run_in(&dir, &small()).expect("runs").made, 20 - there);
        assert_eq!(files(&dir), expected, "cut at {cut}");
    }
}

/// Finished runs are not repeated; if an experiment changes, only the changed runs are made; and
/// the earlier ones are kept.
#[test]
fn only_what_changed_is_run() {
    let folder = TempFolder::new("changed");
    let dir = folder.join("out");
    assert_eq!(run_in(&dir, &small()).expect("runs").made, 20);
    let expected = files(&dir);
    assert_eq!(run_in(&dir, &small()).expect("runs").made, 0);
    assert_eq!(files(&dir), expected);
    let text = small().text.replace("processes = 3, crashes = 1", "processes = 4, crashes = 1");
    let done = run_in(&dir, &Experiment::parse(&text).expect("an experiment")).expect("runs");
    assert_eq!((done.made, done.there), (1, 20));
    let quick = small().taking(Taken { quick: true, ..Taken::default() });
    assert_eq!(run_in(&dir, &quick).expect("runs").there, 10);
    assert_eq!(run_in(&dir, &small()).expect("runs").made, 0, "nothing was thrown away");
    assert_eq!(files(&dir)["runs.csv"], expected["runs.csv"]);
}

/// Runs of a protocol that has changed since are not mixed with new ones; `--again` repeats all.
#[test]
fn a_changed_protocol_is_noticed() {
    let folder = TempFolder::new("noticed");
    let half = options(Some(Shard { index: 1, of: 2 }));
    run(&folder, &small(), &flags(), half, &runner).expect("runs");
    let changed = |words: &[String]| {
        let mut ran = runner(words)?;
        if words.contains(&"vcube".to_owned()) {
            ran.report["hash"] = "0x0".into();
        }
        Ok(ran)
    };
    let error = run(&folder, &small(), &flags(), options(None), &changed)
        .expect_err("another run")
        .to_string();
    assert!(
        error.starts_with(
            "low, processes = 8, protocol = vcube, seed 2: the run differs from the one in"
        ),
        "{error}"
    );
    let again = Options { again: true, ..options(None) };
    let done = run(&folder, &small(), &flags(), again, &changed).expect("runs");
    assert_eq!((done.made, done.there), (20, 20));
    let anew = folder.join("anew");
    run(&anew, &small(), &flags(), options(None), &changed).expect("runs");
    assert_eq!(files(&folder)["runs.ndjson"], files(&anew)["runs.ndjson"]);
}

/// A rejected run is reported with its command; no further runs start, and finished ones are kept.
#[test]
fn a_refused_run_is_named() {
    let folder = TempFolder::new("refused");
    let calls = AtomicUsize::new(0);
    let refusing = |words: &[String]| {
        calls.fetch_add(1, Ordering::Relaxed);
        if words.get(4).is_some_and(|word| word == "16") {
            Err("that cannot be".into())
        } else {
            runner(words)
        }
    };
    let alone = Options { jobs: 1, ..options(None) };
    let error =
        run(&folder, &small(), &flags(), alone, &refusing).expect_err("a refusal").to_string();
    let expected = "low, processes = 16, protocol = raymond, seed 1: that cannot be\n  kgate sim \
                    --protocol raymond --processes 16 --k 3 --fifo --load low --seed 1";
    assert_eq!(error, expected);
    assert_eq!(calls.into_inner(), 7, "the six largest and the one that was refused");
    assert_eq!(run_in(&folder, &small()).expect("runs").made, 14);
}

/// An incorrect run is reported with its command, unless a published defect was switched on.
#[test]
fn wrong_runs_are_told() {
    let folder = TempFolder::new("wrong");
    let checked = |words: &[String]| {
        runner(words).map(|ran| Ran { correct: !words.contains(&"32".to_owned()), ..ran })
    };
    let done = run(&folder.join("a"), &small(), &flags(), options(None), &checked).expect("runs");
    assert_eq!(done.wrong.len(), 6);
    assert!(done.wrong[0].contains("--processes 32"));
    let mut flags = flags();
    flags.sim.insert("as-printed".into());
    let text = small().text.replace("k = 3", "k = 3, as-printed = \"D1\"");
    let printed = Experiment::parse(&text).expect("an experiment");
    let done = run(&folder.join("b"), &printed, &flags, options(None), &checked).expect("runs");
    assert!(done.wrong.is_empty());
}

/// A second process in the same folder is refused, because both would mix their lines. A damaged
/// line is reported with its number.
#[test]
fn a_folder_is_written_by_one() {
    let folder = TempFolder::new("busy");
    let open = Store::open(&folder).expect("a store");
    assert!(matches!(Store::open(&folder), Err(StoreError::Busy(_))));
    drop(open);
    std::fs::write(folder.join(RUNS), "{}\n").expect("a file");
    let error = Store::open(&folder).expect_err("no run").to_string();
    assert!(error.contains("line 1 of") && error.contains("missing field `grid`"), "{error}");
}
