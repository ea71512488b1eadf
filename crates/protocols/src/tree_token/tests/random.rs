//! Thousands of systems at random, and the proof that their checker sees what goes wrong as
//! printed.

use super::harness::{Faults, Harness};
use super::*;
use crate::tree_token::defects::{R1, R2, R3, R5, R7, R8, R9, R11};

const KINDS: [Faults; 4] = [
    Faults { crashes: false, losses: false },
    Faults { crashes: true, losses: false },
    Faults { crashes: false, losses: true },
    Faults { crashes: true, losses: true },
];

/// The seeds of each kind of fault.
fn seeds() -> core::ops::Range<u64> {
    kgate_testkit::seeds(0, 1500)
}

/// Exclusion, fences, one token of each number, and service of all waiting clients, under every
/// kind of fault.
#[test]
fn nothing_goes_wrong() {
    let (mut made_anew, mut delivered) = (0, 0);
    for faults in KINDS {
        for seed in seeds() {
            let mut harness = Harness::new(seed, faults, Defects::NONE);
            let verdict = harness.run(60 + u32::try_from(seed % 7 * 60).unwrap());
            assert_eq!(verdict, Ok(()), "seed {seed}, {faults:?}");
            made_anew += u64::from(harness.epoch > 0);
            delivered += harness.delivered;
        }
    }
    let seeds = seeds().count() as u64;
    assert!(made_anew > seeds / 10, "tokens were made anew in {made_anew} runs");
    assert!(delivered as u64 > seeds * 100, "{delivered} messages");
}

/// The checker finds these by itself: each defect as printed, within so many seeds.
#[test]
fn the_checker_finds_the_printed_defects() {
    let found = |defects, faults, what: &[&str]| {
        for what in what {
            let finds = |seed: &u64| {
                let verdict = Harness::new(*seed, faults, defects).run(120);
                verdict.is_err_and(|why| why.starts_with(what))
            };
            assert!((0..6000).any(|seed| finds(&seed)), "{defects:?}: {what}");
        }
    };
    let [none, crashes, ..] = KINDS;
    found(R1, none, &["two inside"]);
    found(R2, none, &["starved"]);
    found(R3, none, &["starved"]);
    found(R5, none, &["starved"]);
    found(R7, crashes, &["two tokens", "starved"]);
    found(R8, crashes, &["starved"]);
    found(R9, crashes, &["starved"]);
    found(R11, crashes, &["starved"]);
}
