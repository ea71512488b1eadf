//! The configuration that a scenario's header asks for.

use std::sync::Arc;

use kgate_core::{Defects, Graph, SlotOptions, Span};
use kgate_protocols::registry::{Entry, Network};
use kgate_protocols::topology::graphs::{self, SHAPES};
use kgate_sim::{Claims, Config, Rng, Start, StateConfig};
use kgate_spec::Scenario;

use super::Failed;
use crate::claims_of;

pub(super) fn refused(why: impl ToString) -> Failed {
    Failed::Setting(why.to_string())
}

pub(super) fn no_state_model(entry: &Entry) -> Failed {
    refused(format!("{} has no state model: leave out `model`", entry.name))
}

fn printed(scenario: &Scenario, entry: &Entry, repaired: bool) -> Result<Defects, Failed> {
    match &scenario.as_printed {
        Some(id) => entry
            .as_printed(id)
            .map(|on| if repaired { Defects::NONE } else { on })
            .map_err(refused),
        None => Ok(Defects::NONE),
    }
}

/// Over messages.
pub(super) fn config(scenario: &Scenario, entry: &Entry, repaired: bool) -> Result<Config, Failed> {
    if scenario.tolerate.is_some() && !entry.told_to_tolerate {
        return Err(refused(format!(
            "{} is not told how many crashes to tolerate: leave out `tolerate`",
            entry.name
        )));
    }
    let (nodes, k) = (scenario.processes, scenario.k);
    if let Some(tolerate) = scenario.tolerate.filter(|&tolerate| tolerate > 0 && tolerate >= k) {
        return Err(refused(format!(
            "`tolerate {tolerate}` with `k {k}`: so many crashed processes could keep every unit for ever; \
             choose at most {}",
            k.saturating_sub(1)
        )));
    }
    if scenario.options != SlotOptions::default() && !entry.slots {
        return Err(refused(format!("{} has no numbered slots: leave out `options`", entry.name)));
    }
    let mut config = Config::new(nodes, k);
    config.slots = scenario.options;
    config.printed = printed(scenario, entry, repaired)?;
    config.graph = graph(scenario, entry)?;
    config.tolerate = scenario.tolerate.unwrap_or(0);
    config.refresh = scenario.refresh.then_some(Span::UNIT);
    config.down = scenario.down;
    let claims = claims_of(entry, nodes, k);
    let tolerates = if entry.told_to_tolerate { config.tolerate } else { claims.tolerates };
    config.claims = Claims { tolerates, ..claims };
    Ok(config)
}

/// In the state model.
pub(super) fn state_config(
    scenario: &Scenario,
    entry: &Entry,
    repaired: bool,
) -> Result<StateConfig, Failed> {
    let Some(graph) = graph(scenario, entry)? else {
        return Err(no_state_model(entry));
    };
    if let Some((node, _)) = scenario.states.iter().find(|(node, _)| node.0 >= scenario.processes) {
        let n = scenario.processes;
        return Err(refused(format!(
            "{node} cannot start anywhere: with `processes {n}` there are p0 .. p{}",
            n.saturating_sub(1)
        )));
    }
    let mut config = StateConfig::new(graph, scenario.k, 1);
    config.start = Start::Clean;
    config.printed = printed(scenario, entry, repaired)?;
    Ok(config)
}

/// The network: a shape by name, or edges; none where everybody talks to everybody.
fn graph(scenario: &Scenario, entry: &Entry) -> Result<Option<Arc<Graph>>, Failed> {
    let Some(usual) = entry.network.usual_shape() else {
        return match (&scenario.graph, scenario.root) {
            (None, None) => Ok(None),
            _ => Err(refused(format!(
                "in {} everybody talks to everybody: leave out `graph` and `root`",
                entry.name
            ))),
        };
    };
    let nodes = scenario.processes;
    let mut rng = Rng::fork(1, "graph");
    let mut build =
        |shape: graphs::Shape| shape.build(nodes, &mut |bound| rng.below(bound)).map_err(refused);
    let mut graph = match &scenario.graph {
        None => build(usual)?,
        Some(name) => match SHAPES.iter().find(|(known, _)| known == name) {
            Some((_, shape)) => build(*shape)?,
            None => edges(name)?,
        },
    };
    if let Some(root) = scenario.root {
        graph = graph.with_root(root).map_err(refused)?;
    }
    if graph.nodes() != nodes {
        return Err(refused(format!(
            "a graph of {} processes with `processes {nodes}`",
            graph.nodes()
        )));
    }
    if entry.network == Network::Tree && !graph.is_tree() {
        return Err(refused(format!(
            "{} runs on trees, and this graph has a cycle: leave out an edge",
            entry.name
        )));
    }
    Ok(Some(Arc::new(graph)))
}

/// `0-1 1-2`.
fn edges(text: &str) -> Result<Graph, Failed> {
    let lines: Vec<String> =
        text.split_whitespace().map(|edge| edge.replacen('-', " ", 1)).collect();
    graphs::parse(&lines.join("\n")).map_err(|error| {
        let names: Vec<&str> = SHAPES.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        refused(format!(
            "`graph {text}`: {error}; write edges such as `graph 0-1 1-2`, or one of {names}"
        ))
    })
}
