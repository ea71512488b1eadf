//! The points of a grid: every combination of its values and seeds, as the command line of the run.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{Experiment, Grid, Level, Taken, Tool, Word};
use super::parse::ExperimentError;

/// The long names of the flags of each command.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// The flags of `kgate sim`.
    pub sim: BTreeSet<String>,
    /// The flags of `kgate check`.
    pub check: BTreeSet<String>,
}

impl Flags {
    fn knows(&self, tool: Tool, flag: &str) -> bool {
        match tool {
            Tool::Sim => self.sim.contains(flag),
            Tool::Check => self.check.contains(flag),
        }
    }
}

/// A run that an experiment needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The grid.
    pub grid: String,
    /// The parameters with the labels of their values.
    pub at: BTreeMap<String, String>,
    /// The seed; 1 for a command that has none.
    pub seed: u64,
    /// The command line, without `kgate`.
    pub words: Vec<String>,
    /// Whether a published defect is switched on: then a violation is the expected result.
    pub as_printed: bool,
    /// Number of processes, if given: an estimate of how long the run takes.
    pub size: u64,
}

impl Point {
    /// The command line as a user types it.
    pub fn command(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        format!("kgate {}", words.join(" "))
    }

    /// A description for people: `low, processes = 8, protocol = raymond, seed 1`.
    pub fn name(&self) -> String {
        let at: Vec<String> =
            self.at.iter().map(|(name, label)| format!("{name} = {label}, ")).collect();
        format!("{}, {}seed {}", self.grid, at.concat(), self.seed)
    }
}

/// The runs of an experiment, with notes for the user.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Sorted by grid, then by parameter name, by value in the order of the file, and by seed.
    pub points: Vec<Point>,
    /// The values that `--set` replaced.
    pub notes: Vec<String>,
}

/// The plan of an experiment, with `--quick` and `--set` applied.
pub fn plan(experiment: &Experiment, flags: &Flags) -> Result<Plan, ExperimentError> {
    let mut plan = Plan::default();
    let mut used = BTreeSet::new();
    for grid in &experiment.grid {
        let mut grid = grid.clone();
        if experiment.taken.quick {
            shorten(&mut grid);
        }
        for (flag, words) in &experiment.taken.set {
            if let Some(note) = replace(&mut grid, flag, words, flags) {
                plan.notes.push(note);
                used.insert(flag);
            }
        }
        plan.points.extend(points(&grid));
        known(&grid, flags)?;
    }
    match experiment.taken.set.keys().find(|flag| !used.contains(flag)) {
        Some(flag) => Err(ExperimentError::Wrong {
            place: format!("--set {flag}"),
            what: "none of the commands of this experiment has such a flag: see kgate sim --help"
                .into(),
        }),
        None => Ok(plan),
    }
}

/// The number of runs of an experiment, with `--quick` or without.
pub fn count(experiment: &Experiment, quick: bool) -> usize {
    let of = |grid: &Grid| {
        let mut grid = grid.clone();
        if quick {
            shorten(&mut grid);
        }
        points(&grid).len()
    };
    experiment.grid.iter().map(of).sum()
}

impl Taken {
    /// Parses the values of `--set`: `FLAG=VALUE`, with or without dashes; n is short for
    /// processes.
    pub fn from_words(quick: bool, words: &[String]) -> Result<Self, ExperimentError> {
        let mut taken = Self { quick, ..Self::default() };
        for word in words {
            let Some((flag, value)) = word.split_once('=') else {
                return Err(ExperimentError::Wrong {
                    place: format!("--set {word}"),
                    what: "give a flag and its value, as in --set processes=500".into(),
                });
            };
            let flag = match flag.trim_start_matches('-') {
                "n" => "processes",
                long => long,
            };
            taken.set.entry(flag.into()).or_default().push(Word(value.into()));
        }
        Ok(taken)
    }
}

fn shorten(grid: &mut Grid) {
    if let Some(seeds) = grid.quick.seeds {
        grid.seeds = seeds;
    }
    grid.set.extend(grid.quick.set.clone());
    for (name, words) in &grid.quick.vary {
        if let Some(levels) = grid.vary.get_mut(name) {
            levels.retain(|level| words.contains(level.label()));
        }
    }
}

/// Sets a flag to other values, wherever the grid has it, and describes what they replace. None if
/// the grid's command does not have the flag.
fn replace(grid: &mut Grid, flag: &str, words: &[Word], flags: &Flags) -> Option<String> {
    let levels: Vec<Level> = words.iter().cloned().map(Level::Plain).collect();
    let values: Vec<&str> = words.iter().map(|word| word.0.as_str()).collect();
    let text = format!("grid {}: {flag} = {}", grid.name, values.join(", "));
    if let Some(old) = grid.vary.get_mut(flag) {
        let before: Vec<&str> = old.iter().map(|level| level.label().0.as_str()).collect();
        let note = format!("{text} instead of {}", before.join(", "));
        *old = levels;
        return Some(note);
    }
    if !flags.knows(grid.tool, flag) {
        return None;
    }
    let mut before = grid.set.remove(flag);
    for level in grid.vary.values_mut().flatten() {
        if let Level::Named { flags, .. } = level {
            before = flags.remove(flag).or(before);
        }
    }
    match words {
        [word] => drop(grid.set.insert(flag.into(), word.clone())),
        _ => drop(grid.vary.insert(flag.into(), levels)),
    }
    Some(match before {
        Some(word) => format!("{text} instead of {}", word.0),
        None => format!("{text}, which was not set before"),
    })
}

/// Rejects a flag that the command does not have before the first run.
fn known(grid: &Grid, flags: &Flags) -> Result<(), ExperimentError> {
    let varied = grid.vary.iter().flat_map(|(name, levels)| {
        levels.iter().flat_map(move |level| match level {
            Level::Plain(_) => vec![name],
            Level::Named { flags, .. } => flags.keys().collect(),
        })
    });
    match grid.set.keys().chain(varied).find(|flag| !flags.knows(grid.tool, flag)) {
        Some(flag) => Err(ExperimentError::Wrong {
            place: format!("grid {}", grid.name),
            what: format!(
                "kgate {0} has no flag --{flag}: see kgate {0} --help",
                command(grid.tool)
            ),
        }),
        None => Ok(()),
    }
}

fn command(tool: Tool) -> &'static str {
    match tool {
        Tool::Sim => "sim",
        Tool::Check => "check",
    }
}

/// A combination: one value per parameter.
type Chosen<'a> = Vec<(&'a String, &'a Level)>;

/// All combinations. The seed changes fastest, then the last parameter.
fn points(grid: &Grid) -> Vec<Point> {
    let mut combinations: Vec<Chosen<'_>> = vec![vec![]];
    for (name, levels) in &grid.vary {
        let mut longer = Vec::new();
        for chosen in &combinations {
            longer
                .extend(levels.iter().map(|level| [chosen.as_slice(), &[(name, level)]].concat()));
        }
        combinations = longer;
    }
    let seeds = 1..=u64::from(grid.seeds);
    combinations
        .iter()
        .flat_map(|chosen| seeds.clone().map(move |seed| point(grid, chosen, seed)))
        .collect()
}

fn point(grid: &Grid, chosen: &[(&String, &Level)], seed: u64) -> Point {
    let mut flags = grid.set.clone();
    for (name, level) in chosen {
        match level {
            Level::Plain(word) => drop(flags.insert((*name).clone(), word.clone())),
            Level::Named { flags: several, .. } => flags.extend(several.clone()),
        }
    }
    let mut words = vec![command(grid.tool).to_owned()];
    let mut ordered: Vec<(&String, &Word)> = flags.iter().collect();
    ordered.sort_by_key(|(flag, _)| {
        FIRST.iter().position(|first| first == flag).unwrap_or(FIRST.len())
    });
    for (flag, word) in ordered {
        match word.0.as_str() {
            "false" => {}
            "true" => words.push(format!("--{flag}")),
            value => words.extend([format!("--{flag}"), value.to_owned()]),
        }
    }
    if grid.tool == Tool::Sim {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    Point {
        grid: grid.name.clone(),
        at: chosen.iter().map(|(name, level)| ((*name).clone(), level.label().0.clone())).collect(),
        seed,
        words,
        as_printed: flags.contains_key("as-printed"),
        size: flags.get("processes").and_then(|word| word.0.parse().ok()).unwrap_or(0),
    }
}

/// The flags that are written first in a command.
const FIRST: [&str; 3] = ["protocol", "processes", "k"];

/// A word quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
