//! The program `kgate-full`: all commands. Its help, its messages and its process call it `kgate`,
//! as the program does that users start.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::cli::{Cli, Command};
use crate::{
    Outcome, bench, certs, check, check_node, completions, demo, evict, lab, local, man, members,
    node, permits, protocols, quick, run, run_command, scenario, set, setup, sim, status, trace,
    variables, watch,
};

/// The program `kgate-full`.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // `ps` shows it.
    let _unnamed = rustix::thread::set_name(c"kgate");
    let hidden = run::hidden(&arguments).or_else(|| local::hidden(&arguments));
    hidden.unwrap_or_else(|| crate::end(variables::check().and_then(|()| any_command())))
}

fn any_command() -> Outcome {
    let matches = variables::read(Cli::command()).get_matches();
    let command = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).command;
    let (_, given) = matches.subcommand().expect("clap requires a subcommand");
    if !matches!(command, Command::Run(_)) {
        check_node(given)?;
    }
    match command {
        Command::Run(args) => run_command(*args, given, None),
        Command::Acquire(args) => permits::acquire(&args, given),
        Command::Renew(args) => permits::renew(&args),
        Command::Release(args) => permits::release(&args),
        Command::Sim(args) => sim::run(&args, given),
        Command::Check(args) => check::run(&args, given),
        Command::Scenario(args) => scenario::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Setup(args) => setup::run(&args),
        Command::Status(args) => status::status(&args),
        Command::Explain(args) => status::explain(&args),
        Command::Watch(args) => watch::run(&args),
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
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Version => quick::version(),
    }
}
