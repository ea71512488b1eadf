//! All rules together in random simulations: with all of them no child outlives its slot, and each
//! mutation that leaves one out is found.

use kgate_testkit::{each_seed, is_count_given, seeds};

use super::harness::{Harness, LEASE, Mutation};

/// docs/internals/leases.md: with all rules no child runs after its slot was free, although many
/// nodes are evicted, also after the voters changed.
#[test]
fn no_child_outlives_its_slot() {
    let (mut runs, mut evictions, mut by_others, mut cleared, mut children) =
        (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    let mut least = u64::MAX;
    each_seed(seeds(0, 3000), "-p kgate-control --lib no_child_outlives", |seed| {
        let verdict = Harness::run(seed, None);
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
        "{runs} runs, {evictions} evictions ({by_others} after a change of voters), {cleared} \
        cleared of a suspicion, {children} children; \
         least margin {} ppm of L",
        least / (LEASE / 1_000_000)
    );
    if runs >= 1000 {
        assert!(
            2 * evictions > runs && 5 * by_others > runs && cleared * 10 > runs && children > runs
        );
        assert!(least < LEASE / 10, "the simulations never come near the bound");
    }
}

/// docs/internals/leases.md: the same simulations find each of the eighteen mutations. With
/// `KGATE_TEST_SEEDS` set, the test also counts in how many seeds.
#[test]
fn each_rule_left_out_is_caught() {
    let count = is_count_given();
    let mut missed = Vec::new();
    for mutation in Mutation::ALL {
        let mut found =
            seeds(0, 6000).filter(|seed| Harness::run(*seed, Some(mutation)).violation.is_some());
        match found.next() {
            Some(seed) if count => {
                println!("{mutation:?}: first in seed {seed}, in {} in all", 1 + found.count())
            }
            Some(seed) => println!("{mutation:?}: seed {seed}"),
            None => missed.push(mutation),
        }
    }
    assert!(missed.is_empty(), "mutations not found: {missed:?}");
}
