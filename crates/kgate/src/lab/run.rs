//! `kgate lab run`.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use kgate_lab::experiment::run::{Done, Options};
use kgate_lab::experiment::{self, Experiment, Taken, builtin, results};

use super::{RunArgs, runner};
use crate::{Failure, Outcome};

pub(super) fn run(args: &RunArgs) -> Outcome {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options {
        jobs: args.jobs.map_or(cores, usize::from),
        shard: args.shard,
        quiet: false,
        again: args.again,
    };
    let flags = runner::flags();
    let mut wrong = 0;
    let mut total = 0.0;
    // Parse all experiments before the first run: a typo in the last one must show at once.
    let experiments = chosen(args)?;
    for experiment in &experiments {
        let dir = args.out.join(&experiment.name);
        #[allow(clippy::disallowed_methods)] // How long it took, for people; it goes into no table.
        let start = Instant::now();
        let done = experiment::run::run(&dir, experiment, &flags, options, &runner::run)?;
        wrong += done.wrong.len();
        let seconds = start.elapsed().as_secs_f64();
        total += seconds;
        let report = dir.join(results::REPORT);
        writeln!(
            io::stdout(),
            "{}: {} in {seconds:.1} s; {}",
            experiment.name,
            summary(&done),
            report.display()
        )?;
    }
    if experiments.len() > 1 {
        writeln!(io::stdout(), "{} experiments in {total:.1} s", experiments.len())?;
    }
    if let Some(index) = results::write_index(&args.out)? {
        writeln!(io::stdout(), "all verdicts: {}", index.display())?;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The experiments of the command line, with `--quick` and `--set` applied.
fn chosen(args: &RunArgs) -> Result<Vec<Experiment>, Failure> {
    let taken = Taken::from_words(args.quick, &args.set)?;
    let mut names: Vec<&str> = Vec::new();
    for name in &args.experiments {
        match name.as_str() {
            "all" => names.extend(builtin::ALL.iter().map(|(name, _)| *name)),
            name => names.push(name),
        }
    }
    let mut experiments: Vec<Experiment> = Vec::new();
    for name in names {
        let experiment = builtin::load(name).map_err(Failure::Usage)?;
        if experiments.iter().any(|other| other.name == experiment.name) {
            return Err(Failure::Usage(format!(
                "{} is named twice: name it once",
                experiment.name
            )));
        }
        // A stored experiment keeps its own --quick and --set, unless others are given now.
        let same = taken == Taken::default();
        experiments.push(if same { experiment } else { experiment.taking(taken.clone()) });
    }
    Ok(experiments)
}

fn summary(done: &Done) -> String {
    let mut text = format!("{} runs, {} of them new", done.there, done.made);
    if done.there < done.all {
        text += &format!(", {} of other shards missing", done.all - done.there);
    }
    if !done.wrong.is_empty() {
        text += &format!(", {} NOT CORRECT", done.wrong.len());
    }
    text
}
