//! `kgate check` for a protocol of guarded rules: every configuration of a small network, in the
//! state model.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::ArgMatches;
use kgate_check::rules::{self, TooLarge};
use kgate_check::{Limits, Outcome as Found, explore_rules};
use kgate_core::{Defects, Graph, Rules};
use kgate_protocols::registry::{self, Entry, RulesVisitor};

use super::logged::LogArgs;
use super::options::CheckArgs;
use super::{chosen, limits, text};
use crate::sim::conflicts::{flag, typed};
use crate::sim::graph;
use crate::slots::SlotArgs;
use crate::{Failure, Outcome};

/// Options for messages, clients and schedules, besides those of numbered slots. In the state model
/// counterexamples are always shortest, and fairness is always checked.
const MESSAGES_ONLY: [&str; 20] = [
    "entries",
    "ask_inside",
    "weight_max",
    "resize",
    "clients",
    "ask_again",
    "expiries",
    "crashes",
    "restarts",
    "down",
    "withdrawals",
    "loss",
    "duplicates",
    "channels",
    "tolerate",
    "shortest",
    "fair",
    "scenario",
    "diagram",
    "explore",
];

/// The first given option that has no meaning in the state model.
pub(super) fn meaningless(given: &ArgMatches) -> Option<String> {
    let others = SlotArgs::IDS.iter().chain(&LogArgs::IDS);
    MESSAGES_ONLY.iter().chain(others).find(|id| typed(given, id)).map(|id| flag(id))
}

pub(super) fn run(args: &CheckArgs, entry: &Entry, printed: Defects) -> Outcome {
    let found = search(args, entry, printed)?;
    let mut stdout = io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", serde_json::to_string_pretty(&found).context("printing JSON")?)?;
    } else {
        text::print_rules(&mut stdout, &found, args.k)?;
    }
    stdout.flush()?;
    Ok(if found.is_wrong() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Explores the configurations.
pub(super) fn search(args: &CheckArgs, entry: &Entry, printed: Defects) -> Result<Found, Failure> {
    let wanted = match args.property.as_slice() {
        [] => rules::PROPERTIES.to_vec(),
        some => chosen(rules::PROPERTIES.to_vec(), some)?,
    };
    let none = || Failure::Usage(format!("{} has no state model", entry.name));
    let graph = graph::build(entry, args.graph.as_deref(), args.processes, 1)?.ok_or_else(none)?;
    if graph.nodes() != args.processes {
        let (has, n) = (graph.nodes(), args.processes);
        return Err(Failure::Usage(format!(
            "a graph of {has} processes with n = {n}: give -n {has}"
        )));
    }
    let search = Search { graph: &graph, k: args.k, printed, limits: limits(args) };
    let found = registry::visit_rules(entry, search).ok_or_else(none)?;
    let mut found = found.map_err(|error| Failure::Usage(error.to_string()))?;
    found.properties.retain(|finding| wanted.contains(&finding.name));
    Ok(found)
}

/// Passes the rules of the chosen protocol to the model checker.
struct Search<'a> {
    graph: &'a Arc<Graph>,
    k: u32,
    printed: Defects,
    limits: Limits,
}

impl RulesVisitor for Search<'_> {
    type Output = Result<Found, TooLarge>;
    fn visit<R: Rules>(self) -> Self::Output {
        explore_rules::<R>(self.graph, self.k, self.printed, self.limits)
    }
}
