//! What is asked of a whole [`Space`]: each answer is a proof for that network, or a counterexample.

use kgate_core::Rules;

use crate::space::{Edge, Space};

/// A configuration in which nobody can move.
pub(crate) fn terminal<R: Rules>(space: &Space<R>) -> Option<usize> {
    (0..space.len()).find(|&number| space.enabled(number) == 0)
}

/// The most rounds that any daemon can keep a run from ever being in a configuration of `goal`; none if more than `most`.
///
/// A round is over when everybody who was enabled at its start has moved or was disabled for a moment.
pub(crate) fn rounds_until<R: Rules>(
    space: &Space<R>,
    goal: impl Fn(usize) -> bool,
    most: usize,
) -> Option<usize> {
    let mut starts: Vec<usize> = (0..space.len()).filter(|&number| !goal(number)).collect();
    for round in 0..=most {
        if starts.is_empty() {
            return Some(round);
        }
        starts = after_a_round(space, &starts, &goal);
    }
    None
}

/// Where a round from one of `starts` can end that is never in `goal`.
fn after_a_round<R: Rules>(space: &Space<R>, starts: &[usize], goal: impl Fn(usize) -> bool) -> Vec<usize> {
    let masks = 1 << space.setups.len();
    let mut seen = vec![false; space.len() * masks];
    let mut ends = vec![false; space.len()];
    let mut open: Vec<(usize, u32)> = starts.iter().map(|&start| (start, space.enabled(start))).collect();
    while let Some((number, pending)) = open.pop() {
        for Edge { movers, to, .. } in space.edges(number) {
            if goal(to) {
                continue;
            }
            let left = pending & !movers & space.enabled(to);
            if left == 0 {
                ends[to] = true;
            } else if !std::mem::replace(&mut seen[to * masks + left as usize], true) {
                open.push((to, left));
            }
        }
    }
    (0..space.len()).filter(|&number| ends[number]).collect()
}

/// A configuration on a circle that a weakly fair daemon can follow for ever using only configurations and steps that `may`
/// be used. None if there is no such circle.
///
/// A strongly connected part is enough: a run can visit all of it again and again, and that is weakly fair if everybody moves
/// somewhere in it or is somewhere disabled.
pub(crate) fn fair_circle<R: Rules>(space: &Space<R>, may: impl Fn(usize, Edge) -> bool) -> Option<usize> {
    let may = &may;
    let edges = |number: usize| space.edges(number).into_iter().filter(move |edge| may(number, *edge));
    let part = parts(space.len(), |number| edges(number).map(|edge| edge.to).collect());
    let everybody = (1u32 << space.setups.len()) - 1;
    // For each part: whether it has a step, and who moves or is disabled somewhere.
    let mut fair = vec![(false, 0u32); space.len()];
    for number in 0..space.len() {
        for edge in edges(number).filter(|edge| part[edge.to] == part[number]) {
            let (circle, calm) = &mut fair[part[number]];
            *circle = true;
            *calm |= edge.movers;
        }
        fair[part[number]].1 |= !space.enabled(number) & everybody;
    }
    (0..space.len()).find(|&number| fair[part[number]] == (true, everybody))
}

/// The strongly connected part of each vertex, by Tarjan's algorithm without recursion.
fn parts(vertices: usize, edges: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let (mut order, mut low, mut part) = (vec![UNSEEN; vertices], vec![0; vertices], vec![UNSEEN; vertices]);
    let (mut clock, mut count, mut stack) = (0, 0, Vec::new());
    for root in 0..vertices {
        if order[root] != UNSEEN {
            continue;
        }
        let mut calls: Vec<(usize, std::vec::IntoIter<usize>)> = Vec::new();
        let mut open = |vertex: usize, calls: &mut Vec<_>, stack: &mut Vec<usize>, low: &mut [usize]| {
            low[vertex] = clock;
            clock += 1;
            stack.push(vertex);
            calls.push((vertex, edges(vertex).into_iter()));
            low[vertex]
        };
        order[root] = open(root, &mut calls, &mut stack, &mut low);
        while let Some((vertex, rest)) = calls.last_mut() {
            let vertex = *vertex;
            if let Some(to) = rest.next() {
                if order[to] == UNSEEN {
                    order[to] = open(to, &mut calls, &mut stack, &mut low);
                } else if part[to] == UNSEEN {
                    low[vertex] = low[vertex].min(order[to]);
                }
                continue;
            }
            calls.pop();
            if let Some((above, _)) = calls.last() {
                low[*above] = low[*above].min(low[vertex]);
            }
            if low[vertex] == order[vertex] {
                while let Some(member) = stack.pop() {
                    part[member] = count;
                    if member == vertex {
                        break;
                    }
                }
                count += 1;
            }
        }
    }
    part
}
