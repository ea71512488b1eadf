//! The configuration that the header of a scenario describes.

use std::sync::Arc;

use kgate_core::{Defects, Graph, SlotOptions, Span};
use kgate_protocols::registry::{Entry, Network};
use kgate_protocols::topology::graphs::{self, SHAPES};
use kgate_sim::{Claims, Config, Rng, Start, StateConfig};
use kgate_spec::Scenario;

use super::RunError;
use crate::claims_of;

pub(super) fn rejected(why: impl ToString) -> RunError {
    RunError::Setting(why.to_string())
}

pub(super) fn no_state_model(entry: &Entry) -> RunError {
    rejected(format!("{} has no state model: leave out `model`", entry.name))
}

fn printed(scenario: &Scenario, entry: &Entry, repaired: bool) -> Result<Defects, RunError> {
    match &scenario.as_printed {
        Some(id) => entry
            .as_printed(id)
            .map(|on| if repaired { Defects::NONE } else { on })
            .map_err(rejected),
        None => Ok(Defects::NONE),
    }
}

/// The configuration of a run over messages.
pub(super) fn config(
    scenario: &Scenario,
    entry: &Entry,
    repaired: bool,
) -> Result<Config, RunError> {
    if scenario.tolerate.is_some() && !entry.needs_crash_bound {
        return Err(rejected(format!(
            "{} has no setting for the crashes to tolerate: leave out `tolerate`",
            entry.name
        )));
    }
    let (nodes, k) = (scenario.processes, scenario.k);
    if let Some(tolerate) = scenario.tolerate.filter(|&tolerate| tolerate > 0 && tolerate >= k) {
        return Err(rejected(format!(
            "`tolerate {tolerate}` with `k {k}`: so many crashed processes could hold every slot \
             for ever; choose at most {}",
            k.saturating_sub(1)
        )));
    }
    if scenario.options != SlotOptions::default() && !entry.slots {
        return Err(rejected(format!("{} has no numbered slots: leave out `options`", entry.name)));
    }
    let mut config = Config::new(nodes, k);
    config.slots = scenario.options;
    config.printed = printed(scenario, entry, repaired)?;
    config.graph = graph(scenario, entry)?;
    config.tolerate = scenario.tolerate.unwrap_or(0);
    config.refresh = scenario.refresh.then_some(Span::UNIT);
    config.down = scenario.down;
    let claims = claims_of(entry, nodes, k);
    let tolerates = if entry.needs_crash_bound { config.tolerate } else { claims.tolerates };
    config.claims = Claims { tolerates, ..claims };
    Ok(config)
}

/// The configuration of a run in the state model.
pub(super) fn state_config(
    scenario: &Scenario,
    entry: &Entry,
    repaired: bool,
) -> Result<StateConfig, RunError> {
    let Some(graph) = graph(scenario, entry)? else {
        return Err(no_state_model(entry));
    };
    if let Some((node, _)) = scenario.states.iter().find(|(node, _)| node.0 >= scenario.processes) {
        let n = scenario.processes;
        return Err(rejected(format!(
            "{node} does not exist: with `processes {n}` there are p0 .. p{}",
            n.saturating_sub(1)
        )));
    }
    let mut config = StateConfig::new(graph, scenario.k, 1);
    config.start = Start::Clean;
    config.printed = printed(scenario, entry, repaired)?;
    Ok(config)
}

/// The network: a named shape or edges; none if it is fully connected.
fn graph(scenario: &Scenario, entry: &Entry) -> Result<Option<Arc<Graph>>, RunError> {
    let Some(usual) = entry.network.usual_shape() else {
        return match (&scenario.graph, scenario.root) {
            (None, None) => Ok(None),
            _ => Err(rejected(format!(
                "{} uses a fully connected network: leave out `graph` and `root`",
                entry.name
            ))),
        };
    };
    let nodes = scenario.processes;
    let mut rng = Rng::fork(1, "graph");
    let mut build =
        |shape: graphs::Shape| shape.build(nodes, &mut |bound| rng.below(bound)).map_err(rejected);
    let mut graph = match &scenario.graph {
        None => build(usual)?,
        Some(name) => match SHAPES.iter().find(|(known, _)| known == name) {
            Some((_, shape)) => build(*shape)?,
            None => edges(name)?,
        },
    };
    if let Some(root) = scenario.root {
        graph = graph.with_root(root).map_err(rejected)?;
    }
    if graph.nodes() != nodes {
        return Err(rejected(format!(
            "a graph of {} processes with `processes {nodes}`",
            graph.nodes()
        )));
    }
    if entry.network == Network::Tree && !graph.is_tree() {
        return Err(rejected(format!(
            "{} runs on trees, and this graph has a cycle: remove an edge",
            entry.name
        )));
    }
    Ok(Some(Arc::new(graph)))
}

/// `0-1 1-2`.
fn edges(text: &str) -> Result<Graph, RunError> {
    let lines: Vec<String> =
        text.split_whitespace().map(|edge| edge.replacen('-', " ", 1)).collect();
    graphs::parse(&lines.join("\n")).map_err(|error| {
        let names: Vec<&str> = SHAPES.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        rejected(format!(
            "`graph {text}`: {error}; write edges such as `graph 0-1 1-2`, or one of {names}"
        ))
    })
}
