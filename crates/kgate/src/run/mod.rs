//! `kgate run`: a command that runs while, and only while, a permit is held (LEASES section 5).
//!
//! ```text
//! front --forks--> guard --forks--> stage --becomes--> CMD
//!     \_______________/
//!   shared cell with the deadline D
//! ```
//!
//! The front has the terminal, the signals and the exit code. The guard holds the permit.
//!
//! Front and guard each end CMD and all its descendants before D without the other, so a frozen or
//! killed wrapper leaves no running child behind.

mod alarm;
mod caller;
mod channel;
mod deadline_cell;
mod early_command;
pub(crate) mod exit;
mod find;
mod fork;
mod front;
mod guard;
pub(crate) mod hold;
pub(crate) mod holder;
pub(crate) mod keeper;
pub(crate) mod lease_clock;
pub(crate) mod margins;
pub(crate) mod messages;
pub(crate) mod options;
mod signals;
mod stage;
mod sweep;
mod terminal;
pub(crate) mod waiting;
pub(crate) mod wanted;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use clap::ArgMatches;

pub(crate) use channel::INHERITED_MAX;
use find::Missing;
pub(crate) use front::EarlyGuard;
use keeper::{AcquireRequest, OpenKeeper};
use options::{RunArgs, UsageError};

/// Runs the holder of `kgate acquire`, if this process was started as one.
pub(crate) fn hidden(arguments: &[OsString]) -> Option<ExitCode> {
    arguments.get(1).is_some_and(|name| name == "hold").then(holder::main)
}

/// Refuses to run where `/proc` shows the processes of another namespace (`unshare --pid` without
/// `--mount-proc`): the descendants of the command could not be found there, and unrelated ones
/// would be taken for them.
pub(crate) fn check_proc() -> Result<(), String> {
    let shown = std::fs::read_link("/proc/self");
    let own = rustix::process::getpid().as_raw_nonzero().to_string();
    if shown.as_ref().is_ok_and(|shown| shown.as_os_str() == own.as_str()) {
        return Ok(());
    }
    let why = match shown {
        Ok(_) => "/proc shows the processes of another process namespace".to_owned(),
        Err(error) => format!("/proc cannot be read ({error})"),
    };
    Err(format!(
        "{why}, so kgate could not stop what the command leaves running: mount /proc first, for \
         example by `unshare --mount-proc`; no permit was requested"
    ))
}

/// `kgate run`, with the guard that was started before the command line was parsed.
pub(crate) fn run(
    args: RunArgs,
    given: &ArgMatches,
    guard: Option<EarlyGuard>,
    open: OpenKeeper,
) -> Result<ExitCode, UsageError> {
    // The status of `kgate acquire` shows the calling script, not the holder.
    let hidden = if args.detached { hold::HIDDEN_WORDS } else { 0 };
    let command = args.words();
    let request = AcquireRequest {
        command: shown(command.get(hidden..).unwrap_or_default()),
        once: args.once()?,
        reports_wait: waiting::is_shown(args.quiet, args.acquire.verbose, args.detached),
        ..args.acquire.request(given)?
    };
    let name = command.first().map(OsString::as_os_str).unwrap_or_default();
    if let Err(missing) = find::find(name) {
        if let Some(guard) = guard {
            guard.dismiss();
        }
        return Ok(report_missing(name, missing));
    }
    let plan = front::RunPlan {
        request,
        command,
        busy_code: args.acquire.conflict_exit_code,
        verbose: args.acquire.verbose,
        quiet: args.quiet,
        detached: args.detached,
    };
    let end = match front::run(plan, guard, open) {
        Ok(end) => end,
        Err(error) => return Ok(failed(&format!("cannot run the command: {error}"))),
    };
    let (code, text) = exit::of_end(&end);
    if let Some(text) = text {
        print_message(&text);
    }
    Ok(ExitCode::from(code))
}

/// The command as status queries show it. A command line may have two megabytes, of which a node
/// keeps no more than this.
fn shown(words: &[OsString]) -> String {
    let mut text = String::new();
    for word in words {
        if text.len() > kgate_node::core::Process::LONGEST {
            break;
        }
        let separator = if text.is_empty() { "" } else { " " };
        text.extend([separator, &word.to_string_lossy()]);
    }
    text.chars().take(kgate_node::core::Process::LONGEST).collect()
}

/// Becomes a command that runs under a permit of an ancestor: the ancestor's guard watches over it.
/// Returns only if it did not start.
pub(crate) fn become_command(
    command: &[OsString],
    variables: &[(String, String)],
    without: &[&str],
) -> ExitCode {
    let name = command.first().map(OsString::as_os_str).unwrap_or_default();
    if let Err(missing) = find::find(name) {
        return report_missing(name, missing);
    }
    let mut process = std::process::Command::new(name);
    process.args(&command[1..]).envs(variables.iter().map(|(name, value)| (name, value)));
    for name in without {
        process.env_remove(name);
    }
    let errno = process.exec().raw_os_error().unwrap_or(0);
    let (code, message) = messages::not_run(&name.to_string_lossy(), errno);
    print_message(&message);
    ExitCode::from(code)
}

fn report_missing(command: &OsStr, missing: Missing) -> ExitCode {
    let command = command.display();
    match missing {
        Missing::NotFound => {
            print_message(&format!(
                "cannot run {command}: command not found; no permit was requested"
            ));
            ExitCode::from(exit::NOT_FOUND)
        }
        Missing::NotExecutable => {
            print_message(&format!(
                "cannot run {command}: permission denied; no permit was requested"
            ));
            ExitCode::from(exit::NOT_RUN)
        }
    }
}

/// Prints an internal error, and returns its exit code.
fn failed(text: &str) -> ExitCode {
    print_message(text);
    ExitCode::from(exit::FAILED)
}

/// Closes standard output and error, so that a process that reads them to their end does not wait
/// for this one.
fn close_output() -> std::io::Result<()> {
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Prints a message, in which no text of another party is obeyed by a terminal. A closed standard
/// error must not change the exit code.
fn print_message(text: &str) {
    let text = crate::advice::advised(text);
    let _closed = writeln!(std::io::stderr(), "kgate: {}", kgate_api::printable_lines(&text));
}
