//! What a run is like: everything drawn from its seed.

use std::collections::BTreeSet;

use kgate_core::{NodeId, Span};

use crate::timing::Timing;
use kgate_testkit::Rng;

/// Nodes that vote sooner or later, and one that does not.
pub(in crate::lease::tests) const NODES: usize = 6;
/// L of every run.
pub(in crate::lease::tests) const LEASE: u64 = 1_000_000_000;

pub(in crate::lease::tests) struct Knobs {
    /// The node that holds permits.
    pub(in crate::lease::tests) p: NodeId,
    pub(in crate::lease::tests) timing: Timing,
    /// Of each node, and of the client's machine: parts per million.
    pub(in crate::lease::tests) rates: Vec<u64>,
    /// Percent of messages.
    pub(in crate::lease::tests) loss: u64,
    pub(in crate::lease::tests) delay: u64,
    /// Percent of messages that take up to 1.2 L.
    pub(in crate::lease::tests) late: u64,
    /// Between two rounds of replication to a node.
    pub(in crate::lease::tests) replication: u64,
    /// Between two mishaps.
    pub(in crate::lease::tests) mishaps: u64,
    pub(in crate::lease::tests) sleeps: bool,
    /// Whether the voters change at all, and to whom.
    pub(in crate::lease::tests) first: BTreeSet<NodeId>,
    pub(in crate::lease::tests) target: Option<BTreeSet<NodeId>>,
    /// The client runs on the machine of its node.
    pub(in crate::lease::tests) client_at_node: bool,
    /// Who is voted out is not told.
    pub(in crate::lease::tests) untold: bool,
    /// p's wishes never reach the log: it is not cleared.
    pub(in crate::lease::tests) mute: bool,
    /// Which of the two killers is ever frozen.
    pub(in crate::lease::tests) front_freezes: bool,
}

fn set(nodes: &[u32]) -> BTreeSet<NodeId> {
    nodes.iter().copied().map(NodeId).collect()
}

impl Knobs {
    pub(in crate::lease::tests) fn draw(rng: &mut Rng) -> Self {
        let eps = rng.pick(&[10_000, 50_000, 100_000, 100_000]);
        // Half of the clocks at the ends of what is allowed: p slow, voters fast is what W is made
        // for.
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
            mishaps: LEASE / rng.pick(&[1, 2, 5]) * 2,
            sleeps: rng.percent(30),
            first,
            target: rng.percent(65).then(|| set(target)),
            client_at_node: rng.percent(50),
            untold: rng.percent(60),
            mute: rng.percent(60),
            front_freezes: rng.percent(50),
        }
    }
}
