//! The faults of a demo: those that its protocol tolerates, according to the registry.

use std::time::Duration;

use kgate_protocols::registry::Entry;
use kgate_sim::Rng;

use super::cluster::has_leases;

/// The schedule of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chaos {
    /// When a node is killed, in ascending order.
    pub(crate) kills: Vec<Duration>,
    /// Time until it is restarted; none if a restarted node would be refused.
    pub(crate) back_after: Option<Duration>,
    /// Description for people.
    pub(crate) description: String,
}

/// Number of nodes that are never killed, so that a cluster is left.
const LEFT: u32 = 2;
/// Downtime of a node that is restarted.
const DOWN: Duration = Duration::from_millis(400);

impl Chaos {
    /// No faults.
    pub(crate) fn none() -> Self {
        Self {
            kills: Vec::new(),
            back_after: None,
            description: "no node is killed (see --chaos)".into(),
        }
    }

    /// Generates the faults that the protocol tolerates, for a run of that length. The last third
    /// has no faults: it shows whether the cluster recovers.
    pub(crate) fn generate(
        entry: &Entry,
        nodes: u32,
        k: u32,
        run: Duration,
        rng: &mut Rng,
    ) -> Self {
        let spare = nodes.saturating_sub(LEFT);
        let name = entry.name;
        if entry.recovers && nodes > 1 {
            let kills = (run.as_secs() / 2).clamp(1, 30);
            let description = format!(
                "{name} tolerates crashes with recovery from stable storage: {kills} times a node \
                 is killed and restarted, one at a time"
            );
            return Self { kills: times(kills, run, rng), back_after: Some(DOWN), description };
        }
        if has_leases(name, nodes) && nodes > 2 {
            let kills = (run.as_secs() / 3).clamp(1, 30);
            let description = format!(
                "with leases {name} tolerates a crash of any node, which restarts as a new \
                 incarnation: {kills} times a node is killed and restarted, one at a time"
            );
            return Self { kills: times(kills, run, rng), back_after: Some(DOWN), description };
        }
        let max = entry.tolerates(nodes, k).min(spare);
        let description = match (entry.tolerates(nodes, k), max) {
            (0, _) => format!(
                "{name} with k = {k} tolerates no permanent crash ({}): no node is killed",
                entry.tolerates
            ),
            (_, 0) => format!("with {nodes} nodes no node is killed: {LEFT} are always left"),
            (_, max) => format!(
                "{name} tolerates {}: {max} of {nodes} nodes are killed and not restarted (they \
                 would be refused)",
                entry.tolerates
            ),
        };
        Self { kills: times(u64::from(max), run, rng), back_after: None, description }
    }
}

/// `count` moments between a sixth and two thirds of the run, one in each of `count` equal parts.
fn times(count: u64, run: Duration, rng: &mut Rng) -> Vec<Duration> {
    let total = u64::try_from(run.as_millis()).unwrap_or(u64::MAX / 6);
    let (from, until) = (total / 6, total * 2 / 3);
    let part = (until - from) / count.max(1);
    let at = |index: u64, rng: &mut Rng| from + index * part + rng.below(part / 2 + 1);
    (0..count).map(|index| Duration::from_millis(at(index, rng))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kgate_protocols::registry::{self, ENTRIES};

    fn generate(name: &str, nodes: u32, k: u32) -> Chaos {
        let entry = registry::entry(name).unwrap();
        Chaos::generate(entry, nodes, k, Duration::from_secs(10), &mut Rng::fork(1, "chaos"))
    }

    /// Each protocol gets the faults that it tolerates: k-1 kills without a detector, all nodes but
    /// two with one, kills with restarts if nodes recover.
    #[test]
    fn faults_are_those_that_a_protocol_tolerates() {
        for (name, kills) in
            [("raymond", 1), ("timer-free", 1), ("stabilizing", 0), ("tree-token", 5)]
        {
            assert_eq!(generate(name, 5, 2).kills.len(), kills, "{name}");
        }
        for (name, nodes) in [("bas", 5), ("vcube", 5), ("robust", 5), ("slots", 11)] {
            let chaos = generate(name, nodes, 2);
            assert_eq!((chaos.kills.len(), chaos.back_after), (nodes as usize - 2, None), "{name}");
        }
        assert_eq!(
            (generate("slots", 5, 2).kills.len(), generate("slots", 5, 2).back_after),
            (3, Some(DOWN))
        );
        assert_eq!(generate("home", 11, 2).back_after, Some(DOWN), "a node never counts as dead");
        assert_eq!(generate("raymond", 5, 1).kills.len(), 0);
        assert_eq!(generate("slots", 2, 1).kills.len(), 0);
        assert_eq!(generate("raymond", 4, 9).kills.len(), 2);
        let restarts = |entry: &Entry| entry.recovers || has_leases(entry.name, 5);
        assert!(
            ENTRIES
                .iter()
                .all(|entry| generate(entry.name, 5, 2).back_after.is_some() == restarts(entry))
        );
    }

    /// Kills are in order, within the first two thirds, and the same for the same seed.
    #[test]
    fn kills_leave_time_to_recover() {
        let Chaos { kills, .. } = generate("slots", 9, 2);
        assert!(
            kills.is_sorted() && kills.iter().all(|at| (1_600..6_700).contains(&at.as_millis())),
            "{kills:?}"
        );
        assert_eq!(generate("slots", 9, 2).kills, kills);
    }
}
