//! A row of the bench: what is made of what was written down.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use kgate_spec::history::Verdict;
use serde::Serialize;

use crate::demo::history::Stay;
use crate::demo::report::Times;

/// What was used while it was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) nodes_s: f64,
    pub(super) clients_s: f64,
    pub(super) messages: u64,
    /// Of all nodes together, up to the end.
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
    /// Which part of all grants were to somebody who waited when the permit was given back.
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

pub(super) const HEAD: &str = "  k clients     acq/s | acquire p50     p90     p99 | hand-over p50     p99 ms | per client      Jain | CPU s/1000 nodes clients | msg/acq | MB/node | inside wrong";

impl Row {
    /// Of all stays, given for each gate with its verdict, those that were granted between the two
    /// moments.
    pub(super) fn of(
        k: u32,
        clients: usize,
        gates: &[(Vec<Stay>, Verdict)],
        between: (u64, u64),
        used: &Used,
    ) -> Self {
        let measured = |stay: &&Stay| (between.0..between.1).contains(&stay.granted);
        let stays = || gates.iter().flat_map(|(stays, _)| stays).filter(measured);
        let took: Vec<u64> = stays().map(|stay| stay.granted - stay.asked).collect();
        let mut each = vec![0_u64; clients];
        stays().for_each(|stay| each[stay.client] += 1);
        let handed: Vec<u64> =
            gates.iter().flat_map(|(stays, _)| hand_overs(stays, between)).collect();
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

/// How long it took from giving back to the next grant of that permit, where whoever got it waited
/// already. A permit is its slot; without slots it is the one that was given back first.
fn hand_overs(stays: &[Stay], between: (u64, u64)) -> Vec<u64> {
    // Ties: a permit that is given back at the moment of a grant was not the one that was granted.
    let mut events: Vec<(u64, bool, &Stay)> =
        stays.iter().map(|stay| (stay.granted, false, stay)).collect();
    events.extend(stays.iter().filter_map(|stay| Some((stay.released?, true, stay))));
    events.sort_by_key(|(at, is_release, _)| (*at, *is_release));
    let mut free: BTreeMap<Option<u32>, VecDeque<u64>> = BTreeMap::new();
    let mut handed = Vec::new();
    for (at, is_release, stay) in events {
        let queue = free.entry(stay.slot).or_default();
        if is_release {
            queue.push_back(at);
        } else if let Some(released) = queue.pop_front()
            && stay.asked < released
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
            " | {:>16.3} {:>7.3} | {:>7.1} | {:>7.1} | {:>6} {:>5}",
            self.node_cpu_s_per_1000,
            self.client_cpu_s_per_1000,
            self.messages_per_acquisition,
            self.node_memory_mb,
            self.max_in_use,
            self.violations
        )
    }
}

#[allow(clippy::cast_precision_loss)] // What is shown, not computed with.
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stay(client: usize, asked: u64, granted: u64, released: u64, slot: Option<u32>) -> Stay {
        Stay { client, asked, granted, released: Some(released), slot }
    }

    /// By slots: only who waited at the release counts, and a slot's release is paired with that
    /// slot's next grant.
    #[test]
    fn hand_overs_by_slot() {
        let stays = [
            stay(0, 0, 1, 10, Some(0)),
            stay(1, 0, 2, 20, Some(1)),
            stay(2, 3, 25, 30, Some(1)),  // waited: 5
            stay(3, 15, 16, 40, Some(0)), // came after the release at 10
            stay(4, 5, 47, 50, Some(0)),  // waited: 7
        ];
        assert_eq!(hand_overs(&stays, (0, 100)), [5, 7]);
        assert_eq!(hand_overs(&stays, (0, 30)), [5]);
    }

    /// Without slots a grant takes what was given back first.
    #[test]
    fn hand_overs_without_slots() {
        let stays = [
            stay(0, 0, 1, 10, None),
            stay(1, 0, 2, 20, None),
            stay(2, 3, 22, 30, None),
            stay(3, 4, 23, 31, None),
        ];
        assert_eq!(hand_overs(&stays, (0, 100)), [12, 3]);
    }

    /// Who is served alone makes it uneven; nothing at all is no division by nothing.
    #[test]
    fn fairness() {
        let used = Used { nodes_s: 0.1, clients_s: 0.2, messages: 8, memory: 6_000_000, nodes: 2 };
        let stay = |asked| (vec![stay(0, asked, asked + 1, asked + 2, None)], Verdict::default());
        let row = Row::of(1, 2, &[stay(0), stay(2)], (0, 1_000_000_000), &used);
        assert!((row.node_memory_mb - 3.0).abs() < 1e-9);
        assert_eq!((row.least_per_client, row.most_per_client, row.acquisitions), (0, 2, 2));
        assert!((row.jain - 0.5).abs() < 1e-9 && (row.messages_per_acquisition - 4.0).abs() < 1e-9);
        let none = Row::of(1, 2, &[], (0, 1_000_000_000), &used);
        assert!(none.jain.abs() < 1e-9 && none.node_cpu_s_per_1000.abs() < 1e-9);
    }
}
