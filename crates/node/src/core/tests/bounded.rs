//! The bound on the size of a status.

use std::collections::BTreeMap;

use kgate_control::state::{KSource, Policy};
use kgate_core::NodeId;

use crate::core::bounded::{Omitted, bound, size};
use crate::core::{ClientView, DurablePermitView, GateView, Note, Process};

fn client(number: u64, bytes: usize) -> ClientView {
    let long = "x".repeat(bytes);
    let note = Note {
        reason: long.clone(),
        meta: BTreeMap::from([("a".to_owned(), long.clone()), ("b".to_owned(), long.clone())]),
    };
    let process =
        Process { pid: u32::MAX, host: long.clone(), user: long.clone(), command: long, note };
    ClientView {
        node: NodeId(u32::MAX),
        session: u64::MAX,
        number,
        process,
        weight: 1,
        since: u64::MAX,
        slots: vec![u32::MAX],
        fence: Some("f".repeat(32)),
        stamp: Some((u64::MAX, u32::MAX)),
        cut_off: true,
        guarded: true,
    }
}

fn durable(permit: u64) -> DurablePermitView {
    DurablePermitView {
        permit,
        slots: vec![1, 2],
        fence: "f".repeat(32),
        holder: "h".repeat(100),
        node: NodeId(1),
        since: u64::MAX,
        ttl: Some((u64::MAX, u64::MAX)),
    }
}

fn gate(name: &str, holders: u64, waiting: u64) -> GateView {
    GateView {
        name: name.to_owned(),
        k: u32::MAX,
        source: KSource::Names(vec!["n".repeat(64); 10]),
        protocol: "slots".into(),
        author: "a".repeat(200),
        version: u64::MAX,
        holders: (0..holders).map(|number| client(number, 200)).collect(),
        held: Vec::new(),
        policy: Policy::Hold,
        waiting: (0..waiting).map(|number| client(number, 200)).collect(),
        lacking: vec![NodeId(u32::MAX); 3],
        past_holds: vec![u64::MAX; 16],
        omitted: Omitted::default(),
    }
}

fn listed(gate: &GateView) -> (u32, u32) {
    let number = |count: usize| u32::try_from(count).unwrap();
    (number(gate.holders.len()), number(gate.waiting.len()))
}

/// The computed size is an upper bound of the encoding between nodes: a reply that is too long for
/// a link would never arrive.
#[test]
fn the_size_is_an_upper_bound() {
    let mut all = vec![gate("a", 20, 3), gate("b", 0, 0)];
    all[1].held.extend((0..5).map(durable));
    assert!(postcard::to_allocvec(&all).unwrap().len() <= size(&all));
    for client in all[0].holders.iter_mut() {
        *client = self::client(0, 0);
    }
    assert!(postcard::to_allocvec(&all).unwrap().len() <= size(&all));
}

/// A status that fits is complete; one that does not loses notes first.
#[test]
fn notes_are_left_out_first() {
    let whole = vec![gate("gpu", 10, 10)];
    let mut views = whole.clone();
    assert_eq!(bound(&mut views, size(&whole)), 0);
    assert_eq!(views, whole);
    assert_eq!(bound(&mut views, size(&whole) - 1), 0);
    assert_eq!(listed(&views[0]), (10, 10));
    assert_eq!(views[0].omitted, Omitted { notes: true, ..Omitted::default() });
    assert!(views[0].holders.iter().all(|holder| holder.process.note.is_empty()));
}

/// Thousands of clients at one gate hide neither another gate nor how many they are, and the
/// result fits.
#[test]
fn a_flooded_gate_hides_no_other() {
    let mut views = vec![gate("a", 2000, 3000), gate("b", 3, 2), gate("idle", 0, 0)];
    views[0].held.extend((0..100).map(durable));
    assert_eq!(bound(&mut views, 500_000), 0);
    assert!(size(&views) <= 500_000, "{}", size(&views));
    assert!(size(&views) > 450_000, "what fits is listed: {}", size(&views));
    let (holders, waiting) = listed(&views[0]);
    let omitted = views[0].omitted;
    assert_eq!((holders + omitted.holders, waiting + omitted.waiting), (2000, 3000));
    assert_eq!(omitted.slots, omitted.holders);
    let held = u32::try_from(views[0].held.len()).unwrap();
    assert_eq!((held + omitted.durable, 2 * held + omitted.durable_slots), (100, 200));
    assert_eq!(listed(&views[1]), (3, 2));
    assert_eq!(views.len(), 3);
}

/// Gates that nobody uses do not displace those in use.
#[test]
fn idle_gates_are_left_out_first() {
    let mut views: Vec<GateView> = (0..1000).map(|at| gate(&format!("idle-{at}"), 0, 0)).collect();
    views.push(gate("used", 1, 0));
    let omitted = bound(&mut views, 100_000);
    assert!(omitted > 500 && views.len() > 10, "{omitted}");
    assert_eq!(views.len() + omitted as usize, 1001);
    let used = views.last().expect("some are kept");
    assert_eq!((used.name.as_str(), listed(used)), ("used", (1, 0)));
    assert!(size(&views) <= 100_000);
}
