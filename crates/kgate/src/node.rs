//! `kgate node`: the daemon.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use kgate_node::core::CannotStart;
use kgate_node::{Config, Faults, Node, NotStarted};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::advice::advised;
use crate::run::exit::{FAILED, USAGE};
use crate::runtime::runtime;
use crate::service_manager::{inherited_socket, notify};
use crate::status::say;
use crate::{Failure, Outcome, local, machine};

/// Shown below `kgate node --help`.
pub(crate) const NODE_HELP: &str = "\
The node of one machine needs no configuration: `kgate node --machine` as root, or `kgate setup \
machine` with systemd. Every local user may acquire, the kernel says who asks, and root may \
operate; /etc/kgate/machine.toml changes that (docs/guide/one-machine.md).

Configuration of a cluster (TOML), the same on all nodes except for `id`, `api` and `data`:
  cluster = \"fleet\"
  id = 0
  nodes = [\"10.0.0.1:7401\", \"10.0.0.2:7401\", \"10.0.0.3:7401\"]
  api = [\"127.0.0.1:7400\", \"unix:/run/kgate/node.sock\"]
  socket_mode = \"0666\"
  data = \"/var/lib/kgate\"
  [[gate]]
  name = \"gpu\"
  k = 3

The first `kgate run NAME -k K` creates a gate that is not configured. `nodes` are the initial \
members; `kgate members add` adds others. A majority of the voters must be up (voters = 3; \
default: the first 1, 3 or 5 nodes of the list). [timing] configures the leases \
(docs/internals/leases.md). faults = \"crash-stop\" runs without the agreed log, as in the \
papers: members are fixed and an unreachable node counts as dead, which is safe only if it is \
dead. Plain links between machines need plain_links = true; for TLS see `kgate certs`. With [tls] \
clients use api = \"https://HOST:PORT\". [[allow]] configures permissions, [limits] the limits of \
each client (docs/guide/fleet.md, docs/internals/security.md).

The API serves gRPC and HTTP on the same ports: /v1/status, /v1/gates/NAME/explain, /v1/watch, \
/metrics, /healthz (the process runs), /readyz (the node can grant).

Exit codes: 0: stopped by SIGTERM or SIGINT; 2: usage error: the configuration cannot be read or \
is invalid; 125: the node cannot start for another reason (for example a port in use), or cannot \
continue (for example because it was removed).

A service manager may pass the Unix socket (LISTEN_FDS) and is told when the node serves \
(NOTIFY_SOCKET).

Examples:
  kgate node --config node.toml
  Before a restart, whether a changed configuration is valid:
    kgate node --config node.toml --check
  kgate node --machine";

/// Arguments of `kgate node`.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// Configuration file (TOML) [with --machine: /etc/kgate/machine.toml if it exists]
    #[arg(
        long, value_name = "FILE", required_unless_present_any = ["local", "machine"]
    )]
    config: Option<PathBuf>,
    /// Run the node of this machine, for all its users, at /run/kgate/node.sock
    #[arg(long, conflicts_with = "local")]
    machine: bool,
    /// Run a node for this user alone in that folder, as `kgate run` starts it
    #[arg(long, hide = true, value_name = "DIR")]
    local: Option<PathBuf>,
    /// Check the configuration and exit: nothing is started or written. Exit code 0 or 2
    #[arg(long, conflicts_with = "local")]
    check: bool,
}

/// Environment variable with the log filter.
const LOG: &str = "KGATE_OPT_LOG";
/// Default log filter. The events of openraft about each vote and each unanswered message are many
/// per second and do not name the peer. The node itself logs once which connection is lost, and
/// whether it can grant.
const DEFAULT_FILTER: &str = "info,openraft=error,openraft::replication=off";

/// Starts logging to standard error.
fn log(filter: EnvFilter) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // No colours in a file, and none with `NO_COLOR`.
    let colours = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    log.with_ansi(colours).init();
}

/// Starts logging if the environment sets a filter.
pub(crate) fn log_if_configured() {
    if let Ok(filter) = EnvFilter::try_from_env(LOG) {
        log(filter);
    }
}

/// The exit code: 2 for an invalid configuration, 125 for an obstacle of this machine or its store.
fn exit_code(error: &NotStarted) -> u8 {
    match error {
        NotStarted::Config(_)
        | NotStarted::SocketNotInApi
        | NotStarted::Links(_)
        | NotStarted::Core(CannotStart::Gate { .. }) => USAGE,
        // The errors of the system have other kinds: this one says that the address is invalid.
        NotStarted::Listen(_, error) if error.kind() == ErrorKind::Other => USAGE,
        NotStarted::Listen(..)
        | NotStarted::Core(_)
        | NotStarted::Store(_)
        | NotStarted::Log(_)
        | NotStarted::Thread(_)
        | NotStarted::SlotFiles(_) => FAILED,
    }
}

fn configuration(args: &NodeArgs) -> Result<Config, Failure> {
    let usage = |error: kgate_node::BadConfig| Failure::Usage(error.to_string());
    if let Some(folder) = &args.local {
        return Ok(local::config(folder));
    }
    if args.machine {
        return machine::config(args.config.as_deref());
    }
    match &args.config {
        Some(path) => Config::read(path).map_err(usage),
        None => Err(Failure::Usage("no configuration: give --config FILE or --machine".into())),
    }
}

/// Lets this process open as many files as it may: each client is one. The usual limit is for
/// programs that use `select`, and a user's node inherits it from the command that starts it.
fn raise_limits() {
    let limit = getrlimit(Resource::Nofile);
    let _kept = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// `kgate node --check`.
fn check(config: Config) -> Outcome {
    let (id, api) = (config.id, config.api.all().join(", "));
    match Node::check(config) {
        Ok(()) => {
            say(&format!("the configuration is valid: node {id} would serve clients at {api}"));
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(Failure::Exit(exit_code(&error), error.to_string())),
    }
}

pub(crate) fn run(args: &NodeArgs) -> Outcome {
    let config = configuration(args)?;
    if args.check {
        return check(config);
    }
    if args.machine {
        machine::prepare(args.config.as_deref())?;
    }
    let socket = inherited_socket()?;
    raise_limits();
    log(EnvFilter::try_from_env(LOG).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER)));
    let runtime = runtime()?;
    let crash_stop = config.nodes.len() > 1 && config.faults == Some(Faults::CrashStop);
    let code = runtime.block_on(async {
        let started = match socket {
            Some(socket) => Node::start_on_socket(config, socket).await,
            None => Node::start(config).await,
        };
        let mut node = match started {
            Ok(node) => node,
            Err(error) => {
                eprintln!("kgate: {}", advised(&error.to_string()));
                return Ok::<u8, std::io::Error>(exit_code(&error));
            }
        };
        if crash_stop {
            tracing::warn!(
                "faults = \"crash-stop\": members are fixed and an unreachable node \
             counts as dead, which is unsafe in a network partition"
            );
        }
        // The process that started this node waits for this line.
        let addresses = serde_json::json!({ "api": node.api(), "peer": node.peer() });
        writeln!(std::io::stdout(), "{addresses}")?;
        std::io::stdout().flush()?;
        if let Some(folder) = &args.local {
            local::close_output(folder).map_err(std::io::Error::other)?;
        }
        notify("READY=1");
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        tokio::select! {
            ended = node.stopped() => {
                return Ok(match ended {
                    Ok(()) => 0,
                    Err(error) => {
                        tracing::error!("{}", advised(&error.to_string()));
                        FAILED
                    }
                });
            }
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        notify("STOPPING=1");
        tracing::info!("stopping");
        Ok(node.stop().await.map_or(FAILED, |()| 0))
    });
    // Do not wait for threads that still write or wait.
    runtime.shutdown_background();
    let code = code?;
    Ok(ExitCode::from(code))
}
