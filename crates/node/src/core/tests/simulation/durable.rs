//! Permits that the log holds, in whole nodes: what they survive, and when they end (docs/internals/leases.md
//! section 8).

use kgate_core::{NodeId, Span};
use kgate_testkit::{each_seed, seeds};

use super::runs::run_with;
use super::{MILLISECOND, Mutation, SECOND, Simulation};

/// Three nodes with one slot, nobody but one keeper and one client of a lease, who comes later.
fn story(mutation: Option<Mutation>, ttl: u64, work: u64) -> Simulation {
    let mut world = Simulation::with_actors(5, 3, 3, 1, mutation, 1, 2 * SECOND);
    world.add_keepers(1);
    (world.keepers[0].ttl, world.keepers[0].work) = (Span(ttl), Some(work));
    world.run_until(2 * SECOND);
    assert!(world.keepers[0].held.is_some(), "{:?}", world.describe());
    world
}

fn inside(world: &Simulation) -> u64 {
    world.actors[0].served
}

/// It survives kill -9 of its node and of all nodes: nobody gets its slot, until its holder gives
/// it back, at another node; then the next has it under a greater fence.
#[test]
fn it_survives_everybody() {
    let mut world = story(None, 600 * SECOND, 14 * SECOND);
    let first = world.keepers[0].node;
    world.kill(first);
    world.run_until(6 * SECOND);
    assert_ne!(world.keepers[0].node, first, "its holder has found another node");
    for node in (0..3).map(NodeId) {
        world.kill(node);
        world.at(500 * MILLISECOND, super::Event::Start(node));
    }
    world.run_until(14 * SECOND);
    assert_eq!(
        (inside(&world), world.keepers[0].held.is_some()),
        (0, true),
        "{:?}",
        world.describe()
    );
    world.run_until(20 * SECOND);
    assert!(inside(&world) > 0, "given back, and the next is in: {:?}", world.describe());
    assert!(world.checker.violations.is_empty(), "{:?}", world.checker.violations);
}

/// It is not stopped by silence: all voters but its node are gone for ten leases, and its holder
/// goes on.
#[test]
fn it_survives_the_loss_of_the_quorum() {
    let mut world = story(None, 600 * SECOND, 60 * SECOND);
    let stays = world.keepers[0].node;
    for node in (0..3).map(NodeId).filter(|node| *node != stays) {
        world.kill(node);
        world.at(7 * SECOND, super::Event::Start(node));
    }
    world.run_until(12 * SECOND);
    assert!(world.keepers[0].held.is_some() && world.checker.lost_held.is_empty());
    assert_eq!(inside(&world), 0);
}

/// A time to live ends it, and not early: its holder's clock has counted all of it, whatever the
/// rates of clocks; then the next gets in.
#[test]
fn a_time_to_live_ends_it() {
    let mut world = story(None, 3 * SECOND, 60 * SECOND);
    let told = world.keepers[0].told_at;
    world.run_until(told + 3 * SECOND - 3 * SECOND / 100);
    assert!(inside(&world) == 0 && world.keepers[0].held.is_some(), "not early");
    world.run_until(told + 6 * SECOND);
    assert!(inside(&world) > 0, "{:?}", world.describe());
    assert!(
        world.checker.lost_held[0].contains("not renewed in time"),
        "{:?}",
        world.checker.lost_held
    );
}

/// A renewal counts from anew, at another node as well.
#[test]
fn it_is_renewed_at_another_node() {
    let mut world = story(None, 3 * SECOND, 60 * SECOND);
    let told = world.keepers[0].told_at;
    let first = world.keepers[0].node;
    world.cut_keeper(0);
    world.run_until(told + 2 * SECOND);
    assert_ne!(world.keepers[0].node, first);
    world.keeper_renews(0);
    world.run_until(told + 4900 * MILLISECOND);
    assert!(
        inside(&world) == 0 && world.keepers[0].held.is_some(),
        "{:?}",
        world.checker.lost_held
    );
    world.run_until(told + 9 * SECOND);
    assert!(inside(&world) > 0);
}

/// Planted: a node that counts half of the time takes it back early.
#[test]
fn who_counts_too_little_is_found() {
    let mut world = story(Some(Mutation::ExpiresEarly), 4 * SECOND, 60 * SECOND);
    let told = world.keepers[0].told_at;
    world.run_until(told + 3 * SECOND);
    assert!(world.keepers[0].held.is_none());
}

/// Holders of leases and of permits that the log holds, at one gate, through cuts, pauses, kills,
/// restarts of all and a log that stalls: at most k believe at any instant, fences grow, no permit
/// of the log is lost, and after healing everybody gets in.
#[test]
fn at_most_k_with_permits_of_the_log() {
    let (mut grants, mut held) = (0, 0);
    each_seed(seeds(1, 40), "-p kgate-node --lib world::held", |seed| {
        let (world, wrong) = run_with(seed, None, true);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        grants += world.checker.grants;
        held += world.checker.told_permits.len();
    });
    println!("{grants} grants, {held} of them held by the log");
    assert!(grants > 0 && held > 100);
}

/// Planted: each is found.
#[test]
fn what_is_left_out_of_holding_is_missed() {
    for mutation in [Mutation::NeverReserves, Mutation::GivesBackBlindly] {
        let unsafe_run = |seed: &u64| {
            let (_, wrong) = run_with(*seed, Some(mutation), true);
            wrong.iter().any(|why| why.contains("believed held") || why.contains("fence"))
        };
        let found = (1..=400).find(unsafe_run);
        println!("{mutation:?}: seed {found:?}");
        assert!(found.is_some(), "{mutation:?} was not found");
    }
}
