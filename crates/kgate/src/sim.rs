//! `kgate sim`.

pub(crate) mod conflicts;
pub(crate) mod graph;
mod log;
pub(crate) mod options;
mod recorder;
mod state;
mod swarm;
mod text;

use std::io::{self, StdoutLock, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::ArgMatches;
use kgate_core::{Defects, Span};
use kgate_lab::Case;
use kgate_lab::case::Queue;
use kgate_protocols::registry::{self, Entry};
use kgate_sim::{
    Audit, Claims, Config, Cost, Detection, Disturbance, Latency, Load, Report, RunError, Think,
    Transient,
};
use kgate_spec::{Accuracy, Violation};
use serde::Serialize;
use serde_json::Value;

use crate::{Failure, Outcome, scenario};
use options::{Detector, EngineArg, ModelArg, Requesters, SimArgs, StartArg};
use recorder::Recorder;

pub(crate) fn run(args: &SimArgs, given: &ArgMatches) -> Outcome {
    if args.swarm {
        return swarm::run(args, given);
    }
    let (entry, printed) = chosen(args, given)?;
    match args.model {
        ModelArg::Messages => run_all(
            args,
            entry,
            |seed| simulate(args, case(args, entry, printed, seed)),
            |seed| command(args, &case(args, entry, printed, seed)),
            |report| &report.violations,
            |to, report, command| text::print(to, args, entry, report, command),
        ),
        ModelArg::State => run_all(
            args,
            entry,
            |seed| state::simulate(args, entry, printed, seed),
            |seed| state::command(args, entry, seed),
            |report| &report.violations,
            |to, report, command| state::print(to, args, entry, report, command),
        ),
    }
}

/// Makes one run without output; returns what `--json` prints, and whether the run is correct.
pub(crate) fn measure(args: &SimArgs, given: &ArgMatches) -> Result<(Value, bool), Failure> {
    let (entry, printed) = chosen(args, given)?;
    let (report, correct) = match args.model {
        ModelArg::Messages => {
            let report = simulate(args, case(args, entry, printed, args.seed))?;
            (serde_json::to_value(&report), report.violations.is_empty())
        }
        ModelArg::State => {
            let report = state::simulate(args, entry, printed, args.seed)?;
            (serde_json::to_value(&report), report.violations.is_empty())
        }
    };
    Ok((report.context("the report as JSON")?, correct))
}

/// The protocol and the defects of the command line; options that make no sense are rejected.
fn chosen(args: &SimArgs, given: &ArgMatches) -> Result<(&'static Entry, Defects), Failure> {
    let entry =
        registry::entry(&args.protocol).map_err(|error| Failure::Usage(error.to_string()))?;
    let printed = match &args.as_printed {
        None => Defects::NONE,
        Some(id) => entry.as_printed(id).map_err(|error| Failure::Usage(error.to_string()))?,
    };
    for (given, what) in [(&args.trace, "trace"), (&args.diagram, "diagram")] {
        if given.is_some() && args.runs > 1 {
            return Err(Failure::Usage(format!(
                "--{what} records one run: leave out --{what} or --runs"
            )));
        }
    }
    let places = [&args.trace, &args.diagram].map(|path| path.as_deref().map(scenario::place));
    if places[0].is_some() && places[0] == places[1] {
        return Err(Failure::Usage(
            "--trace and --diagram name the same file: give each a file of its own".into(),
        ));
    }
    conflicts::check(args, given, entry)?;
    Ok((entry, printed))
}

/// Makes the runs of all seeds, prints each, reports violations, and sets the exit code.
fn run_all<R: Serialize>(
    args: &SimArgs,
    entry: &Entry,
    simulate: impl Fn(u64) -> Result<R, Failure>,
    command: impl Fn(u64) -> String,
    violations: impl Fn(&R) -> &[Violation],
    print: impl Fn(&mut StdoutLock<'_>, &R, &str) -> io::Result<()>,
) -> Outcome {
    let mut stdout = io::stdout().lock();
    let mut reports = Vec::new();
    for run in 0..args.runs {
        let seed = args.seed.wrapping_add(u64::from(run));
        let report = simulate(seed)?;
        if !violations(&report).is_empty() {
            report_violations(entry, violations(&report), &command(seed));
        }
        if !args.json {
            print(&mut stdout, &report, &command(seed))?;
        }
        reports.push(report);
    }
    let violated = reports.iter().filter(|report| !violations(report).is_empty()).count();
    if args.json {
        print_json(&mut stdout, &reports)?;
    } else if args.runs > 1 {
        writeln!(stdout, "{} runs, {violated} of them FAIL", args.runs)?;
    }
    stdout.flush()?;
    Ok(if violated == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The command that replays the run.
fn command(args: &SimArgs, case: &Case) -> String {
    let engine = match args.engine {
        EngineArg::Bucket => "",
        EngineArg::Heap => " --engine heap",
    };
    kgate_lab::command(case) + engine
}

/// The run that the command line describes, without its graph, which may be large.
fn case(args: &SimArgs, entry: &'static Entry, printed: Defects, seed: u64) -> Case {
    let usual = entry.network.usual_shape().map(|shape| shape.to_string());
    let mut case =
        Case { entry, config: config(args, printed, seed), graph: args.graph.clone().or(usual) };
    case.config.claims = case.claims();
    case
}

fn config(args: &SimArgs, printed: Defects, seed: u64) -> Config {
    let load = Load {
        requesters: match &args.load {
            Requesters::Low => args.k,
            Requesters::High => args.processes,
            Requesters::First(count) => *count,
            Requesters::Only(nodes) => nodes.last().map_or(0, |node| node.0.saturating_add(1)),
        },
        first_request: args.first_request,
        hold: args.hold,
        think: think(args),
        entries: args.entries,
        ask_inside: args.ask_inside,
        clients: args.clients,
        weight_max: args.weight_max,
        withdraw: args.withdraw,
        patience: args.patience,
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
        k: args.k,
        seed,
        printed,
        cost: cost(args),
        load,
        only: match &args.load {
            Requesters::Only(nodes) => nodes.clone(),
            Requesters::Low | Requesters::High | Requesters::First(_) => Vec::new(),
        },
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
        disturbance: Disturbance {
            pauses: args.pause.clone(),
            partitions: args.partition.clone(),
            cuts: args.cut.clone(),
            loss: args.loss,
            duplicates: args.duplicates,
        },
        tolerate: args.tolerate.unwrap_or(args.k.saturating_sub(1)),
        refresh: args.refresh,
        slots: args.slots.options(args.ask_again),
        resizes: sorted(&args.resize),
        gates: args.log.gates,
        agreement: args.log.agreement(),
        graph: None,
        claims: Claims::default(),
        audit: Audit::default(),
        warmup: args.warmup,
        duration: args.duration,
    }
}

/// Sorted by time.
fn sorted(resizes: &[(Span, u32)]) -> Vec<(Span, u32)> {
    let mut resizes = resizes.to_vec();
    resizes.sort_by_key(|resize| resize.0);
    resizes
}

/// The pause between a release and the next request.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "whole nanoseconds"
)]
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
        latency: args
            .latency
            .unwrap_or(Latency::Constant(args.transmit.unwrap_or(DEFAULT_TRANSMIT))),
        receive: args.receive,
        send_cost: args.send_cost.into(),
        receive_cost: args.receive_cost.into(),
        fifo: args.fifo,
    }
}

/// How long a detector waits for an answer: the given time, or twice the longest delay and at
/// least 4.
fn timeout(args: &SimArgs) -> Span {
    let longest = cost(args).longest_delay().unwrap_or(Span::ZERO);
    args.detect_timeout.unwrap_or(longest.times(2).max(LEAST_TIMEOUT))
}

/// vcube-2018 section 8.1: t_t = 0.8.
const DEFAULT_TRANSMIT: Span = Span(800_000_000);
/// vcube-2018 section 8.1: tau = 0.1.
const DEFAULT_THINK: Span = Span(100_000_000);
/// Our choice: four times the longest delay of vcube-2018's setting.
const LEAST_TIMEOUT: Span = Span(4_000_000_000);

fn simulate(args: &SimArgs, mut case: Case) -> Result<Report, Failure> {
    case.config.graph =
        graph::build(case.entry, args.graph.as_deref(), args.processes, case.config.seed)?;
    let mut recorder = Recorder::new(args);
    let queue = match args.engine {
        EngineArg::Bucket => Queue::Bucket,
        EngineArg::Heap => Queue::Heap,
    };
    match case.try_run(queue, recorder.open()) {
        Ok(mut report) => {
            recorder.finish(&format!("kgate sim, seed {:#x}", case.config.seed))?;
            report.as_printed = args.as_printed.as_ref().map(|id| id.to_ascii_uppercase());
            Ok(report)
        }
        Err(RunError::Config(error)) => Err(Failure::Usage(error.to_string())),
        Err(RunError::OpenTrace(error)) => {
            let path = args.trace.as_deref().unwrap_or_else(|| "".as_ref()).display();
            Err(Failure::Usage(format!("cannot write the trace {path}: {error}")))
        }
        // A diagram that cannot be drawn at all ends the run early.
        Err(error @ RunError::Trace(_)) => {
            Err(recorder.rejected().unwrap_or(Failure::Internal(error.into())))
        }
    }
}

/// Prints violations as a bug report: the properties first, then the command that replays the run.
fn report_violations(entry: &Entry, violations: &[Violation], command: &str) {
    for violation in violations {
        eprintln!("kgate: {violation}");
    }
    let suspected = violations.iter().any(|violation| violation.property == Accuracy::NAME);
    if suspected && entry.needs_crash_bound {
        eprintln!(
            "{} assumes that the neighbours of a process always answer among the first n-f \
             (responsiveness): give --latency grid= with clusters of more than f processes and \
             --send 0, or a smaller --tolerate",
            entry.name
        );
    }
    eprintln!("REPRODUCE WITH: {command}");
}

/// Prints one object: the report of one run, or a list of several reports.
fn print_json<R: Serialize>(to: &mut impl Write, reports: &[R]) -> Result<(), Failure> {
    let text = match reports {
        [report] => serde_json::to_string_pretty(report),
        several => serde_json::to_string_pretty(&serde_json::json!({ "runs": several })),
    };
    writeln!(to, "{}", text.context("printing JSON")?)?;
    Ok(())
}
