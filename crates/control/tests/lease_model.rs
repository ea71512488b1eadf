//! Leases and evictions of three nodes, exhaustively: whatever the order of events, nobody has a
//! lease once its eviction was applied.
//!
//! Time is abstract. A voter's share in p's lease lapses at some moment; "v is ripe" holds only
//! when every share that v gave has lapsed, and "W has passed since e applied its voters" only when
//! every share given before has. Everything else interleaves freely: the log reaches each node
//! late, is applied late, proposals and answers are late. Every decision (who answers p, whether
//! p's shares are a lease, who evicts, whether the log takes it) is taken by the shipped code, put
//! into that situation.

#[path = "lease_model/decide.rs"]
mod decide;
#[path = "lease_model/model.rs"]
mod model;
#[path = "lease_model/state.rs"]
mod state;

use state::{Entry, Flaw, Room};
use stateright::{Checker, HasDiscoveries, Model};

/// The states, and the names of the properties that do not hold as they should.
fn explore(room: Room) -> (usize, Vec<&'static str>) {
    let wrong: Vec<&'static str> = vec!["no lease after the eviction"];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let finish = HasDiscoveries::AnyOf(wrong.iter().copied().collect());
    let checker = room.checker().threads(threads).finish_when(finish).spawn_bfs().join();
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
fn twice() -> Room {
    Room::new(&[0, 1, 2], &[Entry::Suspect, Entry::Unsuspect, Entry::Suspect], None)
}

/// The voters become node 2 alone while p is suspected.
fn shrinking() -> Room {
    Room::new(&[0, 1, 2], &[Entry::Suspect], Some(&[2])).prompt()
}

/// The voters become another one while p is suspected: the old ones are out.
fn replacing() -> Room {
    Room::new(&[0, 1], &[Entry::Suspect], Some(&[2])).prompt()
}

/// The voters become others while p is suspected.
fn moving() -> Room {
    Room::new(&[0, 1], &[Entry::Suspect], Some(&[1, 2])).prompt()
}

/// With all rules: no order of events gives p a lease after its eviction, and evictions do happen,
/// also by new voters.
#[test]
fn no_lease_after_the_eviction() {
    for (name, room) in [
        ("twice", twice()),
        ("shrinking", shrinking()),
        ("replacing", replacing()),
        ("moving", moving()),
    ] {
        let (states, missed) = explore(room);
        println!("{name}: {states} states");
        assert!(missed.is_empty(), "{name}: {missed:?}");
        assert!(states > 10_000, "{name}: only {states} states");
    }
}

/// Each rule left out is found: those that random worlds do not miss, too.
#[test]
fn a_rule_left_out_is_found() {
    for (flaw, room) in [
        (Flaw::EvictBlindly, twice()),
        (Flaw::SelfAnswer, twice()),
        (Flaw::OtherVotersEvict, shrinking()),
        (Flaw::BehindAnswers, replacing()),
        (Flaw::AppliedShown, shrinking()),
        (Flaw::WaitBeforeVoters, replacing()),
    ] {
        let (states, missed) = explore(room.with(flaw));
        println!("{flaw:?}: {states} states");
        assert!(
            missed.contains(&"no lease after the eviction"),
            "{flaw:?} is not found in {states} states"
        );
    }
}
