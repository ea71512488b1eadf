//! `kgate`: the one binary.
//!
//! Data goes to stdout, messages to stderr. Exit codes: 0: success; 1: a checked run is not
//! correct, or the named object does not exist; 2: usage error; 125: internal error. `run/exit.rs`
//! has the others.

mod bench;
mod certs;
mod check;
mod cli;
mod credentials;
mod demo;
mod evict;
mod keeper;
mod lab;
mod local;
mod members;
mod node;
mod parse;
mod permits;
mod protocols;
#[cfg(test)]
mod reference;
mod run;
mod scenario;
mod set;
mod sim;
mod slots;
mod status;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use cli::{Cli, Command};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // First, because these subcommands delay the start of every command that `kgate run` runs.
    if let Some(code) = run::hidden(&arguments, keeper::open).or_else(|| local::hidden(&arguments))
    {
        return code;
    }
    let guard = run::EarlyGuard::start(&arguments);
    let matches = Cli::command().get_matches();
    let command = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).command;
    let done = match command {
        Command::Run(mut args) => {
            let given = matches.subcommand_matches("run").expect("the matched subcommand");
            match args.acquire.node.take().map_or_else(local::node, Ok) {
                Ok(node) => {
                    args.acquire.node = Some(node);
                    run::run(*args, given, guard, keeper::open).map_err(Failure::from)
                }
                Err(error) => {
                    eprintln!("kgate: {error:#}");
                    Ok(ExitCode::from(run::exit::UNAVAILABLE))
                }
            }
        }
        Command::Acquire(args) => {
            let given = matches.subcommand_matches("acquire").expect("the matched subcommand");
            if args.is_durable() {
                permits::acquire(&args, given)
            } else {
                run::hold::acquire(&args, given).map_err(Failure::from)
            }
        }
        Command::Renew(args) => permits::renew(&args),
        Command::Release(args) => match args.token.parse::<kgate_client::DurableToken>() {
            Ok(permit) => permits::release(permit, &args),
            Err(_) => run::hold::release(&args).map_err(Failure::from),
        },
        Command::Sim(args) => {
            let given = matches.subcommand_matches("sim").expect("the matched subcommand");
            sim::run(&args, given)
        }
        Command::Check(args) => {
            let given = matches.subcommand_matches("check").expect("the matched subcommand");
            check::run(&args, given)
        }
        Command::Scenario(args) => scenario::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Status(args) => status::status(&args),
        Command::Explain(args) => status::explain(&args),
        Command::Watch(args) => status::watch(&args),
        Command::Set(args) => set::run(&args),
        Command::Members(args) => members::run(&args),
        Command::Evict(args) => evict::run(&args),
        Command::Certs(args) => certs::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::DemoNode(args) => demo::node::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Protocols(args) => protocols::run(&args),
    };
    match done {
        Ok(code) => code,
        Err(Failure::Usage(text)) => {
            eprintln!("kgate: {text}");
            ExitCode::from(2)
        }
        Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Internal(error)) => {
            eprintln!("kgate: {error:#}");
            ExitCode::from(125)
        }
    }
}

/// Why a command failed.
enum Failure {
    /// Usage error: the command line is invalid, or contradicts what it refers to.
    Usage(String),
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

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::Internal(error)
    }
}

/// The exit code of a command, or why it failed.
type Outcome = Result<ExitCode, Failure>;
