//! All rules together, in worlds drawn at random: with all of them nothing happens to anybody, and
//! each left out is caught.

use kgate_testkit::{each_seed, is_count_given, seeds};

use super::world::{Flaw, LEASE, World};

/// docs/internals/leases.md: with all rules no child is alive after its slot was free, though many are
/// evicted, also after the voters changed.
#[test]
fn no_child_outlives_its_slot() {
    let (mut runs, mut evictions, mut by_others, mut cleared, mut children) =
        (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    let mut least = u64::MAX;
    each_seed(seeds(0, 3000), "-p kgate-control --lib no_child_outlives", |seed| {
        let verdict = World::run(seed, None);
        if let Some(violation) = verdict.violation {
            panic!("seed {seed}: {violation}");
        }
        runs += 1;
        evictions += u64::from(verdict.evicted);
        by_others += u64::from(verdict.evicted_by_others);
        cleared += verdict.cleared;
        children += verdict.children;
        least = least.min(verdict.margin.unwrap_or(u64::MAX));
    });
    println!(
        "{runs} runs, {evictions} evictions ({by_others} after a change of voters), {cleared} cleared of a suspicion, {children} children; \
         least margin {} ppm of L",
        least / (LEASE / 1_000_000)
    );
    if runs >= 1000 {
        assert!(
            2 * evictions > runs && 5 * by_others > runs && cleared * 10 > runs && children > runs
        );
        assert!(least < LEASE / 10, "the worlds never come near the edge");
    }
}

/// docs/internals/leases.md: each of eighteen rules left out is caught by the same worlds. `KGATE_TEST_SEEDS`
/// asks in how many of them.
#[test]
fn each_rule_left_out_is_caught() {
    let count = is_count_given();
    let mut uncaught = Vec::new();
    for flaw in Flaw::ALL {
        let mut caught =
            seeds(0, 6000).filter(|seed| World::run(*seed, Some(flaw)).violation.is_some());
        match caught.next() {
            Some(seed) if count => {
                println!("{flaw:?}: first in seed {seed}, in {} in all", 1 + caught.count())
            }
            Some(seed) => println!("{flaw:?}: seed {seed}"),
            None => uncaught.push(flaw),
        }
    }
    assert!(uncaught.is_empty(), "not caught: {uncaught:?}");
}
