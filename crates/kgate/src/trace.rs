//! `kgate trace`: a run that was written down, shown or checked by what stands there and nothing
//! else.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use kgate_spec::diagram::{self, Undrawn};
use kgate_spec::history::{self, NotATrace, Verdict};
use kgate_spec::told::Reader;
use kgate_spec::view::{self, Unseen, View};

use crate::cli::{FormArg, TraceArgs, TraceCommand};
use crate::scenario::{place, write};
use crate::{Failure, Outcome};

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
            Undrawn::NotATrace(error) => unreadable(file, &error),
            Undrawn::TooMuch(why) => Failure::Usage(why.to_string()),
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
        Unseen::NotATrace(error) => unreadable(file, &error),
        Unseen::Io(error) => error.into(),
        why @ Unseen::Nobody(_) => Failure::Usage(why.to_string()),
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

fn unreadable(file: &Path, error: &NotATrace) -> Failure {
    let name = file.display();
    Failure::Usage(match error {
        NotATrace::Io(error) => format!("cannot read the trace {name}: {error}"),
        NotATrace::Header(_)
        | NotATrace::Version(_)
        | NotATrace::Line(..)
        | NotATrace::Nobody(..)
        | NotATrace::Backwards(_) => format!("{name}: {error}"),
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
    let seen = if verdict.k_inside_seen { "" } else { " (never k, so little was shown)" };
    writeln!(
        to,
        "granted     {} of {} requests, to the end of the trace",
        verdict.grants, verdict.requests
    )?;
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
