//! The parameters of a run, all drawn from its seed.

use std::collections::BTreeSet;

use kgate_core::{NodeId, Span};

use crate::timing::Timing;
use kgate_testkit::Rng;

/// Five nodes that may vote, and one that never does.
pub(super) const NODES: usize = 6;
/// L of every run.
pub(in crate::lease::tests) const LEASE: u64 = 1_000_000_000;

pub(super) struct Knobs {
    /// The node that holds permits.
    pub(super) p: NodeId,
    pub(super) timing: Timing,
    /// The clock rates of each node and of the client's machine, in parts per million.
    pub(super) rates: Vec<u64>,
    /// The percentage of messages that are lost.
    pub(super) loss: u64,
    pub(super) delay: u64,
    /// The percentage of messages that take up to 1.2 L.
    pub(super) late: u64,
    /// The time between two rounds of replication to a node.
    pub(super) replication: u64,
    /// The time between two faults.
    pub(super) fault_interval: u64,
    pub(super) sleeps: bool,
    /// The first voters.
    pub(super) first: BTreeSet<NodeId>,
    /// The voters after the change, if they change.
    pub(super) target: Option<BTreeSet<NodeId>>,
    /// The client runs on the machine of its node.
    pub(super) client_at_node: bool,
    /// Nodes that lose their vote do not learn of it.
    pub(super) forgotten_voters: bool,
    /// p's proposals to be cleared never reach the log.
    pub(super) unsuspect_lost: bool,
    /// Whether the front, or else the guard, is ever frozen.
    pub(super) front_freezes: bool,
}

fn set(nodes: &[u32]) -> BTreeSet<NodeId> {
    nodes.iter().copied().map(NodeId).collect()
}

impl Knobs {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let eps = rng.pick(&[10_000, 50_000, 100_000, 100_000]);
        // Many runs have clocks at the bounds: a slow p and fast voters are the case for which W is
        // as long as it is.
        let extreme = rng.percent(60);
        let p = NodeId(u32::try_from(rng.below(NODES as u64)).expect("few"));
        let mut rates: Vec<u64> = Vec::new();
        for node in 0..=NODES {
            let slow = node == p.index() || node == NODES;
            let rate = match (extreme, slow) {
                (true, true) => 1_000_000 - eps,
                (true, false) => 1_000_000 + eps,
                (false, _) => 1_000_000 - eps + rng.below(2 * eps + 1),
            };
            rates.push(rate);
        }
        let ping = Span(LEASE / rng.pick(&[5, 8, 12]));
        let timing = Timing {
            lease: Span(LEASE),
            node_ping: ping,
            session_ping: Span(LEASE / rng.pick(&[8, 16])),
            clock_error: u32::try_from(eps).expect("below a million"),
            margin: Span(LEASE / 1000),
            grace: Span(LEASE / 20),
            kill: Span(LEASE / 20),
            suspect_after: Span(LEASE / rng.pick(&[4, 2])),
            round_trip: Span(LEASE / 20),
        };
        let first = set(rng.pick(&[
            &[0, 1, 2][..],
            &[0, 1, 2],
            &[0, 1, 2],
            &[0, 1],
            &[2],
            &[0, 1, 2, 3, 4],
        ]));
        let target = rng.pick(&[
            &[2, 3, 4][..],
            &[2, 3, 4],
            &[2, 3, 4],
            &[3, 4],
            &[2],
            &[2],
            &[0, 1, 2, 3, 4],
        ]);
        Self {
            p,
            timing,
            rates,
            loss: rng.pick(&[0, 0, 5, 20, 40]),
            delay: LEASE / rng.pick(&[100, 20, 5]),
            late: rng.pick(&[0, 5, 20]),
            replication: LEASE / rng.pick(&[20, 8, 3]),
            fault_interval: LEASE / rng.pick(&[1, 2, 5]) * 2,
            sleeps: rng.percent(30),
            first,
            target: rng.percent(65).then(|| set(target)),
            client_at_node: rng.percent(50),
            forgotten_voters: rng.percent(60),
            unsuspect_lost: rng.percent(60),
            front_freezes: rng.percent(50),
        }
    }
}
