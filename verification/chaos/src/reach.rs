//! The nodes that certainly reach no quorum.
//!
//! A node's lease needs answers of a quorum of voters. Nodes may forward messages, so a voter
//! counts as reachable if there is a path to it and a path back, over any nodes; a node counts as
//! cut off only if even so it reaches too few voters. A node that is down or stopped neither
//! forwards nor answers.

use std::collections::BTreeSet;

use crate::schedule::Way;

/// The nodes that cannot reach a quorum of the first `voters` nodes.
pub(crate) fn minority(
    nodes: u32,
    voters: u32,
    cut: &BTreeSet<Way>,
    still: &BTreeSet<u32>,
) -> Vec<u32> {
    let without_quorum = |node: &u32| {
        if still.contains(node) {
            return true;
        }
        let there = reached(*node, nodes, still, |from, to| !cut.contains(&(from, to)));
        let back = reached(*node, nodes, still, |from, to| !cut.contains(&(to, from)));
        let answering =
            (0..voters).filter(|voter| there.contains(voter) && back.contains(voter)).count();
        answering <= voters as usize / 2
    };
    (0..nodes).filter(without_quorum).collect()
}

fn reached(
    start: u32,
    nodes: u32,
    still: &BTreeSet<u32>,
    open: impl Fn(u32, u32) -> bool,
) -> BTreeSet<u32> {
    let mut seen = BTreeSet::from([start]);
    let mut next = vec![start];
    while let Some(from) = next.pop() {
        let found = (0..nodes).filter(|to| !still.contains(to) && open(from, *to));
        for to in found.collect::<Vec<_>>() {
            if seen.insert(to) {
                next.push(to);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(pairs: &[Way]) -> BTreeSet<Way> {
        pairs.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect()
    }

    /// Three voters of five: the side with one of them has no quorum, whatever its size.
    #[test]
    fn voters_count_and_others_do_not() {
        let cut = both(&[(0, 1), (0, 2), (3, 1), (3, 2), (4, 1), (4, 2)]);
        assert_eq!(minority(5, 3, &cut, &BTreeSet::new()), [0, 3, 4]);
        assert_eq!(minority(5, 3, &BTreeSet::new(), &BTreeSet::new()), [0; 0]);
    }

    /// A path over other nodes counts; a path in one direction only brings no answer.
    #[test]
    fn detours_count_and_one_direction_does_not() {
        assert_eq!(minority(3, 3, &both(&[(0, 1)]), &BTreeSet::new()), [0; 0]);
        assert_eq!(minority(3, 3, &BTreeSet::from([(0, 1), (0, 2)]), &BTreeSet::new()), [0]);
        assert_eq!(minority(3, 3, &BTreeSet::from([(1, 0), (2, 0)]), &BTreeSet::new()), [0]);
    }

    /// A node that is down does not answer.
    #[test]
    fn a_node_that_is_down_does_not_count() {
        assert_eq!(minority(3, 3, &BTreeSet::new(), &BTreeSet::from([2])), [2]);
        assert_eq!(minority(3, 3, &BTreeSet::new(), &BTreeSet::from([1, 2])), [0, 1, 2]);
    }
}
