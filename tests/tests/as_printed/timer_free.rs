//! T1 to T4 and T7, of timer-free-2009.

use kgate_core::Span;
use kgate_sim::Latency;
use kgate_tests::{Case, t};

use super::{LIVENESS, SAFETY, found, rough, small};

/// Clusters, fast inside and slow between; nothing waits in a queue.
fn grid(clusters: u32, size: u32, k: u32) -> Case {
    let mut case = small("timer-free", clusters * size, k);
    let shape = format!("grid={clusters}x{size},intra=0.01..0.05,inter=0.4..0.9");
    case.config.cost.latency = shape.parse::<Latency>().expect("a latency");
    case.config.cost.send = Span::ZERO;
    case.config.cost.receive = Span::ZERO;
    case
}

/// T1 (footnote, tie `i = j`): both enter, n = 2.
#[test]
fn t1_ties_go_to_both() {
    let mut case = small("timer-free", 2, 1);
    case.config.load.hold = t("1");
    found(&case, "T1", SAFETY, 1);
}

/// T2 (a REPLY without its request's stamp): more than k inside without any fault, n = 3, k = 2.
#[test]
fn t2_replies_without_a_stamp() {
    let mut case = rough("timer-free", 3, 2, "1", 0);
    case.config.tolerate = 0; // Messages overtake each other, so nobody may be suspected.
    found(&case, "T2", SAFETY, 5);
}

/// T3 (pending keeps the first stamp): starvation with one crash.
#[test]
fn t3_pending_keeps_the_first_stamp() {
    let mut case = grid(3, 2, 2);
    case.config.load.hold = t("0.3");
    case.config.load.think = kgate_sim::Think::Constant(t("0.01"));
    case.config.random_crashes = 1;
    found(&case, "T3", LIVENESS, 300);
}

/// T4 (a request that is not atomic): deadlock, n = 2.
#[test]
fn t4_requests_in_two_steps() {
    let mut case = rough("timer-free", 2, 1, "1", 0);
    case.config.tolerate = 0;
    found(&case, "T4", LIVENESS, 5);
}

/// T6 and T7: where clusters are no larger than f, the living are suspected and more than k are
/// inside, whatever is repaired; but only as printed does a falsely suspected process starve.
#[test]
fn t7_the_falsely_suspected_starve() {
    let mut case = grid(2, 2, 3);
    case.config.load.hold = t("1");
    case.config.duration = t("100");
    let (mut starved, mut crowded) = (0, 0);
    for seed in 1..=50 {
        let has = |case: &Case, property: &str| {
            case.run().violations.iter().any(|violation| violation.property == property)
        };
        let case = case.clone().seed(seed);
        assert!(!has(&case, LIVENESS), "seed {seed}");
        crowded += u32::from(has(&case, SAFETY));
        starved += u32::from(has(&case.as_printed("T7"), LIVENESS));
    }
    assert!(crowded > 20, "T6: {crowded} of 50");
    assert!(starved > 5, "T7: {starved} of 50");
}
