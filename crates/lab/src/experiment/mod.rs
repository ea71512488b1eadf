//! Experiments: files that say what to run, what to draw and what was published; and what comes of them.
//!
//! - [`file`]: an experiment as a file; [`row`]: a finished run.

pub mod file;
pub mod row;

pub use file::Experiment;
pub use row::{Mean, Row};
