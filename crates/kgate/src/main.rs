//! `kgate`: the one binary.
//!
//! Data goes to stdout, words to stderr. Exit codes: 0 done; 1 a run was not correct; 2 the command
//! line cannot be meant; 125 kgate itself failed. `kgate run` has more (`run/exit.rs`).

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
    // Before anything that takes time: these stand in the way of every command that is run.
    if let Some(code) = run::hidden(&arguments, keeper::open).or_else(|| local::hidden(&arguments))
    {
        return code;
    }
    let bare = run::Bare::start_early(&arguments);
    let matches = Cli::command().get_matches();
    let command = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).command;
    let done = match command {
        Command::Run(mut args) => {
            let given = matches.subcommand_matches("run").expect("that is what was matched");
            match args.ask.node.take().map_or_else(local::node, Ok) {
                Ok(node) => {
                    args.ask.node = Some(node);
                    run::run(*args, given, bare, keeper::open).map_err(Failure::Usage)
                }
                Err(text) => {
                    eprintln!("kgate: {text}");
                    Ok(ExitCode::from(status::NO_NODE))
                }
            }
        }
        Command::Acquire(args) => {
            let given = matches.subcommand_matches("acquire").expect("that is what was matched");
            if args.is_kept() {
                permits::acquire(&args, given)
            } else {
                run::hold::acquire(&args, given).map_err(Failure::Usage)
            }
        }
        Command::Renew(args) => permits::renew(&args),
        Command::Release(args) => match args.token.parse::<kgate_client::DurableToken>() {
            Ok(permit) => permits::release(permit, &args),
            Err(_) => run::hold::release(&args).map_err(Failure::Usage),
        },
        Command::Sim(args) => {
            let given = matches.subcommand_matches("sim").expect("that is what was matched");
            sim::run(&args, given)
        }
        Command::Check(args) => {
            let given = matches.subcommand_matches("check").expect("that is what was matched");
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
        Err(Failure::Unread) => ExitCode::SUCCESS,
        Err(Failure::Broken(error)) => {
            eprintln!("kgate: {error:#}");
            ExitCode::from(125)
        }
    }
}

/// Why a command did not do its work.
enum Failure {
    /// It was asked for what cannot be.
    Usage(String),
    /// Nobody reads what it prints.
    Unread,
    /// It could not do what it was rightly asked for.
    Broken(anyhow::Error),
}

/// Whoever reads our output may stop reading: then we stop too, and nobody needs to be told.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Failure::Unread
        } else {
            Failure::Broken(error.into())
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::Broken(error)
    }
}

/// What a command returns.
type Outcome = Result<ExitCode, Failure>;
