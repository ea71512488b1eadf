//! One row as a process of its own, within its limits.
//!
//! It stops by itself when its time is over (`--max-seconds`) and tells what it reached. One that does not, or takes too much memory, is
//! killed.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::results::{Found, Outcome, Property};
use super::rows::{Limits, Row};

/// More states than any memory holds: time and memory are the limits.
const MAX_STATES: &str = "1000000000000";
/// How long one may take to stop, once its time is over.
const GRACE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(100);

pub(super) fn run(root: &Path, kgate: &Path, row: &Row, limits: Limits, commit: &str) -> Result<Outcome> {
    let folder = root.join("target/verification");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let said = folder.join("said.json"); // A file never fills up, as a pipe does.
    let seconds = limits.minutes * 60;
    let mut child = Command::new(kgate)
        .args(row.words())
        .args(["--max-seconds", &seconds.to_string(), "--max-states", MAX_STATES, "--json"])
        .stdout(File::create(&said).with_context(|| format!("cannot write {}", said.display()))?)
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", kgate.display()))?;
    let (status, mut stopped) = watch(&mut child, limits)?;
    let found = if stopped.is_some() {
        None
    } else {
        let ended = matches!(status.code(), Some(0 | 1));
        ensure!(ended, "{}: {status}", row.command);
        let text = fs::read_to_string(&said).with_context(|| format!("cannot read {}", said.display()))?;
        let found = found(&text).with_context(|| row.command.clone())?;
        if !found.complete && found.violated().next().is_none() {
            let memory = text.contains("\"stopped\": \"memory\"");
            let why = if memory {
                format!("at {} GiB", limits.gibibytes)
            } else {
                format!("after {} min", limits.minutes)
            };
            stopped = Some(format!("stopped {why}"));
        }
        Some(found)
    };
    let method = method(row).to_owned();
    Ok(Outcome { command: row.command.clone(), commit: commit.to_owned(), method, stopped, found })
}

/// Waits until it ends, or is over a limit; then tells which.
#[allow(clippy::disallowed_methods)] // Real time is the limit, and there is no waiting for another process's memory.
fn watch(child: &mut Child, limits: Limits) -> Result<(ExitStatus, Option<String>)> {
    let deadline = Instant::now() + Duration::from_secs(limits.minutes * 60) + GRACE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, None));
        }
        let memory = resident_kibibytes(child.id()).unwrap_or(0);
        let over = if memory > limits.gibibytes << 20 {
            Some(format!("killed at {} GiB", limits.gibibytes))
        } else {
            (Instant::now() > deadline).then(|| format!("killed after {} min", limits.minutes))
        };
        if over.is_some() {
            child.kill()?;
            return Ok((child.wait()?, over));
        }
        thread::sleep(GLANCE);
    }
}

/// None where the system does not tell it like that, or the process has ended.
fn resident_kibibytes(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse().ok()
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

/// Reads what `kgate check --json` printed.
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

/// A step, and what its message says if it is about one.
fn step(told: &Value) -> String {
    let step = told["step"].as_str().unwrap_or_default();
    match told["message"].as_str() {
        Some(message) => format!("{step:<28} {message}"),
        None => step.to_owned(),
    }
}

/// What a command printed.
pub(super) fn output(root: &Path, program: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program).current_dir(root).args(words).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    ensure!(output.status.success(), "{program} {}: {}", words.join(" "), output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{program} does not print text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cat` waits for input that never comes; it takes more than no memory.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_over_its_memory_is_killed() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let (status, why) = watch(&mut child, Limits { minutes: 1, gibibytes: 0 }).unwrap();
        assert_eq!((status.code(), why.as_deref()), (None, Some("killed at 0 GiB")));
    }

    #[test]
    fn a_process_that_ends_by_itself_is_not() {
        let mut child = Command::new("cat").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let (status, why) = watch(&mut child, Limits { minutes: 1, gibibytes: 1 }).unwrap();
        assert!(status.success() && why.is_none());
    }
}
