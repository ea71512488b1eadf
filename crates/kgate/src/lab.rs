//! `kgate lab`: experiments.

mod compare;
mod list;
mod merge;
mod report;
mod run;
mod runner;

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand};
use kgate_lab::experiment::results::ResultsError;
use kgate_lab::experiment::run::{RunError, Shard};
use kgate_lab::experiment::{ExperimentError, StoreError};

use crate::{Failure, Outcome};

pub(crate) const HELP: &str = "\
An experiment is a TOML file: grids of kgate sim command lines, plots of what they measured, and what was published about it. Those of \
the papers come with kgate; copy a file from experiments/, change it and run it in the same way. Each run, with its seed, hash and \
command, is in OUT/EXPERIMENT/runs.csv (and .parquet).

An experiment that was interrupted goes on where it was when the same command is given again, and its tables are the same to the byte. \
Exit codes: 0 done, 1 a run was not correct, 2 the experiment cannot be run as it is.

Examples:
  What there is, and how many runs each takes:
    kgate lab list
  All of it, quickly:
    kgate lab run all --quick
  One of them with other numbers:
    kgate lab run which-protocol --set n=500 --set k=10 --set latency=uniform=0.01..0.05 --out mine
  Split over four machines, and joined:
    kgate lab run vcube-2018 --shard 1/4 --out part1
    kgate lab merge part1 part2 part3 part4 --out whole
  What became of what was published, and who obtains fastest in the one with other numbers:
    kgate lab compare lab-out
    kgate lab compare mine --by obtaining.mean
  What differs between two results:
    kgate lab compare lab-out/vcube-2018 mine/vcube-2018";

#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// List the experiments that come with kgate
    List(ListArgs),
    /// Run an experiment, or go on with it, and write its tables, plots and report
    Run(RunArgs),
    /// Join the results of several shards
    Merge(MergeArgs),
    /// Show the verdicts on what was published, or who is best; or what differs between two results
    Compare(CompareArgs),
    /// Write summary, verdicts, plots and pages once more, from the runs as they are
    Report(ReportArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print one JSON object
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    json: bool,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Experiments by their names, `all` of them, or files of your own
    #[arg(value_name = "EXPERIMENT|FILE", required = true)]
    experiments: Vec<String>,
    /// Take the smaller sizes and fewer seeds that the experiment names for this
    #[arg(long)]
    quick: bool,
    /// Where the results go, in a folder for each experiment
    #[arg(long, value_name = "DIR", default_value = "lab-out")]
    out: PathBuf,
    /// How many runs at once [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Make all runs anew, also those that are there already
    #[arg(long)]
    again: bool,
    /// Make only every N-th run, beginning with the I-th: shares of the work for several machines
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Give a flag of the runs another value, wherever the experiment has it or its command knows
    /// it; given several times for one flag, it varies over these. n and k are short for processes
    /// and units
    #[arg(long, value_name = "FLAG=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, Args)]
struct MergeArgs {
    /// What the shards were told as --out, or a folder of one experiment in each
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Where the joined results go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// What was --out of a run, or the folder of one experiment in it
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Other results of the same experiments: shows what differs by more than the 95 % intervals
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,
    /// Rank by this metric, a column of runs.csv [default: obtaining.mean, where nothing was
    /// published]
    #[arg(long, value_name = "METRIC", conflicts_with = "other")]
    by: Option<String>,
    /// Of that metric, more is better
    #[arg(long, requires = "by")]
    most: bool,
    /// Print the verdicts as Markdown, as they stand in the book
    #[arg(long, conflicts_with_all = ["other", "by", "json"])]
    markdown: bool,
    /// Print one JSON object
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    json: bool,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// What was --out of a run, or the folder of one experiment in it
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(args: &LabArgs) -> Outcome {
    match &args.command {
        LabCommand::List(args) => list::run(args),
        LabCommand::Run(args) => run::run(args),
        LabCommand::Merge(args) => merge::run(args),
        LabCommand::Compare(args) => compare::run(args),
        LabCommand::Report(args) => report::run(args),
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Io { .. } => Self::Internal(error.into()),
            StoreError::Busy(_) | StoreError::Broken { .. } => Self::Usage(error.to_string()),
        }
    }
}

impl From<ResultsError> for Failure {
    fn from(error: ResultsError) -> Self {
        match error {
            ResultsError::Store(error) => error.into(),
            ResultsError::None(_) | ResultsError::Experiment { .. } => {
                Self::Usage(error.to_string())
            }
        }
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => error.into(),
            RunError::Experiment(_)
            | RunError::Refused { .. }
            | RunError::Changed { .. }
            | RunError::Threads(_) => Self::Usage(error.to_string()),
        }
    }
}
