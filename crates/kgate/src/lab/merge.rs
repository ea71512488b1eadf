//! `kgate lab merge`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use kgate_lab::experiment::{merge, store};

use super::{MergeArgs, runner};
use crate::{Failure, Outcome};

pub(super) fn run(args: &MergeArgs) -> Outcome {
    let flags = runner::flags();
    let mut parts: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for dir in &args.dirs {
        let found = experiments(dir)?;
        if found.is_empty() {
            return Err(Failure::Usage(format!(
                "{} has no results: give the --out directory of a run",
                dir.display()
            )));
        }
        for (name, dir) in found {
            parts.entry(name).or_default().push(dir);
        }
    }
    let mut wrong = 0;
    for (name, dirs) in parts {
        let dir = args.out.join(&name);
        let done = merge::merge(&dirs, &dir, &flags).map_err(Failure::from)?;
        wrong += done.wrong.len();
        let missing = match done.all - done.there {
            0 => String::new(),
            missing => format!(", {missing} are missing"),
        };
        writeln!(
            io::stdout(),
            "{name}: {} runs of {} parts{missing}; {}",
            done.there,
            dirs.len(),
            dir.display()
        )?;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The results in a directory, by the names of their experiments: its own, or those of its
/// subdirectories.
fn experiments(dir: &Path) -> Result<BTreeSet<(String, PathBuf)>, Failure> {
    let name = |dir: &Path| dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if dir.join(store::EXPERIMENT).exists() {
        let full = dir.canonicalize().with_context(|| dir.display().to_string())?;
        return Ok(BTreeSet::from([(name(&full), dir.to_owned())]));
    }
    let cannot =
        |error: io::Error| Failure::Usage(format!("cannot read {}: {error}", dir.display()));
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.join(store::EXPERIMENT).exists() {
            found.insert((name(&path), path));
        }
    }
    Ok(found)
}
