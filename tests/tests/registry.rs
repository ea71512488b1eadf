//! The facts in the registry agree with measurements.

use std::sync::Arc;

use kgate_core::{LogView, NodeId};
use kgate_protocols::registry::ENTRIES;
use kgate_sim::{Latency, SendCost};
use kgate_tests::{Case, t};

/// A lone requester in a quiet system: messages an entry and delays are those of `kgate protocols`.
#[test]
fn costs_are_as_listed() {
    for entry in ENTRIES.iter().filter(|entry| entry.name != "stabilizing") {
        for nodes in [4, 16, 64] {
            let mut case = Case::vcube_2018(entry.name, nodes);
            case.config.load.requesters = 1;
            case.config.load.entries = Some(1);
            case.config.k = 1;
            case.config.tolerate = 0;
            case.config.cost.send = t("0");
            case.config.cost.receive = t("0");
            case.config.cost.send_cost = SendCost::Flat;
            case.config.cost.latency = Latency::Constant(t("1"));
            // After the flood with which tree-token begins.
            case.config.load.first_request = t("100");
            let mut flood = 0;
            let mut distance = 0;
            if let Some(graph) = &mut case.config.graph {
                *graph = Arc::new(graph.with_root(NodeId(nodes - 1)).expect("a process"));
                distance = graph.distances(NodeId(0))[nodes as usize - 1];
                flood = nodes - 1;
            }
            let report = case.run();
            // At the home of the gate nothing is sent; here it is another process.
            let homes = entry.follows_log.then(|| LogView::initial(nodes, 1).home());
            let home = homes.flatten().map(|home| home.node);
            if home == Some(NodeId(0)) {
                case.config.load.requesters = 2;
                case.config.only = vec![NodeId(1)];
            }
            let messages = match entry.messages {
                "2 x distance to the token" => 2 * distance + flood,
                "2(n-1)" => 2 * (nodes - 1),
                "3(n-1)" => 3 * (nodes - 1),
                "3; 0 at the home, and to re-use a cached slot" => 3,
                other => panic!("how many are {other}?"),
            };
            let delays = match entry.delays {
                "2 x distance to the token" => 2 * distance,
                "2" | "2; 0 at the home, and to re-use a cached slot" => 2,
                "2, on the tree 2 log2(n); 0 to re-use a cached slot" => 2, // Few processes: flat.
                "log2(n) + 1" => nodes.ilog2() + 1,
                other => panic!("how many are {other}?"),
            };
            assert_eq!(
                (report.grants, report.messages.total),
                (1, u64::from(messages)),
                "{}",
                entry.name
            );
            assert_eq!(report.obtaining.mean, Some(f64::from(delays)), "{}, n={nodes}", entry.name);
        }
    }
}

/// `stabilizing` never rests: its messages are its neighbours' states, and a lone requester waits
/// for the waves to come round.
#[test]
fn stabilizing_sends_states_all_the_time() {
    let mut case = Case::vcube_2018("stabilizing", 9);
    case.config.load.requesters = 1;
    case.config.load.entries = Some(1);
    let report = case.run();
    let kinds: Vec<&str> = report.messages.by_kind.keys().copied().collect();
    assert_eq!((report.grants, kinds), (1, vec!["state"]));
    assert!(report.messages.total > 9 * 100, "{}", report.messages.total);
}

/// Every protocol runs with the same settings: no process is given a fact that only some protocols
/// need.
#[test]
fn every_protocol_runs_with_the_same_settings() {
    for entry in ENTRIES {
        for case in [Case::vcube_2018(entry.name, 16), Case::vcube_2018(entry.name, 16).high()] {
            let report = case.run();
            assert_eq!((report.violations.len(), report.unanswered), (0, 0), "{}", entry.name);
            assert!(report.grants > 50, "{}: {}", entry.name, report.grants);
        }
    }
}

/// Every published defect that a system names exists, once, and every one that exists is named by a
/// system.
#[test]
fn defects_are_named_and_exist() {
    let mut named: Vec<&str> = ENTRIES.iter().flat_map(|entry| entry.defects).copied().collect();
    let mut known: Vec<&str> = kgate_protocols::defects::all().map(|defect| defect.id).collect();
    for entry in ENTRIES {
        assert_eq!(entry.published_defects().count(), entry.defects.len(), "{}", entry.name);
    }
    named.sort_unstable();
    named.dedup(); // D4 is in three systems.
    known.sort_unstable();
    assert_eq!(named, known);
}

/// The protocols that claim to serve in the order of stamps: those that exclude by permissions, and
/// only with k = 1 (D10).
#[test]
fn protocols_that_claim_the_order_of_stamps() {
    let claim = |k| ENTRIES.iter().filter(move |entry| entry.in_order(k)).map(|entry| entry.name);
    assert_eq!(claim(1).collect::<Vec<_>>(), ["raymond", "bas", "vcube", "robust", "timer-free"]);
    assert_eq!(claim(2).count(), 0);
}
