//! A warm-up leaves the run as it is and measures the rest of it.

use kgate_sim::Report;
use kgate_tests::{Case, t};

const PROTOCOLS: [&str; 5] = ["raymond", "bas", "vcube", "robust", "tree-token"];

/// Two parts of a run together measure what the whole does: requests, grants, and messages by kind;
/// and the run is the same.
#[test]
fn parts_add_up() {
    for protocol in PROTOCOLS {
        let measured = |warmup: &str, duration: &str| -> Report {
            let mut case = Case::vcube_2018(protocol, 32).high();
            (case.config.warmup, case.config.duration) = (t(warmup), t(duration));
            case.run()
        };
        let (first, rest, whole) =
            (measured("0", "60"), measured("60", "200"), measured("0", "200"));
        assert_eq!(rest.hash, whole.hash, "{protocol}");
        assert!(first.grants > 0 && rest.grants > 0, "{protocol} grants in both parts");
        assert_eq!(first.requests + rest.requests, whole.requests, "{protocol}");
        assert_eq!(first.grants + rest.grants, whole.grants, "{protocol}");
        for (kind, count) in &whole.messages.by_kind {
            let parts = first.messages.by_kind[kind] + rest.messages.by_kind[kind];
            assert_eq!(parts, *count, "{protocol}, {kind}");
        }
        let area = 60.0 * first.slots_in_use.mean + 140.0 * rest.slots_in_use.mean;
        assert!((area - 200.0 * whole.slots_in_use.mean).abs() < 1e-6, "{protocol}");
        assert!(
            (rest.cs_bandwidth * 140.0 - f64::from(u32::try_from(rest.grants).expect("few"))).abs()
                < 1e-6
        );
    }
}
