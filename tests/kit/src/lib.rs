//! The test kit: what the tests of all crates share. Only dev-dependencies name this crate.
//!
//! - [`Rng`]: numbers from a seed;
//! - [`seeds`] and [`each_seed`]: how many seeds a test runs, and the command that replays one;
//! - [`TempFolder`]: a folder that is removed with the test;
//! - [`assert_reference`]: a generated page of docs/reference is up to date;
//! - [`wait_for`] and [`wait_until`]: polling with a deadline, for real processes and files.

mod folder;
mod reference;
mod rng;
mod seeds;
mod wait;

pub use folder::TempFolder;
pub use reference::assert_reference;
pub use rng::Rng;
pub use seeds::{each_seed, is_count_given, seeds};
pub use wait::{PATIENCE, wait_for, wait_until};
