//! A thousand settings a protocol, drawn from their seeds: safety always, an answer for every live process in the end.

use kgate_tests::drawn;

const SEEDS: u64 = 1000;

/// DESIGN: "Every protocol keeps max_inside <= k and answers all requests of live processes", with random crashes, sizes,
/// k, costs and latencies; and the setting is worth something: units are granted, contended for, and processes crash.
fn check(protocol: &str) {
    let (mut grants, mut full, mut crashes) = (0, 0, 0);
    for seed in 1..=SEEDS {
        let case = drawn(protocol, seed);
        let report = case.run();
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}\n{case:#?}", report.violations);
        assert!(report.max_inside <= case.config.permits as usize);
        assert_eq!(report.unanswered, 0, "seed {seed}");
        grants += report.grants;
        full += usize::from(report.max_inside == case.config.permits as usize);
        crashes += report.crashes;
    }
    assert!(grants > 20 * SEEDS, "{grants} grants");
    assert!(full > 300, "only {full} runs had k inside");
    assert!(crashes > 300, "only {crashes} crashes");
}

/// `raymond`, at most k-1 crashes.
#[test]
fn raymond() {
    check("raymond");
}

/// `bas`, up to n-1 crashes.
#[test]
fn bas() {
    check("bas");
}

/// `vcube`, up to n-1 crashes.
#[test]
fn vcube() {
    check("vcube");
}

/// `robust`, up to n-1 crashes.
#[test]
fn robust() {
    check("robust");
}
