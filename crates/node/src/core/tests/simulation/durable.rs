//! Durable permits in whole nodes: what they survive, and when they end (docs/internals/leases.md
//! section 8).

use kgate_core::{NodeId, Span};
use kgate_testkit::{each_seed, seeds};

use super::runs::run_with;
use super::{MILLISECOND, Mutation, SECOND, Simulation};

/// Three nodes with one slot, a client with a durable permit, and a client of a lease that comes
/// later.
fn setup(mutation: Option<Mutation>, ttl: u64, work: u64) -> Simulation {
    let mut simulation = Simulation::with_clients(5, 3, 3, 1, mutation, 1, 2 * SECOND);
    simulation.add_durable_clients(1);
    (simulation.durable_clients[0].ttl, simulation.durable_clients[0].work) =
        (Span(ttl), Some(work));
    simulation.run_until(2 * SECOND);
    assert!(simulation.durable_clients[0].held.is_some(), "{:?}", simulation.describe());
    simulation
}

fn inside(simulation: &Simulation) -> u64 {
    simulation.clients[0].served
}

/// A durable permit survives `kill -9` of its node and of all nodes. Its slot is granted again only
/// after its holder has released it, at another node, and under a greater fence.
#[test]
fn a_durable_permit_survives_all_nodes() {
    let mut simulation = setup(None, 600 * SECOND, 14 * SECOND);
    let first = simulation.durable_clients[0].node;
    simulation.kill(first);
    simulation.run_until(6 * SECOND);
    assert_ne!(simulation.durable_clients[0].node, first, "its holder has found another node");
    for node in (0..3).map(NodeId) {
        simulation.kill(node);
        simulation.at(500 * MILLISECOND, super::Event::Start(node));
    }
    simulation.run_until(14 * SECOND);
    assert_eq!(
        (inside(&simulation), simulation.durable_clients[0].held.is_some()),
        (0, true),
        "{:?}",
        simulation.describe()
    );
    simulation.run_until(20 * SECOND);
    assert!(inside(&simulation) > 0, "given back, and the next is in: {:?}", simulation.describe());
    assert!(simulation.checker.violations.is_empty(), "{:?}", simulation.checker.violations);
}

/// A durable permit survives silence: all voters but its node are down for ten leases, and its
/// holder goes on.
#[test]
fn a_durable_permit_survives_the_loss_of_the_quorum() {
    let mut simulation = setup(None, 600 * SECOND, 60 * SECOND);
    let stays = simulation.durable_clients[0].node;
    for node in (0..3).map(NodeId).filter(|node| *node != stays) {
        simulation.kill(node);
        simulation.at(7 * SECOND, super::Event::Start(node));
    }
    simulation.run_until(12 * SECOND);
    assert!(
        simulation.durable_clients[0].held.is_some()
            && simulation.checker.durable_losses.is_empty()
    );
    assert_eq!(inside(&simulation), 0);
}

/// A durable permit expires when its holder's clock has counted the whole time to live, whatever
/// the rates of clocks, and not before. Then the next request is granted.
#[test]
fn a_durable_permit_expires() {
    let mut simulation = setup(None, 3 * SECOND, 60 * SECOND);
    let received = simulation.durable_clients[0].told_at;
    simulation.run_until(received + 3 * SECOND - 3 * SECOND / 100);
    assert!(inside(&simulation) == 0 && simulation.durable_clients[0].held.is_some(), "not early");
    simulation.run_until(received + 6 * SECOND);
    assert!(inside(&simulation) > 0, "{:?}", simulation.describe());
    assert!(
        simulation.checker.durable_losses[0].contains("not renewed in time"),
        "{:?}",
        simulation.checker.durable_losses
    );
}

/// A renewal restarts the time to live, at another node as well.
#[test]
fn a_durable_permit_is_renewed_at_another_node() {
    let mut simulation = setup(None, 3 * SECOND, 60 * SECOND);
    let received = simulation.durable_clients[0].told_at;
    let first = simulation.durable_clients[0].node;
    simulation.cut_durable_client(0);
    simulation.run_until(received + 2 * SECOND);
    assert_ne!(simulation.durable_clients[0].node, first);
    simulation.durable_client_renews(0);
    simulation.run_until(received + 4900 * MILLISECOND);
    assert!(
        inside(&simulation) == 0 && simulation.durable_clients[0].held.is_some(),
        "{:?}",
        simulation.checker.durable_losses
    );
    simulation.run_until(received + 9 * SECOND);
    assert!(inside(&simulation) > 0);
}

/// Mutation: a node that counts half of the time expires the permit early.
#[test]
fn counting_too_little_is_detected() {
    let mut simulation = setup(Some(Mutation::ExpiresEarly), 4 * SECOND, 60 * SECOND);
    let received = simulation.durable_clients[0].told_at;
    simulation.run_until(received + 3 * SECOND);
    assert!(simulation.durable_clients[0].held.is_none());
}

/// Leases and durable permits at one gate, under partitions, pauses, kills, restarts of all nodes
/// and a log that stalls: at most k clients believe to hold at any instant, fences grow, no durable
/// permit is lost, and after healing every client is served.
#[test]
fn at_most_k_with_durable_permits() {
    let (mut grants, mut held) = (0, 0);
    each_seed(seeds(1, 40), "-p kgate-node --lib world::held", |seed| {
        let (simulation, wrong) = run_with(seed, None, true);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        grants += simulation.checker.grants;
        held += simulation.checker.durable_grants.len();
    });
    println!("{grants} grants, {held} of them held by the log");
    assert!(grants > 0 && held > 100);
}

/// Each mutation is detected.
#[test]
fn mutations_of_durable_permits_are_detected() {
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
