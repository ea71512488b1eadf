//! The job file: parameters of a run for its client processes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::planted::Planted;

/// The parameters that clients need.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) seed: u64,
    /// The binary under test.
    pub(crate) kgate: PathBuf,
    pub(crate) gates: Vec<(String, u32)>,
    pub(crate) lease_ms: u64,
    pub(crate) grace_ms: u64,
    /// The planted bug of the first node's clients.
    pub(crate) planted: Option<Planted>,
}

fn path(run: &Path) -> PathBuf {
    run.join("job.json")
}

impl Job {
    pub(crate) fn write(&self, run: &Path) -> Result<()> {
        fs::write(path(run), serde_json::to_string_pretty(self)?)
            .context("cannot write the job file")
    }

    pub(crate) fn read(run: &Path) -> Result<Self> {
        let text = fs::read_to_string(path(run)).context("cannot read the job file")?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// Clients make no new request once this file exists.
fn stop(run: &Path) -> PathBuf {
    run.join("stop")
}

pub(crate) fn request_stop(run: &Path) -> Result<()> {
    fs::write(stop(run), "").context("cannot tell the clients to stop")
}

pub(crate) fn is_stopping(run: &Path) -> bool {
    stop(run).exists()
}
