//! The state model with toys: an algorithm that is known to stabilise, and planted bugs that the
//! checkers must find.

use kgate_core::View;
use kgate_spec::{AtMostK, Convergence, EveryoneServed};

use super::*;

/// Dijkstra's token ring of 1974: the root moves when its value equals its left neighbour's, every
/// other process when they differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ring;

/// One value more than processes, which suffices for any daemon.
fn values(setup: &Setup) -> u32 {
    setup.nodes + 1
}

impl Rules for Ring {
    const NAME: &'static str = "ring";
    type State = u32;

    fn clean(_: &Setup) -> u32 {
        0
    }

    fn arbitrary(setup: &Setup, below: &mut dyn FnMut(u64) -> u64) -> u32 {
        u32::try_from(below(u64::from(values(setup)))).unwrap()
    }

    fn in_domain(setup: &Setup, state: &u32) -> bool {
        *state < values(setup)
    }

    fn enabled(view: View<'_, u32>, steps: &mut Vec<Step<u32>>) {
        let left = NodeId((view.me().0 + view.setup.nodes - 1) % view.setup.nodes);
        let left = *view.of(left).unwrap();
        let mut enable = |name, next| steps.push(Step { name, next, privileged: true });
        match (view.me().0, left == *view.own) {
            (0, true) => enable("root", (left + 1) % values(view.setup)),
            (0, false) | (_, true) => {}
            (_, false) => enable("other", left),
        }
    }

    fn survey(_: &[Setup], states: &[u32]) -> Survey {
        let differ = states.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let tokens =
            u32::try_from(differ + usize::from(states[0] == states[states.len() - 1])).unwrap();
        let one = tokens == 1;
        Survey { normal: one, start: one, joined: true, tokens, privileged: tokens }
    }
}

/// Every process counts down from 9 at its own pace and then rests: a terminal configuration. A
/// process below 5 has a token, although the survey calls everything clean: too many.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CountDown;

impl Rules for CountDown {
    const NAME: &'static str = "count down";
    type State = u32;

    fn clean(_: &Setup) -> u32 {
        9
    }

    fn arbitrary(_: &Setup, below: &mut dyn FnMut(u64) -> u64) -> u32 {
        u32::try_from(below(10)).unwrap()
    }

    fn in_domain(_: &Setup, state: &u32) -> bool {
        *state < 10
    }

    fn enabled(view: View<'_, u32>, steps: &mut Vec<Step<u32>>) {
        if let Some(next) = view.own.checked_sub(1) {
            steps.push(Step { name: "down", next, privileged: *view.own < 5 });
        }
    }

    fn survey(_: &[Setup], states: &[u32]) -> Survey {
        let tokens = u32::try_from(states.iter().filter(|state| **state < 5).count()).unwrap();
        let privileged =
            u32::try_from(states.iter().filter(|state| (1..5).contains(*state)).count()).unwrap();
        Survey { normal: true, start: true, joined: true, tokens, privileged }
    }
}

/// The root flips forever; another process is enabled only while the root shows 0, and never has
/// the privilege.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flip;

impl Rules for Flip {
    const NAME: &'static str = "flip";
    type State = bool;

    fn clean(_: &Setup) -> bool {
        false
    }

    fn arbitrary(_: &Setup, below: &mut dyn FnMut(u64) -> u64) -> bool {
        below(2) == 1
    }

    fn in_domain(_: &Setup, _: &bool) -> bool {
        true
    }

    fn enabled(view: View<'_, bool>, steps: &mut Vec<Step<bool>>) {
        let here = view.me() == view.graph().root();
        if here || !view.neighbours[0] {
            let name = if here { "root" } else { "other" };
            steps.push(Step { name, next: !view.own, privileged: here });
        }
    }

    fn survey(_: &[Setup], _: &[bool]) -> Survey {
        Survey { normal: true, start: true, joined: true, tokens: 1, privileged: 1 }
    }
}

fn ring(nodes: u32, seed: u64) -> StateConfig {
    let edges: Vec<_> = (0..nodes).map(|node| (NodeId(node), NodeId((node + 1) % nodes))).collect();
    let graph = Arc::new(Graph::new(nodes, &edges, NodeId(0)).unwrap());
    StateConfig { wave: "root", served_within: Some(2), ..StateConfig::new(graph, 1, seed) }
}

fn star(nodes: u32, daemon: Daemon) -> StateConfig {
    let edges: Vec<_> = (1..nodes).map(|node| (NodeId(0), NodeId(node))).collect();
    let graph = Arc::new(Graph::new(nodes, &edges, NodeId(0)).unwrap());
    StateConfig {
        daemon,
        start: Start::Clean,
        rounds: 20,
        wave: "root",
        ..StateConfig::new(graph, 1, 1)
    }
}

fn properties(report: &StateReport) -> Vec<&'static str> {
    report.violations.iter().map(|violation| violation.property).collect()
}

/// Dijkstra 1974: from any start, under any daemon, one privilege remains and visits every process
/// in turn.
#[test]
fn the_token_ring_stabilizes() {
    for (name, daemon) in DAEMONS {
        for seed in 0..50 {
            let config = StateConfig { daemon, rounds: 200, ..ring(8, seed) };
            let report = run_rules::<Ring>(&config).unwrap();
            assert_eq!(properties(&report), [""; 0], "{name}, seed {seed}");
            assert!(
                report.stabilized_at_round.is_some_and(|round| round <= 24),
                "{name}, seed {seed}"
            );
            assert!(
                report.served_after_stabilization > Some(10) && report.abnormal_again == 0,
                "{name}"
            );
            assert_eq!(
                (report.tokens_max_after_stabilization, report.max_in_use, report.rounds),
                (1, 1, 200)
            );
        }
    }
}

/// Each planted bug is found: a terminal configuration, too many tokens, too many inside.
#[test]
fn planted_bugs_are_found() {
    for (name, daemon) in DAEMONS.into_iter().filter(|(_, daemon)| daemon.is_fair()) {
        let report = run_rules::<CountDown>(&star(4, daemon)).unwrap();
        assert_eq!(
            properties(&report),
            [AT_MOST_L_TOKENS, AtMostK::NAME, Convergence::CLOSURE, SOMEBODY_CAN_MOVE],
            "{name}"
        );
        assert!(report.terminal && report.moves == 36 && report.served == 4, "{name}");
    }
}

/// Starvation is found: the root's neighbours never have the privilege.
#[test]
fn starvation_is_found() {
    let report =
        run_rules::<Flip>(&StateConfig { served_within: Some(5), ..star(3, Daemon::Synchronous) })
            .unwrap();
    assert_eq!(properties(&report), [EveryoneServed::NAME]);
    assert_eq!(report.violations[0].nodes, [NodeId(1), NodeId(2)]);
    assert_eq!((report.waves, report.served), (20, 0));
}

/// Dolev, Israeli and Moran 1997: a round ends when every process that was enabled has moved, or
/// was disabled meanwhile.
#[test]
fn a_round_waits_for_every_enabled_process() {
    let mut run = Run::<Flip>::new(&star(4, Daemon::Unfair)).unwrap();
    let rounds: Vec<u64> = (0..6).map(|_| (run.step(), run.rounds()).1).collect();
    // The root flips to 1, which disables the three others: a round. Then only the root is enabled
    // and flips back to 0: another.
    assert_eq!(rounds, [1, 2, 3, 4, 5, 6]);
    let synchronous = run_rules::<CountDown>(&star(4, Daemon::Synchronous)).unwrap();
    assert_eq!((synchronous.steps, synchronous.rounds, synchronous.moves), (9, 9, 36));
    let central = run_rules::<CountDown>(&star(4, Daemon::Central)).unwrap();
    assert!(central.steps == 36 && central.rounds <= 9);
}

/// Weak fairness: a process that stays enabled moves within its daemon's patience, so no round
/// takes more than 10 n steps.
#[test]
fn fair_daemons_are_fair() {
    for (name, daemon) in DAEMONS.into_iter().filter(|(_, daemon)| daemon.is_fair()) {
        let mut run = Run::<CountDown>::new(&star(40, daemon)).unwrap();
        let (mut round, mut since) = (0, 0);
        while run.step() {
            if run.rounds() > round {
                (round, since) = (run.rounds(), run.steps());
            }
            assert!(run.steps() - since <= 400, "{name}");
        }
    }
}

/// The unfair daemon starves distant processes while a nearer one is always enabled: then no round
/// ends.
#[test]
fn the_unfair_daemon_starves() {
    let mut config = star(3, Daemon::Unfair);
    config.graph = Arc::new(config.graph.with_root(NodeId(1)).unwrap());
    config.steps = Some(500);
    let mut run = Run::<Flip>::new(&config).unwrap();
    while run.step() {}
    // p1 is the root and flips; p0, the centre, is enabled whenever p1 shows 0, and p2 reads p0.
    let report = run.report();
    assert_eq!(report.longest_wait, Some(Wait { node: NodeId(2), steps: 500 }));
    assert_eq!((report.rounds, report.steps), (0, 500));
}

/// The same seed gives the same run, another seed another one.
#[test]
fn a_seed_determines_the_run() {
    for (name, daemon) in DAEMONS {
        let hash = |seed| run_rules::<Ring>(&StateConfig { daemon, ..ring(9, seed) }).unwrap().hash;
        assert_eq!(hash(1), hash(1), "{name}");
        assert_ne!(hash(1), hash(2), "{name}");
    }
}

/// After a fault everything is measured anew, from the round of the fault on.
#[test]
fn a_fault_restarts_the_measurement() {
    let mut config = StateConfig { start: Start::Clean, rounds: 200, ..ring(8, 5) };
    let calm = run_rules::<Ring>(&config).unwrap();
    assert_eq!((calm.normal_at_round, calm.max_in_use_overall), (Some(0), 1));
    config.corrupt = (0..8).map(|node| (NodeId(node), 100)).collect();
    let struck = run_rules::<Ring>(&config).unwrap();
    assert!(struck.normal_at_round.is_some_and(|round| round > 0 && round < 50), "{struck:?}");
    assert!(struck.max_in_use_overall > 1 && struck.violations.is_empty());
    assert_ne!(calm.hash, struck.hash);
}

/// stabilizing-2014, Lemma 4.12, on a path of 4 with l = 2: 2 (5*3 + 2*2 + 4 + 3 + 2).
#[test]
fn the_published_bound() {
    let edges = [(0, 1), (1, 2), (2, 3)].map(|(a, b)| (NodeId(a), NodeId(b)));
    assert_eq!(published_bound(&Graph::new(4, &edges, NodeId(1)).unwrap(), 2), 56);
}

#[test]
fn invalid_configurations_are_refused() {
    let none = StateConfig { k: 0, ..ring(3, 1) };
    assert_eq!(run_rules::<Ring>(&none).unwrap_err(), StateError::ZeroTokens);
    let nobody = StateConfig { corrupt: vec![(NodeId(3), 1)], ..ring(3, 1) };
    assert_eq!(
        run_rules::<Ring>(&nobody).unwrap_err(),
        StateError::UnknownNode { node: NodeId(3), nodes: 3 }
    );
}
