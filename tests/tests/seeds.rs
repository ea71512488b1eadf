//! A thousand settings a protocol, drawn from their seeds: safety always, an answer for every live process in the end.

use kgate_tests::drawn;

/// A thousand, or as many as `KGATE_TEST_SEEDS` says: the slow sweep.
fn seeds() -> u64 {
    let wanted = std::env::var("KGATE_TEST_SEEDS").ok();
    wanted.map_or(1000, |text| text.parse().expect("KGATE_TEST_SEEDS is a number"))
}

/// Safety and liveness (vcube-2018 section 7.4, Lemmas 7.1 and 7.2), with random crashes, sizes,
/// k, costs and latencies; and the setting is worth something: units are granted, contended for, and processes crash.
fn check(protocol: &str) {
    let (mut grants, mut full, mut crashes) = (0, 0, 0);
    let seeds = seeds();
    for seed in 1..=seeds {
        let case = drawn(protocol, seed);
        let report = case.run();
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}\n{case:#?}", report.violations);
        assert!(report.max_inside <= case.config.permits as usize);
        assert_eq!(report.unanswered, 0, "seed {seed}");
        grants += report.grants;
        full += usize::from(report.max_inside == case.config.permits as usize);
        crashes += report.crashes;
    }
    assert!(grants > 20 * seeds, "{grants} grants");
    assert!(full as u64 > seeds * 3 / 10, "only {full} runs had k inside");
    assert!(u64::from(crashes) > seeds * 3 / 10, "only {crashes} crashes");
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

/// `timer-free`, up to f crashes, on grids where its responsiveness property holds.
#[test]
fn timer_free() {
    check("timer-free");
}
