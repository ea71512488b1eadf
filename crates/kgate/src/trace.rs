//! `kgate trace`: a run that was written down, shown or checked by what stands there and nothing
//! else.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand, ValueEnum};
use kgate_spec::diagram::{self, DrawError};
use kgate_spec::history::{self, TraceError, Verdict};
use kgate_spec::trace::reader::Reader;
use kgate_spec::view::{self, Shown, View, ViewError, Window};

use crate::scenario::{place, write};
use crate::{Failure, Outcome};

pub(crate) const HELP: &str = "\
docs/reference/trace-format.md describes the format; anybody may write it, for instance from the logs of a real cluster. A trace is read line by line and may be \
longer than memory. A cluster_state is drawn to scale; what is too much for one is refused with a window that would fit.

Examples:
  Write a run down, and read it:
    kgate sim --protocol raymond -n 3 -k 1 --load high --hold 1 --duration 10 --trace run.ndjson
    kgate trace run.ndjson
  Draw a part of it:
    kgate trace run.ndjson --as svg --window 2..6 --out run.svg
  Look at it in a browser, at https://bestchai.bitbucket.io/shiviz or https://ui.perfetto.dev:
    kgate trace run.ndjson --as shiviz --out run.log
    kgate trace run.ndjson --as perfetto --out run.json
  Checker it by itself:
    kgate trace check run.ndjson";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TraceCommand>,
    /// The trace; `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) file: Option<PathBuf>,
    /// As what to show it
    #[arg(long = "as", value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) form: FormArg,
    /// Only from a time to another, in time units, as in 10..20; either may be left out
    #[arg(long, value_name = "T..T")]
    pub(crate) window: Option<Window>,
    /// Only these processes, as in 0..7 (both included) or 0,3,9
    #[arg(long, visible_alias = "processes", value_name = "P..P,..")]
    pub(crate) show: Option<Shown>,
    /// Write it there [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormArg {
    /// a line an event, for people
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
    /// Checker a trace by itself, without the simulator or the protocol: at most k slots in use, slots
    /// and fences, who waits at the end
    Checker {
        /// The trace; `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print one JSON object
        #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
        json: bool,
    },
}

pub(crate) fn run(args: &TraceArgs) -> Outcome {
    match (&args.command, &args.file) {
        (Some(TraceCommand::Checker { file, json }), _) => check(file, *json),
        (None, Some(file)) => show(args, file),
        (None, None) => {
            Err(Failure::Usage("which trace? name a file, or - for standard input".into()))
        }
    }
}

/// Shows a trace in another form.
fn show(args: &TraceArgs, file: &Path) -> Outcome {
    if args.out.as_deref().is_some_and(|out| place(out) == place(file)) {
        return Err(Failure::Usage(format!(
            "{} is the trace itself: give --out another file",
            file.display()
        )));
    }
    let view = View {
        window: args.window.unwrap_or_default(),
        shown: args.show.clone().unwrap_or_default(),
    };
    let reader = Reader::new(open(file)?).map_err(|error| unreadable(file, &error))?;
    if args.form == FormArg::Svg {
        // Whole or not at all: a picture that is refused does not empty a file.
        let title = if file == Path::new("-") { String::new() } else { file.display().to_string() };
        let picture = diagram::draw_trace(reader, &view, &title).map_err(|error| match error {
            DrawError::TraceError(error) => unreadable(file, &error),
            DrawError::DiagramError(why) => Failure::Usage(why.to_string()),
        })?;
        match &args.out {
            Some(out) => write(out, picture.as_bytes())?,
            None => io::stdout().lock().write_all(picture.as_bytes())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut to = output(args.out.as_deref())?;
    let shown = match args.form {
        FormArg::Shiviz => view::shiviz(reader, &view, &mut to),
        FormArg::Perfetto => view::perfetto(reader, &view, &mut to),
        FormArg::Text | FormArg::Svg => view::text(reader, &view, &mut to),
    };
    // What could be read is told, also of a trace that is cut off.
    to.flush()?;
    shown.map_err(|error| match error {
        ViewError::TraceError(error) => unreadable(file, &error),
        ViewError::Io(error) => error.into(),
        why @ ViewError::Nobody(_) => Failure::Usage(why.to_string()),
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
        | TraceError::Nobody(..)
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
    let seen = if verdict.k_in_use_seen { "" } else { " (never k, so little was shown)" };
    writeln!(
        to,
        "granted     {} of {} requests, to the end of the trace",
        verdict.grants, verdict.requests
    )?;
    writeln!(to, "inside      at most {} at once{seen}", verdict.max_in_use)?;
    match verdict.waiting.len() {
        0 => writeln!(to, "waiting     nobody at the end")?,
        some => writeln!(to, "waiting     {some} of the living at the end: {:?}", verdict.waiting)?,
    }
    match verdict.violations.first() {
        Some(violation) => writeln!(to, "verdict     VIOLATED: {}", violation.property),
        None => writeln!(to, "verdict     nothing that is written there is wrong"),
    }
}
