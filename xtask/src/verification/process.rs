//! Runs one row as a process. `kgate check` enforces the limits itself (`--max-seconds`,
//! `--max-memory`) and reports how far it got.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::results::{Found, Outcome, Property};
use super::rows::{Limits, Row};

pub(super) fn run(kgate: &Path, row: &Row, limits: Limits, commit: &str) -> Result<Outcome> {
    let (seconds, gibibytes) = ((limits.minutes * 60).to_string(), limits.gibibytes.to_string());
    let output = Command::new(kgate)
        .args(row.words())
        .args(["--max-seconds", &seconds, "--max-memory", &gibibytes, "--json"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", kgate.display()))?;
    ensure!(matches!(output.status.code(), Some(0 | 1)), "{}: {}", row.command, output.status);
    let text = String::from_utf8(output.stdout).context("kgate does not print text")?;
    let found = found(&text).with_context(|| row.command.clone())?;
    let stopped = stopped(&text, limits)?;
    let method = method(row).to_owned();
    Ok(Outcome { command: row.command.clone(), commit: commit.to_owned(), method, stopped, found })
}

/// The limit that stopped the search, if any.
pub(super) fn stopped(text: &str, limits: Limits) -> Result<Option<String>> {
    let told: Value = serde_json::from_str(text).context("not JSON")?;
    Ok(match told["stopped"].as_str() {
        Some("time") => Some(format!("stopped after {} min", limits.minutes)),
        Some("memory") => Some(format!("stopped at {} GiB", limits.gibibytes)),
        Some("found") | None => None,
        Some(other) => Some(format!("stopped by its {other}")),
    })
}

fn method(row: &Row) -> &'static str {
    if row.option("--protocol") == Some("stabilizing") {
        "every configuration, every daemon"
    } else if row.words().any(|word| word == "--shortest") {
        "every schedule, breadth first"
    } else {
        "every schedule"
    }
}

/// Parses the output of `kgate check --json`.
pub(super) fn found(text: &str) -> Result<Found> {
    let told: Value = serde_json::from_str(text).context("not JSON")?;
    let number = |key: &str| told[key].as_u64().with_context(|| format!("no number `{key}`"));
    let properties = told["properties"].as_array().context("no list `properties`")?;
    Ok(Found {
        states: number("states")?,
        unique: number("unique")?,
        depth: number("depth")?,
        complete: told["complete"].as_bool().context("no `complete`")?,
        properties: properties.iter().map(property).collect::<Result<_>>()?,
        seconds: told["seconds"].as_f64().context("no number `seconds`")?,
    })
}

fn property(told: &Value) -> Result<Property> {
    let schedule = told["counterexample"].as_array();
    Ok(Property {
        name: told["name"].as_str().context("a property without a name")?.to_owned(),
        holds: told["holds"].as_bool().context("a property without `holds`")?,
        steps: schedule.map(Vec::len),
        schedule: schedule.into_iter().flatten().map(step).collect(),
    })
}

/// A step, with the content of its message if it has one.
fn step(told: &Value) -> String {
    let step = told["step"].as_str().unwrap_or_default();
    match told["message"].as_str() {
        Some(message) => format!("{step:<28} {message}"),
        None => step.to_owned(),
    }
}

/// The output of a command.
pub(super) fn output(root: &Path, program: &str, words: &[&str]) -> Result<String> {
    let output =
        Command::new(program).current_dir(root).args(words).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    ensure!(output.status.success(), "{program} {}: {}", words.join(" "), output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{program} does not print text"))
}
