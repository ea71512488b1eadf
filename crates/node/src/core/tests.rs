//! Tests of whole nodes without I/O.

mod bounded;
mod catalogue;
mod clients;
mod control;
mod crashes;
mod evictions;
mod fleet;
mod guarded;
mod process_bound;
mod reentry;
mod simulation;
mod slots;

use kgate_core::Span;

use super::*;
use fleet::Fleet;

fn settings(nodes: u32) -> Settings {
    Settings {
        me: NodeId(0),
        nodes,
        fixed: Vec::new(),
        new_gates: Some(registry::entry("slots").expect("ours")),
        detection: Detection::VCube,
        detect_interval: Span(500_000_000),
        detect_timeout: Span(1_000_000_000),
        terms: SessionTerms {
            valid_for: Some(Span(4_000_000_000)),
            clock_error: 10,
            kill: Span(250_000_000),
        },
        patience: Span(100_000_000),
        queue_max: 100,
        sessions_max: 100,
        slots: SlotOptions { ask_again: Some(Span(300_000_000)), ..SlotOptions::default() },
        refresh: Span(20_000_000),
        incarnation: Incarnation(1),
        seed: 1,
        has_store: true,
        control: None,
    }
}

/// Mutations of a node that tests must detect.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mutations {
    /// Gates may grant without a lease (against rule N5).
    pub(super) grants_without_lease: bool,
    /// Gates are not notified of the slots that the log holds.
    pub(super) never_reserves: bool,
    /// Unwanted permits are released even if they were renewed since.
    pub(super) gives_back_blindly: bool,
    /// A time to live is counted only by half.
    pub(super) expires_early: bool,
    /// Gates stay in an incarnation that this node knows to have ended (against rule R2).
    pub(super) gates_keep_incarnations: bool,
    /// Permits lapse at the deadline, whatever of the log is applied (against rule H13).
    pub(super) lapses_without_barrier: bool,
}

/// What a checker sees of permits that lapse.
#[derive(Clone, Copy, Debug)]
pub(super) enum LapseSeen {
    /// The client of a permit is gone.
    Begins(RequestKey),
    /// The permit lapses, with the log applied up to that entry.
    Ends(RequestKey, u64),
}

fn fixed(id: u32, name: &str, k: u32, protocol: &str) -> Definition {
    let (name, protocol) = (name.to_owned(), protocol.to_owned());
    Definition {
        id: GateId(id),
        name,
        k,
        source: Default::default(),
        protocol,
        lanes: 1,
        policy: Default::default(),
        author: "the configuration".into(),
    }
}
