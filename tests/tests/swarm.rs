//! The swarm must catch a planted bug, and a shrunk failure must still be the same bug.

use kgate_lab::shrink::{faults, size};
use kgate_lab::swarm::{Summary, Swarm, Wrong, check, examine};
use kgate_protocols::registry;
use kgate_sim::Chance;
use kgate_tests::{command, generate, generate_disturbed};

fn swarm(protocol: &str, as_printed: Option<&'static str>, seeds: u64) -> Swarm<'static> {
    let entry = registry::entry(protocol).expect("a protocol");
    Swarm { entry, first: 1, seeds, as_printed, checker: check }
}

fn run(swarm: &Swarm<'_>) -> Summary {
    swarm.run(&|_| ())
}

/// The planted bugs D2 and D4: found, shrunk to a run that is no larger and violates the same
/// property.
#[test]
fn a_printed_defect_is_caught_and_shrunk() {
    for (protocol, id, nodes) in [("vcube", "D2", 4), ("bas", "D4", 8)] {
        let summary = run(&swarm(protocol, Some(id), 40));
        assert!(summary.wrong > 0 && !summary.succeeded(), "{protocol} {id}");
        // The checker of permissions sees it in more runs than the one that counts who is inside.
        let crowded =
            summary.failures.iter().find(|failure| failure.property == kgate_spec::AtMostK::NAME);
        let failure = crowded.expect("too many inside");
        let (found, shrunk) = (&failure.found, &failure.shrunk);
        assert!(
            size(shrunk) < size(found) && faults(shrunk) <= faults(found),
            "{}",
            failure.command
        );
        assert!(shrunk.config.load.requesters <= found.config.load.requesters);
        assert!(shrunk.config.duration <= found.config.duration);
        assert!(shrunk.config.nodes <= nodes, "a few processes are enough: {}", failure.command);
        let wrong = examine(shrunk, check).expect_err("it is still wrong").1;
        assert_eq!((&wrong.property, &wrong.text), (&failure.property, &failure.text));
        let mut repaired = shrunk.clone();
        repaired.config.printed = kgate_core::Defects::NONE;
        assert!(examine(&repaired, check).is_ok(), "repaired, the same setting is correct");
        let text = failure.file_text();
        assert!(
            text.contains("# expect: VIOLATED at most k slots in use\n")
                && text.ends_with(&format!("{}\n", failure.command))
        );
    }
}

/// The checker proved: without one the same seeds look correct.
#[test]
fn without_a_checker_nothing_is_caught() {
    let blind = Swarm { checker: |_| None::<Wrong>, ..swarm("vcube", Some("D2"), 40) };
    assert!(run(&blind).succeeded());
}

/// Threads do not matter: the same seeds give the same counts and the same failures, shrunk to the
/// same commands.
#[test]
fn a_swarm_depends_on_its_seeds_alone() {
    let failures = || {
        let summary = run(&swarm("bas", Some("D4"), 40));
        let commands: Vec<String> =
            summary.failures.iter().map(|failure| failure.command.clone()).collect();
        (summary.tally, summary.wrong, commands)
    };
    assert_eq!(failures(), failures());
}

/// A swarm of nothing is no success: no grant, or no fault.
#[test]
fn a_vacuous_swarm_is_no_success() {
    let mut summary = run(&swarm("raymond", None, 20));
    assert!(summary.succeeded() && summary.nothing_shown().is_none());
    summary.tally.grants = 0;
    assert_eq!(summary.nothing_shown(), Some("no request was granted"));
    let is_calm = |&seed: &u64| faults(&generate_disturbed("raymond", seed)) == 0;
    let calm = (1..).find(is_calm).expect("some are calm");
    let summary = run(&Swarm { first: calm, ..swarm("raymond", None, 1) });
    assert!(summary.wrong == 0 && !summary.succeeded());
    assert_eq!(summary.nothing_shown(), Some("no fault happened"));
}

/// A protocol tolerates every fault that it claims, by the thousand seeds of `seeds.rs`. A fault
/// that it does not claim must do harm, or the claim would be too small: with loss, a request waits
/// forever; with a pause, a protocol that declares slow processes dead is harmed.
#[test]
fn unclaimed_faults_do_harm() {
    for entry in registry::ENTRIES.iter().filter(|entry| !entry.tolerates_loss) {
        let harmed = (1..=60).any(|seed| {
            let mut case = generate(entry.name, seed);
            case.config.claims.tolerates_loss = true;
            case.config.disturbance.loss = Chance(50_000);
            check(&case.run()).is_some()
        });
        assert!(harmed, "{} tolerates loss", entry.name);
    }
    for entry in registry::ENTRIES.iter().filter(|entry| !entry.tolerates_delay) {
        let harmed = (1..=60).any(|seed| {
            let mut case = generate(entry.name, seed);
            case.config.claims.tolerates_delay = true;
            case.config.disturbance.pauses = vec!["1@5..25".parse().expect("a pause")];
            check(&case.run()).is_some()
        });
        assert!(harmed, "{} tolerates delay", entry.name);
    }
}

/// A case whose drawn crashes are named is the very same run.
#[test]
fn naming_crashes_changes_nothing() {
    for protocol in ["bas", "tree-token"] {
        for seed in 1..=20 {
            let case = generate(protocol, seed);
            let mut named = case.clone();
            named.config = case.config.with_named_crashes().expect("it can run");
            assert_eq!(case.run().hash, named.run().hash, "{}", command(&named));
        }
    }
}
