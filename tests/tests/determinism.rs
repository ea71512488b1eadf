//! Same seed, same run: on both engines, twice, in debug and in release builds.

use kgate_sim::Latency;
use kgate_tests::{Case, generate, generate_disturbed, t};

const PROTOCOLS: [&str; 7] =
    ["raymond", "bas", "vcube", "robust", "timer-free", "tree-token", "stabilizing"];

/// Both engines give the same run, and so does a second time, over drawn settings of every
/// protocol.
#[test]
fn engines_agree() {
    for protocol in PROTOCOLS {
        for seed in 1..=100 {
            let case = generate_disturbed(protocol, seed);
            let (bucket, heap, again) = (case.run(), case.run_on_heap(), case.run());
            assert_eq!(bucket.hash, heap.hash, "{protocol}, seed {seed}");
            assert_eq!(bucket.hash, again.hash, "{protocol}, seed {seed}");
            assert_eq!((bucket.events, &bucket.messages), (heap.events, &heap.messages));
        }
    }
}

/// Larger runs, with the paths that small ones do not take: send queues of minutes, records,
/// crashes.
#[test]
fn engines_agree_on_large_runs() {
    for protocol in PROTOCOLS {
        let mut case = Case::vcube_2018(protocol, 100).high();
        case.config.random_crashes = if protocol == "stabilizing" { 0 } else { 2 };
        assert_eq!(case.run().hash, case.run_on_heap().hash, "{protocol}, send queue");
        case.config.cost.send = t("0");
        case.config.duration = t("20");
        assert_eq!(case.run().hash, case.run_on_heap().hash, "{protocol}, records");
        case.config.cost.latency = Latency::Uniform(t("0.5"), t("1.5"));
        assert_eq!(case.run().hash, case.run_on_heap().hash, "{protocol}, uniform");
    }
}

/// Another seed is another run: the hash can tell runs apart.
#[test]
fn seeds_differ() {
    let hash = |seed| generate("vcube", seed).run().hash;
    let mut hashes: Vec<String> = (1..=50).map(hash).collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 50);
}

/// The hashes are pinned: a debug build, a release build, and every later version give these. A
/// change that means to alter runs changes them here and notes it in the changelog.
#[test]
fn hashes_are_pinned() {
    let hashes = PROTOCOLS.map(|protocol| generate(protocol, 7).run().hash);
    assert_eq!(hashes, PINNED);
}

const PINNED: [&str; 7] = [
    "0x2c2e972bbd57c9d4",
    "0xe67a2c498fca614c",
    "0x47716c0755f65b13",
    "0x503e450e1f1e6544",
    "0x7dbfb838d15956a5",
    "0x779fd6f0703dfcaa",
    "0xded365c0d64e3f74",
];
