//! tree-token-2019 in the simulator: what an entry and a recovery cost, and that k tokens are used
//! at once.

use kgate_core::NodeId;
use kgate_protocols::topology::graphs::Shape;
use kgate_sim::{Crash, Latency};
use kgate_tests::{Case, claims_of, graph, t};
use std::sync::Arc;

const TREES: [Shape; 5] =
    [Shape::Radial, Shape::Balanced, Shape::Path, Shape::Star, Shape::RandomTree];

/// One token at `holder`, and p0 asks once when the flood is over.
fn quiet(shape: Shape, nodes: u32, holder: u32) -> Case {
    let mut case = Case::vcube_2018("tree-token", nodes);
    let config = &mut case.config;
    config.k = 1;
    config.tolerate = 0;
    config.claims = claims_of(case.entry, nodes, 1);
    config.graph =
        Some(Arc::new(graph(shape, nodes, 3).with_root(NodeId(holder)).expect("a process")));
    config.load.requesters = 1;
    config.load.entries = Some(1);
    config.load.first_request = t("50");
    config.duration = t("200");
    case
}

/// Section VI, corrected: an entry costs exactly 2 x distance messages in a quiet system (their
/// 2(D-1) counts processes), from every place to the token; the flood n-1.
#[test]
fn an_entry_costs_twice_the_distance() {
    for shape in TREES {
        for holder in 0..22 {
            let case = quiet(shape, 22, holder);
            let distance = case.config.graph.as_ref().expect("a tree").distances(NodeId(holder))[0];
            let report = case.run();
            let sent = |kind: &str| report.messages.by_kind[kind];
            assert_eq!((report.grants, sent("initialize")), (1, 21));
            let (request, token) = (sent("request"), sent("token"));
            assert_eq!(
                (request, token),
                (u64::from(distance), u64::from(distance)),
                "{shape} from p{holder}"
            );
        }
    }
}

/// Section VI: a recovery costs exactly 2K messages for K neighbours in a quiet system.
#[test]
fn a_recovery_costs_two_messages_a_neighbour() {
    for shape in TREES {
        for node in 0..22 {
            let mut case = quiet(shape, 22, 5);
            case.config.crashes =
                vec![Crash { node: NodeId(node), at: t("100"), back: Some(t("120")) }];
            let neighbours =
                case.config.graph.as_ref().expect("a tree").neighbours(NodeId(node)).len() as u64;
            let report = case.run();
            assert_eq!(report.recoveries, 1);
            let sent = |kind: &str| report.messages.by_kind[kind];
            assert_eq!(
                (sent("restart"), sent("advise")),
                (neighbours, neighbours),
                "{shape}, p{node}"
            );
        }
    }
}

/// Beyond the paper: three tokens let three in at once, and never four.
#[test]
fn three_tokens_three_inside() {
    let mut case = Case::vcube_2018("tree-token", 22).high();
    case.config.load.hold = t("5");
    let report = case.run();
    assert_eq!((report.max_in_use, report.violations.len()), (3, 0));
    assert!(report.slots_in_use.mean > 1.5, "{}", report.slots_in_use.mean);
}

/// Beyond the paper: a process that is lost for good with the token in its hand costs a new one,
/// under a higher fence (the checker of fences looks), and those behind it are served.
#[test]
fn a_lost_token_is_made_anew() {
    for lost in 0..10 {
        let mut case = Case::vcube_2018("tree-token", 10).high();
        case.config.k = 1;
        case.config.tolerate = 0;
        case.config.claims = claims_of(case.entry, 10, 1);
        case.config.load.hold = t("3");
        // Each process asks again and again, so that the lost one is inside sooner or later.
        case.config.crashes = vec![Crash { node: NodeId(lost), at: t("101"), back: None }];
        let report = case.run();
        assert_eq!((report.unanswered, report.violations.len()), (0, 0), "{:?}", report.violations);
        let late = &report.slots_in_use.series[20..];
        assert!(late.iter().sum::<f64>() > 10.0, "{late:?}");
    }
}

/// A neighbour's RESTART of an earlier incarnation comes late, and the one of its present
/// incarnation was lost: what was asked of the earlier incarnation is asked again (seed 0x47f once
/// starved).
#[test]
fn a_restart_of_an_earlier_incarnation() {
    let mut case = Case::vcube_2018("tree-token", 2).high();
    let config = &mut case.config;
    config.k = 1;
    config.tolerate = 0;
    config.claims = claims_of(case.entry, 2, 1);
    config.load.hold = t("2");
    config.cost.latency = Latency::Uniform(t("0"), t("5"));
    config.duration = t("30");
    config.random_recoveries = 3;
    config.down_for = t("5");
    for seed in 0x400..0x500 {
        let report = case.clone().seed(seed).run();
        assert!(report.violations.is_empty(), "seed {seed:#x}: {:?}", report.violations);
    }
}
