//! `kgate node`: the daemon.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use kgate_node::core::CannotStart;
use kgate_node::{Config, Faults, Node, NotStarted};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::{Failure, Outcome, local};

/// Shown below `kgate node --help`.
pub(crate) const NODE_HELP: &str = "\
Configuration (TOML), the same on all nodes but for `id`, `api` and `data`:
  cluster = \"fleet\"
  id = 0
  nodes = [\"10.0.0.1:7401\", \"10.0.0.2:7401\", \"10.0.0.3:7401\"]
  api = [\"127.0.0.1:7400\", \"unix:/run/kgate/node.sock\"]
  data = \"/var/lib/kgate\"
  [[gate]]
  name = \"gpu\"
  k = 3

Gates that are not in it are made by the first `kgate run NAME -k K`. These nodes found the cluster; `kgate members add` has others join. A majority of the \
voters (voters = 3; if nothing is said the first 1, 3 or 5 of the list) must be there. [timing] has the numbers of the leases (docs/internals/leases.md). faults = \"crash-stop\" does without \
the agreed log, as the papers do: members are fixed and a silent node is taken for dead, which is safe only where it is. Plain links between machines must be asked for (plain_links = true); for \
TLS see `kgate certs`. With [tls] clients ask at api = \"https://HOST:PORT\"; [[allow]] says who may acquire, see and operate which gates, [limits] how \
much of it (docs/guide/fleet.md, docs/internals/security.md).

The API serves gRPC and HTTP on the same ports: /v1/status, /v1/gates/NAME/explain, /v1/watch, /metrics, /healthz (it runs), /readyz (it can grant).

Exit codes: 0 stopped by TERM or INT; 2 the configuration cannot be read, or cannot be; 125 it could not start for another reason, such as a port in use, or cannot go \
on, such as a number that was removed.";

/// `kgate node`.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// The configuration
    #[arg(long, value_name = "FILE", env = "KGATE_OPT_CONFIG", required_unless_present = "local")]
    config: Option<PathBuf>,
    /// A node for this user alone, as `kgate run` starts it
    #[arg(long, hide = true)]
    local: bool,
}

/// What is logged.
const LOG: &str = "KGATE_OPT_LOG";
/// What is logged unless somebody asks for more. What the log's library says of every vote is for
/// those who look for a fault in it; so is what it says of every message that was not answered,
/// many times a second and without the name of the peer: the node itself says once whose connection
/// is cut, and whether it can grant.
const USUAL: &str = "info,openraft=error,openraft::replication=off";

/// Logs go to standard error.
fn log(filter: EnvFilter) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // No colours in a file; and with `NO_COLOR` in none at all.
    let colours = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    log.with_ansi(colours).init();
}

/// Logs what the environment asks for; nothing, if it does not.
pub(crate) fn log_if_asked() {
    if let Ok(filter) = EnvFilter::try_from_env(LOG) {
        log(filter);
    }
}

/// 2 where the configuration cannot be, whoever noticed it; 125 where this machine or its store
/// stands in the way.
fn code_of(error: &NotStarted) -> u8 {
    match error {
        NotStarted::Config(_)
        | NotStarted::Links(_)
        | NotStarted::Core(CannotStart::Gate { .. }) => 2,
        // The system's own errors have kinds of their own: this one is ours, of an address that
        // cannot be served so.
        NotStarted::Listen(_, error) if error.kind() == ErrorKind::Other => 2,
        NotStarted::Listen(..)
        | NotStarted::Core(_)
        | NotStarted::Store(_)
        | NotStarted::Log(_)
        | NotStarted::SlotFiles(_) => 125,
    }
}

pub(crate) fn run(args: &NodeArgs) -> Outcome {
    let config = match &args.config {
        Some(path) => Config::read(path).map_err(|error| Failure::Usage(error.to_string()))?,
        None => local::config()?,
    };
    log(EnvFilter::try_from_env(LOG).unwrap_or_else(|_| EnvFilter::new(USUAL)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let crash_stop = config.nodes.len() > 1 && config.faults == Some(Faults::CrashStop);
    let code = runtime.block_on(async {
        let mut node = match Node::start(config).await {
            Ok(node) => node,
            Err(error) => {
                eprintln!("kgate: {error}");
                return Ok::<u8, std::io::Error>(code_of(&error));
            }
        };
        if crash_stop {
            tracing::warn!("members are fixed and failures are crash-stop: a silent node is taken for dead, which is unsafe where networks are cut");
        }
        // Whoever has started this node waits for this line.
        writeln!(std::io::stdout(), "{}", serde_json::json!({ "api": node.api(), "peer": node.peer() }))?;
        std::io::stdout().flush()?;
        if args.local {
            local::fall_silent().map_err(std::io::Error::other)?;
        }
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            ended = node.stopped() => {
                return Ok(match ended {
                    Ok(()) => 0,
                    Err(why) => {
                        tracing::error!("{why}");
                        125
                    }
                });
            }
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        tracing::info!("stopping");
        Ok(node.stop().await.map_or(125, |()| 0))
    });
    // A thread may wait for the lock of a slot, for as long as its holder runs: nobody waits for
    // that.
    runtime.shutdown_background();
    let code = code?;
    Ok(ExitCode::from(code))
}
