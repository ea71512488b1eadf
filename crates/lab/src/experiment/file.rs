//! An experiment as a file: its runs, its plots, and the published facts to check. All of it can be
//! read and changed without knowing Rust.
//!
//! A run is a command line of `kgate sim` (or `kgate check`), so a grid is a set of flags, by their
//! long names: those that are fixed (`set`) and those that vary (`vary`). A metric is named by its
//! path in the JSON that the same command prints with `--json`, as in `obtaining.mean`,
//! `messages.by_kind.tree` or `slots_in_use.series.57`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// A scalar of the file, as written on a command line: `8`, `0.5`, `high`, `true`.
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
    /// Its name on the command line; the file has the same name.
    pub name: String,
    /// One line for readers.
    pub title: String,
    /// The paper whose results are checked; none for a question of our own.
    pub paper: Option<String>,
    /// The setting, and our interpretation where the paper leaves a choice. Paragraphs are
    /// separated by empty lines.
    pub about: String,
    /// The runs.
    pub grid: Vec<Grid>,
    /// The plots.
    #[serde(default)]
    pub plot: Vec<Plot>,
    /// The published facts, and how they are compared with the measurements.
    #[serde(default)]
    pub fact: Vec<Fact>,
    /// The selection that was run: `--quick` and `--set`. It is written at the top of the copy of
    /// the file that is stored with the results, so that running this copy again gives the same
    /// results.
    #[serde(default)]
    pub taken: Taken,
    /// The text of the file.
    #[serde(skip)]
    pub text: String,
}

/// A selection of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Taken {
    /// Fewer seeds and values.
    pub quick: bool,
    /// Flags with the values that replace those of the file; several values make a varying
    /// parameter.
    pub set: BTreeMap<String, Vec<Word>>,
}

/// Runs for all combinations of the varying parameters, each with several seeds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Its name, unique within the experiment.
    pub name: String,
    /// The command that makes a run.
    #[serde(default)]
    pub tool: Tool,
    /// The number of seeds per combination, from 1 on.
    #[serde(default = "one")]
    pub seeds: u32,
    /// Flags that are the same in every run; `true` means a flag without a value.
    #[serde(default)]
    pub set: BTreeMap<String, Word>,
    /// Parameters with their values. A value is an argument of the flag with that name, or a table:
    /// its `label` is the name in tables and plots, and its other keys are flags.
    #[serde(default)]
    pub vary: BTreeMap<String, Vec<Level>>,
    /// The replacements for `--quick`: other seeds, other flags, fewer values.
    #[serde(default)]
    pub quick: Quick,
}

/// The replacements for `--quick`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quick {
    /// Fewer seeds than the grid has.
    pub seeds: Option<u32>,
    /// Flags that replace or join those of the grid.
    pub set: BTreeMap<String, Word>,
    /// Parameters with fewer values, each of which must be one of the grid's own.
    pub vary: BTreeMap<String, Vec<Word>>,
}

/// The command that makes a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// `kgate sim`.
    #[default]
    Sim,
    /// `kgate check`, which has no seed.
    Check,
}

/// A value of a varying parameter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// The value of the flag of the parameter's name.
    Plain(Word),
    /// Several flags under one name.
    Named {
        /// The name in tables and plots.
        label: Word,
        /// The flags.
        #[serde(flatten)]
        flags: BTreeMap<String, Word>,
    },
}

impl Level {
    /// The name in tables and plots.
    pub fn label(&self) -> &Word {
        match self {
            Self::Plain(word) => word,
            Self::Named { label, .. } => label,
        }
    }
}

/// A plot: one metric over one parameter, with a curve per value of another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Its name, and that of its file.
    pub name: String,
    /// The heading.
    pub title: String,
    /// The figure of the paper that it reproduces.
    pub figure: Option<String>,
    /// The grid.
    pub grid: String,
    /// The parameter of the horizontal axis; `time` draws a time series, whose metric ends with
    /// `.series`.
    pub x: String,
    /// The metric of the vertical axis.
    pub y: String,
    /// The parameter that has a curve per value.
    pub series: String,
    /// The heading of the legend, if not the name of the parameter.
    pub series_label: Option<String>,
    /// The runs that are shown: each parameter named here has one of these values.
    #[serde(default)]
    pub only: Selection,
    /// The label of the horizontal axis, with its unit.
    pub x_label: String,
    /// The label of the vertical axis, with its unit.
    pub y_label: String,
    /// Whether the horizontal axis is logarithmic.
    #[serde(default)]
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub log_y: bool,
    /// A published curve shown beside the measured ones, as (x, y).
    #[serde(default)]
    pub published: Vec<(f64, f64)>,
}

/// Selects runs by their parameters: each parameter named here has one of these values.
pub type Selection = BTreeMap<String, Words>;

/// One value or several.
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

/// A published fact.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// Its name, such as `L1`.
    pub id: String,
    /// Its place in the paper: a section, a figure, a theorem.
    pub place: String,
    /// The claim in our words, with the published number if there is one.
    pub claim: String,
    /// Our interpretation, and the explanation if the claim does not hold.
    pub remark: Option<String>,
    /// The checks, all of which must hold.
    #[serde(default)]
    pub check: Vec<Check>,
    /// Why the fact cannot be checked, if it cannot.
    pub cannot: Option<String>,
}

/// A comparison of measurements, for every combination of parameters that `only`, `left` and
/// `right` leave open.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The grid.
    pub grid: String,
    /// The metric.
    pub metric: String,
    /// The runs that are compared.
    #[serde(default)]
    pub only: Selection,
    /// The runs on the left side.
    #[serde(default)]
    pub left: Selection,
    /// The relation that must hold.
    pub is: Relation,
    /// The right side: other runs at the same place,
    #[serde(default)]
    pub right: Selection,
    /// of another grid, if not the same,
    pub right_grid: Option<String>,
    /// with another metric, if not the same,
    pub right_metric: Option<String>,
    /// or a number.
    pub value: Option<f64>,
    /// A factor for the right side.
    #[serde(default = "once")]
    pub times: f64,
    /// The tolerance, relative: how far equal sides may differ, how much a flat curve may vary, and
    /// how much lower than a peak all other values must be.
    #[serde(default)]
    pub within: f64,
    /// The axis of a trend or a peak.
    pub along: Option<String>,
    /// The interval of the peak on the axis: its lower and its upper end.
    pub between: Option<(f64, f64)>,
    /// In how many of the compared places the relation must hold.
    #[serde(default)]
    pub how_often: HowOften,
}

/// A relation between both sides, or a trend of the left side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Relation {
    /// Left is greater than right.
    Greater,
    /// Left is less than right.
    Less,
    /// Both sides are equal, up to `within`.
    Equal,
    /// Left is at most right.
    Most,
    /// Left is at least right.
    Least,
    /// The curve never falls by more than `within` of the previous value, and its last value is
    /// greater than its first.
    Grows,
    /// The opposite of `Grows`.
    Falls,
    /// All values are within `within` of their mean.
    Flat,
    /// The greatest value is inside the interval, and no value outside of it is within `within` of
    /// it.
    Peaks,
}

/// In how many of the compared places a relation must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HowOften {
    /// In all of them.
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
