//! A run of an experiment is a command line, parsed by the parser of the command itself.

use clap::{CommandFactory, FromArgMatches};
use kgate_lab::experiment::{Flags, Ran};

use crate::cli::{Cli, Command};
use crate::{Failure, check, sim};

/// Makes a run without output.
pub(super) fn run(words: &[String]) -> Result<Ran, String> {
    let words = std::iter::once("kgate").chain(words.iter().map(String::as_str));
    // Without environment variables: an experiment depends on its file alone.
    let matches = Cli::command().try_get_matches_from(words).map_err(|error| first_line(&error))?;
    let command = Cli::from_arg_matches(&matches).map_err(|error| first_line(&error))?.command;
    let (_, given) = matches.subcommand().expect("a command was matched");
    #[allow(clippy::wildcard_enum_match_arm)] // All other commands.
    let measured = match command {
        Command::Sim(args) => sim::measure(&args, given),
        Command::Check(args) => check::measure(&args, given),
        _ => return Err("an experiment runs only kgate sim and kgate check".into()),
    };
    match measured {
        Ok((report, correct)) => Ok(Ran { report, correct }),
        Err(Failure::Usage(text) | Failure::Exit(_, text)) => Err(text),
        Err(Failure::Internal(error)) => Err(format!("{error:#}")),
        Err(Failure::OutputClosed) => Err("the output was closed".into()),
    }
}

/// The flags that experiments can give.
pub(super) fn flags() -> Flags {
    let of = |name: &str| {
        let root = Cli::command();
        let command = root.find_subcommand(name).expect("kgate has it");
        command.get_arguments().filter_map(|flag| flag.get_long()).map(String::from).collect()
    };
    Flags { sim: of("sim"), check: of("check") }
}

/// The error message without the usage that follows.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
