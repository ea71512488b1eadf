//! What came out, kept in the repository: a line of JSON for each seed, so that a long suite goes
//! on where it was.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::oracle::Verdict;
use crate::schedule::{self, Plan};

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The version of the schedule.
    schedule: u32,
    seed: u64,
    seconds: u64,
    mode: String,
    timing: String,
    /// The kinds that could be drawn, and those that were.
    faults: String,
    drawn: String,
    /// As asked for; 0 if drawn.
    nodes_asked: u32,
    nodes: u32,
    voters: u32,
    k: Vec<u32>,
    commit: String,
    requests: u64,
    grants: u64,
    losses: u64,
    /// Old fences that the resource refused.
    refused: u64,
    longest_unanswered_ms: u64,
    /// Share of the last minute in which a process waited for a processor, in percent: if it is
    /// high, late answers say little.
    cpu_pressure: u64,
    /// The longest time for which a processor stood still: `kgate run` must have its turn within K.
    #[serde(default)]
    stalled_ms: u64,
    verdict: String,
}

/// As the kernel reports it; 0 without a report.
pub(crate) fn cpu_pressure() -> u64 {
    fs::read_to_string("/proc/pressure/cpu").map_or(0, |text| pressure_in(&text))
}

fn pressure_in(text: &str) -> u64 {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix("avg60="));
    word.and_then(|number| number.split('.').next())
        .and_then(|whole| whole.parse().ok())
        .unwrap_or(0)
}

/// The verdict of a run without violations.
const RIGHT: &str = "ok";

impl Line {
    pub(crate) fn new(
        options: &Options,
        seed: u64,
        plan: &Plan,
        verdict: &Verdict,
        commit: &str,
    ) -> Self {
        let drawn: Vec<&str> = plan.kinds.iter().map(|kind| kind.name()).collect();
        Self {
            schedule: schedule::VERSION,
            seed,
            seconds: options.seconds,
            mode: options.mode.name().into(),
            timing: options.timing.preset.into(),
            faults: options.faults_text(),
            drawn: drawn.join(","),
            nodes_asked: options.nodes.unwrap_or(0),
            nodes: plan.nodes,
            voters: plan.voters,
            k: plan.gates.iter().map(|(_, k)| *k).collect(),
            commit: commit.into(),
            requests: verdict.requests,
            grants: verdict.grants,
            losses: verdict.losses,
            refused: verdict.refused,
            longest_unanswered_ms: verdict.longest_ns / 1_000_000,
            cpu_pressure: cpu_pressure(),
            stalled_ms: verdict.stalled_ms,
            verdict: verdict.violations.first().map_or(RIGHT.into(), ToString::to_string),
        }
    }

    /// Whether this seed ran with these options and without violations.
    fn settles(&self, options: &Options, seed: u64) -> bool {
        let run = (self.schedule, self.seed, self.seconds, self.nodes_asked);
        let names = (self.mode.as_str(), self.timing.as_str(), self.faults.as_str());
        run == (schedule::VERSION, seed, options.seconds, options.nodes.unwrap_or(0))
            && names == (options.mode.name(), options.timing.preset, options.faults_text().as_str())
            && self.verdict == RIGHT
    }
}

fn path(root: &Path) -> PathBuf {
    root.join("verification/chaos/results.ndjson")
}

pub(crate) fn read(root: &Path) -> Result<Vec<Line>> {
    let Ok(text) = fs::read_to_string(path(root)) else { return Ok(Vec::new()) };
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("no result: {line}")))
        .collect()
}

pub(crate) fn append(root: &Path, line: &Line) -> Result<()> {
    let path = path(root);
    let mut file = File::options().create(true).append(true).open(&path)?;
    // One write: another run may append at the same time.
    let text = serde_json::to_string(line)? + "\n";
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Whether the results contain the seed.
pub(crate) fn is_done(lines: &[Line], options: &Options, seed: u64) -> bool {
    lines.iter().any(|line| line.settles(options, seed))
}

/// The commit, with `+` if the tree differs from it in anything but results and documents.
pub(crate) fn commit(root: &Path) -> Result<String> {
    let git = |words: &[&str]| -> Result<String> {
        let output = Command::new("git")
            .current_dir(root)
            .args(words)
            .output()
            .context("cannot start git")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&[
        "status",
        "--porcelain",
        "--",
        ".",
        ":!verification/chaos/results.ndjson",
        ":!docs",
    ])?;
    let mark = if changed.is_empty() { "" } else { "+" };
    Ok(format!("{}{mark}", git(&["rev-parse", "--short", "HEAD"])?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{BELIEF, Violation};
    use crate::planted::Planted;

    /// The kernel's format is understood.
    #[test]
    fn pressure_is_read() {
        let text = "some avg10=94.07 avg60=95.62 avg300=94.53 total=6910527158\n\
                    full avg10=0.00 avg60=0.00\n";
        assert_eq!((pressure_in(text), pressure_in("")), (95, 0));
    }

    /// A seed is done if it ran without violations, with the same duration, faults and version.
    #[test]
    fn a_finished_seed_is_not_run_again() {
        let options = Options::parse(&["--seeds", "3"]).unwrap();
        let plan = Planted::FenceBack.plan(700);
        let right = Line::new(&options, 2, &plan, &Verdict::default(), "abc");
        assert!(is_done(std::slice::from_ref(&right), &options, 2));
        assert!(!is_done(std::slice::from_ref(&right), &options, 3));
        let longer = Options { seconds: 61, ..options.clone() };
        assert!(!is_done(std::slice::from_ref(&right), &longer, 2));
        assert!(!is_done(&[Line { schedule: 0, ..right.clone() }], &options, 2));
        let wrong = Violation { checker: BELIEF, t: 1, text: "two".into() };
        let verdict = Verdict { violations: vec![wrong], ..Verdict::default() };
        let line = Line::new(&options, 2, &plan, &verdict, "abc");
        assert_eq!(line.verdict, "belief: two");
        assert!(!is_done(&[line], &options, 2));
        let text = serde_json::to_string(&right).unwrap();
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), right);
    }
}
