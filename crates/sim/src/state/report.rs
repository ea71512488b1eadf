//! What a run in the state model has measured.

use std::collections::BTreeMap;

use kgate_core::{Graph, NodeId};
use kgate_spec::Violation;
use serde::Serialize;

/// An enabled process that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// Who.
    pub node: NodeId,
    /// For so many steps it has been enabled all the time and was not chosen.
    pub steps: u64,
}

/// A finished run. What is "after" or "at round" is counted in rounds from the start, or from the
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
    /// How many processes.
    pub n: u32,
    /// How many tokens (the paper's l).
    pub k: u32,
    /// What everything random came from.
    pub seed: u64,
    /// Who chose the movers.
    pub daemon: String,
    /// Choices of the daemon.
    pub steps: u64,
    /// Actions taken.
    pub moves: u64,
    /// Actions taken, by their names.
    pub moves_by_action: BTreeMap<&'static str, u64>,
    /// Rounds that ended.
    pub rounds: u64,
    /// When the configuration was normal for the first time.
    pub normal_at_round: Option<u64>,
    /// How often it became abnormal after that.
    pub abnormal_again: u64,
    /// The last round in which it was abnormal.
    pub abnormal_until_round: Option<u64>,
    /// When a wave could start and nothing was left of another, for the first time.
    pub inc_at_round: Option<u64>,
    /// When that was so and everybody had joined the tree, for the first time.
    pub stabilized_at_round: Option<u64>,
    /// By when the paper says that this has happened; see [`published_bound`].
    pub published_bound: u64,
    /// Waves begun in all.
    pub waves: u64,
    /// Waves begun when it had stabilised.
    pub waves_until_stabilized: Option<u64>,
    /// The most tokens at once, from the first start configuration on.
    pub tokens_max_after_stabilization: u32,
    /// The most that had the privilege at once, from the first start configuration on.
    pub max_in_use: u32,
    /// The most that had the privilege at once, from the very start on.
    pub max_in_use_overall: u32,
    /// How often the least served process has taken a privileged action.
    pub served: u64,
    /// The same, from the round on in which it stabilised.
    pub served_after_stabilization: Option<u64>,
    /// Whether it ended because nobody could move.
    pub terminal: bool,
    /// Who waits longest at the end.
    pub longest_wait: Option<Wait>,
    /// Whether every configuration was checked; else the last one of each round.
    pub every_step_checked: bool,
    /// What was not correct.
    pub violations: Vec<Violation>,
    /// Of every step, in order.
    pub hash: String,
    /// Seconds that took.
    pub wall_seconds: f64,
}

/// The rounds in which stabilizing-2014, Lemma 4.12, says that the system has stabilised: ceil(n/l)
/// (5 h + 2 l + 4 + D + l), with the height h of the tree at most the diameter D, as its
/// O(ceil(n/l) (l + D)) says.
pub fn published_bound(graph: &Graph, k: u32) -> u64 {
    let far = |node| graph.distances(NodeId(node)).into_iter().max().unwrap_or(0);
    let diameter = u64::from((0..graph.nodes()).map(far).max().unwrap_or(0));
    let waves = u64::from(graph.nodes().div_ceil(k));
    waves * (5 * diameter + 2 * u64::from(k) + 4 + diameter + u64::from(k))
}
