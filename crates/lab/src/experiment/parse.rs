//! Reads and validates an experiment: an error that would occur later is reported here, with its
//! place and what to do.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::file::{
    Check, Experiment, Fact, Grid, Level, Plot, Relation, Selection, Taken, Tool, Word,
};

/// Why a text is not a valid experiment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExperimentError {
    /// It is not TOML, or has unknown keys.
    #[error("{0}")]
    Toml(String),
    /// A part of it contradicts another, or is out of range.
    #[error("{place}: {what}")]
    Wrong {
        /// The place in the file.
        place: String,
        /// What is wrong, and what to do.
        what: String,
    },
}

/// Flags that control how a run is shown or repeated, and not what is run.
const NOT_FOR_RUNS: [&str; 10] =
    ["seed", "seeds", "runs", "swarm", "save", "json", "trace", "diagram", "scenario", "explore"];

impl Experiment {
    /// Parses an experiment.
    pub fn parse(text: &str) -> Result<Self, ExperimentError> {
        let mut experiment: Self = toml::from_str(text)
            .map_err(|error| ExperimentError::Toml(error.to_string().trim_end().into()))?;
        experiment.text = text.into();
        experiment.check()?;
        Ok(experiment)
    }

    /// The same experiment with a selection. The text of the file contains the selection, too.
    pub fn taking(mut self, taken: Taken) -> Self {
        let own = self.text.lines().filter(|line| !line.starts_with("taken."));
        let mut text = String::new();
        if taken.quick {
            text += "taken.quick = true\n";
        }
        for (flag, words) in &taken.set {
            let words: Vec<String> = words.iter().map(|word| format!("{:?}", word.0)).collect();
            text += &format!("taken.set.{flag} = [{}]\n", words.join(", "));
        }
        for line in own {
            text += line;
            text.push('\n');
        }
        self.text = text;
        self.taken = taken;
        self
    }

    /// The grid of that name.
    pub fn grid(&self, name: &str) -> Option<&Grid> {
        self.grid.iter().find(|grid| grid.name == name)
    }

    fn check(&self) -> Result<(), ExperimentError> {
        let place = "the experiment";
        file_name(place, &self.name)?;
        if self.grid.is_empty() {
            return wrong(place, "there is no grid: add a [[grid]]");
        }
        once(place, "grid", self.grid.iter().map(|grid| &grid.name))?;
        once(place, "plot", self.plot.iter().map(|plot| &plot.name))?;
        once(place, "fact", self.fact.iter().map(|fact| &fact.id))?;
        self.grid.iter().try_for_each(check_grid)?;
        self.plot.iter().try_for_each(|plot| self.check_plot(plot))?;
        self.fact.iter().try_for_each(|fact| self.check_fact(fact))
    }

    fn check_plot(&self, plot: &Plot) -> Result<(), ExperimentError> {
        let place = format!("plot {}", plot.name);
        file_name(&place, &plot.name)?;
        let grid = self.known(&place, &plot.grid)?;
        if plot.x != "time" {
            parameter(&place, grid, &plot.x)?;
        }
        parameter(&place, grid, &plot.series)?;
        selection(&place, grid, &plot.only)
    }

    fn check_fact(&self, fact: &Fact) -> Result<(), ExperimentError> {
        let place = format!("fact {}", fact.id);
        match (&fact.cannot, fact.check.is_empty()) {
            (None, true) => {
                return wrong(&place, "it has no check: add one, or set cannot to the reason");
            }
            (Some(_), false) => {
                return wrong(&place, "it has both check and cannot: remove one of them");
            }
            (None, false) | (Some(_), true) => {}
        }
        fact.check.iter().try_for_each(|check| self.check_check(&place, check))
    }

    fn check_check(&self, place: &str, check: &Check) -> Result<(), ExperimentError> {
        let grid = self.known(place, &check.grid)?;
        let right = match &check.right_grid {
            Some(name) => self.known(place, name)?,
            None => grid,
        };
        selection(place, grid, &check.only)?;
        selection(place, grid, &check.left)?;
        selection(place, right, &check.right)?;
        if let Some(along) = &check.along {
            parameter(place, grid, along)?;
        }
        let sides = !check.right.is_empty()
            || check.right_grid.is_some()
            || check.right_metric.is_some()
            || check.value.is_some();
        match check.is {
            Relation::Greater
            | Relation::Less
            | Relation::Equal
            | Relation::Most
            | Relation::Least
                if !sides =>
            {
                wrong(place, "there is no right side: set right, right_grid, right_metric or value")
            }
            Relation::Grows | Relation::Falls | Relation::Peaks if check.along.is_none() => wrong(
                place,
                "a trend or a peak needs an axis: set along to a parameter of the grid",
            ),
            Relation::Peaks if check.between.is_none() => {
                wrong(place, "a peak needs an interval: set between = [least, greatest]")
            }
            Relation::Greater
            | Relation::Less
            | Relation::Equal
            | Relation::Most
            | Relation::Least
            | Relation::Grows
            | Relation::Falls
            | Relation::Flat
            | Relation::Peaks => Ok(()),
        }
    }

    fn known(&self, place: &str, grid: &str) -> Result<&Grid, ExperimentError> {
        match self.grid(grid) {
            Some(grid) => Ok(grid),
            None => wrong(place, unknown("grid", grid, self.grid.iter().map(|grid| &grid.name))),
        }
    }
}

fn check_grid(grid: &Grid) -> Result<(), ExperimentError> {
    let place = format!("grid {}", grid.name);
    if grid.seeds == 0 || grid.quick.seeds == Some(0) {
        return wrong(&place, "seeds = 0 makes no runs: use at least 1");
    }
    if grid.tool == Tool::Check && (grid.seeds > 1 || grid.quick.seeds.is_some()) {
        return wrong(&place, "kgate check has no seeds: remove them");
    }
    let mut varied = BTreeSet::new();
    for (name, levels) in &grid.vary {
        if levels.is_empty() {
            return wrong(&place, format!("{name} has no values: add some, or remove it"));
        }
        once(&place, &format!("value of {name}"), levels.iter().map(|level| &level.label().0))?;
        let flags: BTreeSet<&String> = levels.iter().flat_map(|level| flags(name, level)).collect();
        for flag in flags {
            if !varied.insert(flag) {
                return wrong(
                    &place,
                    format!("two parameters set --{flag}: remove it from one of them"),
                );
            }
        }
        if grid.set.contains_key(name) || grid.quick.set.contains_key(name) {
            return wrong(
                &place,
                format!("{name} is in both set and vary: remove it from one of them"),
            );
        }
    }
    let given = grid.set.keys().chain(grid.quick.set.keys()).chain(varied);
    if let Some(flag) = given.into_iter().find(|flag| NOT_FOR_RUNS.contains(&flag.as_str())) {
        let what = match flag.as_str() {
            "seed" | "runs" => "the laboratory sets the seeds: use seeds = ..",
            _ => "it does not change what is run: remove it",
        };
        return wrong(&place, format!("--{flag}: {what}"));
    }
    for (name, words) in &grid.quick.vary {
        if words.is_empty() {
            return wrong(&place, format!("quick.vary has no values of {name}: add some"));
        }
        parameter(&place, grid, name)?;
        words.iter().try_for_each(|word| level(&place, grid, name, word))?;
    }
    Ok(())
}

/// The flags of one value of a parameter.
fn flags<'a>(name: &'a String, level: &'a Level) -> Vec<&'a String> {
    match level {
        Level::Plain(_) => vec![name],
        Level::Named { flags, .. } => flags.keys().collect(),
    }
}

fn selection(place: &str, grid: &Grid, selection: &Selection) -> Result<(), ExperimentError> {
    for (name, words) in selection {
        parameter(place, grid, name)?;
        words.0.iter().try_for_each(|word| level(place, grid, name, word))?;
    }
    Ok(())
}

fn parameter(place: &str, grid: &Grid, name: &str) -> Result<(), ExperimentError> {
    if grid.vary.contains_key(name) {
        return Ok(());
    }
    let of = format!("{} of grid {}", unknown("parameter", name, grid.vary.keys()), grid.name);
    wrong(place, of)
}

fn level(place: &str, grid: &Grid, name: &str, word: &Word) -> Result<(), ExperimentError> {
    let mut levels = grid.vary.get(name).into_iter().flatten().map(|level| &level.label().0);
    if levels.any(|label| *label == word.0) {
        return Ok(());
    }
    let levels = grid.vary.get(name).into_iter().flatten().map(|level| &level.label().0);
    wrong(place, format!("{} of {name} in grid {}", unknown("value", &word.0, levels), grid.name))
}

/// Checks a name that becomes the name of a folder or file.
fn file_name(place: &str, name: &str) -> Result<(), ExperimentError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if !name.is_empty() && name.chars().all(fine) {
        return Ok(());
    }
    wrong(
        place,
        format!("the name '{name}' becomes a file name: use only letters, digits, - and _"),
    )
}

fn once<'a>(
    place: &str,
    what: &str,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<(), ExperimentError> {
    let mut seen = BTreeSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(twice) => {
            wrong(place, format!("{what} '{twice}' is defined twice: rename or remove one"))
        }
        None => Ok(()),
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a String>) -> String {
    let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
    let known = if known.is_empty() { "none".into() } else { known.join(", ") };
    format!("there is no {what} '{name}': choose one of {known}")
}

fn wrong<T>(place: impl Display, what: impl Into<String>) -> Result<T, ExperimentError> {
    Err(ExperimentError::Wrong { place: place.to_string(), what: what.into() })
}
