//! Experiments: files that say what to run, what to draw and what was published; and what comes of them.
//!
//! - [`file`]: an experiment as a file; [`row`]: a finished run;
//! - [`summary`]: what several runs say together; [`facts`]: verdicts on what was published; [`number`]: numbers for people.

pub mod facts;
pub mod file;
pub mod number;
pub mod row;
pub mod summary;

pub use file::Experiment;
pub use row::{Mean, Row};
