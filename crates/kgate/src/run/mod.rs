//! `kgate run`: a command that runs while, and only while, a permit is held (LEASES section 5).
//!
//! ```text
//! front (terminal, signals, exit code) --starts--> guard (permit, renewals) --starts--> stage --becomes--> CMD
//!        \____________________ the page with the deadline D _____________/
//! ```
//!
//! Either of front and guard ends CMD and all its descendants before D by itself, so that a frozen
//! or killed wrapper leaves no running child behind. `unsafe` is forbidden, so nobody forks: each
//! process is this binary again, under a hidden name that is looked for before anything else is set
//! up.

mod alarm;
mod channel;
pub(crate) mod exit;
mod find;
mod front;
mod guard;
pub(crate) mod hold;
pub(crate) mod keeper;
pub(crate) mod lease_clock;
pub(crate) mod margins;
pub(crate) mod options;
mod page;
mod signals;
mod stage;
mod sweep;
mod terminal;
mod tree;
mod words;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;

use clap::ArgMatches;

use find::Missing;
pub(crate) use front::Bare;
use keeper::{OpenKeeper, Wish};
use options::RunArgs;

/// The parts of `kgate run`, if we were started as one of them.
pub(crate) fn hidden(arguments: &[OsString], open: OpenKeeper) -> Option<ExitCode> {
    let (name, rest) = arguments.get(1..)?.split_first()?;
    match name.to_str()? {
        "guard" => Some(guard::main(rest, open)),
        "stage" => Some(stage::main(rest)),
        "hold" => Some(hold::main()),
        _ => None,
    }
}

/// `kgate run`, with the guard that was started meanwhile. A command line that cannot be meant is
/// an error.
pub(crate) fn run(
    args: RunArgs,
    given: &ArgMatches,
    bare: Option<Bare>,
    open: OpenKeeper,
) -> Result<ExitCode, String> {
    // For `kgate acquire` people are told who has asked, not by what it is held.
    let unsaid = if args.detached { hold::UNSAID } else { 0 };
    let words = args.command.iter().skip(unsaid).map(|word| word.to_string_lossy());
    let wish = Wish { command: words.collect::<Vec<_>>().join(" "), ..args.ask.wish(given)? };
    let name = args.command.first().map(OsString::as_os_str).unwrap_or_default();
    if let Err(missing) = find::find(name) {
        if let Some(bare) = bare {
            bare.dismiss();
        }
        return Ok(not_there(name, missing));
    }
    let order = front::Order {
        wish,
        command: args.command,
        occupied_code: args.ask.conflict_exit_code,
        verbose: args.ask.verbose,
        detached: args.detached,
    };
    let end = match front::run(order, bare, open) {
        Ok(end) => end,
        Err(error) => return Ok(failed(&format!("cannot run the command: {error}"))),
    };
    let (code, text) = exit::of_end(&end);
    if let Some(text) = text {
        say(&text);
    }
    Ok(ExitCode::from(code))
}

fn not_there(command: &OsStr, missing: Missing) -> ExitCode {
    let command = command.display();
    match missing {
        Missing::NotFound => {
            say(&format!(
                "cannot run {command}: there is no such command; no permit was asked for"
            ));
            ExitCode::from(exit::NOT_FOUND)
        }
        Missing::NotExecutable => {
            say(&format!("cannot run {command}: it is not executable; no permit was asked for"));
            ExitCode::from(exit::NOT_RUN)
        }
    }
}

fn failed(text: &str) -> ExitCode {
    say(text);
    ExitCode::from(exit::FAILED)
}

/// Whoever reads our standard output or error to its end must not have to wait for us.
fn fall_silent() -> std::io::Result<()> {
    let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    Ok(())
}

/// Nobody may be listening. That must not change the exit code.
fn say(text: &str) {
    let _unheard = writeln!(std::io::stderr(), "kgate: {text}");
}
