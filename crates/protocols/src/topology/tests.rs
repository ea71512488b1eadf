//! The clusters of both papers, by their examples and against their own definitions.

use alloc::vec;
use alloc::vec::Vec;

use kgate_core::NodeId;
use proptest::prelude::*;

use super::*;
use crate::collections::NodeList;

fn crashed(nodes: &[u32]) -> NodeList {
    let mut list = NodeList::default();
    for &node in nodes {
        list.insert(NodeId(node));
    }
    list
}

fn walked(i: u32, s: u32, order: ClusterOrder, members: &Members<'_>) -> Vec<u32> {
    let mut walk = Walk::new(NodeId(i), s, order);
    core::iter::from_fn(|| walk.next(members)).map(|node| node.0).collect()
}

/// The recursion as the papers print it, over all places.
fn defects(i: u32, s: u32, order: ClusterOrder) -> Vec<u32> {
    let head = i ^ (1 << (s - 1));
    let parts: Vec<u32> = match order {
        ClusterOrder::VCube => (1..s).collect(),
        ClusterOrder::HiAdsd => (1..s).rev().collect(),
    };
    let mut list = vec![head];
    for part in parts {
        list.extend(defects(head, part, order));
    }
    list
}

/// vcube-2018 figure 1 and section 5.2; robust-2012 section 3.1: the clusters that the papers spell
/// out.
#[test]
fn clusters_are_those_of_the_papers() {
    let none = NodeList::default();
    let members = Members::new(8, &none);
    assert_eq!(walked(0, 1, ClusterOrder::VCube, &members), [1]);
    assert_eq!(walked(0, 2, ClusterOrder::VCube, &members), [2, 3]);
    assert_eq!(walked(0, 3, ClusterOrder::VCube, &members), [4, 5, 6, 7]);
    assert_eq!(walked(5, 2, ClusterOrder::VCube, &members), [7, 6]);
    assert_eq!(walked(0, 3, ClusterOrder::HiAdsd, &members), [4, 6, 7, 5]);
    assert_eq!(walked(6, 2, ClusterOrder::HiAdsd, &members), [4, 5]);
}

/// vcube-2018 section 5.1: `cluster_0(1) = 1`, `cluster_0(2) = cluster_0(3) = 2`, `cluster_0(4..7)
/// = 3`, symmetric.
#[test]
fn cluster_numbers_are_those_of_the_paper() {
    let of_zero: Vec<u32> = (1..8).map(|j| cluster_of(NodeId(0), NodeId(j))).collect();
    assert_eq!(of_zero, [1, 2, 2, 3, 3, 3, 3]);
    assert_eq!(cluster_of(NodeId(7), NodeId(5)), cluster_of(NodeId(5), NodeId(7)));
    assert_eq!([2, 3, 4, 5, 8, 9, 1024].map(dimension), [1, 2, 2, 3, 3, 4, 10]);
}

/// vcube-2018 section 5.1: with 6 faulty `FF_neighbor_4(2) = 7`; with 6 and 7 faulty there is none.
#[test]
fn first_member_skips_the_crashed() {
    let order = ClusterOrder::VCube;
    for (dead, expected) in [(vec![], Some(6)), (vec![6], Some(7)), (vec![6, 7], None)] {
        let list = crashed(&dead);
        let found = first_member(NodeId(4), 2, order, &Members::new(8, &list));
        assert_eq!(found, expected.map(NodeId), "crashed: {dead:?}");
    }
}

proptest! {
    /// Equation 1 of vcube-2018 and C of robust-2012 section 3.1, for any n and any crashes: a walk
    /// is the printed recursion less the places that are empty.
    #[test]
    fn a_walk_is_the_printed_recursion(
        n in 2u32..70,
        i in 0u32..70,
        dead in prop::collection::vec(0u32..70, 0..40),
    ) {
        let i = i % n;
        let list = crashed(&dead.into_iter().filter(|&node| node < n).collect::<Vec<_>>());
        let members = Members::new(n, &list);
        for order in [ClusterOrder::VCube, ClusterOrder::HiAdsd] {
            for s in 1..=dimension(n) {
                let mut expected = defects(i, s, order);
                expected.retain(|&node| members.contains(NodeId(node)));
                prop_assert_eq!(walked(i, s, order, &members), expected);
            }
        }
    }

    /// vcube-2018 section 4: i tests j in c(i,s) exactly if i is the first fault-free process of
    /// c(j,s).
    #[test]
    fn testers_follow_the_rule(
        n in 2u32..70,
        i in 0u32..70,
        dead in prop::collection::vec(0u32..70, 0..40),
    ) {
        let i = i % n;
        let dead: Vec<u32> = dead.into_iter().filter(|&node| node < n && node != i).collect();
        let list = crashed(&dead);
        let members = Members::new(n, &list);
        let mut expected: Vec<NodeId> = Vec::new();
        for j in (0..n).map(NodeId).filter(|&j| j.0 != i && members.contains(j)) {
            let s = cluster_of(NodeId(i), j);
            if first_member(j, s, ClusterOrder::VCube, &members) == Some(NodeId(i)) {
                expected.push(j);
            }
        }
        let mut found = tests_of(NodeId(i), &members);
        found.sort();
        prop_assert_eq!(found, expected);
    }

    /// Every live process is tested by a live one as long as two are left, so that every crash is
    /// noticed.
    #[test]
    fn every_process_is_tested(n in 2u32..70, dead in prop::collection::vec(0u32..70, 0..60)) {
        let list = crashed(&dead.into_iter().filter(|&node| node < n).collect::<Vec<_>>());
        let members = Members::new(n, &list);
        let alive: Vec<NodeId> = (0..n).map(NodeId).filter(|&i| members.contains(i)).collect();
        prop_assume!(alive.len() >= 2);
        let mut tested: Vec<NodeId> = alive.iter().flat_map(|&i| tests_of(i, &members)).collect();
        tested.sort();
        tested.dedup();
        prop_assert_eq!(tested, alive);
    }
}
