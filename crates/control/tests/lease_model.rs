//! An exhaustive model of the leases and evictions of three nodes: in every order of events, a node
//! has no lease once any node has applied its eviction.
//!
//! Time is abstract. A voter's share in p's lease lapses at some moment. "v is ripe" holds only
//! when every share that v gave has lapsed, and "W has passed since e applied its voters" only when
//! every share that was given before has lapsed. Everything else interleaves freely: the log
//! reaches each node late and is applied late, proposals and answers are late. The shipped code,
//! put into each situation, takes every decision: which voters answer p, whether p's shares are a
//! lease, which node evicts, and whether the log applies the eviction.

#[path = "lease_model/decide.rs"]
mod decide;
#[path = "lease_model/model.rs"]
mod model;
#[path = "lease_model/state.rs"]
mod state;

use state::{Entry, LeaseModel, Mutation};
use stateright::{Checker, HasDiscoveries, Model};

/// The number of states, and the names of the properties that do not hold as they should.
fn explore(model: LeaseModel) -> (usize, Vec<&'static str>) {
    let wrong: Vec<&'static str> = vec!["no lease after the eviction"];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let finish = HasDiscoveries::AnyOf(wrong.iter().copied().collect());
    let checker = model.checker().threads(threads).finish_when(finish).spawn_bfs().join();
    let found = checker.discoveries();
    for (name, path) in &found {
        if wrong.contains(name) {
            println!("{name}: {:?}", path.clone().into_actions());
        }
    }
    let missed = checker.model().properties().into_iter().map(|property| property.name);
    let missed = missed.filter(|name| found.contains_key(name) == wrong.contains(name)).collect();
    (checker.unique_state_count(), missed)
}

/// Three voters, one of them p, suspected twice and cleared once.
fn twice() -> LeaseModel {
    LeaseModel::new(&[0, 1, 2], &[Entry::Suspect, Entry::Unsuspect, Entry::Suspect], None)
}

/// The voters become node 2 alone while p is suspected.
fn shrinking() -> LeaseModel {
    LeaseModel::new(&[0, 1, 2], &[Entry::Suspect], Some(&[2])).prompt()
}

/// The voters become another node while p is suspected: none of the old ones votes any more.
fn replacing() -> LeaseModel {
    LeaseModel::new(&[0, 1], &[Entry::Suspect], Some(&[2])).prompt()
}

/// One of two voters is replaced while p is suspected.
fn moving() -> LeaseModel {
    LeaseModel::new(&[0, 1], &[Entry::Suspect], Some(&[1, 2])).prompt()
}

/// With all rules, no order of events gives p a lease after its eviction; and evictions do happen,
/// also by new voters. The numbers of states are pinned: see docs/internals/leases.md.
#[test]
fn no_lease_after_the_eviction() {
    for (name, model, pinned) in [
        ("twice", twice(), 44_687),
        ("shrinking", shrinking(), 381_908),
        ("replacing", replacing(), 107_929),
        ("moving", moving(), 78_116),
    ] {
        let (states, missed) = explore(model);
        println!("{name}: {states} states");
        assert!(missed.is_empty(), "{name}: {missed:?}");
        assert_eq!(states, pinned, "{name}");
    }
}

/// Each mutation is found, also those that the random simulations do not find.
#[test]
fn each_mutation_is_found() {
    for (mutation, model) in [
        (Mutation::EvictBlindly, twice()),
        (Mutation::SelfAnswer, twice()),
        (Mutation::OtherVotersEvict, shrinking()),
        (Mutation::BehindAnswers, replacing()),
        (Mutation::AppliedShown, shrinking()),
        (Mutation::WaitBeforeVoters, replacing()),
    ] {
        let (states, missed) = explore(model.with(mutation));
        println!("{mutation:?}: {states} states");
        assert!(
            missed.contains(&"no lease after the eviction"),
            "{mutation:?} is not found in {states} states"
        );
    }
}
