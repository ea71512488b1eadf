//! What goes wrong in a demo: just what its protocol tolerates, as the registry tells it.

use std::time::Duration;

use kgate_protocols::registry::Entry;
use kgate_sim::Rng;

use super::cluster::has_leases;

/// What is done to nodes, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chaos {
    /// When a node is killed, the first first.
    pub(crate) kills: Vec<Duration>,
    /// How long after that it is started again; never, where a node that comes back is refused.
    pub(crate) back_after: Option<Duration>,
    /// In a sentence, for people.
    pub(crate) words: String,
}

/// Nodes that are left alone, so that there is still somebody to agree with.
const LEFT: u32 = 2;
/// A node that comes back is down for so long.
const DOWN: Duration = Duration::from_millis(400);

impl Chaos {
    /// Nothing is done.
    pub(crate) fn none() -> Self {
        Self {
            kills: Vec::new(),
            back_after: None,
            words: "no node is killed (see --chaos)".into(),
        }
    }

    /// What this protocol tolerates, in a run of that length. The last third is left alone: there
    /// it shows whether it goes on.
    pub(crate) fn drawn(
        entry: &Entry,
        nodes: u32,
        permits: u32,
        run: Duration,
        rng: &mut Rng,
    ) -> Self {
        let spare = nodes.saturating_sub(LEFT);
        let name = entry.name;
        if entry.recovers && nodes > 1 {
            let kills = (run.as_secs() / 2).clamp(1, 30);
            let words = format!(
                "{name} tolerates nodes that crash and come back with what they had stored: one at a time is killed, {kills} in all, and started again"
            );
            return Self { kills: times(kills, run, rng), back_after: Some(DOWN), words };
        }
        if has_leases(name, nodes) && nodes > 2 {
            let kills = (run.as_secs() / 3).clamp(1, 30);
            let words = format!(
                "with leases {name} tolerates any node that is killed and comes back as another incarnation: one at a time is killed, {kills} in all, and started again"
            );
            return Self { kills: times(kills, run, rng), back_after: Some(DOWN), words };
        }
        let most = entry.tolerates(nodes, permits).min(spare);
        let words = match (entry.tolerates(nodes, permits), most) {
            (0, _) => format!(
                "{name} with k = {permits} tolerates no node that is gone for good ({}): none is killed",
                entry.tolerates
            ),
            (_, 0) => format!("with {nodes} nodes none is killed: {LEFT} are always left"),
            (_, most) => format!(
                "{name} tolerates {}: {most} of {nodes} nodes are killed, and none comes back (it would be refused)",
                entry.tolerates
            ),
        };
        Self { kills: times(u64::from(most), run, rng), back_after: None, words }
    }
}

/// That many moments between a sixth and two thirds of the run: one in each of as many equal parts.
fn times(count: u64, run: Duration, rng: &mut Rng) -> Vec<Duration> {
    let whole = u64::try_from(run.as_millis()).unwrap_or(u64::MAX / 6);
    let (from, until) = (whole / 6, whole * 2 / 3);
    let part = (until - from) / count.max(1);
    let at = |index: u64, rng: &mut Rng| from + index * part + rng.below(part / 2 + 1);
    (0..count).map(|index| Duration::from_millis(at(index, rng))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kgate_protocols::registry::{self, ENTRIES};

    fn drawn(name: &str, nodes: u32, permits: u32) -> Chaos {
        let entry = registry::entry(name).unwrap();
        Chaos::drawn(entry, nodes, permits, Duration::from_secs(10), &mut Rng::fork(1, "chaos"))
    }

    /// Each protocol is done what it tolerates, and no more: k-1 kills without a detector, all but
    /// two with one, kills with returns where nodes remember.
    #[test]
    fn what_each_bears() {
        for (name, kills) in
            [("raymond", 1), ("timer-free", 1), ("stabilizing", 0), ("tree-token", 5)]
        {
            assert_eq!(drawn(name, 5, 2).kills.len(), kills, "{name}");
        }
        for (name, nodes) in [("bas", 5), ("vcube", 5), ("robust", 5), ("slots", 11)] {
            let chaos = drawn(name, nodes, 2);
            assert_eq!((chaos.kills.len(), chaos.back_after), (nodes as usize - 2, None), "{name}");
        }
        assert_eq!(
            (drawn("slots", 5, 2).kills.len(), drawn("slots", 5, 2).back_after),
            (3, Some(DOWN))
        );
        assert_eq!(drawn("raymond", 5, 1).kills.len(), 0);
        assert_eq!(drawn("slots", 2, 1).kills.len(), 0);
        assert_eq!(drawn("raymond", 4, 9).kills.len(), 2);
        let comes_back = |entry: &Entry| entry.recovers || has_leases(entry.name, 5);
        assert!(
            ENTRIES
                .iter()
                .all(|entry| drawn(entry.name, 5, 2).back_after.is_some() == comes_back(entry))
        );
    }

    /// Kills come in order, within the first two thirds, and the same for the same seed.
    #[test]
    fn kills_leave_time_to_recover() {
        let Chaos { kills, .. } = drawn("slots", 9, 2);
        assert!(
            kills.is_sorted() && kills.iter().all(|at| (1_600..6_700).contains(&at.as_millis())),
            "{kills:?}"
        );
        assert_eq!(drawn("slots", 9, 2).kills, kills);
    }
}
