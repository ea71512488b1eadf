//! The published defects, by swarm: as printed some seed goes wrong, repaired the same seed does
//! not.
//!
//! Each of these also proves that the checkers can fail. `docs/internals/reproduction.md` has the
//! schedules.

mod permission;
mod timer_free;
mod tree_token;

use kgate_sim::{Latency, Report};
use kgate_tests::{Case, claims_of, t};

/// A small system in which every process requests.
fn small(protocol: &str, nodes: u32, k: u32) -> Case {
    let mut case = Case::vcube_2018(protocol, nodes).high();
    case.config.k = k;
    case.config.tolerate = k - 1;
    case.config.claims = claims_of(case.entry, nodes, k);
    case.config.duration = t("60");
    case
}

/// The same with messages that overtake each other, a longer stay, and one crash that is soon
/// known.
fn rough(protocol: &str, nodes: u32, k: u32, hold: &str, crashes: u32) -> Case {
    let mut case = small(protocol, nodes, k);
    case.config.cost.latency = Latency::Uniform(t("0.1"), t("2"));
    case.config.load.hold = t(hold);
    case.config.random_crashes = crashes;
    case.config.detection.timeout = t("5");
    if crashes > 0 {
        case.config.detection.oracle = Some(t("3"));
    }
    case
}

/// The same with crashes that are known later.
fn known_late(protocol: &str, nodes: u32, k: u32, hold: &str, crashes: u32) -> Case {
    let mut case = rough(protocol, nodes, k, hold, crashes);
    case.config.detection.oracle = Some(t("5"));
    case
}

/// The first of `seeds` runs that violates `property` as printed; repaired, none of those up to it
/// violates anything.
fn found(case: &Case, id: &str, property: &str, seeds: u64) -> Report {
    for seed in 1..=seeds {
        let repaired = case.clone().seed(seed).run();
        assert!(repaired.violations.is_empty(), "repaired, seed {seed}: {:?}", repaired.violations);
        let printed = case.clone().seed(seed).as_printed(id).run();
        if printed.violations.iter().any(|violation| violation.property == property) {
            return printed;
        }
    }
    panic!("{id}: '{property}' was never violated in {seeds} seeds");
}

const SAFETY: &str = kgate_spec::AtMostK::NAME;
const LIVENESS: &str = kgate_spec::EveryoneServed::NAME;
