//! The laws of a whole [`Space`]: each answer is a proof for that network, or a walk that violates
//! the law.

use std::collections::VecDeque;

use kgate_core::Rules;

use super::space::{Edge, Space};
use crate::fair::components;

/// A walk: steps of a daemon from a configuration on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The first configuration.
    pub from: usize,
    /// The steps.
    pub steps: Vec<Edge>,
}

impl Walk {
    /// The walk without steps.
    pub fn at(from: usize) -> Self {
        Self { from, steps: Vec::new() }
    }

    /// The last configuration.
    pub fn end(&self) -> usize {
        self.steps.last().map_or(self.from, |edge| edge.to)
    }
}

/// A terminal configuration, in which no process can move.
pub fn terminal<R: Rules>(space: &Space<R>) -> Option<usize> {
    (0..space.size()).find(|&number| space.enabled(number) == 0)
}

/// The shortest walk from one of `starts` to a configuration of `goal`, by steps for which `may`
/// holds.
pub fn shortest_walk<R: Rules>(
    space: &Space<R>,
    starts: impl IntoIterator<Item = usize>,
    goal: impl Fn(usize) -> bool,
    may: impl Fn(usize, Edge) -> bool,
) -> Option<Walk> {
    let mut predecessors = Predecessors::new(space.size());
    let mut open: VecDeque<usize> =
        starts.into_iter().filter(|&start| predecessors.start(start)).collect();
    while let Some(number) = open.pop_front() {
        if goal(number) {
            let known = predecessors.path_to(number);
            let step = |pair: &[usize]| {
                let fits = |edge: &Edge| edge.to == pair[1] && may(pair[0], *edge);
                space.edges(pair[0]).into_iter().find(fits)
            };
            // Once a limit is reached not all steps are found; such a result is discarded.
            return Some(Walk {
                from: known[0],
                steps: known.windows(2).map_while(step).collect(),
            });
        }
        for edge in space.edges(number).into_iter().filter(|edge| may(number, *edge)) {
            if predecessors.from(edge.to, number) {
                open.push_back(edge.to);
            }
        }
    }
    None
}

/// The largest number of rounds for which a daemon can avoid every configuration of `goal`; none if
/// forever.
///
/// A round is over when every process that was enabled at its start has moved or was disabled for a
/// moment; at once if none was.
pub fn rounds_until<R: Rules>(space: &Space<R>, goal: impl Fn(usize) -> bool) -> Option<usize> {
    let mut starts = outside(space, &goal);
    let mut rounds = 0;
    while !starts.is_empty() {
        let ends = after_a_round(space, &starts, &goal);
        // The configurations after a round are a subset of those before it; if they are all of
        // them, the daemon can go on forever.
        if ends.len() == starts.len() {
            return None;
        }
        starts = ends;
        rounds += 1;
    }
    Some(rounds)
}

/// A walk of so many whole rounds that avoids every configuration of `goal`.
pub fn walk_avoiding<R: Rules>(
    space: &Space<R>,
    goal: impl Fn(usize) -> bool,
    rounds: usize,
) -> Option<Walk> {
    let mut layers = vec![outside(space, &goal)];
    for round in 0..rounds {
        layers.push(after_a_round(space, &layers[round], &goal));
    }
    // From its end back to its start, round by round.
    let mut walk = Walk::at(*layers.pop()?.first()?);
    while let Some(starts) = layers.pop() {
        let mut predecessors = Predecessors::new(space.size() << space.processes());
        round(space, &starts, &goal, |place, before| match before {
            Some(before) => predecessors.from(place, before),
            None => predecessors.start(place),
        });
        let places = predecessors.path_to(walk.from << space.processes());
        let (split, step) = (
            |place| split(space, place),
            |pair: &[(usize, u32)]| {
                let [(number, pending), (to, left)] = *pair else { return None };
                let fits = |edge: &Edge| {
                    edge.to == to && pending & !edge.movers & space.enabled(edge.to) == left
                };
                space.edges(number).into_iter().find(fits)
            },
        );
        let places: Vec<(usize, u32)> = places.into_iter().map(split).collect();
        let mut steps: Vec<Edge> = places.windows(2).map_while(step).collect();
        steps.append(&mut walk.steps);
        walk = Walk { from: places[0].0, steps };
    }
    Some(walk)
}

fn outside<R: Rules>(space: &Space<R>, goal: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..space.size()).filter(|&number| !goal(number)).collect()
}

/// The configurations in which a round from one of `starts` can end that avoids `goal`.
fn after_a_round<R: Rules>(
    space: &Space<R>,
    starts: &[usize],
    goal: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut seen = vec![false; space.size() << space.processes()];
    round(space, starts, goal, |place, _| !std::mem::replace(&mut seen[place], true));
    (0..space.size()).filter(|number| seen[number << space.processes()]).collect()
}

/// Visits all rounds from `starts` that avoid `goal`. A place is a configuration with the set of
/// processes that must still move; it is reached from the place before, if it is no start, and
/// `meet` returns whether it is new. A round is over when the set is empty.
fn round<R: Rules>(
    space: &Space<R>,
    starts: &[usize],
    goal: impl Fn(usize) -> bool,
    mut meet: impl FnMut(usize, Option<usize>) -> bool,
) {
    let place = |number: usize, pending: u32| number << space.processes() | pending as usize;
    let begin = |&start: &usize| place(start, space.enabled(start));
    let mut open: VecDeque<usize> =
        starts.iter().map(begin).filter(|&start| meet(start, None)).collect();
    while let Some(before) = open.pop_front() {
        let (number, pending) = split(space, before);
        if pending == 0 {
            continue;
        }
        for Edge { movers, to, .. } in space.edges(number) {
            let after = place(to, pending & !movers & space.enabled(to));
            if !goal(to) && meet(after, Some(before)) {
                open.push_back(after);
            }
        }
    }
}

fn split<R: Rules>(space: &Space<R>, place: usize) -> (usize, u32) {
    let pending = place & ((1 << space.processes()) - 1);
    (place >> space.processes(), u32::try_from(pending).expect("a bit a process"))
}

/// A cycle that a weakly fair daemon can follow forever, by configurations and steps for which
/// `may` holds; none if there is none.
///
/// A strongly connected component suffices: a run can visit all of it again and again, which is
/// weakly fair if every process moves somewhere in it or is disabled somewhere in it.
pub fn fair_cycle<R: Rules>(space: &Space<R>, may: impl Fn(usize, Edge) -> bool) -> Option<Walk> {
    let may = &may;
    let number = |state: u32| state as usize;
    let steps = |from: usize| space.edges(from).into_iter().filter(move |edge| may(from, *edge));
    let small = |number: usize| u32::try_from(number).expect("few enough");
    let edges = |state: u32| {
        steps(number(state)).map(|edge| small(edge.to)).collect::<Vec<_>>().into_iter()
    };
    let parts = components::of(small(space.size()), edges, |_| true);
    let everybody = (1u32 << space.processes()) - 1;
    let satisfied = |part: &&Vec<u32>| {
        let inside = |edge: &Edge| part.binary_search(&small(edge.to)).is_ok();
        let moved = |from| steps(from).filter(inside).fold(0, |mask, edge| mask | edge.movers);
        part.iter()
            .fold(0, |mask, &state| mask | moved(number(state)) | !space.enabled(number(state)))
    };
    let part = parts.iter().find(|part| satisfied(part) & everybody == everybody)?;
    let inside =
        |from: usize, edge: Edge| may(from, edge) && part.binary_search(&small(edge.to)).is_ok();
    around(space, number(part[0]), inside)
}

/// One round of the cycle by steps that are `inside`, so that every process moves or is disabled on
/// it.
fn around<R: Rules>(
    space: &Space<R>,
    from: usize,
    inside: impl Fn(usize, Edge) -> bool,
) -> Option<Walk> {
    let mut cycle = Walk::at(from);
    let take = |number: usize, who: u32| {
        space.edges(number).into_iter().find(|edge| edge.movers & who != 0 && inside(number, *edge))
    };
    for who in (0..space.processes()).map(|at| 1 << at) {
        let is_disabled = |number: usize| space.enabled(number) & who == 0;
        let there = |number: usize| is_disabled(number) || take(number, who).is_some();
        cycle.steps.extend(shortest_walk(space, [cycle.end()], there, &inside)?.steps);
        if !is_disabled(cycle.end()) {
            cycle.steps.extend(take(cycle.end(), who));
        }
    }
    if cycle.steps.is_empty() {
        cycle.steps.extend(take(from, u32::MAX));
    }
    cycle
        .steps
        .extend(shortest_walk(space, [cycle.end()], |number| number == from, &inside)?.steps);
    Some(cycle)
}

/// The place from which each place was first reached.
struct Predecessors(Vec<usize>);

impl Predecessors {
    const NEVER: usize = usize::MAX;
    const START: usize = usize::MAX - 1;

    fn new(places: usize) -> Self {
        Self(vec![Self::NEVER; places])
    }

    /// Whether it is new.
    fn start(&mut self, place: usize) -> bool {
        self.from(place, Self::START)
    }

    /// Whether it is new.
    fn from(&mut self, place: usize, before: usize) -> bool {
        let new = self.0[place] == Self::NEVER;
        if new {
            self.0[place] = before;
        }
        new
    }

    /// The places from a start to that place, both included.
    fn path_to(&self, place: usize) -> Vec<usize> {
        let before = |place: &usize| Some(self.0[*place]).filter(|before| *before < Self::START);
        let mut back: Vec<usize> = std::iter::successors(Some(place), before).collect();
        back.reverse();
        back
    }
}
