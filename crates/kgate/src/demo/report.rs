//! The report of a demo: the verdict of the checker, and the wait times.

use std::io::{self, Write};

use kgate_spec::history::Verdict;
use serde::Serialize;

/// Distribution of times, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Times {
    pub(crate) mean_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Times {
    /// The distribution of these times in nanoseconds.
    pub(crate) fn of(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        let Some(last) = all.last() else { return Self::default() };
        // The smallest value that this percentage of all values does not exceed.
        let share = |percent: usize| ms(all[(all.len() * percent).div_ceil(100) - 1]);
        let mean_ms = all.iter().map(|&one| ms(one)).sum::<f64>() / count(all.len());
        Self { mean_ms, p50_ms: share(50), p90_ms: share(90), p99_ms: share(99), max_ms: ms(*last) }
    }
}

#[allow(clippy::cast_precision_loss)] // For display only.
fn ms(ns: u64) -> f64 {
    (ns / 100) as f64 / 10_000.0
}

#[allow(clippy::cast_precision_loss)] // For display only.
fn count(count: usize) -> f64 {
    count as f64
}

/// The report of a demo.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) protocol: &'static str,
    pub(crate) nodes: u32,
    pub(crate) k: u32,
    pub(crate) clients: usize,
    pub(crate) seed: String,
    pub(crate) grants: u64,
    /// From request to grant.
    pub(crate) wait: Times,
    pub(crate) max_in_use: usize,
    pub(crate) violations: Vec<String>,
    pub(crate) kills: u32,
    pub(crate) restarts: u32,
    /// Number of grants after the last kill.
    pub(crate) grants_after_last_kill: u64,
    /// Other errors: nodes that stopped by themselves, lost permits, requests that were not served.
    pub(crate) errors: Vec<String>,
    /// Start of the checked part of the run.
    pub(crate) checked_from_s: f64,
}

impl Report {
    pub(crate) fn passed(&self) -> bool {
        self.violations.is_empty() && self.errors.is_empty() && self.grants > 0
    }

    /// Adds the verdict of the checker.
    pub(crate) fn with_verdict(mut self, verdict: &Verdict) -> Self {
        self.grants = verdict.grants;
        self.max_in_use = verdict.max_in_use;
        self.violations = verdict.violations.iter().map(ToString::to_string).collect();
        self
    }

    pub(crate) fn print(&self, to: &mut impl Write) -> io::Result<()> {
        let Times { mean_ms, p50_ms, p99_ms, .. } = self.wait;
        writeln!(to, "grants      {}", self.grants)?;
        writeln!(to, "wait time   mean {mean_ms:.2} ms, p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms")?;
        writeln!(to, "slots used  at most {} at once, k = {}", self.max_in_use, self.k)?;
        let since = if self.kills > 0 {
            format!("; {} grants after the last kill", self.grants_after_last_kill)
        } else {
            String::new()
        };
        writeln!(to, "nodes       {} killed, {} restarted{since}", self.kills, self.restarts)?;
        if self.checked_from_s > 0.0 {
            writeln!(
                to,
                "checked     from {:.1} s on; before that the protocol may still converge",
                self.checked_from_s
            )?;
        }
        for failure in self.violations.iter().chain(&self.errors) {
            writeln!(to, "error       {failure}")?;
        }
        let verdict = match (self.violations.len(), self.errors.len(), self.grants) {
            (0, 0, 0) => "FAIL: no permit was granted".to_owned(),
            (0, 0, _) => "PASS: never more than k holders, fences increasing, every request served"
                .to_owned(),
            (0, some, _) => {
                format!("FAIL: never more than k holders, but {some} other errors")
            }
            (some, _, _) => format!("FAIL: {some} violations"),
        };
        writeln!(to, "verdict     {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Percentiles are values of the sample, not interpolated.
    #[test]
    fn percentiles_are_values_of_the_sample() {
        let times = Times::of((1..=200).map(|n| n * 1_000_000).collect());
        assert_eq!(
            (times.p50_ms, times.p90_ms, times.p99_ms, times.max_ms),
            (100.0, 180.0, 198.0, 200.0)
        );
        assert!((times.mean_ms - 100.5).abs() < 1e-9);
        assert_eq!(Times::of(vec![2_500_000]).p99_ms, 2.5);
        assert_eq!(Times::of(Vec::new()), Times::default());
    }

    /// A demo fails on a violation, on another error, and without any grant.
    #[test]
    fn a_demo_fails_on_any_error() {
        let report = |grants, violations: &[&str], errors: &[&str]| Report {
            protocol: "slots",
            nodes: 3,
            k: 1,
            clients: 3,
            seed: "0x1".into(),
            grants,
            wait: Times::default(),
            max_in_use: 1,
            violations: violations.iter().map(ToString::to_string).collect(),
            kills: 0,
            restarts: 0,
            grants_after_last_kill: 0,
            errors: errors.iter().map(ToString::to_string).collect(),
            checked_from_s: 0.0,
        };
        assert!(report(1, &[], &[]).passed());
        for (failed, part) in [
            (report(0, &[], &[]), "FAIL: no permit was granted"),
            (report(1, &["two holders"], &[]), "FAIL: 1 violations"),
            (report(1, &[], &["node 1 stopped"]), "error       node 1 stopped"),
        ] {
            let mut text = Vec::new();
            failed.print(&mut text).unwrap();
            assert!(!failed.passed() && String::from_utf8(text).unwrap().contains(part));
        }
    }
}
