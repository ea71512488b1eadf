//! `kgate`, in two programs: `kgate` has the commands that are started often ([`quick()`]), and
//! becomes `kgate-full` ([`full()`]) for all others. The start and the end of a program take time
//! that grows with its size, and `kgate run` is often started for a command of milliseconds.
//!
//! Data goes to stdout, messages to stderr. Exit codes: 0: success; 1: a checked run is not
//! correct, or the named object does not exist; 2: usage error; 125: internal error. `run/exit.rs`
//! has the others.

mod advice;
mod bench;
mod certs;
mod check;
mod cli;
mod companion;
mod completions;
mod credentials;
mod demo;
mod evict;
mod full;
mod keeper;
mod lab;
mod local;
mod machine;
mod man;
mod members;
mod nested;
mod node;
mod node_arg;
mod parse;
mod permits;
mod protocols;
mod quick;
#[cfg(test)]
mod reference;
mod run;
mod runtime;
mod scenario;
mod service_manager;
mod set;
mod setup;
mod sim;
mod slots;
mod status;
mod trace;
mod variables;
mod waiting;
mod watch;

use std::process::ExitCode;

use clap::ArgMatches;
pub use full::main as full;
pub use quick::main as quick;
use run::options::RunArgs;

/// `kgate run`, with the guard that was started before the command line was parsed.
fn run_command(
    mut args: RunArgs,
    given: &ArgMatches,
    mut guard: Option<run::EarlyGuard>,
) -> Outcome {
    let proc = || run::check_proc().map_err(|text| Failure::Exit(run::exit::FAILED, text));
    let can_run = check_node(given).and_then(|()| proc());
    can_run.inspect_err(|_| guard.take().into_iter().for_each(run::EarlyGuard::dismiss))?;
    let node = find_node(args.acquire.node.named())?;
    let request = args.acquire.request(given)?;
    match nested::run(&args, &request, &node, &mut guard) {
        Ok(None) => {}
        done => {
            guard.into_iter().for_each(run::EarlyGuard::dismiss);
            return done.map(|code| code.unwrap_or(ExitCode::SUCCESS));
        }
    }
    args.acquire.node = node_arg::NodeArg::at(node);
    Ok(run::run(args, given, guard, keeper::open)?)
}

fn check_node(given: &ArgMatches) -> Result<(), Failure> {
    node_arg::NodeArg::check(given).map_err(|text| Failure::Usage(text.to_owned()))
}

/// The named node, or the one of this machine or user, which is started if necessary.
fn find_node(named: Option<&str>) -> Result<String, Failure> {
    local::node(named).map_err(|error| Failure::Exit(run::exit::UNAVAILABLE, format!("{error:#}")))
}

/// The exit code of a program. Says why a command has failed.
fn end(done: Outcome) -> ExitCode {
    let (code, text) = match done {
        Ok(code) => return code,
        Err(Failure::OutputClosed) => return ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => (run::exit::USAGE, text),
        Err(Failure::Exit(code, text)) => (code, text),
        Err(Failure::Internal(error)) => (run::exit::FAILED, format!("{error:#}")),
    };
    status::say(&text);
    ExitCode::from(code)
}

/// Why a command failed.
enum Failure {
    /// Usage error: the command line is invalid, or contradicts what it refers to.
    Usage(String),
    /// The node refused, or cannot be reached: the exit code says which, and the message why.
    Exit(u8, String),
    /// The reader of the output has closed it. The command ends without a message.
    OutputClosed,
    /// The command is valid and could not be carried out.
    Internal(anyhow::Error),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Failure::OutputClosed
        } else {
            Failure::Internal(error.into())
        }
    }
}

impl From<run::options::UsageError> for Failure {
    fn from(error: run::options::UsageError) -> Self {
        Failure::Usage(error.to_string())
    }
}

impl From<kgate_client::Error> for Failure {
    fn from(error: kgate_client::Error) -> Self {
        Failure::Exit(run::exit::of_error(error.kind()), error.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::Internal(error)
    }
}

/// The exit code of a command, or why it failed.
type Outcome = Result<ExitCode, Failure>;
