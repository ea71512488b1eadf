//! `kgate scenario`: plays scenarios and compares the run with the effects written in the file.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use kgate_core::{Span, Time};
use kgate_lab::scenario::{self, Outcome as Came, RunError};
use kgate_spec::scenario::ScenarioError;
use kgate_spec::trace::reader;
use kgate_spec::{Scenario, diagram};
use serde::Serialize;

use crate::{Failure, Outcome};

pub(crate) const HELP: &str = "\
A scenario is a small text file: a description, the configuration, the steps, and below each step
its effects. The simulator plays it and its checkers check it. If a published defect is switched
on, the same steps are played again with the repair, as far as they are possible then, and no
property may be violated. docs/reference/scenario-format.md describes the format. To write a
scenario, write the header and the first steps, and let --rewrite add the effects. A step that is
not possible is rejected with a list of those that are.

Exit codes: 0 all scenarios pass; 1 a scenario fails: its effects differ from the file or its
outcome is unexpected; 2 a file is not a scenario or cannot be played.

Examples:
  All scenarios of the repository:
    kgate scenario scenarios
  Update the effects of each step:
    kgate scenario --rewrite scenarios/vcube/d1.txt
  Draw it:
    kgate scenario scenarios/vcube/d1.txt --diagram d1.svg
  Check its trace without the simulator:
    kgate scenario scenarios/raymond/two-of-three.txt --trace run.ndjson
    kgate trace check run.ndjson";

#[derive(Debug, Args)]
pub(crate) struct ScenarioArgs {
    /// Scenario files; of a directory, all *.txt files in it and below
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Write the actual effects of each step into the file
    #[arg(long)]
    pub(crate) rewrite: bool,
    /// Write a trace to a file, one JSON object per line (one scenario only)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Draw the run as a space-time diagram into an SVG file (one scenario only)
    #[arg(long, value_name = "FILE")]
    pub(crate) diagram: Option<PathBuf>,
    /// Print one JSON object per scenario
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &ScenarioArgs) -> Outcome {
    let mut files = Vec::new();
    for path in &args.files {
        collect(path, &mut files)?;
    }
    if files.is_empty() {
        return Err(Failure::Usage(
            "no scenarios found: name a file, or a directory with *.txt files in it".into(),
        ));
    }
    if files.len() > 1 && (args.trace.is_some() || args.diagram.is_some()) {
        return Err(Failure::Usage(
            "--trace and --diagram take one scenario: name one file".into(),
        ));
    }
    check_paths(args, &files)?;
    let mut stdout = io::stdout().lock();
    let (mut wrong, mut unplayed) = (0, 0);
    for file in &files {
        let came = play(args, file)?;
        wrong += usize::from(came.as_ref().is_ok_and(|came| !came.passes()));
        unplayed += usize::from(came.is_err());
        if args.json {
            writeln!(
                stdout,
                "{}",
                serde_json::to_string(&Line::new(file, &came)).context("printing JSON")?
            )?;
        } else {
            print(&mut stdout, file, &came)?;
        }
    }
    if !args.json && files.len() > 1 {
        writeln!(stdout, "{} scenarios, {wrong} of them FAIL, {unplayed} not played", files.len())?;
    }
    stdout.flush()?;
    Ok(match (unplayed, wrong) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::FAILURE,
        (_, _) => ExitCode::from(2),
    })
}

/// No output overwrites a scenario, and no two outputs share a file.
fn check_paths(args: &ScenarioArgs, files: &[PathBuf]) -> Result<(), Failure> {
    let mut taken: Vec<PathBuf> = files.iter().map(|file| place(file)).collect();
    for path in args.trace.iter().chain(&args.diagram) {
        let place = place(path);
        if taken.contains(&place) {
            return Err(Failure::Usage(format!(
                "{} is named twice: give the scenario, the trace and the diagram a file each",
                path.display()
            )));
        }
        taken.push(place);
    }
    Ok(())
}

/// The canonical path, whether or not the file exists yet.
pub(crate) fn place(path: &Path) -> PathBuf {
    if let Ok(place) = path.canonicalize() {
        return place;
    }
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (parent.canonicalize(), path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        (Ok(_), None) | (Err(_), _) => path.to_owned(),
    }
}

/// The file itself, or all *.txt files below the directory, sorted.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let unreadable = |error: io::Error| {
        Failure::Usage(format!("cannot read the scenario {}: {error}", path.display()))
    };
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(unreadable)?;
    let mut below =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    below.sort();
    for path in below {
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "txt") {
            collect(&path, files)?;
        }
    }
    Ok(())
}

/// The outcome of one file.
type Played = Result<Came, NotPlayed>;

/// Why a file could not be played.
enum NotPlayed {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The text is not a scenario.
    Malformed(ScenarioError),
    /// The scenario asks for something impossible.
    Rejected(RunError),
}

impl fmt::Display for NotPlayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot read the scenario: {error}"),
            Self::Malformed(error) => error.fmt(f),
            Self::Rejected(error) => error.fmt(f),
        }
    }
}

/// Plays one file and writes what was asked for.
fn play(args: &ScenarioArgs, file: &Path) -> Result<Played, Failure> {
    let name = file.display();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return Ok(Err(NotPlayed::Unreadable(error))),
    };
    let parsed: Scenario = match text.parse() {
        Ok(parsed) => parsed,
        Err(error) => return Ok(Err(NotPlayed::Malformed(error))),
    };
    let mut came = scenario::run(&parsed);
    if let Ok(came) = &mut came {
        if args.rewrite {
            let rewritten = came.scenario.to_string();
            if rewritten != text {
                fs::write(file, rewritten).with_context(|| format!("cannot write {name}"))?;
            }
            came.difference.clear();
        } else if came.difference.is_empty() {
            came.difference = scenario::difference::between(&text, &came.scenario.to_string());
        }
        if let Some(path) = &args.trace {
            write(path, &came.trace)?;
        }
        if let Some(path) = &args.diagram {
            draw(came, path)?;
        }
    }
    Ok(came.map_err(NotPlayed::Rejected))
}

/// Draws the run of a scenario.
pub(crate) fn draw(came: &Came, path: &Path) -> Result<(), Failure> {
    let (run, told) = reader::read(&came.trace[..]).context("reading our own trace")?;
    let title = came.scenario.description.first().map(String::as_str).unwrap_or_default();
    let last = Time::ZERO + Span::UNIT.times(came.scenario.steps.len() as u64);
    write(path, diagram::draw(&run, &told, title, Some(last)).as_bytes())
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes)
        .map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))
}

fn print(to: &mut impl Write, file: &Path, came: &Played) -> io::Result<()> {
    let name = file.display();
    let came = match came {
        Ok(came) => came,
        Err(error @ NotPlayed::Rejected(_)) => return writeln!(to, "{name}: {error}"),
        Err(error @ (NotPlayed::Unreadable(_) | NotPlayed::Malformed(_))) => {
            eprintln!("kgate: {name}: {error}");
            return Ok(());
        }
    };
    let steps = came.scenario.steps.len();
    let verdict = match came.violations.first() {
        Some(violation) => format!("violates \"{}\" as expected", violation.property),
        None => "correct".into(),
    };
    let verdict = if came.unexpected.is_some() { "unexpected outcome".into() } else { verdict };
    let repaired = match &came.repaired {
        Some(repaired) if repaired.violations.is_empty() => {
            format!("; correct with the repair, {} steps skipped", repaired.skipped)
        }
        Some(_) => "; NOT CORRECT with the repair".into(),
        None => String::new(),
    };
    let word = if came.passes() { "PASS" } else { "FAIL" };
    writeln!(to, "{name}: {word}: {steps} steps, {verdict}{repaired}")?;
    if let Some(why) = &came.unexpected {
        writeln!(to, "  {why}")?;
    }
    for violation in came.repaired.iter().flat_map(|repaired| &repaired.violations) {
        writeln!(to, "  with the repair: {violation}")?;
    }
    if !came.difference.is_empty() {
        writeln!(to, "--- {name}, expected\n+++ {name}, actual")?;
    }
    came.difference.iter().try_for_each(|line| writeln!(to, "{line}"))
}

/// The outcome of a scenario in JSON.
#[derive(Serialize)]
struct Line<'a> {
    file: String,
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_printed: Option<&'a str>,
    steps: usize,
    violations: Vec<&'a kgate_spec::Violation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unexpected: Option<&'a str>,
    difference: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    repaired: Option<Again<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

/// The same steps without the defect.
#[derive(Serialize)]
struct Again<'a> {
    skipped: usize,
    violations: &'a [kgate_spec::Violation],
}

impl<'a> Line<'a> {
    fn new(file: &Path, came: &'a Played) -> Self {
        let ok = came.as_ref().ok();
        Self {
            file: file.display().to_string(),
            passed: ok.is_some_and(Came::passes),
            error: came.as_ref().err().map(ToString::to_string),
            protocol: ok.map(|came| came.scenario.protocol.as_str()),
            as_printed: ok.and_then(|came| came.scenario.as_printed.as_deref()),
            steps: ok.map_or(0, |came| came.scenario.steps.len()),
            violations: ok.iter().flat_map(|came| &came.violations).collect(),
            unexpected: ok.and_then(|came| came.unexpected.as_deref()),
            difference: ok.map_or(&[], |came| &came.difference),
            repaired: ok.and_then(|came| came.repaired.as_ref()).map(|repaired| Again {
                skipped: repaired.skipped,
                violations: &repaired.violations,
            }),
            hash: ok.map(|came| format!("{:#018x}", came.hash)),
        }
    }
}
