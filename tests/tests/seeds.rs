//! A thousand generated settings per protocol: safety always holds, and every request of a live
//! process is eventually granted. And a hundred fresh settings per commit, so that new seeds are
//! tried too.

use kgate_lab::swarm::{self, Swarm};
use kgate_protocols::registry::{self, ENTRIES};
use kgate_tests::{command, generate_disturbed};

/// A thousand, or as many as `KGATE_TEST_SEEDS` says: the slow sweep.
fn seeds() -> u64 {
    let wanted = std::env::var("KGATE_TEST_SEEDS").ok();
    wanted.map_or(1000, |text| text.parse().expect("KGATE_TEST_SEEDS is a number"))
}

/// What the settings of a protocol must achieve: grants per run on average, and the percentage of
/// runs in which all k slots are in use at once.
struct Worth {
    grants: u64,
    full: u64,
}

const USUAL: Worth = Worth { grants: 20, full: 30 };

/// Safety and liveness (vcube-2018 section 7.4, Lemmas 7.1 and 7.2; the same in every paper), with
/// random faults, sizes, k, costs and latencies; and the settings are meaningful: slots are
/// granted and contended for, and faults happen.
fn check(protocol: &str, worth: Worth) {
    let (mut grants, mut full, mut faults, mut disturbed_runs) = (0, 0, 0, 0);
    let tolerates_delay = registry::entry(protocol).expect("a protocol").tolerates_delay;
    let seeds = seeds();
    for seed in 1..=seeds {
        let case = generate_disturbed(protocol, seed);
        let report = case.run();
        assert!(
            report.violations.is_empty(),
            "seed {seed}: {:#?}\nREPRODUCE WITH: {}",
            report.violations,
            command(&case)
        );
        let most = case.config.resizes.iter().map(|resize| resize.1).fold(case.config.k, u32::max);
        assert!(report.max_in_use <= most as usize, "seed {seed}");
        assert_eq!(report.unanswered, 0, "seed {seed}");
        grants += report.grants;
        full += u64::from(report.max_in_use == case.config.k as usize);
        faults += u64::from(report.crashes + report.recoveries)
            + u64::from(report.stabilized_at.is_some());
        disturbed_runs +=
            u64::from(report.pauses > 0) + u64::from(report.delayed + report.lost > 0);
    }
    assert!(grants > worth.grants * seeds, "{grants} grants");
    assert!(full > seeds * worth.full / 100, "only {full} runs used all k slots");
    assert!(faults > seeds * 3 / 10, "only {faults} faults");
    assert!(
        disturbed_runs > seeds / 10 || !tolerates_delay,
        "only {disturbed_runs} pauses and partitions"
    );
}

/// Where the fresh seeds begin: `KGATE_FRESH_SEED`, a number or 0x.., which `.ci/run` takes from
/// the commit's hash. Without it, always the same.
fn first_fresh_seed() -> u64 {
    let Ok(text) = std::env::var("KGATE_FRESH_SEED") else { return 0x6b67_6174_6500 };
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.expect("KGATE_FRESH_SEED is a number below 2^64")
}

/// A hundred fresh seeds per protocol, each on both engines with equal hashes. A failing seed is
/// shrunk and printed with its command.
#[test]
fn fresh_seeds() {
    let first = first_fresh_seed();
    for entry in ENTRIES {
        let summary = Swarm { entry, first, seeds: 100, as_printed: None, checker: swarm::check }
            .run(&|_| ());
        for failure in &summary.failures {
            eprintln!(
                "seed {:#x}: {}\nREPRODUCE WITH: {}",
                failure.seed, failure.text, failure.command
            );
        }
        assert!(summary.succeeded(), "{}, from seed {first:#x}: {:?}", entry.name, summary.tally);
    }
}

/// `raymond`, at most k-1 crashes.
#[test]
fn raymond() {
    check("raymond", USUAL);
}

/// `bas`, up to n-1 crashes.
#[test]
fn bas() {
    check("bas", USUAL);
}

/// `vcube`, up to n-1 crashes.
#[test]
fn vcube() {
    check("vcube", USUAL);
}

/// `robust`, up to n-1 crashes.
#[test]
fn robust() {
    check("robust", USUAL);
}

/// `timer-free`, up to f crashes, on grids where its responsiveness property holds.
#[test]
fn timer_free() {
    check("timer-free", USUAL);
}

/// `stabilizing` over messages, from corrupted memory and channels.
#[test]
fn stabilizing() {
    check("stabilizing", Worth { grants: 20, full: 20 });
}

/// `tree-token`, with crashes and recoveries, losses for good, on any tree.
#[test]
fn tree_token() {
    check("tree-token", USUAL);
}

/// `home`, with all that an agreed log may decide: crashes, returns, evictions of live processes,
/// suspicions, cleared or not; adoptions, dying clients, durable permits; the log applied late.
#[test]
fn home() {
    check("home", Worth { grants: 15, full: 20 });
}
