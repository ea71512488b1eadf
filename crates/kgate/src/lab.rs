//! `kgate lab`: experiments.

mod compare;
mod list;
mod merge;
mod report;
mod run;
mod runner;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kgate_lab::experiment::results::ResultsError;
use kgate_lab::experiment::run::{RunError, Shard};
use kgate_lab::experiment::{ExperimentError, StoreError};

use crate::{Failure, Outcome};

pub(crate) const HELP: &str = "\
An experiment is a TOML file: grids of kgate sim command lines, plots of their measurements, and
published results to compare with. The experiments of the papers come with kgate. To make your own,
copy a file from experiments/, change it and run it in the same way. OUT/EXPERIMENT/runs.csv (and
.parquet) lists each run with its seed, hash and command.

The same command resumes an interrupted experiment; the resulting tables are the same to the byte.

Exit codes: 0 done; 1 a run was not correct; 2 the experiment is invalid.

Examples:
  List the experiments and the number of their runs:
    kgate lab list
  Run all of them, quickly:
    kgate lab run all --quick
  Run one of them with other numbers:
    kgate lab run which-protocol --set n=500 --set k=10 \\
        --set latency=uniform=0.01..0.05 --out mine
  Split the work over four machines, and merge the results:
    kgate lab run vcube-2018 --shard 1/4 --out part1
    kgate lab merge part1 part2 part3 part4 --out whole
  Show the verdicts on published results, and a ranking by obtaining time:
    kgate lab compare lab-out
    kgate lab compare mine --by obtaining.mean
  Show the differences between two results:
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
    /// Run or resume an experiment, and write its tables, plots and report
    Run(RunArgs),
    /// Merge the results of several shards
    Merge(MergeArgs),
    /// Show the verdicts on published results, a ranking, or the differences between two results
    Compare(CompareArgs),
    /// Write summary, verdicts, plots and reports again, from the existing runs
    Report(ReportArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Names of experiments, `all`, or files of your own
    #[arg(value_name = "EXPERIMENT|FILE", required = true)]
    experiments: Vec<String>,
    /// Use the smaller sizes and fewer seeds that the experiment defines for this
    #[arg(long)]
    quick: bool,
    /// Output directory, with a subdirectory per experiment
    #[arg(long, value_name = "DIR", default_value = "lab-out")]
    out: PathBuf,
    /// Number of parallel runs [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Repeat all runs, also those that exist already
    #[arg(long)]
    again: bool,
    /// Make only every N-th run, from the I-th on, to share the work between machines, e.g. 1/4
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Set a flag of the runs to another value, wherever the experiment or its command has it;
    /// repeated for one flag, the runs vary over the values. n is short for processes
    #[arg(long, value_name = "FLAG=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, Args)]
struct MergeArgs {
    /// The --out directories of the shards, or the directory of one experiment in each
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Output directory of the merged results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// The --out directory of a run, or the directory of one experiment in it
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Other results of the same experiments: show differences beyond the 95 % intervals
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,
    /// Rank by this metric, a column of runs.csv [default: obtaining.mean, for experiments without
    /// published results]
    #[arg(long, value_name = "METRIC", conflicts_with = "other")]
    by: Option<String>,
    /// Rank greater values of the metric first
    #[arg(long, requires = "by")]
    most: bool,
    /// Print the verdicts as Markdown, as in the book
    #[arg(long, conflicts_with_all = ["other", "by", "json"])]
    markdown: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// The --out directory of a run, or the directory of one experiment in it
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
