//! `kgate demo`: a cluster of real processes on this machine, contending clients, killed nodes, and
//! a verdict.
//!
//! ```text
//! this process: clients --sessions--> node processes <--links--> each other
//!               |  the history of all clients, by one clock
//!               v
//!               the checker of kgate-spec, which knows no protocol
//! ```
//!
//! The demo fails if a gate ever had more than k holders, if a request is not served, if no permit
//! is granted, or if a node stops that was not killed.

mod chaos;
mod clients;
pub(crate) mod cluster;
pub(crate) mod history;
pub(crate) mod node;
pub(crate) mod report;
mod screen;

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use kgate_protocols::registry::{self, Entry};
use kgate_sim::Rng;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::{Failure, Outcome, parse};
use chaos::Chaos;
use clients::{ClientError, Clients};
use cluster::{Cluster, NodeEvent, Plan};
use history::History;
use node::NodeReport;
use report::{Report, Times};
use screen::{Health, Screen};

pub(crate) const HELP: &str = "\
Starts real nodes as processes of this machine, and clients that contend for one gate. It shows \
the holders and waiting clients while it runs. At the end a checker that knows no protocol checks \
the history of all clients: never more than k holders, one holder per slot at a time, and \
increasing fences. When the time is over clients make no new requests, and every pending request \
must still be served.

With --chaos it kills nodes (SIGKILL), as many as the protocol tolerates, and restarts them if \
the protocol tolerates that. Clients of a killed node die with it and continue at another. All \
random choices come from --seed, but real processes are not deterministic: the same seed does not \
give the same run.

Exit codes: 0: PASS; 1: FAIL: a violation, a request that was not served, no grant at all, or a \
node that stopped by itself; 2: usage error; 125: internal error.

Examples:
  Five nodes, k = 2, ten seconds:
    kgate demo
  Kill three of five:
    kgate demo --chaos
  Nodes that recover from stable storage:
    kgate demo --protocol tree-token --chaos
  Output for a script:
    kgate demo --nodes 3 --seconds 3 --json
  Save the history, and check it again:
    kgate demo --trace run.ndjson
    kgate trace check run.ndjson";

/// Arguments of `kgate demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Number of nodes
    #[arg(
        long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    nodes: u32,
    /// Number of slots of the gate
    #[arg(
        short = 'k', long, value_name = "K", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    k: u32,
    /// Number of clients [default: three per node]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: Option<u32>,
    /// Protocol; `kgate protocols` lists them
    #[arg(long, value_name = "NAME", default_value = "slots")]
    protocol: String,
    /// Duration in seconds
    #[arg(
        long, value_name = "S", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    seconds: u64,
    /// Kill as many nodes as the protocol tolerates
    #[arg(long)]
    chaos: bool,
    /// Seed of all random choices [default: a random one]
    #[arg(long, value_name = "SEED", value_parser = parse::seed)]
    seed: Option<u64>,
    /// Write the history to a file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print only one JSON object, at the end
    #[arg(long)]
    json: bool,
}

/// Maximum wait of pending requests after the run: longer than the detection of any crash.
const DRAIN: Duration = Duration::from_secs(20);
/// Time for a self-stabilizing protocol to converge, at most a third of the run.
const CONVERGE: Duration = Duration::from_secs(2);

/// A seed from the system's entropy.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

pub(crate) fn run(args: &DemoArgs) -> Outcome {
    let entry =
        registry::entry(&args.protocol).map_err(|error| Failure::Usage(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let report = runtime.context("starting a runtime")?.block_on(run_demo(args, entry))?;
    let mut stdout = std::io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", serde_json::to_string_pretty(&report).context("printing JSON")?)?;
    } else {
        report.print(&mut stdout)?;
    }
    stdout.flush()?;
    if report.passed() {
        return Ok(ExitCode::SUCCESS);
    }
    for failure in report.violations.iter().chain(&report.errors).filter(|_| args.json) {
        eprintln!("kgate: {failure}");
    }
    Ok(ExitCode::FAILURE)
}

/// A running demo.
struct Demo<'a> {
    args: &'a DemoArgs,
    entry: &'static Entry,
    cluster: Cluster,
    health: Vec<Health>,
    shared: Clients,
    clients: Vec<JoinHandle<()>>,
    screen: Screen,
    rng: Rng,
    kills: u32,
    restarts: u32,
    last_kill: u64,
    errors: Vec<String>,
}

async fn run_demo(args: &DemoArgs, entry: &'static Entry) -> Result<Report, Failure> {
    let seed = args.seed.unwrap_or_else(random_seed);
    let run = Duration::from_secs(args.seconds);
    let mut rng = Rng::fork(seed, "chaos");
    let chaos = if args.chaos {
        Chaos::generate(entry, args.nodes, args.k, run, &mut rng)
    } else {
        Chaos::none()
    };
    let plan = Plan {
        nodes: args.nodes,
        gates: 1,
        k: args.k,
        protocol: entry.name,
        stores: entry.recovers,
    };
    let nodes = args.nodes as usize;
    let mut screen = Screen::new(args.json, nodes);
    screen.print(&format!(
        "kgate demo: {nodes} nodes, k = {}, {}, seed {seed:#x}",
        args.k, entry.name
    ))?;
    screen.print(&format!("chaos: {}", chaos.description))?;
    let cluster = Cluster::start(&plan).await?;
    let (errors, mut client_errors) = mpsc::unbounded_channel();
    let (over, is_over) = watch::channel(false);
    let shared = Clients { history: History::new(nodes), errors, over: is_over, seed };
    let mut demo = Demo {
        args,
        entry,
        cluster,
        health: vec![Health::Up; nodes],
        shared,
        clients: Vec::new(),
        screen,
        rng,
        kills: 0,
        restarts: 0,
        last_kill: 0,
        errors: Vec::new(),
    };
    let settles = demo.start_clients();
    demo.contend(run, settles, chaos, &mut client_errors).await?;
    over.send_replace(true);
    demo.drain(&mut client_errors).await;
    demo.report(seed, settles)
}

impl Demo<'_> {
    /// Starts the clients, spread over the nodes. Returns when checking begins, if not at the
    /// start.
    fn start_clients(&mut self) -> Option<Duration> {
        let clients = self.args.clients.unwrap_or(3 * self.args.nodes) as usize;
        for client in 0..clients {
            let node = client % self.health.len();
            self.clients.push(self.shared.start(client, node, self.cluster.api(node)));
        }
        let settles =
            self.entry.heals.then(|| CONVERGE.min(Duration::from_secs(self.args.seconds) / 3));
        settles.inspect(|_| self.shared.history.unsettled())
    }

    async fn contend(
        &mut self,
        run: Duration,
        settles: Option<Duration>,
        chaos: Chaos,
        client_errors: &mut mpsc::UnboundedReceiver<ClientError>,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let mut settling = settles.map(|after| began + after);
        let mut kills = chaos.kills.iter().map(|after| began + *after).peekable();
        let mut returns: Option<(Instant, usize)> = None;
        let mut pace = tokio::time::interval(Duration::from_millis(self.screen.pace_ms()));
        loop {
            let title = format!("{:6.1} s of {} s", began.elapsed().as_secs_f64(), run.as_secs());
            // One node at a time, if nodes are restarted.
            let one_down =
                self.health.contains(&Health::Killed) || self.health.contains(&Health::Starting);
            let kill = kills.peek().copied().filter(|_| chaos.back_after.is_none() || !one_down);
            tokio::select! {
                () = tokio::time::sleep_until(began + run) => break,
                () = at(settling) => {
                    self.shared.history.settled();
                    settling = None;
                }
                () = at(kill) => {
                    kills.next();
                    let killed = self.kill(&title)?;
                    returns = chaos.back_after.map(|after| (Instant::now() + after, killed));
                }
                () = at(returns.map(|(at, _)| at)) => {
                    if let Some((_, node)) = returns.take() {
                        self.cluster.spawn(node)?;
                        self.health[node] = Health::Starting;
                    }
                }
                event = self.cluster.next_event() => self.on_node_event(event, &title)?,
                Some(ClientError(message)) = client_errors.recv() => {
                    self.errors.push(message);
                }
                _ = pace.tick() => self.screen.draw(&self.shared.history, &self.health, &title)?,
            }
            if self.health.contains(&Health::Stopped) {
                break;
            }
        }
        if settling.is_some() {
            self.shared.history.settled();
        }
        Ok(())
    }

    /// Kills a node. Its clients die with it, in the history before the node, and continue
    /// elsewhere.
    fn kill(&mut self, title: &str) -> Result<usize, Failure> {
        let up: Vec<usize> =
            (0..self.health.len()).filter(|&node| self.health[node] == Health::Up).collect();
        let index = self.rng.below(up.len() as u64);
        let victim = up[usize::try_from(index).expect("it is below the number of nodes")];
        let orphans = self.shared.history.crash(victim);
        self.cluster.kill(victim);
        self.health[victim] = Health::Killed;
        self.kills += 1;
        self.last_kill = self.shared.history.now();
        for client in orphans {
            self.clients[client].abort();
            let node = self.least_busy();
            self.clients[client] = self.shared.start(client, node, self.cluster.api(node));
        }
        self.screen.print(&format!("{title}  node {victim} killed"))?;
        Ok(victim)
    }

    /// The node with the fewest clients, of those that are up.
    fn least_busy(&self) -> usize {
        let clients = self.shared.history.snapshot().0;
        let busy = |node: &usize| clients.iter().filter(|client| client.node == *node).count();
        let up = (0..self.health.len()).filter(|&node| self.health[node] == Health::Up);
        up.min_by_key(busy).expect("chaos leaves some nodes up")
    }

    fn on_node_event(&mut self, event: NodeEvent, title: &str) -> Result<(), Failure> {
        let node = event.node;
        match event.report {
            Some(NodeReport::Ready) => {
                self.health[node] = Health::Up;
                self.restarts += 1;
                self.screen.print(&format!("{title}  node {node} restarted"))?;
            }
            Some(NodeReport::Stopped { message, .. }) => {
                self.errors.push(format!("node {node}: {message}"));
            }
            None => {
                self.health[node] = Health::Stopped;
                self.errors.push(format!(
                    "node {node} stopped by itself ({}): on an overloaded machine the other nodes \
                     may have declared it dead",
                    self.cluster.last_error(node)
                ));
            }
        }
        Ok(())
    }

    /// Waits until every pending request is served and released. A request that is not served means
    /// that the gate is stuck.
    async fn drain(&mut self, client_errors: &mut mpsc::UnboundedReceiver<ClientError>) {
        let stopped = self.health.contains(&Health::Stopped);
        let deadline = Instant::now() + if stopped { Duration::ZERO } else { DRAIN };
        for (client, task) in self.clients.iter_mut().enumerate() {
            if tokio::time::timeout_at(deadline, &mut *task).await.is_err() {
                task.abort();
                if !stopped {
                    let text = format!(
                        "client {client} was not served within {} s after the run",
                        DRAIN.as_secs()
                    );
                    self.errors.push(text);
                }
            }
        }
        while let Ok(ClientError(message)) = client_errors.try_recv() {
            self.errors.push(message);
        }
    }

    fn report(self, seed: u64, settles: Option<Duration>) -> Result<Report, Failure> {
        let (history, protocol) = (&self.shared.history, self.entry.name);
        if let Some(path) = &self.args.trace {
            let written = File::create(path)
                .and_then(|file| history.trace(protocol, self.args.k, &mut BufWriter::new(file)));
            written.with_context(|| format!("cannot write the trace {}", path.display()))?;
        }
        let holds = history.holds();
        let grants_after_last_kill =
            holds.iter().filter(|hold| hold.granted > self.last_kill).count();
        let report = Report {
            protocol,
            nodes: self.args.nodes,
            k: self.args.k,
            clients: self.clients.len(),
            seed: format!("{seed:#x}"),
            grants: 0,
            wait: Times::of(holds.iter().map(|hold| hold.granted - hold.requested).collect()),
            max_in_use: 0,
            violations: Vec::new(),
            kills: self.kills,
            restarts: self.restarts,
            grants_after_last_kill: grants_after_last_kill as u64,
            errors: self.errors,
            checked_from_s: settles.unwrap_or_default().as_secs_f64(),
        };
        let verdict = history.check(protocol, self.args.k).context("checking the history")?;
        Ok(report.with_verdict(&verdict))
    }
}

/// Waits until that moment; for ever, if there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
