//! The state model: every configuration of a small network, and every step of every daemon.
//!
//! [`Rules`] have no schedules with a start and an end: a run may begin in any configuration and
//! never rests. But the domains of a process's variables are finite, so all configurations can be
//! explored, reachable or not. Instead of properties of states there are laws of the whole
//! [`Space`], each decided for every start at once:
//!
//! - a process can move: no configuration is terminal;
//! - normal within n rounds, under any daemon (stabilizing-2014 Theorem 4.1 with D = n-1);
//! - recovery: no weakly fair daemon avoids forever all configurations in which a wave starts
//!   cleanly and every process has joined;
//! - closure: after any configuration in which a wave starts cleanly (INC), at most l tokens and at
//!   most l inside (Theorem 4.2);
//! - no starvation: no weakly fair daemon runs forever without the privilege of some process
//!   (Theorems 4.3 and 4.5);
//! - some process is inside at some time after INC, so that closure is not vacuous.
//!
//! Whether k are inside at once is reported and not checked: the paper does not promise it. On a
//! path and on a star of 3, one token is used up before the next is sent, so with l = 2 at most one
//! is inside; on a triangle two are.
//!
//! `space.rs` numbers the configurations, `laws.rs` decides the laws. A counterexample may begin in
//! any configuration, so it includes its first one.

pub mod laws;
pub mod space;

use std::sync::Arc;

use kgate_core::{Defects, Graph, NodeId, Rules, Survey};
use kgate_spec::convergence::{AT_MOST_L_TOKENS, NORMAL_IN_TIME, SOMEBODY_CAN_MOVE};
use kgate_spec::scenario::{Act, Movers};
use kgate_spec::{AtMostK, Convergence, SometimesK};

use crate::explore::{Event, Finding, Outcome, ScheduleStep};
use crate::fair;
use crate::limits::Limits;
use laws::Walk;
pub use space::{Space, TooLarge};

/// Every property, in the order in which they are checked.
pub const PROPERTIES: [&str; 7] = [
    SOMEBODY_CAN_MOVE,
    NORMAL_IN_TIME,
    Convergence::NAME,
    AT_MOST_L_TOKENS,
    AtMostK::NAME,
    fair::NAME,
    SometimesK::SOMEBODY,
];

/// Explores `R` on that network. The outcome omits properties that a limit left no time for.
pub fn explore_rules<R: Rules>(
    graph: &Arc<Graph>,
    k: u32,
    printed: Defects,
    limits: Limits,
) -> Result<Outcome, TooLarge> {
    let space = Space::<R>::new(graph, k, printed, limits)?;
    let mut outcome = Outcome {
        states: 0,
        unique: space.size(),
        depth: 0,
        complete: false,
        stopped: None,
        inside_max: None,
        properties: Vec::new(),
        seconds: 0.0,
    };
    if space.stopped().is_none() {
        outcome.states = (0..space.size()).map(|number| space.steps(number)).sum();
        for name in PROPERTIES {
            let finding = check(&space, name, &mut outcome);
            // A result that was found while a limit took effect is not valid.
            if space.stopped().is_some() {
                break;
            }
            outcome.properties.push(finding);
        }
    }
    outcome.stopped = space.stopped();
    outcome.complete = outcome.stopped.is_none();
    outcome.seconds = space.guard.seconds();
    Ok(outcome)
}

fn check<R: Rules>(space: &Space<R>, name: &'static str, outcome: &mut Outcome) -> Finding {
    let k = space.setups[0].k;
    match name {
        SOMEBODY_CAN_MOVE => finding(space, name, stuck(space)),
        NORMAL_IN_TIME => {
            let normal = |number: usize| space.surveys[number].normal;
            let most = laws::rounds_until(space, normal);
            outcome.depth = most.unwrap_or(0);
            let late = most.is_none_or(|most| most > space.processes());
            finding(
                space,
                name,
                late.then(|| laws::walk_avoiding(space, normal, space.processes())).flatten(),
            )
        }
        Convergence::NAME => {
            let stable =
                |number: usize| space.surveys[number].start && space.surveys[number].joined;
            let never = laws::fair_cycle(space, |from, edge| !stable(from) && !stable(edge.to));
            cycle(space, name, never.or_else(|| terminal(space, |number| !stable(number))))
        }
        AT_MOST_L_TOKENS => finding(space, name, from_a_start(space, |survey| survey.tokens > k)),
        AtMostK::NAME => finding(space, name, from_a_start(space, |survey| survey.privileged > k)),
        fair::NAME => {
            let starves =
                |at: usize| laws::fair_cycle(space, |_, edge| edge.privileged >> at & 1 == 0);
            let starved = (0..space.processes()).find_map(starves);
            cycle(space, name, starved.or_else(|| terminal(space, |_| true)))
        }
        SometimesK::SOMEBODY => {
            let inside = |number: usize| space.surveys[number].privileged;
            outcome.inside_max = space.reachable(starts(space)).into_iter().map(inside).max();
            Finding { holds: outcome.inside_max > Some(0), ..Finding::holds(name) }
        }
        name => unreachable!("'{name}' is listed and not checked"),
    }
}

/// A walk to a terminal configuration: from the clean start if there is one, else the configuration
/// itself.
fn stuck<R: Rules>(space: &Space<R>) -> Option<Walk> {
    let number = laws::terminal(space)?;
    let terminal = |number: usize| space.enabled(number) == 0;
    Some(
        laws::shortest_walk(space, [space.clean()], terminal, |_, _| true)
            .unwrap_or_else(|| Walk::at(number)),
    )
}

/// The shortest walk from a configuration of INC to one that satisfies `is`.
fn from_a_start<R: Rules>(space: &Space<R>, is: impl Fn(&Survey) -> bool) -> Option<Walk> {
    laws::shortest_walk(space, starts(space), |number| is(&space.surveys[number]), |_, _| true)
}

/// The configurations of INC.
fn starts<R: Rules>(space: &Space<R>) -> impl Iterator<Item = usize> + '_ {
    (0..space.size()).filter(|&number| space.surveys[number].start)
}

/// A terminal configuration that satisfies `is`: a run that reaches it stays there forever.
fn terminal<R: Rules>(space: &Space<R>, is: impl Fn(usize) -> bool) -> Option<Walk> {
    (0..space.size()).find(|&number| space.enabled(number) == 0 && is(number)).map(Walk::at)
}

fn cycle<R: Rules>(space: &Space<R>, name: &'static str, walk: Option<Walk>) -> Finding {
    let cycle = walk.as_ref().filter(|walk| !walk.steps.is_empty()).map(|_| 0);
    Finding { cycle, ..finding(space, name, walk) }
}

/// The finding for a property that is violated if there is such a walk.
fn finding<R: Rules>(space: &Space<R>, name: &'static str, walk: Option<Walk>) -> Finding {
    let Some(walk) = walk else { return Finding::holds(name) };
    let everybody = (1u32 << space.processes()) - 1;
    let from = Some(print_states(space, walk.from, everybody));
    Finding {
        holds: false,
        counterexample: Some(schedule_of(space, &walk)),
        from,
        ..Finding::holds(name)
    }
}

/// A walk as steps of a scenario.
fn schedule_of<R: Rules>(space: &Space<R>, walk: &Walk) -> Vec<ScheduleStep> {
    let mut at = walk.from;
    let mut steps = Vec::new();
    for edge in &walk.steps {
        let mover = |process: usize| {
            let action = space.taken(at, *edge, process)?;
            Some((space.setups[process].me, Some(action.name.to_owned())))
        };
        let movers: Vec<(NodeId, Option<String>)> =
            (0..space.processes()).filter_map(mover).collect();
        let states = print_states(space, edge.to, edge.movers).join("; ");
        steps.push(ScheduleStep {
            step: Event::Act(Act::Move(Movers::These(movers))),
            message: Some(states),
        });
        at = edge.to;
    }
    steps
}

/// The states of those processes, one line each.
fn print_states<R: Rules>(space: &Space<R>, number: usize, whose: u32) -> Vec<String> {
    let all = space.setups.iter().zip(space.states(number));
    let wanted = all.filter(|(setup, _)| whose >> setup.me.0 & 1 == 1);
    wanted.map(|(setup, state)| format!("{} {}", setup.me, R::print_state(&state))).collect()
}

#[cfg(test)]
mod tests;
