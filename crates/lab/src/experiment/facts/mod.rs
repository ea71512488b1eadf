//! Verdicts: published facts against measurements.
//!
//! A verdict is computed from the runs and never edited. It is green only if every check of the
//! fact found runs, all of them correct and with the metric, and the relation holds. A fact whose
//! runs are missing cannot be checked; a fact whose relation does not hold is not reproduced.
//!
//! - `pair.rs`: one side against another or against a number; `trend.rs`: a curve along an axis.

mod pair;
mod trend;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::file::{Check, Experiment, Fact, HowOften, Relation, Selection};
use super::summary::{CORRECT, Cell};

/// The outcome of a published fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Outcome {
    /// The measurements agree with it.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// The measurements contradict it.
    #[serde(rename = "not reproduced")]
    NotReproduced,
    /// It could not be checked.
    #[serde(rename = "cannot be checked")]
    Cannot,
}

impl fmt::Display for Outcome {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
            Self::Cannot => "cannot be checked",
        })
    }
}

/// A published fact with its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The fact's name.
    pub id: String,
    /// Its place in the paper.
    pub place: String,
    /// The claim.
    pub claim: String,
    /// Our interpretation.
    pub remark: Option<String>,
    /// The measurements in short, or why there are none.
    pub measured: String,
    /// The outcome.
    #[serde(rename = "verdict")]
    pub outcome: Outcome,
    /// The places that were compared, with the result of each.
    pub places: Vec<Place>,
}

/// A place where two sides were compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    /// The parameters that distinguish it from the other places.
    pub at: String,
    /// The numbers.
    pub numbers: String,
    /// Whether the relation holds there.
    pub holds: bool,
    /// The commands of its runs.
    pub commands: Vec<String>,
    /// Number of runs with violations.
    pub incorrect: usize,
}

/// The verdicts of all facts of an experiment.
pub fn evaluate_all(experiment: &Experiment, cells: &[Cell]) -> Vec<Verdict> {
    experiment.fact.iter().map(|fact| evaluate(fact, cells)).collect()
}

/// The verdict of a fact.
pub fn evaluate(fact: &Fact, cells: &[Cell]) -> Verdict {
    let mut verdict = Verdict {
        id: fact.id.clone(),
        place: fact.place.clone(),
        claim: fact.claim.clone(),
        remark: fact.remark.clone(),
        measured: String::new(),
        outcome: Outcome::Cannot,
        places: Vec::new(),
    };
    if let Some(why) = &fact.cannot {
        verdict.measured.clone_from(why);
        return verdict;
    }
    let findings: Vec<_> = fact.check.iter().map(|check| examine(check, cells)).collect();
    let is = |outcome| findings.iter().any(|finding| finding.outcome == outcome);
    verdict.outcome = match (is(Outcome::NotReproduced), is(Outcome::Cannot), findings.is_empty()) {
        (true, _, _) => Outcome::NotReproduced,
        (false, true, _) | (false, false, true) => Outcome::Cannot,
        (false, false, false) => Outcome::Reproduced,
    };
    let texts: Vec<_> = findings.iter().map(|finding| finding.text.as_str()).collect();
    verdict.measured = if texts.is_empty() {
        "the experiment has no check for it".into()
    } else {
        texts.join("; ")
    };
    verdict.places = findings.into_iter().flat_map(|finding| finding.places).collect();
    verdict
}

/// The result of one check.
struct Finding {
    outcome: Outcome,
    text: String,
    places: Vec<Place>,
}

fn examine(check: &Check, cells: &[Cell]) -> Finding {
    let places = match check.is {
        Relation::Greater | Relation::Less | Relation::Equal | Relation::Most | Relation::Least => {
            pair::places(check, cells)
        }
        Relation::Grows | Relation::Falls | Relation::Flat | Relation::Peaks => {
            trend::places(check, cells)
        }
    };
    match places {
        Err(why) => Finding { outcome: Outcome::Cannot, text: why, places: Vec::new() },
        Ok(places) => weigh(check, places, &not_run(check, cells)),
    }
}

/// Whether the relation holds at enough places, and the text that says so.
fn weigh(check: &Check, places: Vec<Place>, not_run: &str) -> Finding {
    let holding = places.iter().filter(|place| place.holds).count();
    let incorrect: usize = if is_about_violations(&check.metric) {
        0
    } else {
        places.iter().map(|place| place.incorrect).sum()
    };
    let enough = match check.how_often {
        HowOften::Always => holding == places.len(),
        HowOften::Mostly => 2 * holding > places.len(),
    };
    let mut text = format!("{}: {}", sides(check), list(&places, holding));
    if incorrect > 0 {
        text = format!("{incorrect} of its runs are incorrect; {text}");
    }
    if !not_run.is_empty() {
        text = format!("{text} ({not_run} not run)");
    }
    let outcome = if enough && holding > 0 && incorrect == 0 {
        Outcome::Reproduced
    } else {
        Outcome::NotReproduced
    };
    Finding { outcome, text, places }
}

/// The sides of a comparison: `grants of raymond against vcube`.
fn sides(check: &Check) -> String {
    let labels = |selection: &Selection| {
        let words = selection.values().map(|words| {
            words.0.iter().map(|word| word.0.as_str()).collect::<Vec<_>>().join(" and ")
        });
        words.collect::<Vec<_>>().join(", ")
    };
    let left = labels(&check.left);
    let mut text = check.metric.clone();
    if !left.is_empty() {
        text += &format!(" of {left}");
    }
    let right = labels(&check.right);
    // If both sides have the same name, the other grid or metric distinguishes them.
    let mut others: Vec<&str> =
        check.right_metric.iter().chain(&check.right_grid).map(String::as_str).collect();
    if !right.is_empty() && right != left {
        others.push(&right);
    }
    if check.value.is_none() && !others.is_empty() {
        text += &format!(" against {}", others.join(", "));
    }
    text
}

/// Whether a metric counts violations: then incorrect runs are valid data.
fn is_about_violations(metric: &str) -> bool {
    metric == CORRECT || metric.starts_with("violations") || metric.starts_with("properties.")
}

/// The number of runs with violations, unless a published defect is switched on in them.
fn incorrect(cell: &Cell) -> usize {
    if cell.as_printed() { 0 } else { cell.runs - cell.correct }
}

/// Lists the first places, those that do not hold first; the report shows all.
fn list(places: &[Place], holding: usize) -> String {
    const SHOWN: usize = 4;
    let text = |place: &Place| {
        if place.at.is_empty() {
            place.numbers.clone()
        } else {
            format!("{}: {}", place.at, place.numbers)
        }
    };
    if let [place] = places {
        return text(place);
    }
    let (good, bad): (Vec<_>, Vec<_>) = places.iter().partition(|place| place.holds);
    let mut texts: Vec<_> = bad.into_iter().chain(good).take(SHOWN).map(text).collect();
    if places.len() > SHOWN {
        texts.push("..".into());
    }
    format!("holds at {holding} of {}: {}", places.len(), texts.join(", "))
}

/// The cells of a grid on one side, selected by `side` and, for other parameters, by `only`.
fn select<'a>(cells: &'a [Cell], grid: &str, only: &Selection, side: &Selection) -> Vec<&'a Cell> {
    let fits = |cell: &Cell, name: &String| {
        let wanted = side.get(name).or_else(|| only.get(name));
        let label = cell.at.get(name);
        wanted.is_none_or(|words| {
            label.is_some_and(|label| words.0.iter().any(|word| word.0 == *label))
        })
    };
    let names: BTreeSet<&String> = only.keys().chain(side.keys()).collect();
    cells
        .iter()
        .filter(|cell| cell.grid == grid && names.iter().all(|name| fits(cell, name)))
        .collect()
}

/// The values that the check names but no run has: `processes=512, processes=1024`.
fn not_run(check: &Check, cells: &[Cell]) -> String {
    let right = check.right_grid.as_ref().unwrap_or(&check.grid);
    let mut missing = BTreeSet::new();
    for (grid, selection) in
        [(&check.grid, &check.only), (&check.grid, &check.left), (right, &check.right)]
    {
        for (name, words) in selection {
            for word in &words.0 {
                let is_there =
                    |cell: &Cell| cell.grid == *grid && cell.at.get(name) == Some(&word.0);
                if !cells.iter().any(is_there) {
                    // Numbers in numeric order.
                    let size = word.0.parse::<f64>().map_or(u64::MAX, f64::to_bits);
                    missing.insert((name, size, format!("{name}={}", word.0)));
                }
            }
        }
    }
    missing.into_iter().map(|(_, _, text)| text).collect::<Vec<_>>().join(", ")
}

/// Why there is nothing to compare.
fn nothing(check: &Check, cells: &[Cell], grid: &str) -> String {
    let missing = not_run(check, cells);
    if !cells.iter().any(|cell| cell.grid == grid) {
        format!("no run of the grid {grid}")
    } else if missing.is_empty() {
        format!("no run of the grid {grid} matches")
    } else {
        format!("not run: {missing} (--quick and --set omit parts of the experiment)")
    }
}

/// The parameters in which cells differ: the short name of a place.
fn differing(cells: &[&Cell]) -> BTreeSet<String> {
    let names: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.at.keys()).collect();
    let differ = |name: &&String| {
        cells.windows(2).any(|pair| pair[0].at.get(*name) != pair[1].at.get(*name))
    };
    names.into_iter().filter(differ).cloned().collect()
}

/// A cell by those of its parameters: `processes=8, protocol=vcube`.
fn named(cell: &Cell, names: &BTreeSet<String>) -> String {
    let words = cell.at.iter().filter(|(name, _)| names.contains(*name));
    words.map(|(name, label)| format!("{name}={label}")).collect::<Vec<_>>().join(", ")
}

/// `verdicts.csv`.
pub fn csv(verdicts: &[Verdict]) -> Result<Vec<u8>, csv::Error> {
    let mut to = csv::Writer::from_writer(Vec::new());
    to.write_record(["id", "place", "claim", "measured", "verdict", "remark"])?;
    for verdict in verdicts {
        let outcome = verdict.outcome.to_string();
        let remark = verdict.remark.as_deref().unwrap_or("");
        to.write_record([
            &verdict.id,
            &verdict.place,
            &verdict.claim,
            &verdict.measured,
            outcome.as_str(),
            remark,
        ])?;
    }
    to.into_inner().map_err(|error| error.into_error().into())
}
