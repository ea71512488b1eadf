//! D1 to D9, of the permission-based papers.

use kgate_tests::t;

use super::{LIVENESS, SAFETY, found, known_late, rough, small};

/// D1 (vcube-2018, Alg. 6.1 l.19): deadlock without any fault, n = 2.
#[test]
fn d1_timestamps_as_sequence_numbers() {
    found(&small("vcube", 2, 1), "D1", LIVENESS, 1);
}

/// D2 (vcube-2018, Alg. 7.1 l.9-14 with 6.1 l.5): more than k inside without any fault, n = 4, k =
/// 2.
#[test]
fn d2_late_reply_counts_for_the_next_request() {
    found(&rough("vcube", 4, 2, "1", 0), "D2", SAFETY, 20);
}

/// D3 (vcube-2018, l.36-37 while blocked on 6.1 l.5): deadlock with one crash, n = 4, k = 1.
#[test]
fn d3_permission_count_below_zero() {
    found(&rough("vcube", 4, 1, "0.1", 1), "D3", LIVENESS, 100);
}

/// D4 (both papers, order of the crash handlers): more than k inside with one crash, n = 3, k = 1.
#[test]
fn d4_the_dead_permit_once_more() {
    for protocol in ["bas", "vcube", "robust"] {
        found(&rough(protocol, 3, 1, "5", 1), "D4", SAFETY, 50);
    }
}

/// D5 (vcube-2018, Alg. 6.1 l.28-29): a broadcast that never ends, n = 16. Its source can still
/// enter; it never asks again.
#[test]
fn d5_one_ack_two_parents() {
    let mut case = rough("vcube", 16, 3, "0.0002", 8);
    case.config.detection.oracle = Some(t("10"));
    found(&case, "D5", LIVENESS, 400);
}

/// D6 (robust-2012, Alg. 2 l.8): a lone requester deadlocks.
#[test]
fn d6_the_clock_stands_still() {
    let mut case = small("robust", 4, 1);
    case.config.load.requesters = 1;
    assert_eq!(found(&case, "D6", LIVENESS, 1).grants, 1);
}

/// D7 (robust-2012, Alg. 1 l.12, keyed by the forwarder): safety and liveness, with one crash.
#[test]
fn d7_duplicates_told_by_the_forwarder() {
    found(&rough("robust", 8, 2, "0.1", 1), "D7", LIVENESS, 60);
    found(&known_late("robust", 8, 2, "1", 2), "D7", SAFETY, 100);
    let calm = rough("robust", 8, 2, "0.1", 0);
    for seed in 1..=60 {
        let report = calm.clone().seed(seed).as_printed("D7").run();
        assert!(report.violations.is_empty(), "without a crash nothing comes by another route");
    }
}

/// D8 (robust-2012, keyed by the root but "different" instead of "newer"): safety, with crashes.
#[test]
fn d8_different_instead_of_newer() {
    found(&known_late("robust", 8, 2, "1", 2), "D8", SAFETY, 600);
}

/// D9 (robust-2012, section 4, prose): more than k inside without any fault, n = 3.
#[test]
fn d9_priority_reversed() {
    let mut case = small("robust", 3, 1);
    case.config.load.hold = t("1");
    found(&case, "D9", SAFETY, 1);
}
