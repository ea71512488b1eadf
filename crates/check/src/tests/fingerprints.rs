//! Fingerprints must distinguish states: a state that is taken for another is never visited.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kgate_core::{Protocol, Setup};
use kgate_protocols::home::Home;
use kgate_protocols::registry::{self, ENTRIES, Entry, MutexProtocol, Visitor};
use stateright::Model;

use crate::model::ProtocolModel;
use crate::{Bounds, CrashNotifications, LogBounds, LogModel};

/// Like the hasher of `stateright`, it hashes every number as a 64-bit word and so ignores widths:
/// what follows a list without a length can be taken for its next element.
#[derive(Default)]
struct Words(DefaultHasher);

impl Hasher for Words {
    fn finish(&self) -> u64 {
        self.0.finish()
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
    fn write_u8(&mut self, number: u8) {
        self.0.write_u64(number.into());
    }
    fn write_u16(&mut self, number: u16) {
        self.0.write_u64(number.into());
    }
    fn write_u32(&mut self, number: u32) {
        self.0.write_u64(number.into());
    }
}

/// Visits every state and compares it, field by field, with the one of the same fingerprint.
fn distinct<M: Model>(model: &M) -> usize
where
    M::State: Clone + Debug + Eq + Hash,
{
    let (mut seen, mut ahead, mut actions) = (BTreeMap::new(), model.init_states(), Vec::new());
    while let Some(state) = ahead.pop() {
        let mut hasher = Words::default();
        state.hash(&mut hasher);
        if let Some(known) = seen.get(&hasher.finish()) {
            assert!(*known == state, "one fingerprint, two states:\n{known:?}\n{state:?}");
            continue;
        }
        model.actions(&state, &mut actions);
        ahead.extend(actions.drain(..).filter_map(|action| model.next_state(&state, action)));
        seen.insert(hasher.finish(), state);
    }
    seen.len()
}

struct Compare(Setup, Bounds);

impl Visitor for Compare {
    type Output = usize;

    fn visit<M: MutexProtocol, D: Protocol>(self) -> usize {
        distinct(&ProtocolModel::<M>::new(self.0, self.1))
    }
}

fn compare(entry: &Entry, nodes: u32, k: u32, crashes: u32) -> usize {
    let shape = entry.network.usual_shape();
    let graph = shape.map(|shape| Arc::new(shape.build(nodes, &mut |_| 0).expect("a graph")));
    let setup = Setup { graph, ..Setup::new(nodes, k) };
    let notifications = match entry.detector {
        Some(registry::LOG) if entry.returns => CrashNotifications::Log,
        Some(registry::LOG) => CrashNotifications::InOrder,
        _ => CrashNotifications::AnyOrder,
    };
    let restarts = if entry.returns { crashes } else { 0 };
    let bounds =
        Bounds { crashes, restarts, returns: entry.returns, notifications, ..Bounds::new(1) };
    registry::visit(entry, false, Compare(setup, bounds))
}

/// Every protocol that comes to rest, without crashes and with one. (`timer-free` takes no crash
/// notifications.)
#[test]
fn fingerprints_distinguish_states() {
    for entry in ENTRIES.iter().filter(|entry| !entry.heals) {
        assert!(compare(entry, 3, 2, 0) > 1000, "{}", entry.name);
        if entry.detector.is_some() && !entry.follows_log {
            assert!(compare(entry, 2, 1, 1) > 100, "{}", entry.name);
        }
    }
}

/// The log model, with every kind of fault.
#[test]
fn fingerprints_of_the_log_model_distinguish_states() {
    let few = LogBounds { entries: vec![0, 0, 1], ..LogBounds::new(1) };
    let worlds = [
        LogBounds { adoptions: 2, drains: 1, faulty: vec![0], ..few.clone() },
        LogBounds { evictions: 1, deaths: 1, durable: 1, faulty: vec![0], ..few },
    ];
    for bounds in worlds {
        assert!(distinct(&LogModel::<Home>::new(Setup::new(3, 1), bounds)) > 10_000);
    }
}
