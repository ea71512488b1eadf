//! `kgate run`: a command that runs while, and only while, a permit is held (LEASES section 5).
//!
//! ```text
//! front --starts--> guard --starts--> stage --becomes--> CMD
//!     \_______________/
//!   shared cell with the deadline D
//! ```
//!
//! The front has the terminal, the signals and the exit code. The guard holds the permit.
//!
//! Front and guard each end CMD and all its descendants before D without the other, so a frozen or
//! killed wrapper leaves no running child behind. `unsafe` is forbidden, so nothing forks: each
//! process is this binary, started again with a hidden subcommand that `main` checks first.

mod alarm;
mod channel;
mod deadline_cell;
pub(crate) mod exit;
mod find;
mod front;
mod guard;
pub(crate) mod hold;
pub(crate) mod keeper;
pub(crate) mod lease_clock;
pub(crate) mod margins;
mod messages;
pub(crate) mod options;
mod signals;
mod stage;
mod sweep;
mod terminal;
mod tree;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;

use clap::ArgMatches;

use find::Missing;
pub(crate) use front::EarlyGuard;
use keeper::{AcquireRequest, OpenKeeper};
use options::{RunArgs, UsageError};

/// Runs the part of `kgate run` that this process was started as, if any.
pub(crate) fn hidden(arguments: &[OsString], open: OpenKeeper) -> Option<ExitCode> {
    let (name, rest) = arguments.get(1..)?.split_first()?;
    match name.to_str()? {
        "guard" => Some(guard::main(rest, open)),
        "stage" => Some(stage::main(rest)),
        "hold" => Some(hold::main()),
        _ => None,
    }
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
    let words = args.command.iter().skip(hidden).map(|word| word.to_string_lossy());
    let request = AcquireRequest {
        command: words.collect::<Vec<_>>().join(" "),
        ..args.acquire.request(given)?
    };
    let name = args.command.first().map(OsString::as_os_str).unwrap_or_default();
    if let Err(missing) = find::find(name) {
        if let Some(guard) = guard {
            guard.dismiss();
        }
        return Ok(report_missing(name, missing));
    }
    let plan = front::RunPlan {
        request,
        command: args.command,
        busy_code: args.acquire.conflict_exit_code,
        verbose: args.acquire.verbose,
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

/// Prints a message. A closed standard error must not change the exit code.
fn print_message(text: &str) {
    let _closed = writeln!(std::io::stderr(), "kgate: {text}");
}
