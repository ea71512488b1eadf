//! `kgate trace`: a run that was written down, judged by what stands there and nothing else.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use kgate_spec::history::{self, NotATrace, Verdict};

use crate::cli::{TraceArgs, TraceCommand};
use crate::{Failure, Outcome};

pub(crate) fn run(args: &TraceArgs) -> Outcome {
    match &args.command {
        TraceCommand::Judge { file, json } => judge(file, *json),
    }
}

fn judge(file: &Path, json: bool) -> Outcome {
    let verdict = read(file)?;
    for violation in &verdict.violations {
        eprintln!("kgate: {violation}");
    }
    let mut stdout = io::stdout().lock();
    if json {
        writeln!(stdout, "{}", serde_json::to_string_pretty(&verdict).context("printing JSON")?)?;
    } else {
        print(&mut stdout, &verdict)?;
    }
    stdout.flush()?;
    Ok(if verdict.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(file: &Path) -> Result<Verdict, Failure> {
    let name = file.display();
    let judged = if file == Path::new("-") {
        history::judge(io::stdin().lock())
    } else {
        let opened = File::open(file);
        let opened =
            opened.map_err(|error| Failure::Usage(format!("cannot read the trace {name}: {error}")))?;
        history::judge(BufReader::new(opened))
    };
    judged.map_err(|error| {
        let why = match &error {
            NotATrace::Io(error) => format!("cannot read the trace {name}: {error}"),
            NotATrace::Header(_)
            | NotATrace::Version(_)
            | NotATrace::Line(..)
            | NotATrace::Nobody(..)
            | NotATrace::Backwards(_) => format!("{name}: {error}"),
        };
        Failure::Usage(why)
    })
}

fn print(to: &mut impl Write, verdict: &Verdict) -> io::Result<()> {
    writeln!(
        to,
        "{}: {} processes, k = {}, {} lines",
        verdict.protocol, verdict.n, verdict.k, verdict.lines
    )?;
    let seen = if verdict.k_inside_seen { "" } else { " (never k, so little was shown)" };
    writeln!(to, "granted     {} of {} requests", verdict.grants, verdict.requests)?;
    writeln!(to, "inside      at most {} at once{seen}", verdict.max_inside)?;
    match verdict.waiting.len() {
        0 => writeln!(to, "waiting     nobody at the end")?,
        some => writeln!(to, "waiting     {some} of the living at the end: {:?}", verdict.waiting)?,
    }
    match verdict.violations.first() {
        Some(violation) => writeln!(to, "verdict     VIOLATED: {}", violation.property),
        None => writeln!(to, "verdict     nothing that is written there is wrong"),
    }
}
