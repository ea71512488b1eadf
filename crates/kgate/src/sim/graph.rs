//! The network that the command line describes.

use std::sync::Arc;

use kgate_core::Graph;
use kgate_protocols::registry::{Entry, Network};
use kgate_protocols::topology::graphs::{self, SHAPES, Shape};
use kgate_sim::Rng;

use crate::Failure;

/// A named shape, with its random choices drawn from the seed, or a file; none for protocols on
/// fully connected networks.
pub(crate) fn build(
    entry: &Entry,
    wanted: Option<&str>,
    processes: u32,
    seed: u64,
) -> Result<Option<Arc<Graph>>, Failure> {
    let Some(usual) = entry.network.usual_shape() else {
        return match wanted {
            None => Ok(None),
            Some(_) => {
                usage(format!("{} uses a fully connected network: leave out --graph", entry.name))
            }
        };
    };
    if processes < 2 {
        return usage(format!("n is {processes}: give at least 2 processes"));
    }
    let named =
        |name: &str| SHAPES.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape);
    let graph = match wanted.map(|name| (name, named(name))) {
        None => shape(entry, processes, seed, usual)?,
        Some((_, Some(wanted))) => shape(entry, processes, seed, wanted)?,
        Some((path, None)) => read(path, entry)?,
    };
    if entry.network == Network::Tree && !graph.is_tree() {
        return usage(format!(
            "{} runs on trees, and this graph has a cycle: remove an edge",
            entry.name
        ));
    }
    Ok(Some(Arc::new(graph)))
}

/// Largest number of edges: such a graph takes one or two gigabytes.
const MOST_EDGES: u64 = 50_000_000;

fn shape(entry: &Entry, processes: u32, seed: u64, wanted: Shape) -> Result<Graph, Failure> {
    let wanted = match (entry.network, wanted) {
        (Network::Tree, Shape::Random) => Shape::RandomTree,
        (Network::Tree, wanted) if !wanted.is_tree() => {
            let trees: Vec<&str> =
                SHAPES.iter().filter(|(_, shape)| shape.is_tree()).map(|(name, _)| *name).collect();
            return usage(format!(
                "{} runs on trees, and {wanted} is not a tree: choose one of {}, random, or a file",
                entry.name,
                trees.join(", ")
            ));
        }
        (_, wanted) => wanted,
    };
    let nodes = u64::from(processes);
    let edges = if wanted == Shape::Complete { nodes.pow(2) / 2 } else { 2 * nodes };
    if edges > MOST_EDGES {
        return usage(format!(
            "{wanted} with n = {processes} has {edges} edges: choose a smaller n, for at most \
             {MOST_EDGES} edges"
        ));
    }
    let mut rng = Rng::fork(seed, "graph");
    wanted
        .build(processes, &mut |bound| rng.below(bound))
        .map_err(|error| Failure::Usage(error.to_string()))
}

fn read(path: &str, entry: &Entry) -> Result<Graph, Failure> {
    let fits = |shape: &Shape| {
        entry.network != Network::Tree || shape.is_tree() || *shape == Shape::Random
    };
    let names: Vec<&str> =
        SHAPES.iter().filter(|(_, shape)| fits(shape)).map(|(name, _)| *name).collect();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the graph '{path}': {error}; name a file of edges, or one of {}",
            names.join(", ")
        ))
    })?;
    graphs::parse(&text).map_err(|error| Failure::Usage(format!("the graph {path}: {error}")))
}

fn usage<T>(text: String) -> Result<T, Failure> {
    Err(Failure::Usage(text))
}
