//! `kgate sim --model state`: the state model, in which a daemon chooses the processes that act.

use std::io::{self, Write};
use std::sync::Arc;

use kgate_core::{Defects, Graph, NodeId, Rules, Span};
use kgate_protocols::registry::{self, Entry, RulesVisitor};
use kgate_protocols::stabilizing::waves_to_serve;
use kgate_sim::{Daemon, Start, StateConfig, StateError, StateReport, run_rules};

use super::graph;
use super::options::{DaemonArg, SimArgs, StartArg};
use crate::Failure;

/// Makes one run.
pub(crate) fn simulate(
    args: &SimArgs,
    entry: &Entry,
    printed: Defects,
    seed: u64,
) -> Result<StateReport, Failure> {
    let Some(network) = graph::build(entry, args.graph.as_deref(), args.processes, seed)? else {
        return Err(Failure::Usage(format!(
            "{} has no state model: leave out --model",
            entry.name
        )));
    };
    if network.nodes() != args.processes {
        let (has, wanted) = (network.nodes(), args.processes);
        return Err(Failure::Usage(format!(
            "a graph of {has} processes with n = {wanted}: give -n {has}"
        )));
    }
    let config = StateConfig {
        graph_name: args.graph.clone().unwrap_or_else(|| usual_name(entry)),
        printed,
        daemon: match daemon(args) {
            DaemonArg::Synchronous => Daemon::Synchronous,
            DaemonArg::Central => Daemon::Central,
            DaemonArg::Distributed => Daemon::Distributed,
            DaemonArg::Unfair => Daemon::Unfair,
        },
        start: match args.start {
            StartArg::Clean => Start::Clean,
            StartArg::Random => Start::Random,
        },
        corrupt: args.corrupt.iter().map(|(node, at)| (*node, at.0 / Span::UNIT.0)).collect(),
        rounds: rounds(args),
        // Theorem 4.3 counts the children on the path from the root: known in advance only where
        // there is a single path.
        served_within: network.is_tree().then(|| waves_to_serve(&parents(&network), args.k)),
        ..StateConfig::new(Arc::clone(&network), args.k, seed)
    };
    let visited = registry::visit_rules(entry, Run { config: &config }).ok_or_else(|| {
        Failure::Usage(format!(
            "{} has no state model: leave out --model, or choose stabilizing",
            entry.name
        ))
    })?;
    let mut report = visited.map_err(|error| Failure::Usage(error.to_string()))?;
    report.as_printed = args.as_printed.as_ref().map(|id| id.to_ascii_uppercase());
    Ok(report)
}

/// The command that replays the run, with every option of the state model spelled out.
pub(crate) fn command(args: &SimArgs, entry: &Entry, seed: u64) -> String {
    let graph = args.graph.clone().unwrap_or_else(|| usual_name(entry));
    let daemon = match daemon(args) {
        DaemonArg::Synchronous => "synchronous",
        DaemonArg::Central => "central",
        DaemonArg::Distributed => "distributed",
        DaemonArg::Unfair => "unfair",
    };
    let start = match args.start {
        StartArg::Clean => "clean",
        StartArg::Random => "random",
    };
    let mut line = format!(
        "kgate sim --protocol {} --model state -n {} -k {} --seed {seed:#x} --graph {graph} \
         --daemon {daemon} --rounds {} --start {start}",
        entry.name,
        args.processes,
        args.k,
        rounds(args)
    );
    let strikes: Vec<String> =
        args.corrupt.iter().map(|(node, at)| format!("{}@{at}", node.0)).collect();
    if !strikes.is_empty() {
        line += &format!(" --corrupt {}", strikes.join(","));
    }
    if let Some(id) = &args.as_printed {
        line += &format!(" --as-printed {id}");
    }
    line
}

fn daemon(args: &SimArgs) -> DaemonArg {
    args.daemon.unwrap_or(DaemonArg::Distributed)
}

fn rounds(args: &SimArgs) -> u64 {
    args.rounds.unwrap_or(1000)
}

fn parents(graph: &Graph) -> Vec<Option<NodeId>> {
    (0..graph.nodes()).map(|node| graph.parent(NodeId(node))).collect()
}

fn usual_name(entry: &Entry) -> String {
    entry.network.usual_shape().map(|shape| shape.to_string()).unwrap_or_default()
}

/// Hands the chosen protocol's rules to the engine.
struct Run<'a> {
    config: &'a StateConfig,
}

impl RulesVisitor for Run<'_> {
    type Output = Result<StateReport, StateError>;
    fn visit<R: Rules>(self) -> Self::Output {
        run_rules::<R>(self.config)
    }
}

/// A page for a single run, a line for one of several runs.
pub(crate) fn print(
    to: &mut impl Write,
    args: &SimArgs,
    entry: &Entry,
    report: &StateReport,
    command: &str,
) -> io::Result<()> {
    if args.runs > 1 { print_line(to, report) } else { print_page(to, entry, report, command) }
}

fn print_line(to: &mut impl Write, report: &StateReport) -> io::Result<()> {
    writeln!(
        to,
        "seed {:<6} normal at {}  stabilized at {} of {}  tokens {}  in use {}  waves {}  {}  {}",
        report.seed,
        round(report.normal_at_round),
        round(report.stabilized_at_round),
        report.published_bound,
        report.tokens_max_after_stabilization,
        report.max_in_use,
        report.waves,
        report.hash,
        verdict(report)
    )
}

fn print_page(
    to: &mut impl Write,
    entry: &Entry,
    report: &StateReport,
    command: &str,
) -> io::Result<()> {
    writeln!(
        to,
        "{} processes on {} share {} tokens; {} daemon, {} rounds in {} steps",
        report.n, report.graph, report.k, report.daemon, report.rounds, report.steps
    )?;
    writeln!(to, "protocol    {}: {}", entry.name, entry.title)?;
    if let Some(id) = &report.as_printed {
        writeln!(to, "as printed  {id}: this published defect is switched on")?;
    }
    let again = match report.abnormal_again {
        0 => String::new(),
        times => {
            let until = round(report.abnormal_until_round);
            format!(", and {times} times abnormal again, the last time until round {until}")
        }
    };
    writeln!(to, "normal      round {} (n is {}){again}", round(report.normal_at_round), report.n)?;
    writeln!(
        to,
        "stabilized  round {}, after {} waves; published bound {}",
        round(report.stabilized_at_round),
        round(report.waves_until_stabilized),
        report.published_bound
    )?;
    writeln!(
        to,
        "in use      at most {} slots at once, {} tokens, from the first start configuration on; \
         {} slots overall",
        report.max_in_use, report.tokens_max_after_stabilization, report.max_in_use_overall
    )?;
    writeln!(
        to,
        "waves       {}; the least served process received {} tokens",
        report.waves, report.served
    )?;
    if let Some(wait) = report.longest_wait.filter(|wait| wait.steps > 0) {
        writeln!(
            to,
            "waits       {} was enabled for the last {} steps and not chosen",
            wait.node, wait.steps
        )?;
    }
    let actions: Vec<String> =
        report.moves_by_action.iter().map(|(name, count)| format!("{name} {count}")).collect();
    writeln!(to, "moves       {} ({})", report.moves, actions.join(", "))?;
    writeln!(to, "verdict     {}", verdict(report))?;
    writeln!(to, "simulated   in {:.3} s; hash {}", report.wall_seconds, report.hash)?;
    writeln!(to, "replay      {command}")
}

fn round(number: Option<u64>) -> String {
    number.map_or_else(|| "-".into(), |number| number.to_string())
}

fn verdict(report: &StateReport) -> String {
    match report.violations.first() {
        Some(violation) => format!("FAIL: violated: {}", violation.property),
        None if report.stabilized_at_round.is_none() => {
            "NOTHING SHOWN: not stabilized within these rounds: give more --rounds".into()
        }
        None => format!(
            "PASS: at most {} tokens after stabilization, and some process could always move",
            report.k
        ),
    }
}
