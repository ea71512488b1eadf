//! Homes and terms by their definitions, on random histories.

use super::*;

/// The home by its definition: the fit member with the greatest hash, else the member.
fn expected(directory: &Directory, gate: u64) -> Option<(NodeId, Incarnation)> {
    let fit = |node: NodeId| directory.find(node).is_some_and(|entry| entry.fit);
    directory.members().max_by_key(|(node, _)| (fit(*node), rank(gate, *node)))
}

/// The witness is the home's successor: home as soon as the home alone loses its fitness. The
/// period of the two grows whenever one of them changes.
#[test]
fn the_witness_is_home_next() {
    let mut state = 11;
    for _ in 0..200 {
        let mut directory = Directory::new((0..4).map(|node| (NodeId(node), Incarnation(0))));
        let pair = |directory: &Directory| {
            let home = directory.home(3).map(|home| (home.node, home.incarnation));
            (home, directory.witness(3))
        };
        let mut before = pair(&directory);
        for _ in 0..40 {
            let bits = split_mix64(&mut state);
            let node = NodeId(u32::try_from(bits % 5).unwrap());
            let present = directory.incarnation(node);
            match (bits >> 8) % 4 {
                0 => directory.join(node),
                1 => present.into_iter().for_each(|present| directory.evict(node, present)),
                _ => present
                    .into_iter()
                    .for_each(|present| directory.set_fit(node, present, bits >> 16 & 1 > 0)),
            }
            let now = pair(&directory);
            if let (Some((home, incarnation)), Some(witness)) = now {
                let mut later = directory.clone();
                later.set_fit(home, incarnation, false);
                let next = later.home(3).unwrap();
                assert_eq!((next.node, next.incarnation), (witness.node, witness.incarnation));
                let nodes = |(home, witness): &(_, Option<Placement>)| {
                    (*home, witness.map(|witness| (witness.node, witness.incarnation)))
                };
                if let Some(former) = before.1 {
                    let moved = nodes(&now) != nodes(&before);
                    assert!(witness.term >= former.term + u32::from(moved));
                }
            } else {
                let fit = directory.nodes.iter().filter(|entry| entry.fit).count();
                assert!(fit < 2);
            }
            before = if now.1.is_some() { now } else { before };
        }
    }
}

/// the home is the fittest member, its term is a function of the state alone, never
/// decreases, and grows whenever the home changes; founders are the members since then.
#[test]
fn terms_follow_the_home() {
    let mut state = 7;
    for _ in 0..200 {
        let mut directory = Directory::new((0..3).map(|node| (NodeId(node), Incarnation(0))));
        let mut before: Vec<_> = (0..4).map(|gate| directory.home(gate)).collect();
        for _ in 0..40 {
            let bits = split_mix64(&mut state);
            let node = NodeId(u32::try_from(bits % 5).unwrap());
            let present = directory.incarnation(node);
            match (bits >> 8) % 4 {
                0 => directory.join(node),
                1 => present.into_iter().for_each(|present| directory.evict(node, present)),
                _ => present
                    .into_iter()
                    .for_each(|present| directory.set_fit(node, present, bits >> 16 & 1 > 0)),
            }
            for (gate, before) in (0..).zip(&mut before) {
                let home = directory.home(gate);
                assert_eq!(home.map(|at| (at.node, at.incarnation)), expected(&directory, gate));
                if let (Some(home), Some(before)) = (home, *before) {
                    let moved = (home.node, home.incarnation) != (before.node, before.incarnation);
                    assert!(home.term >= before.term + u32::from(moved), "{before:?} {home:?}");
                }
                *before = home.or(*before);
            }
        }
    }
}

impl core::ops::Add<u32> for Term {
    type Output = Term;
    fn add(self, more: u32) -> Term {
        Term(self.0 + more)
    }
}

/// Unfit nodes are evicted without a new term, and a node that returns is no founder of it.
#[test]
fn an_eviction_of_an_unfit_node_begins_no_term() {
    let mut directory = Directory::new((0..3).map(|node| (NodeId(node), Incarnation(0))));
    let home = directory.home(1).unwrap();
    directory.set_fit(home.node, home.incarnation, false);
    let next = directory.home(1).unwrap();
    assert_eq!((next.term, next.node == home.node), (Term(1), false));
    directory.evict(home.node, home.incarnation);
    assert_eq!(directory.home(1), Some(next));
    assert_eq!(directory.founders(next.term).count(), 2);
    directory.join(home.node);
    let back = directory.home(1).unwrap();
    assert_eq!((back.node, back.incarnation, back.term), (home.node, Incarnation(1), Term(3)));
    assert_eq!(directory.founders(next.term).count(), 2);
    assert_eq!(directory.founders(back.term).count(), 3);
}

/// A node that numbers its incarnations itself is added in a later one only, and never twice.
#[test]
fn incarnations_only_grow() {
    let (node, mut directory) = (NodeId(4), Directory::default());
    directory.add(node, Incarnation(3));
    let once = directory.clone();
    directory.add(node, Incarnation(5));
    assert_eq!(directory, once, "it is a member");
    directory.evict(node, Incarnation(3));
    let gone = directory.clone();
    directory.add(node, Incarnation(3));
    assert_eq!(directory, gone, "that incarnation has ended");
    directory.add(node, Incarnation(5));
    assert_eq!(directory.incarnation(node), Some(Incarnation(5)));
    assert!(directory.changes() > gone.changes());
}
