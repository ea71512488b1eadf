//! `kgate trace`: shows or checks a recorded run, using nothing but its trace.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use kgate_spec::diagram::{self, DrawError};
use kgate_spec::history::{self, TraceError, Verdict};
use kgate_spec::trace::reader::Reader;
use kgate_spec::view::{self, Shown, View, ViewError, Window};

use crate::scenario::{place, write};
use crate::{Failure, Outcome};

pub(crate) const HELP: &str = "\
docs/reference/trace-format.md describes the format. Other programs may write it too, for example
from the logs of a real cluster. A trace is read line by line and may be larger than memory. A
diagram is drawn to scale; if the run does not fit, the error names a window that does.

Exit codes of kgate trace check: 0 no violation; 1 a property is violated; 2 not a trace.

Examples:
  Record a run and read it:
    kgate sim --protocol raymond -n 3 -k 1 --load high --hold 1 --duration 10 --trace run.ndjson
    kgate trace run.ndjson
  Draw part of it:
    kgate trace run.ndjson --as svg --window 2..6 --out run.svg
  Open it in a browser, at https://bestchai.bitbucket.io/shiviz or https://ui.perfetto.dev:
    kgate trace run.ndjson --as shiviz --out run.log
    kgate trace run.ndjson --as perfetto --out run.json
  Check it without the simulator:
    kgate trace check run.ndjson";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TraceCommand>,
    /// The trace; `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) file: Option<PathBuf>,
    /// Output format
    #[arg(long = "as", value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) form: FormArg,
    /// Show only this interval of time in t.u., for example 10..20; either end may be omitted
    #[arg(long, value_name = "T..T")]
    pub(crate) window: Option<Window>,
    /// Show only these processes, for example 0..7 (both included) or 0,3,9
    #[arg(long, visible_alias = "processes", value_name = "P..P,..")]
    pub(crate) show: Option<Shown>,
    /// Output file [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormArg {
    /// one line per event
    Text,
    /// a space-time diagram
    Svg,
    /// a log with vector clocks, for ShiViz
    Shiviz,
    /// Chrome trace events, for Perfetto
    Perfetto,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Check a trace without the simulator or the protocol: at most k slots in use, one holder and
    /// increasing fences per slot, requests still waiting at the end
    Check {
        /// The trace; `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &TraceArgs) -> Outcome {
    match (&args.command, &args.file) {
        (Some(TraceCommand::Check { file, json }), _) => check(file, *json),
        (None, Some(file)) => show(args, file),
        (None, None) => {
            Err(Failure::Usage("no trace given: name a file, or - for standard input".into()))
        }
    }
}

/// Shows a trace in another form.
fn show(args: &TraceArgs, file: &Path) -> Outcome {
    if args.out.as_deref().is_some_and(|out| place(out) == place(file)) {
        return Err(Failure::Usage(format!(
            "{} is the trace itself: give another file to --out",
            file.display()
        )));
    }
    let view = View {
        window: args.window.unwrap_or_default(),
        shown: args.show.clone().unwrap_or_default(),
    };
    let reader = Reader::new(open(file)?).map_err(|error| unreadable(file, &error))?;
    if args.form == FormArg::Svg {
        // Draw first, then write: a diagram that is rejected must not empty an existing file.
        let title = if file == Path::new("-") { String::new() } else { file.display().to_string() };
        let svg = diagram::draw_trace(reader, &view, &title).map_err(|error| match error {
            DrawError::Trace(error) => unreadable(file, &error),
            DrawError::Diagram(why) => Failure::Usage(why.to_string()),
        })?;
        match &args.out {
            Some(out) => write(out, svg.as_bytes())?,
            None => io::stdout().lock().write_all(svg.as_bytes())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut to = output(args.out.as_deref())?;
    let shown = match args.form {
        FormArg::Shiviz => view::shiviz(reader, &view, &mut to),
        FormArg::Perfetto => view::perfetto(reader, &view, &mut to),
        FormArg::Text | FormArg::Svg => view::text(reader, &view, &mut to),
    };
    // A truncated trace is shown as far as it could be read.
    to.flush()?;
    shown.map_err(|error| match error {
        ViewError::Trace(error) => unreadable(file, &error),
        ViewError::Io(error) => error.into(),
        why @ ViewError::NoProcess(_) => Failure::Usage(why.to_string()),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn open(file: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = File::open(file);
    let opened = opened.map_err(|error| {
        Failure::Usage(format!("cannot read the trace {}: {error}", file.display()))
    })?;
    Ok(Box::new(BufReader::new(opened)))
}

fn output(out: Option<&Path>) -> Result<Box<dyn Write>, Failure> {
    let Some(path) = out else { return Ok(Box::new(BufWriter::new(io::stdout().lock()))) };
    let created = File::create(path);
    let created = created
        .map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))?;
    Ok(Box::new(BufWriter::new(created)))
}

fn unreadable(file: &Path, error: &TraceError) -> Failure {
    let name = file.display();
    Failure::Usage(match error {
        TraceError::Io(error) => format!("cannot read the trace {name}: {error}"),
        TraceError::Header(_)
        | TraceError::Version(_)
        | TraceError::Line(..)
        | TraceError::UnknownNode(..)
        | TraceError::Backwards(_) => format!("{name}: {error}"),
    })
}

fn check(file: &Path, json: bool) -> Outcome {
    let verdict = history::check(open(file)?).map_err(|error| unreadable(file, &error))?;
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

fn print(to: &mut impl Write, verdict: &Verdict) -> io::Result<()> {
    writeln!(
        to,
        "{}: {} processes, k = {}, {} lines",
        verdict.protocol, verdict.n, verdict.k, verdict.lines
    )?;
    let seen = if verdict.k_in_use_seen { "" } else { " (never all k, so this shows little)" };
    writeln!(
        to,
        "granted     {} of {} requests, up to the end of the trace",
        verdict.grants, verdict.requests
    )?;
    writeln!(to, "in use      at most {} slots at once{seen}", verdict.max_in_use)?;
    match verdict.waiting.len() {
        0 => writeln!(to, "waiting     no live process at the end")?,
        some => {
            writeln!(to, "waiting     {some} live processes at the end: {:?}", verdict.waiting)?;
        }
    }
    match verdict.violations.first() {
        Some(violation) => writeln!(to, "verdict     FAIL: violated: {}", violation.property),
        None => writeln!(to, "verdict     PASS: the trace violates no property"),
    }
}
