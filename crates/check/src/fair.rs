//! Schedules that go on for ever: is there one that leaves a live process waiting although it is
//! fair?
//!
//! Weak fairness: what can happen from some moment on all the time does happen. A message arrives,
//! a client comes out, a process that is down comes back, news are told, a timer runs out. Nobody
//! need ask, give up, crash, or lose a message.
//!
//! A schedule without end within finite bounds goes round in a cycle of states in the end. For each
//! process, the states in which it waits are split into strongly connected components (Tarjan). A
//! component is fair if everything that could happen in each of its states happens on some step
//! inside; then walking around all of it, again and again, is a fair schedule that starves the
//! process. If it is not, no part of it is. So nothing is missed and nothing is found that is not
//! there.

pub(crate) mod components;
mod graph;
mod walk;

use kgate_core::{Explorable, NodeId};

use crate::explore::{Finding, ScheduleStep};
use crate::limits::Stopped;
use crate::model::ProtocolModel;
use graph::Graph;

/// The property's name.
pub const NAME: &str = "no fair schedule starves a live process";

/// Searches all schedules. Where a limit stops that before all states are known, nothing is found.
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

/// A schedule that starves `who`: the way into a cycle and once around it, and where the cycle
/// begins.
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
