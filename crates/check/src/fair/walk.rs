//! A fair component as a schedule: the path to it, and once around it so that everything happens
//! that fairness demands.

use std::collections::{BTreeMap, VecDeque};

use kgate_core::Explorable;
use stateright::Model;

use super::graph::{Edge, Graph};
use crate::explore::{self, ScheduleStep};
use crate::model::ProtocolModel;

/// The schedule, and the index at which its cycle begins.
pub(super) fn around<P: Explorable>(
    model: &ProtocolModel<P>,
    graph: &Graph,
    component: &[u32],
) -> (Vec<ScheduleStep>, usize) {
    let entry = component[0]; // The lowest number is the nearest.
    let mut actions = path_to(graph, entry);
    let cycle = actions.len();
    let mut at = entry;
    for class in possible_classes(graph, component) {
        // A class that is disabled in some state owes nothing; a class enabled everywhere happens
        // on a step inside.
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
    (schedule_of(model, &actions), cycle)
}

fn possible_classes(graph: &Graph, component: &[u32]) -> Vec<u32> {
    let mut classes: Vec<u32> =
        graph.edges(component[0]).iter().filter_map(|edge| edge.class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// The actions by which a state was first reached.
fn path_to(graph: &Graph, state: u32) -> Vec<u32> {
    let (mut at, mut actions) = (state, Vec::new());
    while at != 0 {
        let (from, action) = graph.reached[at as usize];
        actions.push(action);
        at = from;
    }
    actions.reverse();
    actions
}

/// Appends the shortest path inside a component.
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

/// The actions of those indices, from the initial state on, as a schedule.
fn schedule_of<P: Explorable>(model: &ProtocolModel<P>, numbers: &[u32]) -> Vec<ScheduleStep> {
    model.guard.release();
    let mut state = model.first_state();
    let mut schedule = Vec::new();
    for &number in numbers {
        let mut actions = Vec::new();
        model.actions(&state, &mut actions);
        let action = actions.swap_remove(number as usize);
        schedule.push(action.clone());
        state = model.next_state(&state, action).expect("the action was enabled");
    }
    explore::schedule_of(model, schedule)
}
