//! `kgate sim --swarm`: many random settings, each generated from a seed.

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

/// Default of `--seeds`.
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
        // Print before saving: a full disk must not lose a finding.
        if !args.json {
            print(&mut stdout, &summary, &folder)?;
            stdout.flush()?;
        }
        report_failures(&summary);
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

/// The protocols to run: the named one, or all; with `--as-printed`, all that have this defect.
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

/// Runs `work` without the default panic message: the swarm catches panics and reports them itself.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let done = work();
    std::panic::set_hook(usual);
    done
}

/// Prints the progress if stderr is a terminal.
fn progress(entry: &'static Entry, seeds: u64) -> impl Fn(u64) + Sync {
    let watched = io::stderr().is_terminal();
    move |done| {
        if watched && (done.is_multiple_of(16) || done == seeds) {
            let end = if done == seeds { "\r\x1b[K" } else { "" };
            eprint!("\r{} {done} of {seeds}{end}", entry.name);
        }
    }
}

/// Rejects a path that is not a directory or cannot be created; leaves no new directory behind.
fn check_folder(folder: &Path) -> Result<(), Failure> {
    let rejected = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "cannot save to {}: {why}; give another directory to --save",
            folder.display()
        ))
    };
    if folder.is_dir() {
        return Ok(());
    }
    if folder.symlink_metadata().is_ok() {
        return Err(rejected(&"not a directory"));
    }
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err())
        .collect();
    let made = fs::create_dir_all(folder);
    for path in missing {
        let _ = fs::remove_dir(path); // A swarm without failures leaves no directory.
    }
    made.map_err(|error| rejected(&error))
}

/// Writes each failure to its file.
fn save(folder: &Path, summary: &Summary) -> Result<(), Failure> {
    for failure in &summary.failures {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the directory {}", folder.display()))?;
        let file = folder.join(failure.file_name());
        fs::write(&file, failure.file_text())
            .with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("saved as {}", file.display());
    }
    Ok(())
}

/// One line per protocol, and one per violated property.
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
        (0, None) => "PASS".into(),
        (0, Some(why)) => format!("NOTHING SHOWN: {why}; give more --seeds"),
        (wrong, _) => format!("FAIL: {wrong} runs"),
    };
    writeln!(
        to,
        "{:<12} {} runs, {} grants{}, {faults}; all k slots in use in {} runs; {verdict}",
        summary.protocol,
        tally.runs,
        tally.grants,
        ended.concat(),
        tally.full
    )?;
    for failure in &summary.failures {
        writeln!(
            to,
            "  {} seeds violate: {} (seed {:#x}, shrunk in {} runs): {}",
            failure.seeds,
            failure.property,
            failure.seed,
            failure.shrunk_in_runs,
            folder.join(failure.file_name()).display()
        )?;
    }
    Ok(())
}

fn report_failures(summary: &Summary) {
    for failure in &summary.failures {
        eprintln!("kgate: {}: {}", summary.protocol, failure.text);
        eprintln!("REPRODUCE WITH: {}", failure.command);
    }
    if let (0, Some(why)) = (summary.wrong, summary.nothing_shown()) {
        eprintln!("kgate: {}: this run shows nothing: {why}; give more --seeds", summary.protocol);
    }
}
