//! Every checker of the simulator catches a published defect.
//!
//! "Alone" means that no other checker reports a violation of that run: without this checker the
//! run would pass as correct. The same tests of the model checker are in
//! `crates/check/src/tests.rs`; unit tests with planted bugs are beside each checker.

use kgate_sim::{Audit, Latency, Report, Think};
use kgate_spec::{
    AtMostK, EntryOrder, EveryoneServed, NoDeadlock, OneToken, Permissions, SlotFences,
};
use kgate_tests::{Case, claims_of, t};

/// A small system in which all processes request, with messages that overtake each other.
fn rough(protocol: &str, nodes: u32, k: u32, hold: &str) -> Case {
    let mut case = Case::vcube_2018(protocol, nodes).high();
    case.config.k = k;
    case.config.tolerate = 0;
    case.config.claims = claims_of(case.entry, nodes, k);
    case.config.cost.latency = Latency::Uniform(t("0.1"), t("2"));
    case.config.detection.timeout = t("5");
    case.config.load.hold = t(hold);
    case.config.duration = t("60");
    case
}

/// One token, and crashes with recovery.
fn recovering(hold: &str) -> Case {
    let mut case = rough("tree-token", 8, 1, hold);
    case.config.duration = t("200");
    case.config.random_recoveries = 40;
    case.config.down_for = t("5");
    case
}

fn says(report: &Report, checker: &str) -> bool {
    report.violations.iter().any(|violation| violation.property == checker)
}

/// The first of `seeds` runs as printed in which this checker reports a violation and, if `alone`,
/// no other does.
fn first(case: &Case, defect: &str, checker: &str, alone: bool, seeds: u64) -> Case {
    for seed in 1..=seeds {
        let case = case.clone().seed(seed);
        assert!(
            case.run().violations.is_empty(),
            "repaired, seed {seed}: {:?}",
            case.run().violations
        );
        let printed = case.as_printed(defect);
        let report = printed.run();
        let others = report.violations.iter().any(|violation| violation.property != checker);
        if says(&report, checker) && !(alone && others) {
            return printed;
        }
    }
    panic!("{defect}: '{checker}' reported nothing in {seeds} seeds");
}

/// As [`first`], alone; and the same run with the checkers of messages switched off passes as
/// correct, with the same hash.
fn missed_without(case: &Case, defect: &str, checker: &str, seeds: u64) {
    let mut printed = first(case, defect, checker, true, seeds);
    let hash = printed.run().hash;
    printed.config.audit = Audit::Never;
    let unseen = printed.run();
    assert!(unseen.violations.is_empty(), "{:?}", unseen.violations);
    assert_eq!(unseen.hash, hash, "checkers change nothing");
}

/// D2 (vcube-2018) and T2 (timer-free-2009): a permission for the last request counts for this one,
/// and the number of slots in use happens to stay within k.
#[test]
fn permissions_alone() {
    missed_without(&rough("vcube", 4, 2, "0.0002"), "D2", Permissions::NAME, 100);
    missed_without(&rough("timer-free", 3, 2, "0.0002"), "T2", Permissions::NAME, 100);
}

/// D9 (robust-2012): the later request is granted first, and no two processes happen to hold the
/// slot at the same time.
#[test]
fn entry_order_alone() {
    missed_without(&rough("robust", 3, 1, "0.0002"), "D9", EntryOrder::NAME, 100);
}

/// R7 (tree-token-2019): a second token that happens not to be used while the first is in use.
#[test]
fn one_token_alone() {
    missed_without(&recovering("0.0002"), "R7", OneToken::NAME, 400);
}

/// R1 (tree-token-2019): a token in use is passed on, so there are two.
#[test]
fn one_token_sees_a_token_passed_on_in_use() {
    first(&rough("tree-token", 4, 1, "2"), "R1", OneToken::NAME, false, 1);
}

/// T1 (timer-free-2009) with k = 2: equal clocks permit each other, properly counted; only the
/// number of holders shows it.
#[test]
fn at_most_k_alone() {
    first(&rough("timer-free", 4, 2, "2"), "T1", AtMostK::NAME, true, 50);
}

/// R8 (tree-token-2019): after a recovery the run stalls until another process requests: a
/// temporary deadlock; in the end all requests are served.
#[test]
fn no_deadlock_alone() {
    let mut case = recovering("0.0002");
    case.config.load.think = Think::Constant(t("10")); // So that for a while no process requests.
    first(&case, "R8", NoDeadlock::NAME, true, 400);
}

/// T4 (timer-free-2009): both wait for ever.
#[test]
fn everyone_served() {
    first(&rough("timer-free", 2, 1, "1"), "T4", EveryoneServed::NAME, false, 5);
}

/// R7 (tree-token-2019): a token twice, and a slot with two holders.
#[test]
fn slot_fences() {
    first(&recovering("2"), "R7", SlotFences::NAME, false, 400);
}

/// Non-vacuity: a lone requester never uses both slots, which the report shows and does not call a
/// violation.
#[test]
fn sometimes_k() {
    let mut case = rough("raymond", 4, 2, "1");
    assert!(case.run().k_in_use_seen);
    case.config.load.requesters = 1;
    let report = case.run();
    assert_eq!((report.k_in_use_seen, report.violations.len()), (false, 0));
}

/// Large runs are not audited unless asked to be; the hash is the same either way.
#[test]
fn audits_are_for_small_runs() {
    let mut case = rough("timer-free", 66, 2, "0.0002").as_printed("T2");
    case.config.duration = t("20");
    let [small, never, always] = [Audit::Small, Audit::Never, Audit::Always].map(|audit| {
        case.config.audit = audit;
        case.run()
    });
    assert!(says(&always, Permissions::NAME), "{:?}", always.violations);
    assert!(!says(&small, Permissions::NAME) && !says(&never, Permissions::NAME));
    assert!(small.hash == always.hash && never.hash == always.hash);
}
