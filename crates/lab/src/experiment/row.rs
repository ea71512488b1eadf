//! A finished run, and the mean of several.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A finished run: its place in the grid, and its measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The grid.
    pub grid: String,
    /// The parameters with the labels of their values. Together with the seed they identify a run
    /// of a grid.
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
    /// A metric: a number, or an element of a series by its index, as in `slots_in_use.series.57`.
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
    /// The number of runs.
    pub runs: usize,
}
