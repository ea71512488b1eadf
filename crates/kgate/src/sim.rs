//! `kgate sim`.

pub(crate) mod graph;
mod options;
mod replay;
mod state;
mod text;

use std::fs::File;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::ArgMatches;
use std::sync::Arc;

use kgate_core::{Graph, Printed, Protocol, Span};
use kgate_protocols::registry::{self, Entry, Visitor};
use kgate_sim::{
    Audit, Bucket, Claims, Config, Cost, Detection, Detector as DetectorSize, Heap, Latency, Load, OpenTrace,
    Report, RunError, Think, Transient,
};
use kgate_spec::Violation;
use serde::Serialize;

use crate::cli::{Asking, Detector, EngineArg, ModelArg, SimArgs, StartArg};
use crate::{Failure, Outcome};

pub(crate) fn run(args: &SimArgs, given: &ArgMatches) -> Outcome {
    let entry = registry::entry(&args.protocol).map_err(|error| Failure::Usage(error.to_string()))?;
    let printed = match &args.as_printed {
        None => Printed::NONE,
        Some(id) => entry.as_printed(id).map_err(|error| Failure::Usage(error.to_string()))?,
    };
    if args.trace.is_some() && args.runs > 1 {
        return Err(Failure::Usage("a trace tells one run: leave out --trace or --runs".into()));
    }
    options::check(args, given, entry)?;
    match args.model {
        ModelArg::Messages => run_all(
            args,
            entry,
            |seed| {
                let graph = graph::build(entry, args.graph.as_deref(), args.processes, seed)?;
                simulate(args, entry, &config(args, entry, printed, seed, graph))
            },
            |report| &report.violations,
            |to, report| text::print(to, args, entry, report),
        ),
        ModelArg::State => run_all(
            args,
            entry,
            |seed| state::simulate(args, entry, printed, seed),
            |report| &report.violations,
            |to, report| state::print(to, args, entry, report),
        ),
    }
}

/// Runs every seed that was asked for, prints and complains, and says whether all were correct.
fn run_all<R: Serialize>(
    args: &SimArgs,
    entry: &Entry,
    simulate: impl Fn(u64) -> Result<R, Failure>,
    violations: impl Fn(&R) -> &[Violation],
    print: impl Fn(&mut StdoutLock<'_>, &R) -> io::Result<()>,
) -> Outcome {
    let mut stdout = io::stdout().lock();
    let mut reports = Vec::new();
    for run in 0..args.runs {
        let seed = args.seed.wrapping_add(u64::from(run));
        let report = simulate(seed)?;
        if !violations(&report).is_empty() {
            complain(args, entry, violations(&report), seed);
        }
        if !args.json {
            print(&mut stdout, &report)?;
        }
        reports.push(report);
    }
    let violated = reports.iter().filter(|report| !violations(report).is_empty()).count();
    if args.json {
        print_json(&mut stdout, &reports)?;
    } else if args.runs > 1 {
        writeln!(stdout, "{} runs, {violated} of them not correct", args.runs)?;
    }
    stdout.flush()?;
    Ok(if violated == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The run that the command line asks for.
fn config(args: &SimArgs, entry: &Entry, printed: Printed, seed: u64, graph: Option<Arc<Graph>>) -> Config {
    let load = Load {
        requesters: match args.load {
            Asking::Low => args.units,
            Asking::High => args.processes,
            Asking::First(count) => count,
        },
        first_request: args.first_request,
        hold: args.hold,
        think: think(args),
        entries: args.entries,
        ask_inside: args.ask_inside,
    };
    let detection = Detection {
        interval: args.detect_interval,
        timeout: timeout(args),
        oracle: match args.detector {
            Detector::Own => None,
            Detector::Oracle(within) => Some(within),
        },
    };
    Config {
        nodes: args.processes,
        permits: args.units,
        seed,
        printed,
        cost: cost(args),
        load,
        detection,
        crashes: args.crash.clone(),
        random_crashes: args.random_crashes,
        random_recoveries: args.random_recoveries,
        down_for: args.down_for,
        down: args.down.into(),
        transient: Transient {
            start: args.start == StartArg::Random,
            strikes: args.corrupt.clone(),
            forged: args.forged,
        },
        tolerate: args.tolerate.unwrap_or(args.units.saturating_sub(1)),
        refresh: args.refresh,
        graph,
        claims: claims(args, entry),
        audit: Audit::default(),
        duration: args.duration,
    }
}

/// What the registry says of a protocol, for this run.
fn claims(args: &SimArgs, entry: &Entry) -> Claims {
    // A registry entry speaks of sensible sizes; the configuration is checked before anybody listens to it.
    let sensible = args.units > 0 && args.processes > 0;
    let bears = if sensible { entry.bears(args.processes, args.units) } else { 0 };
    Claims {
        bears: if entry.told_to_tolerate { args.tolerate.unwrap_or(bears) } else { bears },
        detector: entry.detector.map(|name| match name {
            registry::LOG => DetectorSize::Log,
            _ if entry.all_to_all => DetectorSize::AllToAll,
            _ => DetectorSize::Sparse,
        }),
        recovers: entry.recovers,
        heals: entry.heals,
        asks_inside: entry.asks_inside,
    }
}

/// The pause that was asked for.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // Whole nanoseconds.
fn think(args: &SimArgs) -> Think {
    match args.rho {
        Some(rho) => {
            let mean = Span((args.hold.0 as f64 * rho) as u64);
            Think::Gaussian { mean, deviation: Span(mean.0 / 4) }
        }
        None => args.think.unwrap_or(Think::Constant(DEFAULT_THINK)),
    }
}

fn cost(args: &SimArgs) -> Cost {
    Cost {
        send: args.send,
        latency: args.latency.unwrap_or(Latency::Constant(args.transmit.unwrap_or(DEFAULT_TRANSMIT))),
        receive: args.receive,
        send_cost: args.send_cost.into(),
        receive_cost: args.receive_cost.into(),
        fifo: args.fifo,
    }
}

/// How long a detector waits: what was asked for, or twice the longest delay and at least 4.
fn timeout(args: &SimArgs) -> Span {
    let longest = cost(args).longest_delay().unwrap_or(Span::ZERO);
    args.detect_timeout.unwrap_or(longest.times(2).max(LEAST_TIMEOUT))
}

/// vcube-2018 section 8.1: t_t = 0.8.
const DEFAULT_TRANSMIT: Span = Span(800_000_000);
/// vcube-2018 section 8.1: tau = 0.1.
const DEFAULT_THINK: Span = Span(100_000_000);
/// Ours: four times the longest delay of vcube-2018's setting.
const LEAST_TIMEOUT: Span = Span(4_000_000_000);

fn simulate(args: &SimArgs, entry: &Entry, config: &Config) -> Result<Report, Failure> {
    let trace = args.trace.as_ref().map(|path| -> OpenTrace<'_> {
        Box::new(move || Ok(Box::new(BufWriter::new(File::create(path)?)) as Box<dyn Write>))
    });
    let run = Run { name: entry.name, config, engine: args.engine, trace };
    match registry::visit(entry, config.detection.oracle.is_none(), run) {
        Ok(mut report) => {
            report.as_printed = args.as_printed.as_ref().map(|id| id.to_ascii_uppercase());
            Ok(report)
        }
        Err(RunError::Config(error)) => Err(Failure::Usage(error.to_string())),
        Err(RunError::OpenTrace(error)) => {
            let path = args.trace.as_deref().unwrap_or_else(|| "".as_ref()).display();
            Err(Failure::Usage(format!("cannot write the trace {path}: {error}")))
        }
        Err(error @ RunError::Trace(_)) => Err(Failure::Broken(error.into())),
    }
}

/// Hands the types of the chosen protocol to the simulator.
struct Run<'a> {
    name: &'a str,
    config: &'a Config,
    engine: EngineArg,
    trace: Option<OpenTrace<'a>>,
}

impl Visitor for Run<'_> {
    type Output = Result<Report, RunError>;
    fn visit<M: Protocol, D: Protocol>(self) -> Self::Output {
        match self.engine {
            EngineArg::Bucket => kgate_sim::run::<M, D, Bucket>(self.name, self.config, self.trace),
            EngineArg::Heap => kgate_sim::run::<M, D, Heap>(self.name, self.config, self.trace),
        }
    }
}

/// A failure is a gift-wrapped bug report: the property first, then how to see it again.
fn complain(args: &SimArgs, entry: &Entry, violations: &[Violation], seed: u64) {
    for violation in violations {
        eprintln!("kgate: {violation}");
    }
    let suspected = violations.iter().any(|violation| violation.property == "nobody live is suspected");
    if suspected && entry.told_to_tolerate {
        eprintln!(
            "{} assumes that a process's neighbours always answer it among the first n-f (responsiveness): give --latency grid= \
             with clusters of more than f processes and --send 0, or a smaller --tolerate",
            entry.name
        );
    }
    eprintln!("REPRODUCE WITH: {}", replay::command(args, seed));
}

/// One object: the report of one run, or a list of several.
fn print_json<R: Serialize>(to: &mut impl Write, reports: &[R]) -> Result<(), Failure> {
    let text = match reports {
        [report] => serde_json::to_string_pretty(report),
        several => serde_json::to_string_pretty(&serde_json::json!({ "runs": several })),
    };
    writeln!(to, "{}", text.context("printing JSON")?)?;
    Ok(())
}
