//! Experiments with a fake command, so that thousands of runs take no time.

mod merged;
mod parsed;
mod planned;
mod resumed;
mod tabled;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::run::{Done, Options, RunError, Shard, run};
use super::{Experiment, Flags, Ran};

/// Two grids: one with every feature of a run, one without seeds.
const EXPERIMENT: &str = r#"
name = "small"
title = "A small one"
about = "For tests."

[[grid]]
name = "low"
seeds = 3
set = { k = 3, load = "low", fifo = true, swarmless = false }
vary = { protocol = ["raymond", "vcube"], processes = [8, 16, 32] }
quick = { seeds = 2, set = { duration = 10 }, vary = { processes = [8, 32] } }

[[grid]]
name = "explored"
tool = "check"
vary.case = [
    { label = "two", processes = 2 },
    { label = "with a crash", processes = 3, crashes = 1 },
]

[[plot]]
name = "grants"
title = "Grants"
grid = "low"
x = "processes"
y = "grants"
series = "protocol"
x_label = "processes"
y_label = "grants"

[[fact]]
id = "F1"
place = "nowhere"
claim = "it is used at the end"
check = [{ grid = "low", metric = "use.series.3", is = "greater", value = 0.0 }]
"#;

fn small() -> Experiment {
    Experiment::parse(EXPERIMENT).expect("an experiment")
}

fn flags() -> Flags {
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Flags {
        sim: of(&[
            "k",
            "load",
            "fifo",
            "swarmless",
            "protocol",
            "processes",
            "duration",
            "latency",
        ]),
        check: of(&["processes", "crashes", "k"]),
    }
}

/// A run whose measurements depend only on its command line, except for its duration.
fn runner(words: &[String]) -> Result<Ran, String> {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let wall = CALLS.fetch_add(1, Ordering::Relaxed);
    let sum = words
        .concat()
        .bytes()
        .fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let part = f64::from(sum) / 3.0;
    Ok(Ran {
        report: json!({
            "seed": 9, "hash": format!("{sum:#x}"), "grants": sum, "k": 3, "wall_seconds": wall,
            "obtaining": { "mean": part, "none": null }, "use": { "series": [part, 1, 2, 3] },
            "unused": { "series": [0.1] }, "violations": [],
        }),
        correct: true,
    })
}

fn options(shard: Option<Shard>) -> Options {
    Options { jobs: 3, shard, quiet: true, again: false }
}

fn run_in(dir: &Path, experiment: &Experiment) -> Result<Done, RunError> {
    run(dir, experiment, &flags(), options(None), &runner)
}

/// Every file of a folder except the lock.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries =
        std::fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    let file =
        |path: PathBuf| Some((path.file_name()?.to_str()?.to_owned(), std::fs::read(&path).ok()?));
    entries.filter_map(file).filter(|(name, _)| name != ".lock").collect()
}
