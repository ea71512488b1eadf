//! All networks of 2 and 3 processes, all configurations, all daemons.

use std::sync::Arc;

use kgate_check::rules::Space;
use kgate_check::rules::laws::{fair_cycle, rounds_until, terminal};
use kgate_core::{Defects, Graph};
use kgate_protocols::stabilizing::Exclusion;

use crate::{graph, space};

/// Every connected network of 2 or 3 processes with every root, up to names.
pub(crate) fn small() -> [(&'static str, Arc<Graph>); 4] {
    [
        ("pair", graph(2, &[(0, 1)], 0)),
        ("path, root at its end", graph(3, &[(0, 1), (1, 2)], 0)),
        ("path, root in its middle", graph(3, &[(0, 1), (0, 2)], 0)),
        ("triangle", graph(3, &[(0, 1), (1, 2), (0, 2)], 0)),
    ]
}

fn each(check: impl Fn(&str, &Space<Exclusion>)) {
    for (name, graph) in small() {
        for k in 1..=3 {
            let space = space(&graph, k, Defects::NONE);
            check(&format!("{name}, l = {k}, {} configurations", space.size()), &space);
        }
    }
}

/// No configuration is terminal.
#[test]
fn an_action_is_always_enabled() {
    each(|name, space| assert_eq!(terminal(space).map(|at| space.states(at)), None, "{name}"));
}

/// Theorem 4.1 with D = n-1: from any configuration, under any daemon, a normal one within n
/// rounds.
#[test]
fn normal_within_n_rounds() {
    each(|name, space| {
        let rounds = rounds_until(space, |at| space.surveys[at].normal);
        assert!(rounds.is_some_and(|rounds| rounds <= space.processes()), "{name}: {rounds:?}");
    });
}

/// Theorem 4.2: from any configuration of INC on there are at most l tokens, and at most l have the
/// privilege.
#[test]
fn at_most_l_tokens_after_a_start() {
    each(|name, space| {
        let k = space.setups[0].k;
        let starts: Vec<usize> = (0..space.size()).filter(|&at| space.surveys[at].start).collect();
        assert!(starts.iter().all(|&at| space.surveys[at].tokens == k), "{name}: Remark 4.1");
        for at in space.reachable(starts) {
            let survey = space.surveys[at];
            assert!(survey.tokens <= k && survey.privileged <= k, "{name}: {:?}", space.states(at));
        }
    });
}

/// Theorems 4.3 and 4.5: under a weakly fair daemon every process is served again and again, from
/// any configuration, and eventually a configuration of INC has every process in the tree.
#[test]
fn every_process_is_served_again_and_again() {
    each(|name, space| {
        for node in 0..space.processes() {
            let unserved = fair_cycle(space, |_, edge| edge.privileged >> node & 1 == 0);
            assert_eq!(unserved.map(|way| space.states(way.from)), None, "{name}: p{node} starves");
        }
        let stable = |at: usize| space.surveys[at].start && space.surveys[at].joined;
        let never = fair_cycle(space, |at, edge| !stable(at) && !stable(edge.to));
        assert_eq!(never.map(|way| space.states(way.from)), None, "{name}: never stabilises");
    });
}

/// Corollary 4.1 holds on trees: a normal configuration is followed by normal ones only. (Not so on
/// graphs with cycles.)
#[test]
fn normal_stays_normal_on_trees() {
    each(|name, space| {
        if !space.setups[0].graph.as_ref().expect("a graph").is_tree() {
            return;
        }
        let normal = |at: usize| space.surveys[at].normal;
        for at in (0..space.size()).filter(|&at| normal(at)) {
            let broken = space.edges(at).into_iter().find(|edge| !normal(edge.to));
            assert!(broken.is_none(), "{name}: {:?}, {broken:?}", space.states(at));
        }
    });
}

/// The root has one enabled action at most, another process one too, except that a token of the
/// root's and a broadcast of its parent's can come to it at once.
#[test]
fn actions_do_not_compete() {
    each(|name, space| {
        for at in 0..space.size() {
            for node in 0..space.processes() {
                let names: Vec<_> = space.moves(at, node).map(|step| step.name).collect();
                assert!(names.len() <= 1 || names == ["a6", "a7"], "{name}: {names:?}");
            }
        }
    });
}
