//! `kgate`: the one binary.
//!
//! Data goes to stdout, messages to stderr. Exit codes: 0: success; 1: a checked run is not
//! correct, or the named object does not exist; 2: usage error; 125: internal error. `run/exit.rs`
//! has the others.

mod advice;
mod bench;
mod certs;
mod check;
mod cli;
mod completions;
mod credentials;
mod demo;
mod evict;
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

use std::io::Write;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use cli::{Cli, Command};
use run::options::RunArgs;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // A process that was started as /proc/self/exe would be called `exe` by `ps`.
    let _unnamed = rustix::thread::set_name(c"kgate");
    if let Some(code) = run::hidden(&arguments).or_else(|| local::hidden(&arguments)) {
        return code;
    }
    // First: it forks, and that takes one thread.
    let guard = run::EarlyGuard::start(&arguments, keeper::open);
    let done = variables::check().and_then(|()| match cli::parse_run(&arguments) {
        Some((args, given)) => run_command(args, &given, guard),
        None => any_command(guard),
    });
    let (code, text) = match done {
        Ok(code) => return code,
        Err(Failure::OutputClosed) => return ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => (2, text),
        Err(Failure::Exit(code, text)) => (code, text),
        Err(Failure::Internal(error)) => (125, format!("{error:#}")),
    };
    status::say(&text);
    ExitCode::from(code)
}

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

fn any_command(guard: Option<run::EarlyGuard>) -> Outcome {
    let matches = variables::read(Cli::command()).get_matches();
    let command = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).command;
    let (_, given) = matches.subcommand().expect("clap requires a subcommand");
    if !matches!(command, Command::Run(_)) {
        check_node(given)?;
    }
    match command {
        Command::Run(args) => run_command(*args, given, guard),
        Command::Acquire(args) if args.is_durable() => permits::acquire(&args, given),
        Command::Acquire(args) => Ok(run::hold::acquire(&args, given)?),
        Command::Renew(args) => permits::renew(&args),
        Command::Release(args) => match args.token.parse::<kgate_client::DurableToken>() {
            Ok(permit) => permits::release(permit, &args),
            Err(_) => Ok(run::hold::release(&args)?),
        },
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
        Command::Version => version(),
    }
}

/// The named node, or the one of this machine or user, which is started if necessary.
fn find_node(named: Option<&str>) -> Result<String, Failure> {
    local::node(named).map_err(|error| Failure::Exit(run::exit::UNAVAILABLE, format!("{error:#}")))
}

/// `kgate version`: as `kgate --version`.
fn version() -> Outcome {
    write!(std::io::stdout(), "{}", Cli::command().render_version())?;
    Ok(ExitCode::SUCCESS)
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
