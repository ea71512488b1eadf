//! A row of the bench, computed from the histories.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use kgate_spec::history::Verdict;
use serde::Serialize;

use crate::demo::history::Hold;
use crate::demo::report::Times;

/// Resources used during the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) nodes_s: f64,
    pub(super) clients_s: f64,
    pub(super) messages: u64,
    /// Peak memory of all nodes together.
    pub(super) memory: u64,
    pub(super) nodes: usize,
}

/// One cell of the grid.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    k: u32,
    clients: usize,
    acquisitions: u64,
    per_second: f64,
    acquire: Times,
    hand_over: Times,
    /// Share of the grants whose client was waiting when the slot was released.
    hand_over_share: f64,
    least_per_client: u64,
    most_per_client: u64,
    jain: f64,
    node_cpu_s_per_1000: f64,
    client_cpu_s_per_1000: f64,
    messages_per_acquisition: f64,
    node_memory_mb: f64,
    max_in_use: usize,
    pub(super) violations: usize,
}

pub(super) const HEAD: &str = "  k clients     acq/s | acquire p50     p90     p99 | hand-over \
 p50     p99 ms | per client      Jain | CPU s/1000 nodes clients | msg/acq | MB/node | in use \
 violations";

impl Row {
    /// The row of the grants between the two moments; each gate has its permits and its verdict.
    pub(super) fn of(
        k: u32,
        clients: usize,
        gates: &[(Vec<Hold>, Verdict)],
        between: (u64, u64),
        used: &Used,
    ) -> Self {
        let measured = |hold: &&Hold| (between.0..between.1).contains(&hold.granted);
        let holds = || gates.iter().flat_map(|(holds, _)| holds).filter(measured);
        let took: Vec<u64> = holds().map(|hold| hold.granted - hold.requested).collect();
        let mut each = vec![0_u64; clients];
        holds().for_each(|hold| each[hold.client] += 1);
        let handed: Vec<u64> =
            gates.iter().flat_map(|(holds, _)| hand_overs(holds, between)).collect();
        let acquisitions = took.len() as u64;
        let (count, seconds) = (float(acquisitions), float(between.1 - between.0) / 1e9);
        let squares: f64 = each.iter().map(|&n| float(n) * float(n)).sum();
        let per_acquisition = |used: f64| if acquisitions == 0 { 0.0 } else { used / count };
        Self {
            k,
            clients,
            acquisitions,
            per_second: count / seconds,
            hand_over_share: per_acquisition(float(handed.len() as u64)),
            acquire: Times::of(took),
            hand_over: Times::of(handed),
            least_per_client: each.iter().copied().min().unwrap_or(0),
            most_per_client: each.iter().copied().max().unwrap_or(0),
            jain: if squares > 0.0 {
                count * count / (float(clients as u64) * squares)
            } else {
                0.0
            },
            node_cpu_s_per_1000: per_acquisition(1000.0 * used.nodes_s),
            client_cpu_s_per_1000: per_acquisition(1000.0 * used.clients_s),
            messages_per_acquisition: per_acquisition(float(used.messages)),
            node_memory_mb: float(used.memory) / float(used.nodes.max(1) as u64) / 1e6,
            max_in_use: gates.iter().map(|(_, verdict)| verdict.max_in_use).max().unwrap_or(0),
            violations: gates.iter().map(|(_, verdict)| verdict.violations.len()).sum(),
        }
    }
}

/// Times from a release to the next grant of that slot, if its client was waiting. Without numbered
/// slots a grant follows the earliest release.
fn hand_overs(holds: &[Hold], between: (u64, u64)) -> Vec<u64> {
    // Ties: a slot that is released at the moment of a grant is not the one that was granted.
    let mut events: Vec<(u64, bool, &Hold)> =
        holds.iter().map(|hold| (hold.granted, false, hold)).collect();
    events.extend(holds.iter().filter_map(|hold| Some((hold.released?, true, hold))));
    events.sort_by_key(|(at, is_release, _)| (*at, *is_release));
    let mut free: BTreeMap<Option<u32>, VecDeque<u64>> = BTreeMap::new();
    let mut handed = Vec::new();
    for (at, is_release, hold) in events {
        let queue = free.entry(hold.slot).or_default();
        if is_release {
            queue.push_back(at);
        } else if let Some(released) = queue.pop_front()
            && hold.requested < released
            && (between.0..between.1).contains(&at)
        {
            handed.push(at - released);
        }
    }
    handed
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (acquire, hand_over) = (&self.acquire, &self.hand_over);
        write!(
            f,
            "{:>3} {:>7} {:>9.0} | {:>11.3} {:>7.3} {:>7.3}",
            self.k, self.clients, self.per_second, acquire.p50_ms, acquire.p90_ms, acquire.p99_ms
        )?;
        write!(
            f,
            " | {:>13.3} {:>7.3}    | {:>5}..{:<5} {:.3}",
            hand_over.p50_ms,
            hand_over.p99_ms,
            self.least_per_client,
            self.most_per_client,
            self.jain
        )?;
        write!(
            f,
            " | {:>16.3} {:>7.3} | {:>7.1} | {:>7.1} | {:>6} {:>10}",
            self.node_cpu_s_per_1000,
            self.client_cpu_s_per_1000,
            self.messages_per_acquisition,
            self.node_memory_mb,
            self.max_in_use,
            self.violations
        )
    }
}

#[allow(clippy::cast_precision_loss)] // For display only.
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(client: usize, requested: u64, granted: u64, released: u64, slot: Option<u32>) -> Hold {
        Hold { client, requested, granted, released: Some(released), slot }
    }

    /// With slots: a release is paired with the next grant of its slot, which counts if its client
    /// was waiting.
    #[test]
    fn hand_overs_by_slot() {
        let holds = [
            hold(0, 0, 1, 10, Some(0)),
            hold(1, 0, 2, 20, Some(1)),
            hold(2, 3, 25, 30, Some(1)),  // waited: 5
            hold(3, 15, 16, 40, Some(0)), // came after the release at 10
            hold(4, 5, 47, 50, Some(0)),  // waited: 7
        ];
        assert_eq!(hand_overs(&holds, (0, 100)), [5, 7]);
        assert_eq!(hand_overs(&holds, (0, 30)), [5]);
    }

    /// Without slots a grant follows the earliest release.
    #[test]
    fn hand_overs_without_slots() {
        let holds = [
            hold(0, 0, 1, 10, None),
            hold(1, 0, 2, 20, None),
            hold(2, 3, 22, 30, None),
            hold(3, 4, 23, 31, None),
        ];
        assert_eq!(hand_overs(&holds, (0, 100)), [12, 3]);
    }

    /// One served client of two gives Jain's index 1/2; no grant at all gives zeros.
    #[test]
    fn fairness() {
        let used = Used { nodes_s: 0.1, clients_s: 0.2, messages: 8, memory: 6_000_000, nodes: 2 };
        let gate = |requested| {
            (vec![hold(0, requested, requested + 1, requested + 2, None)], Verdict::default())
        };
        let row = Row::of(1, 2, &[gate(0), gate(2)], (0, 1_000_000_000), &used);
        assert!((row.node_memory_mb - 3.0).abs() < 1e-9);
        assert_eq!((row.least_per_client, row.most_per_client, row.acquisitions), (0, 2, 2));
        assert!((row.jain - 0.5).abs() < 1e-9 && (row.messages_per_acquisition - 4.0).abs() < 1e-9);
        let none = Row::of(1, 2, &[], (0, 1_000_000_000), &used);
        assert!(none.jain.abs() < 1e-9 && none.node_cpu_s_per_1000.abs() < 1e-9);
    }
}
