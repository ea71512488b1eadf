//! Who surely reaches no quorum.
//!
//! A node's lease needs answers of a quorum of voters. A word may be handed on by others, so voters
//! count as reached if there is a way there and a way back, through whomever; a node counts as cut
//! off only if even so they are too few. A node that is down or stopped hands on nothing and
//! answers nobody.

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

    /// A word may go a long way round; but one that can only be sent, or only be heard, brings no
    /// answer.
    #[test]
    fn ways_round_count_and_one_way_does_not() {
        assert_eq!(minority(3, 3, &both(&[(0, 1)]), &BTreeSet::new()), [0; 0]);
        assert_eq!(minority(3, 3, &BTreeSet::from([(0, 1), (0, 2)]), &BTreeSet::new()), [0]);
        assert_eq!(minority(3, 3, &BTreeSet::from([(1, 0), (2, 0)]), &BTreeSet::new()), [0]);
    }

    /// Who is down answers nobody.
    #[test]
    fn who_is_down_does_not_count() {
        assert_eq!(minority(3, 3, &BTreeSet::new(), &BTreeSet::from([2])), [2]);
        assert_eq!(minority(3, 3, &BTreeSet::new(), &BTreeSet::from([1, 2])), [0, 1, 2]);
    }
}
