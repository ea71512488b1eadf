//! The results: the lines of `verification/results.ndjson`, one JSON object each. The last result
//! of a command counts.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::rows::{Expected, Row};

/// A line of the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// The row's command.
    pub(super) command: String,
    /// The commit, with `+` if the tree differed from it.
    pub(super) commit: String,
    /// The method.
    pub(super) method: String,
    /// The limit that ended the search, if any.
    pub(super) stopped: Option<String>,
    /// The findings.
    #[serde(flatten)]
    pub(super) found: Found,
}

/// The findings of `kgate check --json`.
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
    /// Length of the schedule: a counterexample, or an example of a state that must be reachable.
    pub(super) steps: Option<usize>,
    /// The counterexample itself, step by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) schedule: Vec<String>,
}

impl Found {
    /// The properties that do not hold: a schedule violates it, or the search is complete and no
    /// schedule reaches what must be reachable.
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
