//! `kgate sim`.

pub(crate) mod conflicts;
pub(crate) mod graph;
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
use options::{Asking, Detector, EngineArg, ModelArg, SimArgs, StartArg};
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

/// One run without a word: what `--json` would print, and whether it was correct.
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

/// The protocol that was asked for, as it was asked for; what cannot be meant is refused.
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
                "a {what} tells one run: leave out --{what} or --runs"
            )));
        }
    }
    let places = [&args.trace, &args.diagram].map(|path| path.as_deref().map(scenario::place));
    if places[0].is_some() && places[0] == places[1] {
        return Err(Failure::Usage(
            "one file for two things: give the trace and the diagram a file each".into(),
        ));
    }
    conflicts::check(args, given, entry)?;
    Ok((entry, printed))
}

/// Runs every seed that was asked for, prints and complains, and says whether all were correct.
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
            complain(entry, violations(&report), &command(seed));
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
        writeln!(stdout, "{} runs, {violated} of them not correct", args.runs)?;
    }
    stdout.flush()?;
    Ok(if violated == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The command that makes the same run again.
fn command(args: &SimArgs, case: &Case) -> String {
    let engine = match args.engine {
        EngineArg::Bucket => "",
        EngineArg::Heap => " --engine heap",
    };
    kgate_lab::command(case) + engine
}

/// The run that the command line asks for, but for its graph, which may be large.
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
            Asking::Low => args.k,
            Asking::High => args.processes,
            Asking::First(count) => *count,
            Asking::Only(nodes) => nodes.last().map_or(0, |node| node.0.saturating_add(1)),
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
            Asking::Only(nodes) => nodes.clone(),
            Asking::Low | Asking::High | Asking::First(_) => Vec::new(),
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
            loss: args.loss,
            duplicates: args.duplicates,
        },
        tolerate: args.tolerate.unwrap_or(args.k.saturating_sub(1)),
        refresh: args.refresh,
        slots: args.slots.options(args.ask_again),
        resizes: sorted(&args.resize),
        graph: None,
        claims: Claims::default(),
        audit: Audit::default(),
        warmup: args.warmup,
        duration: args.duration,
    }
}

/// In the order of time.
fn sorted(resizes: &[(Span, u32)]) -> Vec<(Span, u32)> {
    let mut resizes = resizes.to_vec();
    resizes.sort_by_key(|resize| resize.0);
    resizes
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
        latency: args
            .latency
            .unwrap_or(Latency::Constant(args.transmit.unwrap_or(DEFAULT_TRANSMIT))),
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
        // A run that cannot be drawn at all says so before it ends.
        Err(error @ RunError::Trace(_)) => {
            Err(recorder.refused().unwrap_or(Failure::Broken(error.into())))
        }
    }
}

/// A failure is a gift-wrapped bug report: the property first, then how to see it again.
fn complain(entry: &Entry, violations: &[Violation], command: &str) {
    for violation in violations {
        eprintln!("kgate: {violation}");
    }
    let suspected = violations.iter().any(|violation| violation.property == Accuracy::NAME);
    if suspected && entry.told_to_tolerate {
        eprintln!(
            "{} assumes that a process's neighbours always answer it among the first n-f (responsiveness): give --latency grid= \
             with clusters of more than f processes and --send 0, or a smaller --tolerate",
            entry.name
        );
    }
    eprintln!("REPRODUCE WITH: {command}");
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
