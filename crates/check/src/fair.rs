//! Infinite schedules: does a fair one starve a live process?
//!
//! Weak fairness: an action that is enabled from some moment on forever does happen. A message
//! arrives, a client releases, a process that is down restarts, a notification is delivered, a
//! timer expires. No fairness is required of requests, withdrawals, crashes and losses of messages.
//!
//! Within finite bounds an infinite schedule ends in a cycle of states. For each process, the
//! states in which it waits are split into strongly connected components (Tarjan 1972). A component
//! is fair if every action that is enabled in all of its states happens on some step inside it;
//! then going around all of it forever is a fair schedule that starves the process. If a component
//! is not fair, no part of it is. So the search misses no starvation and reports no false one.

pub(crate) mod components;
mod graph;
mod walk;

use kgate_core::{Explorable, NodeId};

use crate::explore::{Finding, ScheduleStep};
use crate::limits::Stopped;
use crate::model::ProtocolModel;
use graph::Graph;

/// The name of the property.
pub const NAME: &str = "no fair schedule starves a live process";

/// Searches all infinite schedules. If a limit stops the search before all states are known,
/// nothing is found.
pub fn search<P: Explorable>(model: &ProtocolModel<P>) -> (Finding, Option<Stopped>, f64) {
    let graph = Graph::build(model);
    let stopped = model.guard.stopped();
    let starved = graph.and_then(|graph| {
        let everybody = (0..model.setup.nodes).map(NodeId);
        everybody.into_iter().find_map(|who| starved(model, &graph, who))
    });
    let finding = match starved {
        None => Finding::holds(NAME),
        Some((schedule, cycle)) => {
            let (counterexample, cycle) = (Some(schedule), Some(cycle));
            Finding { name: NAME, holds: false, counterexample, cycle, from: None, note: None }
        }
    };
    let stopped = if finding.holds { stopped } else { Some(Stopped::Found) };
    (finding, stopped, model.guard.seconds())
}

/// A schedule that starves `who`: the path into a cycle and once around it, and the index at which
/// the cycle begins.
fn starved<P: Explorable>(
    model: &ProtocolModel<P>,
    graph: &Graph,
    who: NodeId,
) -> Option<(Vec<ScheduleStep>, usize)> {
    let edges = |state| graph.edges(state).iter().map(|edge| edge.to);
    let components = components::of(graph.states(), edges, |state| graph.waits(state, who));
    let fair = components.iter().find(|component| {
        let owed = graph.always_possible(component);
        owed.iter().all(|class| graph.happens_inside(component, *class))
    })?;
    Some(walk::around(model, graph, fair))
}

#[cfg(test)]
mod tests;
