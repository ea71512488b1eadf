//! What the processes of a run are told: a file in its folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::planted::Planted;

/// What clients must know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) seed: u64,
    /// The binary under test.
    pub(crate) kgate: PathBuf,
    pub(crate) gates: Vec<(String, u32)>,
    pub(crate) lease_ms: u64,
    pub(crate) grace_ms: u64,
    /// A bug that the first node's clients have.
    pub(crate) planted: Option<Planted>,
}

fn path(run: &Path) -> PathBuf {
    run.join("job.json")
}

impl Job {
    pub(crate) fn write(&self, run: &Path) -> Result<()> {
        fs::write(path(run), serde_json::to_string_pretty(self)?)
            .context("cannot write what clients are told")
    }

    pub(crate) fn read(run: &Path) -> Result<Self> {
        let text = fs::read_to_string(path(run)).context("cannot read what clients are told")?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// Clients ask for nothing new once this is there.
fn stop(run: &Path) -> PathBuf {
    run.join("stop")
}

pub(crate) fn tell_to_stop(run: &Path) -> Result<()> {
    fs::write(stop(run), "").context("cannot tell the clients to stop")
}

pub(crate) fn told_to_stop(run: &Path) -> bool {
    stop(run).exists()
}
