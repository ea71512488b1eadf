//! Random starts on networks of up to 64 processes, under every fair daemon.

use std::sync::Arc;

use kgate_core::{Graph, NodeId};
use kgate_protocols::stabilizing::{Exclusion, State, waves_to_serve};
use kgate_protocols::topology::graphs::Shape;
use kgate_sim::state::Run;
use kgate_sim::{Daemon, Rng, StateConfig};

use crate::{properties, run, shaped};

const SHAPES: [Shape; 9] = [
    Shape::Ring,
    Shape::Path,
    Shape::Star,
    Shape::Grid,
    Shape::Balanced,
    Shape::Caterpillar,
    Shape::Complete,
    Shape::Random,
    Shape::RandomTree,
];

/// A run drawn from `seed`: shape, root, n, l and daemon; one network in four is large.
fn generate(seed: u64) -> StateConfig {
    let mut rng = Rng::fork(seed, "case");
    let mut below = |bound: u32| u32::try_from(rng.below(u64::from(bound))).expect("small");
    let shape = SHAPES[below(9) as usize];
    let nodes = if below(4) == 0 { 2 + below(63) } else { 2 + below(15) };
    let graph = shaped(shape, nodes, seed).with_root(NodeId(below(nodes))).expect("a root");
    let mut config = StateConfig::new(Arc::new(graph), 1 + below(5), seed);
    config.daemon = [Daemon::Synchronous, Daemon::Central, Daemon::Distributed][below(3) as usize];
    config.graph_name = format!("{shape}, n = {nodes}, l = {}, {}", config.k, config.daemon);
    config
}

/// Theorem 4.1 with D = n-1, Theorem 4.2, and no terminal configuration, from 5,000 random starts.
#[test]
fn five_thousand_random_starts() {
    let (mut again, mut slowest) = (0, (0.0, String::new()));
    for seed in 1..=5000 {
        let mut config = generate(seed);
        let nodes = u64::from(config.graph.nodes());
        config.rounds = 8 * nodes + 40;
        let report = run(&config);
        let what = format!("seed {seed}: {}", report.graph);
        assert_eq!(properties(&report), [""; 0], "{what}");
        let normal = report.normal_at_round.expect("normal at last");
        assert!(normal <= nodes, "{what}: normal after {normal} rounds");
        assert!(report.inc_at_round.is_some(), "{what}: no start in {} rounds", report.rounds);
        assert!(
            report.abnormal_again == 0 || !config.graph.is_tree(),
            "{what}: Corollary 4.1 on a tree"
        );
        again += u64::from(report.abnormal_again > 0);
        let share = normal as f64 / nodes as f64;
        if share > slowest.0 {
            slowest = (share, what);
        }
    }
    println!(
        "abnormal again: {again} of 5000; slowest to be normal: {:.2} n rounds, {}",
        slowest.0, slowest.1
    );
}

/// Whether the tree is final: it contains every process, and the root's neighbours are its
/// children.
pub(crate) fn settled(run: &Run<Exclusion>, graph: &Graph) -> bool {
    let root = graph.root();
    let child = |node: &NodeId| run.states()[node.index()].parent == Some(root);
    let survey = run.survey();
    survey.start && survey.joined && graph.neighbours(root).iter().all(child)
}

fn parents(states: &[State]) -> Vec<Option<NodeId>> {
    states.iter().map(|state| state.parent).collect()
}

/// Theorem 4.3: once the tree is settled, every process has a token within ceil(product of the
/// numbers of children on its way / l) waves; and the tree stays as it is.
#[test]
fn every_process_is_served_within_the_wave_bound() {
    let (mut checked, mut most) = (0, 0);
    for seed in 1..=600 {
        let mut config = generate(seed);
        let graph = Arc::clone(&config.graph);
        if graph.nodes() > 20 {
            continue;
        }
        (config.rounds, config.steps) = (u64::MAX, Some(400_000));
        let mut run = Run::<Exclusion>::new(&config).expect("a run");
        while !settled(&run, &graph) && run.rounds() < 6000 && run.step() {}
        let tree = parents(run.states());
        let bound = waves_to_serve(&tree, config.k);
        if !settled(&run, &graph) || bound > 60 {
            continue;
        }
        checked += 1;
        most = most.max(bound);
        let (waves, served) = (run.waves(), run.served().to_vec());
        while run.waves() <= waves + bound && run.step() {}
        let unserved =
            (0..).zip(run.served().iter().zip(&served)).find(|(_, (now, before))| now <= before);
        assert_eq!(
            unserved.map(|(node, _)| NodeId(node)),
            None,
            "seed {seed}: {}, {bound} waves",
            config.graph_name
        );
        assert_eq!(parents(run.states()), tree, "seed {seed}");
    }
    println!("Theorem 4.3: {checked} runs checked, bounds up to {most} waves");
    assert!(checked > 300);
}

/// The engine checkers Theorem 4.3 by itself where the network is a tree; and a bound that is too
/// small is seen to be.
#[test]
fn the_engine_checkers_service_on_trees() {
    let shapes = [Shape::Path, Shape::Star, Shape::Balanced, Shape::Caterpillar];
    for (seed, shape) in (1..=60).zip(shapes.into_iter().cycle()) {
        let graph = shaped(shape, 9, seed);
        let tree: Vec<_> = (0..9).map(|node| graph.parent(NodeId(node))).collect();
        let mut config = StateConfig::new(graph, 2, seed);
        let bound = waves_to_serve(&tree, 2);
        config.served_within = Some(bound);
        let report = run(&config);
        assert_eq!(properties(&report), [""; 0], "{shape}, seed {seed}");
        assert!(report.served_after_stabilization > Some(0) && report.waves > 2 * bound);
        if bound > 1 {
            config.served_within = Some(bound / 2);
            assert_eq!(
                properties(&run(&config)),
                [kgate_spec::EveryoneServed::NAME],
                "{shape}, seed {seed}"
            );
        }
    }
}

/// Faults in a running system: it is normal, safe and serving again after each.
#[test]
fn it_recovers_from_faults() {
    for seed in 1..=100 {
        let mut config = generate(seed);
        let nodes = config.graph.nodes();
        config.corrupt =
            (0..nodes).filter(|node| node % 3 != 1).map(|node| (NodeId(node), 200)).collect();
        config.rounds = 200 + 8 * u64::from(nodes) + 40;
        let report = run(&config);
        assert_eq!(properties(&report), [""; 0], "seed {seed}: {}", report.graph);
        assert!(
            report.normal_at_round.is_some_and(|round| round <= u64::from(nodes)),
            "seed {seed}"
        );
    }
}

/// Same seed, same run.
#[test]
fn a_seed_is_a_run() {
    for seed in 1..=50 {
        let config = StateConfig { rounds: 100, ..generate(seed) };
        assert_eq!(run(&config).hash, run(&config).hash, "seed {seed}");
    }
}
