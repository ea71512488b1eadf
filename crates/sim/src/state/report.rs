//! The report of a run in the state model.

use std::collections::BTreeMap;

use kgate_core::{Graph, NodeId};
use kgate_spec::Violation;
use serde::Serialize;

/// An enabled process that waits to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// The process.
    pub node: NodeId,
    /// The number of steps for which it has been enabled and was not chosen.
    pub steps: u64,
}

/// The results of a run. Fields with "after" or "at round" count rounds from the start, or from the
/// last fault if there were any.
#[derive(Clone, Debug, Serialize)]
pub struct StateReport {
    /// The protocol's name.
    pub protocol: String,
    /// The defect that ran as printed, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_printed: Option<String>,
    /// The network's name.
    pub graph: String,
    /// The number of processes.
    pub n: u32,
    /// The number of tokens (the paper's l).
    pub k: u32,
    /// The seed.
    pub seed: u64,
    /// The daemon.
    pub daemon: String,
    /// Steps of the daemon.
    pub steps: u64,
    /// Actions taken.
    pub moves: u64,
    /// Actions taken, by name.
    pub moves_by_action: BTreeMap<&'static str, u64>,
    /// Finished rounds.
    pub rounds: u64,
    /// The round in which the configuration was first normal.
    pub normal_at_round: Option<u64>,
    /// The number of times that it became abnormal afterwards.
    pub abnormal_again: u64,
    /// The last round in which the configuration was abnormal.
    pub abnormal_until_round: Option<u64>,
    /// The round in which a wave could first start with nothing left of another (INC).
    pub inc_at_round: Option<u64>,
    /// The round in which that first held and every process had joined the tree.
    pub stabilized_at_round: Option<u64>,
    /// The round by which the paper promises this; see [`published_bound`].
    pub published_bound: u64,
    /// Waves begun overall.
    pub waves: u64,
    /// Waves begun before the system had stabilised.
    pub waves_until_stabilized: Option<u64>,
    /// The most tokens at once, from the first clean start of a wave on.
    pub tokens_max_after_stabilization: u32,
    /// The most processes with the privilege at once, from the first clean start of a wave on.
    pub max_in_use: u32,
    /// The most processes with the privilege at once in the whole run.
    pub max_in_use_overall: u32,
    /// The fewest privileged actions of any process.
    pub served: u64,
    /// The same, from the round on in which the system stabilised.
    pub served_after_stabilization: Option<u64>,
    /// Whether the run ended in a terminal configuration, in which no process is enabled.
    pub terminal: bool,
    /// The process that waits longest at the end.
    pub longest_wait: Option<Wait>,
    /// Whether every configuration was checked, or only the last one of each round.
    pub every_step_checked: bool,
    /// The violated properties.
    pub violations: Vec<Violation>,
    /// The hash of every step, in order.
    pub hash: String,
    /// The wall-clock seconds that the run took.
    pub wall_seconds: f64,
}

/// The number of rounds within which the system stabilises by stabilizing-2014, Lemma 4.12:
/// ceil(n/l) (5 h + 2 l + 4 + D + l), with the height h of the tree at most the diameter D, as its
/// O(ceil(n/l) (l + D)) says.
pub fn published_bound(graph: &Graph, k: u32) -> u64 {
    let far = |node| graph.distances(NodeId(node)).into_iter().max().unwrap_or(0);
    let diameter = u64::from((0..graph.nodes()).map(far).max().unwrap_or(0));
    let waves = u64::from(graph.nodes().div_ceil(k));
    waves * (5 * diameter + 2 * u64::from(k) + 4 + diameter + u64::from(k))
}
