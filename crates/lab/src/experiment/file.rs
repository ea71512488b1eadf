//! An experiment as a file: which runs, which plots, which published facts. All of it can be read
//! and changed without knowing Rust.
//!
//! A run is a command line of `kgate sim` (or `kgate check`), so a grid is flags: those that stay
//! (`set`) and those that vary (`vary`), by their long names. What a run measured is named by its
//! path in the JSON that the same command prints with `--json`, as in `obtaining.mean`,
//! `messages.by_kind.tree` or `slots_in_use.series.57`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// A scalar of the file, as it stands on a command line: `8`, `0.5`, `high`, `true`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "Scalar")]
pub struct Word(pub String);

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Truth(bool),
    Whole(i64),
    Part(f64),
    Text(String),
}

impl From<Scalar> for Word {
    fn from(scalar: Scalar) -> Self {
        Self(match scalar {
            Scalar::Truth(truth) => truth.to_string(),
            Scalar::Whole(number) => number.to_string(),
            Scalar::Part(number) => number.to_string(),
            Scalar::Text(text) => text,
        })
    }
}

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name, as on the command line; the file is called so too.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Whose results are looked at; none if it is our own question.
    pub paper: Option<String>,
    /// The setting and how we read what the paper leaves open. Paragraphs are divided by empty
    /// lines.
    pub about: String,
    /// What is run.
    pub grid: Vec<Grid>,
    /// What is drawn.
    #[serde(default)]
    pub plot: Vec<Plot>,
    /// What was published, and how it is compared with what was measured.
    #[serde(default)]
    pub fact: Vec<Fact>,
    /// What of it was run: `--quick` and `--set`. It stands on top of the file that is kept with
    /// the results, so that this file run again gives the same.
    #[serde(default)]
    pub taken: Taken,
    /// The file as it was read.
    #[serde(skip)]
    pub text: String,
}

/// What of an experiment is run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Taken {
    /// Fewer seeds and values.
    pub quick: bool,
    /// Flags with the values that they get instead of the file's own; several make a parameter that
    /// varies.
    pub set: BTreeMap<String, Vec<Word>>,
}

/// Runs for all combinations of the values that vary, each with several seeds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Its name within the experiment.
    pub name: String,
    /// Which command makes a run.
    #[serde(default)]
    pub tool: Tool,
    /// So many seeds, from 1 on, for each combination.
    #[serde(default = "one")]
    pub seeds: u32,
    /// Flags that are the same in every run; `true` stands for a flag without a value.
    #[serde(default)]
    pub set: BTreeMap<String, Word>,
    /// Parameters with their values. A value is a word for the flag of that name, or a table: its
    /// `label` names the value in tables and plots, and its other keys are flags.
    #[serde(default)]
    pub vary: BTreeMap<String, Vec<Level>>,
    /// What `--quick` takes instead: other seeds, other flags, fewer values.
    #[serde(default)]
    pub quick: Quick,
}

/// What `--quick` takes instead of a grid's own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quick {
    /// Seeds.
    pub seeds: Option<u32>,
    /// Flags that replace or join those of the grid.
    pub set: BTreeMap<String, Word>,
    /// Parameters whose values are fewer: each must be one of the grid's own.
    pub vary: BTreeMap<String, Vec<Word>>,
}

/// Which command makes a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// `kgate sim`.
    #[default]
    Sim,
    /// `kgate check`; it has no seed.
    Check,
}

/// A value of a parameter that varies.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// The value of the flag of the parameter's name.
    Plain(Word),
    /// Several flags under one name.
    Named {
        /// How it is called in tables and plots.
        label: Word,
        /// The flags that it stands for.
        #[serde(flatten)]
        flags: BTreeMap<String, Word>,
    },
}

impl Level {
    /// How it is called in tables and plots.
    pub fn label(&self) -> &Word {
        match self {
            Self::Plain(word) => word,
            Self::Named { label, .. } => label,
        }
    }
}

/// A plot: one metric over one parameter, a curve for each value of another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Its name; the file is called so.
    pub name: String,
    /// What stands above it.
    pub title: String,
    /// Which figure of the paper it answers to.
    pub figure: Option<String>,
    /// Of which grid.
    pub grid: String,
    /// The parameter of the horizontal axis; `time` draws the course of a `..series` metric
    /// instead.
    pub x: String,
    /// The metric of the vertical axis.
    pub y: String,
    /// The parameter with a curve for each of its values.
    pub series: String,
    /// What stands above the names of the curves, if not the parameter's own name.
    pub series_label: Option<String>,
    /// Which runs: each parameter named here has one of these values.
    #[serde(default)]
    pub only: Selection,
    /// What stands at the axes, with units.
    pub x_label: String,
    /// See there.
    pub y_label: String,
    /// Whether an axis is logarithmic.
    #[serde(default)]
    pub log_x: bool,
    /// See there.
    #[serde(default)]
    pub log_y: bool,
    /// A published curve beside ours, as (x, y).
    #[serde(default)]
    pub published: Vec<(f64, f64)>,
}

/// Runs by their parameters: each that is named has one of these values.
pub type Selection = BTreeMap<String, Words>;

/// One word or several.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMore")]
pub struct Words(pub BTreeSet<Word>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(Word),
    More(BTreeSet<Word>),
}

impl From<OneOrMore> for Words {
    fn from(words: OneOrMore) -> Self {
        Self(match words {
            OneOrMore::One(word) => BTreeSet::from([word]),
            OneOrMore::More(words) => words,
        })
    }
}

/// Something that was published.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// Its name, as in `L1`.
    pub id: String,
    /// Where it stands: a section, a figure, a theorem.
    pub place: String,
    /// What is claimed, in our words, with the published number if there is one.
    pub claim: String,
    /// How we read it, and what we found where it does not hold.
    pub remark: Option<String>,
    /// All of these must hold.
    #[serde(default)]
    pub check: Vec<Check>,
    /// Why it cannot be checked, if it cannot.
    pub cannot: Option<String>,
}

/// A comparison of what was measured, for every combination of parameters that `only`, `left` and
/// `right` leave open.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Of which grid.
    pub grid: String,
    /// Which metric.
    pub metric: String,
    /// Which runs.
    #[serde(default)]
    pub only: Selection,
    /// Which of them are on the left side.
    #[serde(default)]
    pub left: Selection,
    /// What must be so.
    pub is: Relation,
    /// What is on the right side: other runs at the same place ..
    #[serde(default)]
    pub right: Selection,
    /// .. of another grid, if not the same ..
    pub right_grid: Option<String>,
    /// .. or by another metric ..
    pub right_metric: Option<String>,
    /// .. or a number.
    pub value: Option<f64>,
    /// The right side counts so many times.
    #[serde(default = "once")]
    pub times: f64,
    /// How far sides that are equal may differ, as a share of the right one; how much a curve that
    /// is flat may vary; how much lower than a peak everything outside of it must be.
    #[serde(default)]
    pub within: f64,
    /// The axis of a trend or a peak.
    pub along: Option<String>,
    /// Where the peak is: the least and the greatest place.
    pub between: Option<(f64, f64)>,
    /// In how many of the compared places it must be so.
    #[serde(default)]
    pub how_often: HowOften,
}

/// What must be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Relation {
    /// Left is more than right.
    Greater,
    /// Left is less.
    Less,
    /// They are the same within `within`.
    Equal,
    /// Left is at most right.
    Most,
    /// Left is at least right.
    Least,
    /// It never falls by more than `within` of the value before, and is more at the end than at the
    /// beginning.
    Grows,
    /// The other way round.
    Falls,
    /// All values are within `within` of their mean.
    Flat,
    /// Its greatest value is between two places of the axis, and no value outside of them is within
    /// `within` of it.
    Peaks,
}

/// In how many of the compared places a relation must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HowOften {
    /// Everywhere.
    #[default]
    Always,
    /// In more than half.
    Mostly,
}

fn one() -> u32 {
    1
}
fn once() -> f64 {
    1.0
}
