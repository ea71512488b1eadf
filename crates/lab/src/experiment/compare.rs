//! Rankings of protocols, and the differences between two results.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::facts::Outcome;
use super::results::Results;
use super::row::Mean;
use super::summary::{CORRECT, Cell};

/// The metrics of a ranking: the first decides, the others are shown beside it.
pub const USUAL: [&str; 3] = ["obtaining.mean", "messages_per_grant", "grants"];
/// The parameter that is ranked, if it varies.
const RANKED: &str = "protocol";

/// A ranking, best first, at one combination of the other parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// The grid.
    pub grid: String,
    /// The combination of parameters.
    pub at: BTreeMap<String, String>,
    /// The metric that decides.
    pub by: String,
    /// The entries, best first.
    pub order: Vec<Ranked>,
}

/// One entry of a ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// The protocol or configuration.
    pub name: String,
    /// Whether its interval overlaps that of the previous entry, so that the order is uncertain.
    pub ties: bool,
    /// Number of runs with violations; an incorrect entry ranks last.
    pub incorrect: usize,
    /// The metrics that were measured for it.
    pub means: BTreeMap<String, Value>,
}

/// A mean with half of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Value {
    /// The mean.
    pub mean: f64,
    /// Half of the 95 % interval.
    pub half: Option<f64>,
    /// The number of runs.
    pub runs: usize,
}

impl From<Mean> for Value {
    fn from(mean: Mean) -> Self {
        Self { mean: mean.mean, half: mean.half, runs: mean.runs }
    }
}

impl From<Value> for Mean {
    fn from(value: Value) -> Self {
        Self { mean: value.mean, half: value.half, runs: value.runs }
    }
}

/// Rankings by a metric (and the usual ones beside it), for every combination of the parameters
/// other than the protocol; without a varying protocol, one per grid. Higher is better for metrics
/// that count grants, lower for all others, unless `most` says that higher is.
pub fn rankings(results: &Results, by: &str, most: bool) -> Vec<Ranking> {
    let mut rankings: Vec<Ranking> = Vec::new();
    for cell in &results.cells {
        let mut at = cell.at.clone();
        let name = match at.remove(RANKED) {
            Some(protocol) => protocol,
            None => {
                let words: Vec<_> =
                    at.iter().map(|(name, label)| format!("{name}={label}")).collect();
                at.clear();
                words.join(", ")
            }
        };
        let ranked = ranked(cell, name, by);
        match rankings.iter_mut().find(|ranking| ranking.grid == cell.grid && ranking.at == at) {
            Some(ranking) => ranking.order.push(ranked),
            None => {
                rankings.push(Ranking {
                    grid: cell.grid.clone(),
                    at,
                    by: by.into(),
                    order: vec![ranked],
                });
            }
        }
    }
    for ranking in &mut rankings {
        ranking.order.sort_by(|a, b| better(a, b, by, most));
        for place in 1..ranking.order.len() {
            let (before, this) = (&ranking.order[place - 1], &ranking.order[place]);
            ranking.order[place].ties = match (before.means.get(by), this.means.get(by)) {
                (Some(before), Some(this)) => this.meets(before),
                (_, _) => false,
            } && before.incorrect == 0
                && this.incorrect == 0;
        }
    }
    rankings
}

impl Value {
    /// Whether the intervals overlap.
    fn meets(&self, other: &Self) -> bool {
        (self.mean - other.mean).abs() <= self.half.unwrap_or(0.0) + other.half.unwrap_or(0.0)
    }
}

fn ranked(cell: &Cell, name: String, by: &str) -> Ranked {
    let names: BTreeSet<&str> = USUAL.into_iter().chain([by]).collect();
    let means = names.into_iter().filter_map(|name| {
        // A metric that only some runs have would compare a biased sample.
        let mean = cell.metric(name).filter(|mean| mean.runs == cell.runs)?;
        Some((name.to_owned(), mean.into()))
    });
    Ranked { name, ties: false, incorrect: cell.runs - cell.correct, means: means.collect() }
}

/// Correct before incorrect, measured before not measured, then the metric.
fn better(a: &Ranked, b: &Ranked, by: &str, most: bool) -> Ordering {
    let value = |ranked: &Ranked| ranked.means.get(by).map(|value| value.mean);
    let rank = |ranked: &Ranked| (ranked.incorrect > 0, value(ranked).is_none());
    rank(a).cmp(&rank(b)).then_with(|| {
        let (a, b) = (value(a).unwrap_or(0.0), value(b).unwrap_or(0.0));
        if most || more_is_better(by) { b.total_cmp(&a) } else { a.total_cmp(&b) }
    })
}

/// Metrics for which higher is better; for times, messages and queues lower is.
fn more_is_better(metric: &str) -> bool {
    ["grants", "cs_bandwidth", "slots_in_use.mean", CORRECT].contains(&metric)
}

/// The differences between two results of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Difference {
    /// The experiment.
    pub experiment: String,
    /// Facts with different verdicts: the name, and both verdicts.
    pub verdicts: Vec<(String, Outcome, Outcome)>,
    /// Points that only the first result has.
    pub only_here: Vec<String>,
    /// Points that only the second result has.
    pub only_there: Vec<String>,
    /// Metrics that differ by more than their intervals, the largest change first.
    pub metrics: Vec<Change>,
    /// The number of means that were compared.
    pub compared: usize,
}

/// A metric that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The point.
    pub at: String,
    /// The metric.
    pub metric: String,
    /// Its mean in the first result.
    pub here: Value,
    /// Its mean in the second result.
    pub there: Value,
}

impl Change {
    /// The relative change from the first to the second result.
    pub fn share(&self) -> f64 {
        (self.there.mean - self.here.mean) / self.here.mean.abs()
    }
}

impl Difference {
    /// Whether the results agree.
    pub fn is_none(&self) -> bool {
        self.verdicts.is_empty()
            && self.only_here.is_empty()
            && self.only_there.is_empty()
            && self.metrics.is_empty()
    }
}

/// The differences between two results: verdicts, points, and those metrics of plots, facts and
/// rankings that differ by more than the sum of their intervals. A single run has no interval, so
/// any difference counts there.
pub fn difference(here: &Results, there: &Results) -> Difference {
    let experiment = &here.experiment;
    let key = |cell: &Cell| (cell.grid.clone(), cell.at.clone());
    let others: BTreeMap<_, &Cell> = there.cells.iter().map(|cell| (key(cell), cell)).collect();
    let own: BTreeSet<_> = here.cells.iter().map(key).collect();
    let mut found = Difference { experiment: experiment.name.clone(), ..Difference::default() };
    for verdict in &here.verdicts {
        let other = there.verdicts.iter().find(|other| other.id == verdict.id);
        if let Some(other) = other.filter(|other| other.outcome != verdict.outcome) {
            found.verdicts.push((verdict.id.clone(), verdict.outcome, other.outcome));
        }
    }
    let metrics = used(here);
    for cell in &here.cells {
        let Some(other) = others.get(&key(cell)) else {
            found.only_here.push(point(cell));
            continue;
        };
        for metric in &metrics {
            let (a, b) = (cell.metric(metric), other.metric(metric));
            let (Some(a), Some(b)) = (a, b) else {
                if a.is_some() != b.is_some() {
                    let none = Mean { mean: f64::NAN, half: None, runs: 0 };
                    let (here, there) = (a.unwrap_or(none).into(), b.unwrap_or(none).into());
                    found.metrics.push(Change {
                        at: point(cell),
                        metric: metric.clone(),
                        here,
                        there,
                    });
                }
                continue;
            };
            found.compared += 1;
            if (a.mean - b.mean).abs() > a.half.unwrap_or(0.0) + b.half.unwrap_or(0.0) {
                let (here, there) = (a.into(), b.into());
                found.metrics.push(Change { at: point(cell), metric: metric.clone(), here, there });
            }
        }
    }
    found.only_there =
        there.cells.iter().filter(|cell| !own.contains(&key(cell))).map(point).collect();
    found.metrics.sort_by(|a, b| b.share().abs().total_cmp(&a.share().abs()));
    found
}

fn point(cell: &Cell) -> String {
    let words: Vec<_> = cell.at.iter().map(|(name, label)| format!("{name}={label}")).collect();
    format!("{}: {}", cell.grid, words.join(", "))
}

/// The metrics that plots, facts or rankings use.
fn used(results: &Results) -> BTreeSet<String> {
    let experiment = &results.experiment;
    let mut used: BTreeSet<String> = USUAL.map(str::to_owned).into();
    used.insert(CORRECT.into());
    used.extend(experiment.plot.iter().map(|plot| plot.y.clone()));
    for check in experiment.fact.iter().flat_map(|fact| &fact.check) {
        used.insert(check.metric.clone());
        used.extend(check.right_metric.clone());
    }
    used
}

#[cfg(test)]
mod tests {
    use super::super::file::Experiment;
    use super::super::summary::tests::row;
    use super::*;

    fn results(times: &[(&str, f64, bool)]) -> Results {
        let text = "name = 'mine'\ntitle = 't'\nabout = 'a'\n[[grid]]\nname = 'g'\nseeds = 3\n\
                    vary = { protocol = ['raymond', 'vcube', 'slots', 'bas'] }";
        let mut rows = Vec::new();
        for (protocol, time, correct) in times {
            for seed in 1..=3u8 {
                let time = time + f64::from(seed) / 10.0;
                let mut row = row(
                    "g",
                    &[("protocol", protocol), ("n", "500")],
                    u64::from(seed),
                    &[("obtaining.mean", time), ("grants", 7.0)],
                );
                row.correct = *correct;
                rows.push(row);
            }
        }
        Results::of(Experiment::parse(text).unwrap(), &rows)
    }

    fn names(ranking: &Ranking) -> Vec<&str> {
        ranking.order.iter().map(|ranked| ranked.name.as_str()).collect()
    }

    /// The fastest is first, and an overlap is marked as a tie. Planted: the fastest of all is
    /// incorrect and ranks last.
    #[test]
    fn the_best_is_first() {
        let results = results(&[
            ("raymond", 5.0, true),
            ("vcube", 3.0, true),
            ("slots", 3.1, true),
            ("bas", 0.1, false),
        ]);
        let rankings = rankings(&results, "obtaining.mean", false);
        assert_eq!(names(&rankings[0]), ["vcube", "slots", "raymond", "bas"]);
        let ties: Vec<_> = rankings[0].order.iter().map(|ranked| ranked.ties).collect();
        assert_eq!(ties, [false, true, false, false]);
        assert_eq!(rankings[0].at["n"], "500");
    }

    /// A protocol without the metric comes after those that have it.
    #[test]
    fn who_was_not_measured_is_not_first() {
        let mut results = results(&[("raymond", 5.0, true), ("vcube", 3.0, true)]);
        results.cells[1].means.remove("obtaining.mean");
        assert_eq!(names(&rankings(&results, "obtaining.mean", false)[0]), ["raymond", "vcube"]);
    }

    /// Equal results do not differ. Differences within the intervals do not count; differences
    /// beyond them do, and so does a missing point.
    #[test]
    fn what_differs() {
        let first = results(&[("raymond", 5.0, true), ("vcube", 3.0, true)]);
        assert!(difference(&first, &first).is_none());
        let near = results(&[("raymond", 5.1, true), ("vcube", 3.0, true)]);
        assert!(difference(&first, &near).is_none());
        let far = results(&[("raymond", 9.0, true), ("slots", 3.0, true)]);
        let found = difference(&first, &far);
        assert_eq!(found.metrics.len(), 1);
        assert!(
            (found.metrics[0].share() - 4.0 / 5.2).abs() < 1e-9,
            "{}",
            found.metrics[0].share()
        );
        assert_eq!(
            (found.only_here, found.only_there),
            (
                vec!["g: n=500, protocol=vcube".to_owned()],
                vec!["g: n=500, protocol=slots".to_owned()]
            )
        );
    }
}
