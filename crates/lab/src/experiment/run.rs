//! Makes the missing runs of an experiment, on several cores.
//!
//! Every finished run is appended to the store at once, so an interrupted (or killed) experiment
//! loses only the runs in progress, and the same command resumes it. A run is identified by its
//! place in the grid and its command: if an experiment changes, only its changed runs are made
//! again. The largest runs start first, so that no core idles at the end. Results are sorted in the
//! order of the grids, so they do not depend on the order of the runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::file::Experiment;
use super::grid::{self, Flags, Plan, Point};
use super::parse::ExperimentError;
use super::progress::Progress;
use super::row::Row;
use super::store::{self, Store, StoreError};
use super::{finish, metrics};

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What the command prints with `--json`.
    pub report: Value,
    /// Whether no property was violated.
    pub correct: bool,
}

/// Makes the run of a command line (without `kgate`), or returns why it is rejected.
pub type Runner<'a> = dyn Fn(&[String]) -> Result<Ran, String> + Sync + 'a;

/// A share of the points: every `of`-th, beginning with the `index`-th, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The number of this share, from 1.
    pub index: usize,
    /// The number of shares.
    pub of: usize,
}

impl FromStr for Shard {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((index, of)) if 1 <= index && index <= of => Ok(Self { index, of }),
            _ => Err("not a shard: write I/N, from 1/4 to 4/4 for four shards".into()),
        }
    }
}

/// How an experiment is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of threads.
    pub jobs: usize,
    /// Only a part of the experiment.
    pub shard: Option<Shard>,
    /// Whether to hide the progress.
    pub quiet: bool,
    /// Whether to repeat existing runs.
    pub again: bool,
}

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Number of runs of the experiment.
    pub all: usize,
    /// Number of finished runs.
    pub there: usize,
    /// Number of runs made this time.
    pub made: usize,
    /// Commands of incorrect runs in which no published defect was switched on.
    pub wrong: Vec<String>,
}

/// An experiment that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The experiment is invalid.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The results cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A run is rejected.
    #[error("{name}: {message}\n  {command}")]
    Refused {
        /// The point.
        name: String,
        /// The error of the command.
        message: String,
        /// The command.
        command: String,
    },
    /// The existing results come from a version of kgate that makes different runs.
    #[error(
        "{name}: the run differs from the one in {dir}: kgate has changed since. Give \
         --again to repeat all runs, or another --out\n  {command}"
    )]
    Changed {
        /// The point.
        name: String,
        /// The folder of the results.
        dir: String,
        /// The command.
        command: String,
    },
    /// The threads cannot be started.
    #[error("cannot start {0} threads: give fewer --jobs")]
    Threads(usize),
}

/// Makes the missing runs in `dir`, and writes all results derived from the runs.
pub fn run(
    dir: &Path,
    experiment: &Experiment,
    flags: &Flags,
    options: Options,
    runner: &Runner<'_>,
) -> Result<Done, RunError> {
    let Plan { points, notes } = grid::plan(experiment, flags)?;
    let (store, mut before) = Store::open(dir)?;
    if options.again {
        store.clear()?;
        before.clear();
    }
    store::write(&dir.join(store::EXPERIMENT), experiment.text.as_bytes())?;
    let (there, unused) = sorted_out(&points, before);
    let missing = missing(&points, &there, options.shard);
    let progress = Progress::new(&experiment.name, missing.len(), options.quiet);
    if !options.quiet {
        notes.iter().for_each(|note| progress.say(note));
        if !there.is_empty() && !missing.is_empty() {
            progress.say(&format!("{} of {} runs exist already", there.len(), points.len()));
        }
    }
    if !missing.is_empty() {
        spot_check(&points, &there, dir, runner)?;
    }
    let made = make(&points, &missing, &store, options.jobs, runner, &progress)?;
    drop(progress);
    let count = made.len();
    let rows: BTreeMap<usize, Row> = there.into_iter().chain(made).collect();
    let wrong = rows.iter().filter(|(index, row)| !row.correct && !points[**index].as_printed);
    let done = Done {
        all: points.len(),
        there: rows.len(),
        made: count,
        wrong: wrong.map(|(_, row)| row.command.clone()).collect(),
    };
    store.settle(rows.values(), &unused)?;
    let rows: Vec<Row> = rows.into_values().collect();
    finish(dir, experiment, &rows)?;
    Ok(done)
}

/// The rows that belong to the points, by the index of the point; and all other rows.
pub(super) fn sorted_out(points: &[Point], rows: Vec<Row>) -> (BTreeMap<usize, Row>, Vec<Row>) {
    let keys: BTreeMap<_, usize> = points
        .iter()
        .enumerate()
        .map(|(index, point)| ((&point.grid, &point.at, point.seed, point.command()), index))
        .collect();
    let mut there = BTreeMap::new();
    let mut unused = Vec::new();
    for row in rows {
        match keys.get(&(&row.grid, &row.at, row.seed, row.command.clone())) {
            // If a point has two rows, the first: both come from the same command.
            Some(index) => drop(there.entry(*index).or_insert(row)),
            None => unused.push(row),
        }
    }
    (there, unused)
}

/// Repeats the smallest existing run of each protocol: runs of two different versions of kgate must
/// not be mixed.
fn spot_check(
    points: &[Point],
    there: &BTreeMap<usize, Row>,
    dir: &Path,
    runner: &Runner<'_>,
) -> Result<(), RunError> {
    let mut smallest: BTreeMap<Option<&String>, (&Point, &Row)> = BTreeMap::new();
    for (index, row) in there {
        let point = &points[*index];
        let protocol = point.words.iter().skip_while(|word| *word != "--protocol").nth(1);
        let chosen = smallest.entry(protocol).or_insert((point, row));
        if point.size < chosen.0.size {
            *chosen = (point, row);
        }
    }
    for (point, row) in smallest.into_values() {
        if one(point, runner)? != *row {
            let dir = dir.display().to_string();
            return Err(RunError::Changed { name: point.name(), dir, command: point.command() });
        }
    }
    Ok(())
}

/// The missing runs, the largest first.
fn missing(points: &[Point], there: &BTreeMap<usize, Row>, shard: Option<Shard>) -> Vec<usize> {
    let ours = |index: &usize| shard.is_none_or(|shard| index % shard.of == shard.index - 1);
    let mut missing: Vec<usize> =
        (0..points.len()).filter(ours).filter(|index| !there.contains_key(index)).collect();
    missing.sort_by_key(|index| std::cmp::Reverse(points[*index].size));
    missing
}

/// Makes these runs. After a rejected run no further ones start.
fn make(
    points: &[Point],
    missing: &[usize],
    store: &Store,
    jobs: usize,
    runner: &Runner<'_>,
    progress: &Progress,
) -> Result<Vec<(usize, Row)>, RunError> {
    let next = AtomicUsize::new(0);
    let made = Mutex::new(Vec::new());
    let refused = Mutex::new(None);
    let work = || {
        while let Some(&index) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let point = &points[index];
            progress.begin(index, point.name());
            let row = one(point, runner)
                .and_then(|row| store.append(&row).map(|()| row).map_err(Into::into));
            match row {
                Ok(row) => {
                    if !row.correct && !point.as_printed {
                        progress.say(&format!("not correct: {}", row.command));
                    }
                    made.lock().expect("no thread panics while adding").push((index, row));
                }
                Err(error) => {
                    next.store(missing.len(), Ordering::Relaxed);
                    refused.lock().expect("no thread panics while keeping").get_or_insert(error);
                }
            }
            progress.end(index);
        }
    };
    // The same stack size as the main thread: a run must not depend on its thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).stack_size(8 << 20).build();
    pool.map_err(|_| RunError::Threads(jobs))?.broadcast(|_| work());
    match refused.into_inner().expect("no thread panics while keeping") {
        Some(error) => Err(error),
        None => Ok(made.into_inner().expect("no thread panics while adding")),
    }
}

fn one(point: &Point, runner: &Runner<'_>) -> Result<Row, RunError> {
    let refused =
        |message| RunError::Refused { name: point.name(), message, command: point.command() };
    let Ran { report, correct } = runner(&point.words).map_err(refused)?;
    let metrics = metrics::of(&report);
    Ok(Row {
        grid: point.grid.clone(),
        at: point.at.clone(),
        seed: point.seed,
        command: point.command(),
        hash: report.get("hash").and_then(Value::as_str).unwrap_or_default().into(),
        correct,
        measured: metrics.measured,
        series: metrics.series,
    })
}
