//! A fair component as a schedule: the way there, and once around so that everything happens that
//! must.

use std::collections::{BTreeMap, VecDeque};

use kgate_core::Explorable;
use stateright::Model;

use super::graph::{Edge, Graph};
use crate::explore::{self, ScheduleStep};
use crate::model::ProtocolModel;

/// The schedule, and the place at which its cycle begins.
pub(super) fn around<P: Explorable>(
    model: &ProtocolModel<P>,
    graph: &Graph,
    component: &[u32],
) -> (Vec<ScheduleStep>, usize) {
    let entry = component[0]; // The lowest number: the nearest.
    let mut actions = way_to(graph, entry);
    let cycle = actions.len();
    let mut at = entry;
    for class in all_classes(graph, component) {
        // Where it cannot happen nothing is owed; where it can everywhere, it happens on a step
        // inside.
        let excused = component
            .iter()
            .find(|&&state| !graph.edges(state).iter().any(|e| e.class == Some(class)));
        match excused {
            Some(&state) => go(graph, component, &mut at, state, &mut actions),
            None => {
                let step =
                    |&state: &u32| Some((state, graph.step_inside(component, state, class)?));
                let (state, edge) = component.iter().find_map(step).expect("it is fair");
                go(graph, component, &mut at, state, &mut actions);
                actions.push(edge.action);
                at = edge.to;
            }
        }
    }
    if actions.len() == cycle {
        let inside = |edge: &&Edge| component.binary_search(&edge.to).is_ok();
        let edge = graph.edges(at).iter().find(inside).expect("it has a cycle");
        actions.push(edge.action);
        at = edge.to;
    }
    go(graph, component, &mut at, entry, &mut actions);
    (tell(model, &actions), cycle)
}

fn all_classes(graph: &Graph, component: &[u32]) -> Vec<u32> {
    let mut classes: Vec<u32> =
        graph.edges(component[0]).iter().filter_map(|edge| edge.class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// The actions by which a state was first reached.
fn way_to(graph: &Graph, state: u32) -> Vec<u32> {
    let (mut at, mut actions) = (state, Vec::new());
    while at != 0 {
        let (from, action) = graph.reached[at as usize];
        actions.push(action);
        at = from;
    }
    actions.reverse();
    actions
}

/// The shortest way inside a component.
fn go(graph: &Graph, component: &[u32], at: &mut u32, goal: u32, actions: &mut Vec<u32>) {
    let mut reached: BTreeMap<u32, (u32, u32)> = BTreeMap::from([(*at, (*at, 0))]);
    let mut todo = VecDeque::from([*at]);
    while let Some(state) = todo.pop_front().filter(|&state| state != goal) {
        for edge in
            graph.edges(state).iter().filter(|edge| component.binary_search(&edge.to).is_ok())
        {
            reached.entry(edge.to).or_insert_with(|| {
                todo.push_back(edge.to);
                (state, edge.action)
            });
        }
    }
    let (mut back, mut state) = (Vec::new(), goal);
    while state != *at {
        let (from, action) = reached[&state];
        back.push(action);
        state = from;
    }
    actions.extend(back.into_iter().rev());
    *at = goal;
}

/// Numbered actions, from the first state on, in the words of a schedule.
fn tell<P: Explorable>(model: &ProtocolModel<P>, numbers: &[u32]) -> Vec<ScheduleStep> {
    model.guard.release();
    let mut state = model.first_state();
    let mut schedule = Vec::new();
    for &number in numbers {
        let mut actions = Vec::new();
        model.actions(&state, &mut actions);
        let action = actions.swap_remove(number as usize);
        schedule.push(action.clone());
        state = model.next_state(&state, action).expect("it was possible");
    }
    explore::tell(model, schedule)
}
