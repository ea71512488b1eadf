//! `kgate sim --swarm`: many settings, each drawn from a seed.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::ArgMatches;
use kgate_lab::swarm::{self, Summary, Swarm};
use kgate_protocols::registry::{self, ENTRIES, Entry};

use super::conflicts;
use super::options::SimArgs;
use crate::{Failure, Outcome};

/// How many seeds, unless told.
const SEEDS: u64 = 1000;

pub(crate) fn run(args: &SimArgs, given: &ArgMatches) -> Outcome {
    conflicts::check_swarm(given)?;
    let folder = args.save.clone().unwrap_or_else(|| PathBuf::from("verification/seeds"));
    check_folder(&folder)?;
    let mut stdout = io::stdout().lock();
    let mut summaries = Vec::new();
    for entry in entries(args, given)? {
        let swarm = Swarm {
            entry,
            first: args.seed,
            seeds: args.seeds.unwrap_or(SEEDS),
            as_printed: args.as_printed.as_deref(),
            checker: swarm::check,
        };
        let summary = quietly(|| swarm.run(&progress(entry, swarm.seeds)));
        // What was found is told before it is saved: a disk that is full loses no finding.
        if !args.json {
            print(&mut stdout, &summary, &folder)?;
            stdout.flush()?;
        }
        complain(&summary);
        summaries.push(summary);
    }
    if args.json {
        let text = serde_json::to_string_pretty(&serde_json::json!({ "swarm": summaries }));
        writeln!(stdout, "{}", text.context("printing JSON")?)?;
    }
    stdout.flush()?;
    for summary in &summaries {
        save(&folder, summary)?;
    }
    let good = summaries.iter().all(Summary::succeeded);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Those asked for: one, or all; of all, those that have the defect which is to run as printed.
fn entries(args: &SimArgs, given: &ArgMatches) -> Result<Vec<&'static Entry>, Failure> {
    let usage = |error: registry::UnknownName| Failure::Usage(error.to_string());
    let all = args.protocol == "all" || !conflicts::typed(given, "protocol");
    if !all {
        let entry = registry::entry(&args.protocol).map_err(usage)?;
        if let Some(id) = &args.as_printed {
            entry.as_printed(id).map_err(usage)?;
        }
        return Ok(vec![entry]);
    }
    let has =
        |entry: &&Entry| args.as_printed.as_ref().is_none_or(|id| entry.as_printed(id).is_ok());
    let entries: Vec<&Entry> = ENTRIES.iter().filter(has).collect();
    match &args.as_printed {
        Some(id) if entries.is_empty() => Err(Failure::Usage(format!(
            "'{id}' is not a published defect of any protocol: `kgate protocols` lists them"
        ))),
        _ => Ok(entries),
    }
}

/// A broken invariant is a panic that the swarm catches and tells in its own words.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let done = work();
    std::panic::set_hook(usual);
    done
}

/// How far it is, for whoever watches.
fn progress(entry: &'static Entry, seeds: u64) -> impl Fn(u64) + Sync {
    let watched = io::stderr().is_terminal();
    move |done| {
        if watched && (done.is_multiple_of(16) || done == seeds) {
            let end = if done == seeds { "\r\x1b[K" } else { "" };
            eprint!("\r{} {done} of {seeds}{end}", entry.name);
        }
    }
}

/// Refuses a folder that is none, or that cannot be made; leaves behind nothing that was not there.
fn check_folder(folder: &Path) -> Result<(), Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "cannot save to {}: {why}; give --save another folder",
            folder.display()
        ))
    };
    if folder.is_dir() {
        return Ok(());
    }
    if folder.symlink_metadata().is_ok() {
        return Err(refused(&"it is no folder"));
    }
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err())
        .collect();
    let made = fs::create_dir_all(folder);
    for path in missing {
        let _ = fs::remove_dir(path); // Only if empty: a swarm that finds nothing makes no folder.
    }
    made.map_err(|error| refused(&error))
}

/// Writes each failure to its file.
fn save(folder: &Path, summary: &Summary) -> Result<(), Failure> {
    for failure in &summary.failures {
        fs::create_dir_all(folder)
            .with_context(|| format!("making the folder {}", folder.display()))?;
        let file = folder.join(failure.file_name());
        fs::write(&file, failure.file_text())
            .with_context(|| format!("writing {}", file.display()))?;
        eprintln!("saved as {}", file.display());
    }
    Ok(())
}

/// A line a protocol, and one for each property that does not hold.
fn print(to: &mut impl Write, summary: &Summary, folder: &Path) -> io::Result<()> {
    let tally = &summary.tally;
    let faults: Vec<String> = tally
        .faults()
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let ended: Vec<String> = tally
        .ended()
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(how, count)| format!(", {count} {how}"))
        .collect();
    let faults = if faults.is_empty() { "no faults".into() } else { faults.join(", ") };
    let verdict = match (summary.wrong, summary.nothing_shown()) {
        (0, None) => "all correct".into(),
        (0, Some(why)) => format!("NOTHING SHOWN: {why}; give more --seeds"),
        (wrong, _) => format!("{wrong} NOT CORRECT"),
    };
    writeln!(
        to,
        "{:<12} {} runs, {} grants{}, {faults}; k inside in {} runs; {verdict}",
        summary.protocol,
        tally.runs,
        tally.grants,
        ended.concat(),
        tally.full
    )?;
    for failure in &summary.failures {
        writeln!(
            to,
            "  {} of them: {} (seed {:#x}, shrunk in {} runs): {}",
            failure.seeds,
            failure.property,
            failure.seed,
            failure.shrunk_in_runs,
            folder.join(failure.file_name()).display()
        )?;
    }
    Ok(())
}

fn complain(summary: &Summary) {
    for failure in &summary.failures {
        eprintln!("kgate: {}: {}", summary.protocol, failure.text);
        eprintln!("REPRODUCE WITH: {}", failure.command);
    }
    if let (0, Some(why)) = (summary.wrong, summary.nothing_shown()) {
        eprintln!("kgate: {}: nothing was shown, since {why}: give more --seeds", summary.protocol);
    }
}
