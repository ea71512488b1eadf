//! The facts of stabilizing-2014: what holds, what does not, and what print has lost.
//!
//! - `exhaustive.rs`: every configuration and every daemon, on all networks of 2 and 3 processes;
//! - `starts.rs`: thousands of random starts on larger networks;
//! - `claims.rs`: claims of the paper that do not hold;
//! - `printed.rs`: each correction taken back, and the fault that results.
//!
//! The tools of the first are those of `kgate check` (`kgate_check::rules`).

mod claims;
mod exhaustive;
mod printed;
mod starts;

use std::sync::Arc;

use kgate_check::Limits;
use kgate_check::rules::Space;
use kgate_core::{Defects, Graph, NodeId};
use kgate_protocols::stabilizing::Exclusion;
use kgate_protocols::topology::graphs::Shape;
use kgate_sim::{Rng, StateConfig, StateReport, run_rules};

/// The network of these edges.
fn graph(nodes: u32, edges: &[(u32, u32)], root: u32) -> Arc<Graph> {
    let edges: Vec<_> = edges.iter().map(|&(a, b)| (NodeId(a), NodeId(b))).collect();
    Arc::new(Graph::new(nodes, &edges, NodeId(root)).expect("a graph"))
}

/// Every configuration of it.
fn space(graph: &Arc<Graph>, k: u32, printed: Defects) -> Space<Exclusion> {
    Space::new(graph, k, printed, Limits::default()).expect("small enough")
}

/// The network of this shape with the root at p0, as on the command line; a random one is drawn
/// from `seed`.
fn shaped(shape: Shape, nodes: u32, seed: u64) -> Arc<Graph> {
    let mut rng = Rng::fork(seed, "graph");
    Arc::new(shape.build(nodes, &mut |bound| rng.below(bound)).expect("a graph"))
}

fn run(config: &StateConfig) -> StateReport {
    run_rules::<Exclusion>(config).expect("a run")
}

fn properties(report: &StateReport) -> Vec<&'static str> {
    report.violations.iter().map(|violation| violation.property).collect()
}
