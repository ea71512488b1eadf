//! The report of a run, for people and programs.

use std::collections::BTreeMap;

use kgate_core::{Span, Time};
use kgate_spec::Violation;
use serde::Serialize;

use crate::engine::DisturbanceCounts;
use crate::gauge::TimeSeries;
use crate::stats::{ProcessTraffic, Stats};

/// A distribution of times, in time units. All fields of an empty distribution are null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// The arithmetic mean.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The maximum.
    pub max: Option<f64>,
}

impl Distribution {
    #[allow(clippy::cast_precision_loss)] // A mean for tables.
    pub(crate) fn of(mut samples: Vec<Span>) -> Self {
        if samples.is_empty() {
            return Self::default();
        }
        samples.sort_unstable();
        let total: u128 = samples.iter().map(|span| u128::from(span.0)).sum();
        let mean = total as f64 / samples.len() as f64 / Span::UNIT.0 as f64;
        // The nearest-rank percentile: the smallest sample that at least that share of all samples
        // does not exceed.
        let rank = |percent: usize| samples[(samples.len() * percent).div_ceil(100) - 1].units();
        Self {
            mean: Some(mean),
            p50: Some(rank(50)),
            p99: Some(rank(99)),
            max: samples.last().map(|s| s.units()),
        }
    }
}

/// Messages sent. The detector's messages are in `by_kind` but not in `total`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Messages {
    /// Messages of the mutex protocol.
    pub total: u64,
    /// Messages of the mutex protocol and the detector, by kind.
    pub by_kind: BTreeMap<&'static str, u64>,
}

/// Messages of the mutex protocol per process, detector excluded: what one process carries,
/// where a total hides that all messages meet at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// Messages that a process sent, on average over all processes.
    pub sent_mean: f64,
    /// The most messages that one process sent.
    pub sent_max: u32,
    /// Messages that a process received, on average over all processes.
    pub received_mean: f64,
    /// The most messages that one process received.
    pub received_max: u32,
    /// The process that sent and received the most.
    pub busiest: usize,
    /// The messages that it sent and received.
    pub busiest_total: u32,
}

impl Traffic {
    #[allow(clippy::cast_precision_loss)] // Means for tables.
    fn of(traffic: &[ProcessTraffic]) -> Self {
        let total = |process: &ProcessTraffic| process.sent + process.received;
        let mean = |count: fn(&ProcessTraffic) -> u32| {
            traffic.iter().map(|process| f64::from(count(process))).sum::<f64>()
                / traffic.len().max(1) as f64
        };
        // The first of several.
        let busiest = traffic.iter().enumerate().rev().max_by_key(|(_, process)| total(process));
        Self {
            sent_mean: mean(|process| process.sent),
            sent_max: traffic.iter().map(|process| process.sent).max().unwrap_or(0),
            received_mean: mean(|process| process.received),
            received_max: traffic.iter().map(|process| process.received).max().unwrap_or(0),
            busiest: busiest.map_or(0, |(process, _)| process),
            busiest_total: busiest.map_or(0, |(_, process)| total(process)),
        }
    }
}

/// The results of a run. Times are in time units.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The protocol's name.
    pub protocol: String,
    /// The defect that ran as printed, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_printed: Option<String>,
    /// The number of processes.
    pub n: u32,
    /// The number of slots.
    pub k: u32,
    /// The seed.
    pub seed: u64,
    /// The length of the warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<f64>,
    /// The length of the run, including the warm-up.
    pub duration: f64,
    /// Requests issued.
    pub requests: u64,
    /// Units allocated.
    pub grants: u64,
    /// Requests withdrawn by their clients.
    #[serde(skip_serializing_if = "is_zero")]
    pub withdrawals: u64,
    /// Requests that ended because k became smaller than their weight.
    #[serde(skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// Requests of clients to go on at another process.
    #[serde(skip_serializing_if = "is_zero")]
    pub adoption_requests: u64,
    /// Clients that went on at another process.
    #[serde(skip_serializing_if = "is_zero")]
    pub adoptions: u64,
    /// Changes of k.
    #[serde(skip_serializing_if = "is_zero")]
    pub resizes: u64,
    /// The obtaining time: from the request to the grant.
    pub obtaining: Distribution,
    /// The obtaining time from the start of the request's broadcast to the grant.
    pub obtaining_from_broadcast: Distribution,
    /// Messages sent.
    pub messages: Messages,
    /// Messages of the mutex protocol per process.
    pub traffic: Traffic,
    /// Messages of the mutex protocol per grant.
    pub messages_per_grant: Option<f64>,
    /// The most slots in use at once; where transient faults happened, since the run had recovered.
    pub max_in_use: usize,
    /// The most slots in use at once in the whole run.
    pub max_in_use_overall: usize,
    /// Whether all k slots were in use at some time: if not, the run shows little.
    pub k_in_use_seen: bool,
    /// Grants per time unit (timer-free-2009: CS bandwidth).
    pub cs_bandwidth: f64,
    /// Slots in use over time.
    pub slots_in_use: TimeSeries,
    /// Waiting requests over time (timer-free-2009: waiting queue).
    pub waiting_queue: TimeSeries,
    /// Permanent crashes.
    pub crashes: u32,
    /// Crashes with a restart.
    pub recoveries: u32,
    /// Pauses of processes.
    pub pauses: u32,
    /// Partitions of the network.
    pub partitions: u32,
    /// Messages of the mutex protocol that a partition delayed.
    pub delayed: u64,
    /// Messages of the mutex protocol that were lost.
    pub lost: u64,
    /// Messages of the mutex protocol that were duplicated.
    pub duplicated: u64,
    /// Suspicions reported to processes.
    pub suspicions: u64,
    /// Suspicions of live processes.
    pub false_suspicions: u64,
    /// The detection time: from a crash until every live process knows of it.
    pub detection: Distribution,
    /// Crashes that some live process never learned of.
    pub undetected: u64,
    /// The time at which the run had recovered from its transient faults, if it had any and did
    /// recover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stabilized_at: Option<f64>,
    /// Requests of live processes that were never granted, although the run went on as long as
    /// anything could change.
    pub unanswered: usize,
    /// The violated properties.
    pub violations: Vec<Violation>,
    /// Inputs handled.
    pub events: u64,
    /// Messages of the mutex protocol delivered.
    pub delivered: u64,
    /// The wall-clock seconds that the run took.
    pub wall_seconds: f64,
    /// Inputs handled per wall-clock second.
    pub events_per_second: f64,
    /// The peak memory of the simulating process, where the system reports it.
    pub peak_memory_bytes: Option<u64>,
    /// The hash of every event in order, including those after `duration`.
    pub hash: String,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // So serde calls it.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What the engine knows besides its counters.
pub(crate) struct EngineResults {
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) seed: u64,
    pub(crate) warmup: Span,
    pub(crate) duration: Span,
    pub(crate) max_in_use: usize,
    pub(crate) max_in_use_overall: usize,
    pub(crate) k_in_use_seen: bool,
    pub(crate) crashes: u32,
    pub(crate) disturbed: DisturbanceCounts,
    pub(crate) partitions: u32,
    pub(crate) resizes: u64,
    pub(crate) recoveries: u32,
    pub(crate) detection: Vec<Span>,
    pub(crate) undetected: u64,
    pub(crate) stabilized_at: Option<Time>,
    pub(crate) unanswered: usize,
    pub(crate) violations: Vec<Violation>,
    pub(crate) wall_seconds: f64,
    pub(crate) hash: u64,
}

impl Report {
    #[allow(clippy::cast_precision_loss)] // Ratios for tables.
    pub(crate) fn new(protocol: &str, stats: Stats, results: EngineResults) -> Self {
        let both = stats.mutex_messages.by_name().chain(stats.detector_messages.by_name());
        let messages = Messages { total: stats.mutex_messages.total(), by_kind: both.collect() };
        let per = |count: u64, of: f64| (of > 0.0).then(|| count as f64 / of);
        Self {
            protocol: protocol.to_owned(),
            as_printed: None,
            n: results.n,
            k: results.k,
            seed: results.seed,
            warmup: (results.warmup > Span::ZERO).then(|| results.warmup.units()),
            duration: results.duration.units(),
            requests: stats.requests,
            grants: stats.grants,
            withdrawals: stats.withdrawals,
            refused: stats.refused,
            adoption_requests: stats.adoption_requests,
            adoptions: stats.adoptions,
            resizes: results.resizes,
            obtaining: Distribution::of(stats.obtaining),
            obtaining_from_broadcast: Distribution::of(stats.obtaining_from_broadcast),
            messages_per_grant: per(messages.total, stats.grants as f64),
            messages,
            traffic: Traffic::of(&stats.traffic),
            max_in_use: results.max_in_use,
            max_in_use_overall: results.max_in_use_overall,
            k_in_use_seen: results.k_in_use_seen,
            cs_bandwidth: per(stats.grants, results.duration.units() - results.warmup.units())
                .unwrap_or(0.0),
            slots_in_use: stats.inside.time_series(),
            waiting_queue: stats.waiting.time_series(),
            crashes: results.crashes,
            recoveries: results.recoveries,
            pauses: results.disturbed.pauses,
            partitions: results.partitions,
            delayed: results.disturbed.delayed,
            lost: results.disturbed.lost,
            duplicated: results.disturbed.duplicated,
            suspicions: stats.suspicions,
            false_suspicions: stats.false_suspicions,
            detection: Distribution::of(results.detection),
            undetected: results.undetected,
            stabilized_at: results.stabilized_at.map(|at| at.since(Time::ZERO).units()),
            unanswered: results.unanswered,
            violations: results.violations,
            events: stats.events,
            delivered: stats.delivered,
            wall_seconds: results.wall_seconds,
            events_per_second: per(stats.events, results.wall_seconds).unwrap_or(0.0),
            peak_memory_bytes: crate::memory::peak_bytes(),
            hash: format!("{:#018x}", results.hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Percentiles are samples, by nearest rank; an empty distribution has no numbers.
    #[test]
    fn percentiles_by_nearest_rank() {
        let samples = (1..=200).rev().map(|unit| Span::UNIT.times(unit)).collect();
        let of = Distribution::of(samples);
        assert_eq!(
            (of.mean, of.p50, of.p99, of.max),
            (Some(100.5), Some(100.0), Some(198.0), Some(200.0))
        );
        assert_eq!(Distribution::of(vec![Span::UNIT]).p99, Some(1.0));
        assert_eq!(Distribution::of(vec![]), Distribution::default());
    }
}
