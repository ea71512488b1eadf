//! vcube-2018, section 8: the facts that its text states, as they come out under the literal cost
//! model (one send queue a process, receives side by side). `docs/internals/reproduction.md` says
//! what does not come out, and why.

use kgate_sim::{Report, SendCost};
use kgate_tests::Case;

const SIZES: [u32; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];

fn low(protocol: &str, nodes: u32) -> Report {
    let report = Case::vcube_2018(protocol, nodes).run();
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    report
}

fn mean(report: &Report) -> f64 {
    report.obtaining.mean.expect("grants")
}

/// Figure 6(a): L1 RAY ahead of VCUBE for 8 .. 64, L2 "with 128 processes, the three algorithms
/// present equivalent performance" (ours: equal), L3 VCUBE ahead above. Figure 7(a): O1 the
/// obtaining time likewise.
#[test]
fn low_load_crosses_over_at_128() {
    for nodes in SIZES {
        let (ray, vcube) = (low("raymond", nodes), low("vcube", nodes));
        let (r, v) = (ray.grants, vcube.grants);
        match nodes {
            8..=64 => assert!(r > v && mean(&ray) < mean(&vcube), "n={nodes}: {r} and {v}"),
            128 => {
                assert_eq!(r, v, "L2");
                assert!((mean(&ray) / mean(&vcube) - 1.0).abs() < 0.02, "O1 at 128");
            }
            _ => assert!(r < v && mean(&ray) > mean(&vcube), "n={nodes}: {r} and {v}"),
        }
    }
}

/// Section 8.2.1: "Under faulty-free scenarios, RAY, and BAS present similar results" (ours: the
/// same).
#[test]
fn ray_is_bas_without_faults() {
    for nodes in SIZES {
        let (ray, bas) = (low("raymond", nodes), low("bas", nodes));
        assert_eq!((ray.grants, ray.messages.total), (bas.grants, bas.messages.total), "n={nodes}");
        assert_eq!(ray.obtaining, bas.obtaining, "n={nodes}");
    }
}

/// Figure 8(a): M1 "VCUBE sends more messages" a request, ACKs counted.
#[test]
fn vcube_sends_more_messages() {
    for nodes in SIZES {
        let per_grant = |protocol| low(protocol, nodes).messages_per_grant.expect("grants");
        assert!(per_grant("vcube") > per_grant("raymond"), "n={nodes}");
    }
}

/// Section 8.1: the other readings of the send cost run too, and keep k.
#[test]
fn other_send_costs_run() {
    for cost in [SendCost::Staggered, SendCost::Flat] {
        for protocol in ["raymond", "vcube"] {
            let mut case = Case::vcube_2018(protocol, 64).high();
            case.config.cost.send_cost = cost;
            let report = case.run();
            assert!(report.violations.is_empty() && report.max_in_use <= 3 && report.grants > 0);
        }
    }
}

/// The mean over a few seeds of a run with `faults` random crashes.
fn faulty(protocol: &str, nodes: u32, faults: u32, value: impl Fn(&Report) -> f64) -> f64 {
    const SEEDS: u32 = 5;
    let mut sum = 0.0;
    for seed in 1..=SEEDS {
        let mut case = Case::vcube_2018(protocol, nodes).seed(u64::from(seed));
        case.config.random_crashes = faults;
        let report = case.run();
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        sum += value(&report);
    }
    sum / f64::from(SEEDS)
}

fn grants(report: &Report) -> f64 {
    report.grants as f64
}

/// Figures 9(a) and 11(a), f = 3: F1 "the performance of RAY is worse than BAS's"; F3 VCUBE and BAS
/// behave as without faults (ours: no more than 5 % below); F4 "VCube sends less messages when
/// compared with the fault-free scenarios".
#[test]
fn three_faults() {
    for nodes in [8, 16, 32, 64, 128, 256] {
        let (ray, bas) = (faulty("raymond", nodes, 3, grants), faulty("bas", nodes, 3, grants));
        assert!(ray < bas, "F1, n={nodes}: {ray} and {bas}");
        for (protocol, with) in [("bas", bas), ("vcube", faulty("vcube", nodes, 3, grants))] {
            let without = grants(&low(protocol, nodes));
            assert!(with > 0.95 * without, "F3, {protocol}, n={nodes}: {with} against {without}");
        }
        let messages = |report: &Report| report.messages_per_grant.expect("grants");
        let with = faulty("vcube", nodes, 3, messages);
        assert!(with < messages(&low("vcube", nodes)), "F4, n={nodes}");
    }
}

/// Figure 12(a), n = 128 with 1 .. 100 faults: G4 "RAY is always worst".
#[test]
fn ray_is_always_worst_with_faults() {
    for faults in [1, 2, 3, 5, 10, 20, 50, 100] {
        let ray = faulty("raymond", 128, faults, grants);
        for other in ["bas", "vcube"] {
            assert!(ray < faulty(other, 128, faults, grants), "{other}, {faults} faults");
        }
    }
}

/// Figure 12(b), HIGH: G5 claims VCUBE far ahead. Under a cost that is the same for every message
/// it is not: it makes 3(n-1) sends a request against 2(n-1). A finding, kept here so that a change
/// of it is noticed.
#[test]
fn high_load_does_not_favour_vcube() {
    let run = |protocol| {
        let mut case = Case::vcube_2018(protocol, 128).high();
        case.config.random_crashes = 20;
        case.run().grants
    };
    let (bas, vcube) = (run("bas"), run("vcube"));
    assert!(vcube < bas, "G5: {vcube} against {bas}");
}
