//! What is told when a demo is over: the verdict of the oracle, and how long permits took.

use std::io::{self, Write};

use kgate_spec::history::Verdict;
use serde::Serialize;

/// How long it took to obtain a permit, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Times {
    pub(crate) mean_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Times {
    /// Of so many nanoseconds each.
    pub(crate) fn of(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        let Some(last) = all.last() else { return Self::default() };
        // The least that this share of them does not exceed.
        let share = |percent: usize| ms(all[(all.len() * percent).div_ceil(100) - 1]);
        let mean_ms = all.iter().map(|&one| ms(one)).sum::<f64>() / count(all.len());
        Self { mean_ms, p50_ms: share(50), p90_ms: share(90), p99_ms: share(99), max_ms: ms(*last) }
    }
}

#[allow(clippy::cast_precision_loss)] // What is shown, not computed with.
fn ms(ns: u64) -> f64 {
    (ns / 100) as f64 / 10_000.0
}

#[allow(clippy::cast_precision_loss)] // What is shown, not computed with.
fn count(count: usize) -> f64 {
    count as f64
}

/// A demo that is over.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) protocol: &'static str,
    pub(crate) nodes: u32,
    pub(crate) k: u32,
    pub(crate) clients: usize,
    pub(crate) seed: String,
    pub(crate) grants: u64,
    pub(crate) obtaining: Times,
    pub(crate) max_in_use: usize,
    pub(crate) violations: Vec<String>,
    pub(crate) kills: u32,
    pub(crate) restarts: u32,
    /// After the last kill.
    pub(crate) grants_since: u64,
    /// What went wrong besides: nodes that stopped by themselves, permits that were lost.
    pub(crate) troubles: Vec<String>,
    /// Before this nothing was checked.
    pub(crate) checked_from_s: f64,
}

impl Report {
    pub(crate) fn is_right(&self) -> bool {
        self.violations.is_empty() && self.troubles.is_empty() && self.grants > 0
    }

    /// Takes over what the oracle has found.
    pub(crate) fn checked(mut self, verdict: &Verdict) -> Self {
        self.grants = verdict.grants;
        self.max_in_use = verdict.max_in_use;
        self.violations = verdict.violations.iter().map(ToString::to_string).collect();
        self
    }

    pub(crate) fn print(&self, to: &mut impl Write) -> io::Result<()> {
        let Times { mean_ms, p50_ms, p99_ms, .. } = self.obtaining;
        writeln!(to, "granted     {} permits", self.grants)?;
        writeln!(to, "obtaining   {mean_ms:.2} ms on average, p50 {p50_ms:.2}, p99 {p99_ms:.2}")?;
        writeln!(to, "inside      at most {} at once, k = {}", self.max_in_use, self.k)?;
        let since = if self.kills > 0 {
            format!("; {} permits after the last", self.grants_since)
        } else {
            String::new()
        };
        writeln!(to, "nodes       {} killed, {} started again{since}", self.kills, self.restarts)?;
        if self.checked_from_s > 0.0 {
            writeln!(
                to,
                "checked      from {:.1} s on: before, it may still converge",
                self.checked_from_s
            )?;
        }
        for wrong in self.violations.iter().chain(&self.troubles) {
            writeln!(to, "WRONG       {wrong}")?;
        }
        let verdict = match (self.violations.len(), self.troubles.len(), self.grants) {
            (0, 0, 0) => "FAILED: nobody was granted anything".to_owned(),
            (0, 0, _) => {
                "right: never more than k inside, slots and fences in order where there are any, everybody served"
                    .to_owned()
            }
            (0, some, _) => {
                format!("FAILED: never more than k inside, but {some} things happened that must not")
            }
            (some, _, _) => format!("VIOLATED {some} times"),
        };
        writeln!(to, "verdict     {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares are of what was measured: no value is made up between two.
    #[test]
    fn times_are_of_the_sample() {
        let times = Times::of((1..=200).map(|n| n * 1_000_000).collect());
        assert_eq!(
            (times.p50_ms, times.p90_ms, times.p99_ms, times.max_ms),
            (100.0, 180.0, 198.0, 200.0)
        );
        assert!((times.mean_ms - 100.5).abs() < 1e-9);
        assert_eq!(Times::of(vec![2_500_000]).p99_ms, 2.5);
        assert_eq!(Times::of(Vec::new()), Times::default());
    }

    /// A demo fails on a violation, on trouble, and if nobody got anything.
    #[test]
    fn what_is_right() {
        let report = |grants, violations: &[&str], troubles: &[&str]| Report {
            protocol: "slots",
            nodes: 3,
            k: 1,
            clients: 3,
            seed: "0x1".into(),
            grants,
            obtaining: Times::default(),
            max_in_use: 1,
            violations: violations.iter().map(ToString::to_string).collect(),
            kills: 0,
            restarts: 0,
            grants_since: 0,
            troubles: troubles.iter().map(ToString::to_string).collect(),
            checked_from_s: 0.0,
        };
        assert!(report(1, &[], &[]).is_right());
        for (wrong, says) in [
            (report(0, &[], &[]), "nobody was granted"),
            (report(1, &["two inside"], &[]), "VIOLATED 1"),
            (report(1, &[], &["node 1 stopped"]), "WRONG       node 1 stopped"),
        ] {
            let mut text = Vec::new();
            wrong.print(&mut text).unwrap();
            assert!(!wrong.is_right() && String::from_utf8(text).unwrap().contains(says));
        }
    }
}
