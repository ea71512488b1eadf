//! The program `kgate`: the commands that are started often, and nothing else, so that it is small.
//! For all others, for help and for a command line that is wrong, it becomes `kgate-full`.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{ArgMatches, Args, FromArgMatches};

use crate::run::EarlyGuard;
use crate::run::options::{AcquireArgs, ReleaseArgs, RunArgs};
use crate::{Outcome, check_node, companion, keeper, permits, run, run_command, variables};

/// The program `kgate`.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // A process that was started as /proc/self/exe would be called `exe` by `ps`.
    let _unnamed = rustix::thread::set_name(c"kgate");
    if let Some(code) = run::hidden(&arguments) {
        return code;
    }
    // First: it forks, and that takes one thread.
    let mut guard = EarlyGuard::start(&arguments, keeper::open);
    let Some(command) = Command::parse(&arguments) else {
        guard.take().into_iter().for_each(EarlyGuard::dismiss);
        return crate::end(Err(companion::become_full(&arguments)));
    };
    crate::end(variables::check().and_then(|()| command.execute(guard)))
}

/// A command of this program.
enum Command {
    Run(Box<RunArgs>, ArgMatches),
    Acquire(Box<AcquireArgs>, ArgMatches),
    Renew(permits::RenewArgs, ArgMatches),
    Release(ReleaseArgs, ArgMatches),
    Version,
}

impl Command {
    /// None for a command of `kgate-full`, and for a command line that is wrong or asks for help.
    fn parse(arguments: &[OsString]) -> Option<Self> {
        let words = arguments.get(1..)?;
        Some(match words.first()?.to_str()? {
            "run" => parse_alone(words).map(|(args, given)| Self::Run(Box::new(args), given))?,
            "acquire" => {
                parse_alone(words).map(|(args, given)| Self::Acquire(Box::new(args), given))?
            }
            "renew" => parse_alone(words).map(|(args, given)| Self::Renew(args, given))?,
            "release" => parse_alone(words).map(|(args, given)| Self::Release(args, given))?,
            "version" | "--version" | "-V" if words.len() == 1 => Self::Version,
            _ => return None,
        })
    }

    fn execute(self, guard: Option<EarlyGuard>) -> Outcome {
        match self {
            Self::Run(args, given) => run_command(*args, &given, guard),
            Self::Acquire(args, given) => {
                check_node(&given).and_then(|()| permits::acquire(&args, &given))
            }
            Self::Renew(args, given) => check_node(&given).and_then(|()| permits::renew(&args)),
            Self::Release(args, given) => check_node(&given).and_then(|()| permits::release(&args)),
            Self::Version => version(),
        }
    }
}

/// Parses a subcommand alone, because the definitions of all others take longer than everything
/// else that the start of `kgate run` does.
fn parse_alone<A: Args + FromArgMatches>(words: &[OsString]) -> Option<(A, ArgMatches)> {
    let name = words.first()?.to_str()?.to_owned();
    let command = variables::read_alone(A::augment_args(clap::Command::new(name)));
    let given = command.try_get_matches_from(words).ok()?;
    Some((A::from_arg_matches(&given).ok()?, given))
}

/// The same text as that of `kgate --version`.
pub(crate) fn version() -> Outcome {
    writeln!(std::io::stdout(), "kgate {}", env!("CARGO_PKG_VERSION"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::{self, Cli};

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    /// A command is the same, whichever program parses it.
    #[test]
    #[allow(clippy::wildcard_enum_match_arm)] // The other commands are in one program only.
    fn a_command_is_the_same_in_both_programs() {
        let run = "kgate run gpu -k 3 -p 2 -w 1s --node unix:/x --grace 2s -v -- make -j 4";
        let acquire = "kgate acquire gpu --names a,b --ttl 10m --for-pid none --json";
        let release = "kgate release permit-1-2 --node https://a:1 --ca ca.pem";
        for line in [run, acquire, "kgate renew permit-1-2 --node unix:/x", release] {
            let alone = match Command::parse(&words(line)).expect("a valid command line") {
                Command::Run(args, given) => {
                    assert!(given.value_source("wait").is_some());
                    format!("{args:?}")
                }
                Command::Acquire(args, _) => format!("{args:?}"),
                Command::Renew(args, _) => format!("{args:?}"),
                Command::Release(args, _) => format!("{args:?}"),
                Command::Version => panic!("{line}"),
            };
            let whole = match Cli::parse_from(words(line)).command {
                cli::Command::Run(args) => format!("{args:?}"),
                cli::Command::Acquire(args) => format!("{args:?}"),
                cli::Command::Renew(args) => format!("{args:?}"),
                cli::Command::Release(args) => format!("{args:?}"),
                other => panic!("{other:?}"),
            };
            assert_eq!(alone, whole, "{line}");
        }
    }

    /// Every other command line is for `kgate-full`: other commands, help, and what is wrong.
    #[test]
    fn other_command_lines_are_for_the_other_program() {
        for line in [
            "kgate",
            "kgate status",
            "kgate help run",
            "kgate run gpu",
            "kgate run --help",
            "kgate run -k x g -- a",
            "kgate acquire",
            "kgate renew",
            "kgate release --help",
            "kgate version x",
            "kgate --help",
        ] {
            assert!(Command::parse(&words(line)).is_none(), "{line}");
        }
    }

    /// Both programs print the same version.
    #[test]
    fn the_version_is_the_same_in_both_programs() {
        let shown = Cli::command().render_version();
        assert_eq!(shown, format!("kgate {}\n", env!("CARGO_PKG_VERSION")));
    }
}
