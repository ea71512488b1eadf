//! The rules by hand. That they hold together is checked with all configurations and daemons in
//! `tests/stabilizing_2014`.

use alloc::sync::Arc;
use alloc::vec::Vec;

use kgate_core::{Defects, Graph, NodeId, Rules, Setup, Step, View};

use super::*;
use crate::harness;

fn setups(nodes: u32, edges: &[(u32, u32)], k: u32) -> Vec<Setup> {
    let edges: Vec<_> = edges.iter().map(|&(a, b)| (NodeId(a), NodeId(b))).collect();
    let graph = Arc::new(Graph::new(nodes, &edges, NodeId(0)).unwrap());
    let setup = |me| Setup {
        me: NodeId(me),
        graph: Some(Arc::clone(&graph)),
        ..harness::setup(nodes, k, Defects::NONE)
    };
    (0..nodes).map(setup).collect()
}

fn clean(setups: &[Setup]) -> Vec<State> {
    setups.iter().map(Exclusion::clean).collect()
}

fn enabled(setup: &Setup, states: &[State]) -> Vec<Step<State>> {
    let graph = setup.graph.as_ref().unwrap();
    let around: Vec<State> =
        graph.neighbours(setup.me).iter().map(|node| states[node.index()]).collect();
    let mut steps = Vec::new();
    Exclusion::enabled(
        View { setup, own: &states[setup.me.index()], neighbours: &around },
        &mut steps,
    );
    steps
}

/// Each word is a process and the number of its action, such as `0a1`; those of one line move at
/// once.
fn play(setups: &[Setup], states: &mut [State], lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let before = states.to_vec();
        for word in line.split_whitespace() {
            let (node, _) = word.split_once('a').unwrap();
            let name = &word[node.len()..];
            let node: usize = node.parse().unwrap();
            let steps = enabled(&setups[node], &before);
            let step = steps.iter().find(|step| step.name == name);
            states[node] =
                step.unwrap_or_else(|| panic!("{line}: p{node} can only {steps:?}")).next;
        }
    }
}

fn can(setups: &[Setup], states: &[State], node: usize, name: &str) -> bool {
    enabled(&setups[node], states).iter().any(|step| step.name == name)
}

/// Figure 3.1: 3-exclusion with r = 0, a, b, c, d = 1 .. 4, e = 5, f = 6, g = 7, i = 8, j = 9.
#[test]
fn figure_3_1() {
    let edges = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 5), (2, 6), (3, 7), (5, 8), (7, 9)];
    let setups = setups(10, &edges, 3);
    let mut states = clean(&setups);
    let before = "
        0a1
        1a6
        0a2 5a6
        2a6 8a6 1a9
        0a2 6a6 5a9
        3a6 8a9 2a9
        0a3 6a9 7a6
        3a9
        0a4
        1a7 2a7";
    play(&setups, &mut states, before);
    assert_eq!(states[4].parent, None, "no token has come to d");
    assert!(
        !can(&setups, &states, 3, "a7"),
        "part (x): the broadcast does not meet the token at g"
    );
    let after = "
        5a7 6a7 9a6
        8a7 6a8 7a9
        3a7 8a8 9a9
        5a8 7a7 2a8
        1a8 8a9 9a7 6a9
        9a8
        7a8
        3a8 9a9
        0a5";
    play(&setups, &mut states, after);
    assert!(!can(&setups, &states, 0, "a1"), "the root is locked until all its children are clean");
    play(&setups, &mut states, "1a9 2a9 3a9");
    let survey = Exclusion::survey(&setups, &states);
    assert!(survey.start && survey.normal && !survey.joined && survey.tokens == 3);
    play(&setups, &mut states, "0a1");
    assert_eq!(states[0].sent, Some(NodeId(4)), "the next neighbour's turn");
}

/// C9: the root of a path sends its second token when its one neighbour is clean again.
#[test]
fn one_neighbour_gets_one_token_at_a_time() {
    let setups = setups(2, &[(0, 1)], 2);
    let mut states = clean(&setups);
    play(&setups, &mut states, "0a1\n1a6");
    assert!(!can(&setups, &states, 1, "a9") && !can(&setups, &states, 0, "a2"));
    play(&setups, &mut states, "0a2g\n1a9\n0a2\n1a6\n0a3\n1a9\n0a4\n1a7\n1a8\n0a5\n1a9");
    assert!(Exclusion::survey(&setups, &states).start);
}

/// C14: with the first token of a wave the root takes a process from its parent, and begins with
/// such a one; a later token is lost.
#[test]
fn only_the_first_token_takes_a_process_away() {
    let setups = setups(3, &[(0, 1), (0, 2), (1, 2)], 2);
    let mut states = clean(&setups);
    play(&setups, &mut states, "0a1\n1a6\n2a6\n0a2");
    assert_eq!((states[0].sent, states[2].parent), (Some(NodeId(2)), Some(NodeId(1))));
    play(&setups, &mut states, "0a3\n1a9\n2a9");
    assert_eq!(states[2].parent, Some(NodeId(1)), "p2 did not take it");
    play(&setups, &mut states, "0a4\n1a7\n2a7\n2a8\n1a8\n0a5\n1a9 2a9\n0a1");
    assert_eq!(states[0].sent, Some(NodeId(2)));
    play(&setups, &mut states, "2a6");
    assert_eq!((states[2].parent, states[2].level), (Some(NodeId(0)), 1));
}

/// a10, then a11: a process that is not part of the tree is dropped, and then cleaned.
#[test]
fn abnormal_processes_correct_themselves() {
    let setups = setups(3, &[(0, 1), (1, 2)], 1);
    let mut states = clean(&setups);
    states[2] = State { phase: Phase::Token, sent: None, parent: Some(NodeId(1)), level: 2 };
    assert!(!Exclusion::survey(&setups, &states).normal);
    play(&setups, &mut states, "2a10\n2a11");
    assert!(Exclusion::survey(&setups, &states).normal);
    // A broadcast below a clean parent: the phase is wrong, the path is not.
    play(&setups, &mut states, "0a1\n1a6\n2a6");
    states[2].phase = Phase::Broadcast;
    play(&setups, &mut states, "2a11");
    assert_eq!(states[2].parent, Some(NodeId(1)));
}

/// Whatever is drawn is in the domain, and what memory or a peer may claim beyond it is not.
#[test]
fn the_domain() {
    let setups = setups(4, &[(0, 1), (1, 2), (1, 3)], 3);
    let mut state = 1_u64;
    let mut below = |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for setup in &setups {
        assert!(Exclusion::in_domain(setup, &Exclusion::clean(setup)));
        assert!(
            (0..500).all(|_| Exclusion::in_domain(setup, &Exclusion::arbitrary(setup, &mut below)))
        );
    }
    let (root, other) = (Exclusion::clean(&setups[0]), Exclusion::clean(&setups[1]));
    let unknown = Some(NodeId(u32::MAX));
    let malformed = [
        State { phase: Phase::Token, ..root },
        State { phase: Phase::Feedback, ..root },
        State { phase: Phase::Sending(3), ..root },
        State { phase: Phase::Sending(u32::MAX), ..root },
        State { phase: Phase::Between(2), ..root },
        State { phase: Phase::Between(u32::MAX), ..root },
        State { sent: None, ..root },
        State { sent: unknown, ..root },
        State { parent: None, ..root },
        State { level: 1, ..root },
    ];
    assert!(malformed.iter().all(|state| !Exclusion::in_domain(&setups[0], state)));
    let malformed = [
        State { phase: Phase::Sending(0), ..other },
        State { phase: Phase::Between(0), ..other },
        State { phase: Phase::Ready, ..other },
        State { sent: Some(NodeId(1)), ..other },
        State { sent: unknown, ..other },
        State { parent: unknown, ..other },
        State { level: 0, ..other },
        State { level: 4, ..other },
        State { level: u32::MAX, ..other },
    ];
    assert!(malformed.iter().all(|state| !Exclusion::in_domain(&setups[1], state)));
}

/// A circle of parents is not in the tree; a token before a process that cannot take it yet is
/// counted.
#[test]
fn surveys() {
    let setups = setups(4, &[(0, 1), (1, 2), (2, 3)], 2);
    let mut states = clean(&setups);
    let survey = Exclusion::survey(&setups, &states);
    assert!(survey.start && !survey.joined);
    assert_eq!((survey.tokens, survey.privileged), (2, 1));
    play(&setups, &mut states, "0a1\n1a6\n2a6\n3a6");
    let survey = Exclusion::survey(&setups, &states);
    assert!(survey.joined && survey.normal && !survey.start);
    assert_eq!((survey.tokens, survey.privileged), (1, 0), "the first has ended at p3");
    (states[2].parent, states[3].parent) = (Some(NodeId(3)), Some(NodeId(2)));
    let survey = Exclusion::survey(&setups, &states);
    assert!(!survey.joined && !survey.normal);
    let mut states = clean(&setups);
    play(&setups, &mut states, "0a1\n1a6\n2a6\n0a2g\n1a9\n0a2");
    assert!(!can(&setups, &states, 1, "a6"), "p2 still has the first");
    let survey = Exclusion::survey(&setups, &states);
    assert_eq!((survey.tokens, survey.privileged), (2, 1), "one before p3, one before p1");
}

/// A root alone goes through its phases for ever.
#[test]
fn a_network_of_one() {
    let setups = setups(1, &[], 2);
    let mut states = clean(&setups);
    play(&setups, &mut states, "0a1\n0a2\n0a3\n0a4\n0a5\n0a1");
}

/// Theorem 4.3 on a root with two children, one of which has three: a grandchild has one token in
/// six.
#[test]
fn waves_on_a_tree() {
    let parents =
        [None, Some(0), Some(0), Some(1), Some(1), Some(1)].map(|parent| parent.map(NodeId));
    assert_eq!([1, 2, 4, 6, 9].map(|k| waves_to_serve(&parents, k)), [6, 3, 2, 1, 1]);
    assert_eq!(waves_to_serve(&[None], 3), 1);
    let caterpillar: Vec<_> =
        (0..200_u32).map(|node| node.checked_sub(1).map(|before| NodeId(before / 2 * 2))).collect();
    assert_eq!(waves_to_serve(&caterpillar, 1), u64::MAX, "too many to count");
}
