//! A finished run, and what several of them say together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A finished run: its place in the grid, and its measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The grid.
    pub grid: String,
    /// Its parameters with the labels of their values. Nothing else tells runs of a grid apart but
    /// the seed.
    pub at: BTreeMap<String, String>,
    /// The seed.
    pub seed: u64,
    /// The command that replays it.
    pub command: String,
    /// The hash over all its events; empty if the command has none.
    pub hash: String,
    /// Whether no property was violated.
    pub correct: bool,
    /// Numbers by their paths in the command's JSON; true is 1.
    pub measured: BTreeMap<String, f64>,
    /// Lists of numbers by their paths.
    pub series: BTreeMap<String, Vec<f64>>,
}

impl Row {
    /// A metric: a number, or one of a series by its place, as in `slots_in_use.series.57`.
    pub fn value(&self, metric: &str) -> Option<f64> {
        let of_series = || {
            let (series, place) = metric.rsplit_once('.')?;
            self.series.get(series)?.get(place.parse::<usize>().ok()?).copied()
        };
        self.measured.get(metric).copied().or_else(of_series)
    }
}

/// A metric over the seeds of one combination of parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half of the 95 % confidence interval (Student); none for one run.
    pub half: Option<f64>,
    /// Of so many runs.
    pub runs: usize,
}
