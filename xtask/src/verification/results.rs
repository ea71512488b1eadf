//! What came out: the lines of `verification/results.ndjson`, one JSON object each. Of several of
//! one command the last counts.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::rows::{Expected, Row};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// The row's command.
    pub(super) command: String,
    /// At which commit; `+` if the tree differed from it.
    pub(super) commit: String,
    /// How it was found out.
    pub(super) method: String,
    /// Which limit ended it, if one did.
    pub(super) stopped: Option<String>,
    /// What it found.
    #[serde(flatten)]
    pub(super) found: Found,
}

/// What `kgate check --json` tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) states: u64,
    pub(super) unique: u64,
    pub(super) depth: u64,
    pub(super) complete: bool,
    pub(super) properties: Vec<Property>,
    pub(super) seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) holds: bool,
    /// The length of the schedule that shows it: a counterexample; or an example, of what must be
    /// reached.
    pub(super) steps: Option<usize>,
    /// The counterexample itself, step by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) schedule: Vec<String>,
}

impl Found {
    /// What does not hold: a schedule shows it, or all were tried and none shows the contrary.
    pub(super) fn violated(&self) -> impl Iterator<Item = &Property> {
        let shown = |property: &Property| property.steps.is_some() || self.complete;
        self.properties.iter().filter(move |property| !property.holds && shown(property))
    }
}

impl Outcome {
    pub(super) fn meets(&self, expected: &Expected) -> bool {
        match expected {
            Expected::Holds => self.found.violated().next().is_none(),
            Expected::Violated(name) => {
                self.found.violated().any(|property| property.name == *name)
            }
        }
    }
}

/// The present result of a row.
pub(super) fn of<'a>(results: &'a [Outcome], row: &Row) -> Option<&'a Outcome> {
    results.iter().rfind(|outcome| outcome.command == row.command)
}

pub(super) fn parse(text: &str) -> Result<Vec<Outcome>> {
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("results, line {number}"))
    };
    (1..).zip(text.lines()).map(line).collect()
}

pub(super) fn append(path: &Path, outcome: &Outcome) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let mut file = OpenOptions::new().append(true).open(path).with_context(context)?;
    writeln!(file, "{}", serde_json::to_string(outcome)?).with_context(context)
}
