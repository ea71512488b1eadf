//! Experiments: files that define runs, plots and published results, and their evaluation.
//!
//! - [`file`](mod@file): an experiment as a file; [`parse`]: reading and validating it;
//!   [`builtin`]: the experiments that are part of kgate;
//! - [`grid`]: the command lines of the runs; [`run`](mod@run): making the runs; [`metrics`]: a
//!   report as numbers; [`progress`]: the progress display;
//! - [`row`]: a finished run; [`store`]: finished runs on disk; [`tables`]: tables for other
//!   programs; [`merge`]: joining shards;
//! - [`summary`]: means over seeds; [`facts`]: verdicts on published facts; [`number`]: formatting
//!   numbers;
//! - [`plot`]: figures; [`report`]: the HTML report; [`results`]: a folder of results, read and
//!   written; [`compare`]: rankings and differences.
//!   written; [`compare`]: who is best, what differs.

use std::path::Path;

pub mod builtin;
pub mod compare;
pub mod facts;
pub mod file;
pub mod grid;
pub mod merge;
pub mod metrics;
pub mod number;
pub mod parse;
pub mod plot;
pub mod progress;
pub mod report;
pub mod results;
pub mod row;
pub mod run;
pub mod store;
pub mod summary;
pub mod tables;

pub use file::{Experiment, Taken};
pub use grid::{Flags, Point};
pub use parse::ExperimentError;
pub use results::Results;
pub use row::{Mean, Row};
pub use run::{Ran, Runner};
pub use store::StoreError;

/// Writes all results derived from the runs, which are in the order of the grids.
pub fn finish(dir: &Path, experiment: &Experiment, rows: &[Row]) -> Result<(), StoreError> {
    tables::write(dir, experiment, rows)?;
    results::Results::of(experiment.clone(), rows).write(dir)
}

#[cfg(test)]
mod tests;
