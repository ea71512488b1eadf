//! `kgate lab list`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use kgate_lab::experiment::{builtin, grid};
use serde_json::json;

use super::ListArgs;
use crate::{Failure, Outcome};

pub(super) fn run(args: &ListArgs) -> Outcome {
    let mut experiments = Vec::new();
    for (name, _) in builtin::ALL {
        experiments.push(builtin::load(name).map_err(Failure::Usage)?);
    }
    let mut stdout = io::stdout().lock();
    if args.json {
        let list: Vec<_> = experiments
            .iter()
            .map(|experiment| {
                json!({
                    "name": experiment.name,
                    "title": experiment.title,
                    "paper": experiment.paper,
                    "runs": grid::count(experiment, false),
                    "quick_runs": grid::count(experiment, true),
                    "plots": experiment.plot.len(),
                    "facts": experiment.fact.len(),
                })
            })
            .collect();
        let text = serde_json::to_string_pretty(&json!({ "experiments": list }))
            .context("printing JSON")?;
        writeln!(stdout, "{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(stdout, "{:<20} {:>6} {:>6} {:>6}  title", "experiment", "runs", "quick", "facts")?;
    for experiment in &experiments {
        writeln!(
            stdout,
            "{:<20} {:>6} {:>6} {:>6}  {}",
            experiment.name,
            grid::count(experiment, false),
            grid::count(experiment, true),
            experiment.fact.len(),
            experiment.title
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
