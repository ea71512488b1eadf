//! `kgate demo`: a cluster of real processes on this machine, clients that contend, nodes that are
//! killed, and a verdict.
//!
//! ```text
//! this process: clients --sessions--> node processes <--links--> each other
//!               |  what each client did, by one clock
//!               v
//!               the oracle of kgate-spec, which knows no protocol
//! ```
//!
//! The demo fails if more than k were inside, if somebody who asked is not served, if nobody got
//! anything, or if a node stopped that was not killed: never quietly.

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
use clap::builder::BoolishValueParser;
use kgate_protocols::registry::{self, Entry};
use kgate_sim::Rng;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::{Failure, Outcome, parse};
use chaos::Chaos;
use clients::{Trouble, World};
use cluster::{Cluster, Plan, Told};
use history::History;
use report::{Report, Times};
use screen::{Health, Screen};

pub(crate) const HELP: &str = "\
Starts real nodes, as processes of this machine that talk over its loopback, and clients that all want permits of one gate. While it runs it shows \
who holds which slot and who waits. At the end what every client did, by one clock, is checked by an oracle that knows nothing of the protocol: \
never more than k inside, every slot one holder at a time and a growing fence. When the time is over nobody asks any more, and everybody who has asked must still be served. \
Exit code 1 means that this did not hold, that nobody was granted anything, or that a node stopped that was not killed.

With --chaos nodes are killed (as kill -9 does), as many as the protocol tolerates, and started again where it tolerates that. Clients of a killed node die with it, and go \
on at another. Everything random comes from --seed, but real machines are not: the same seed does not give the same run.

Examples:
  Five nodes, two permits, ten seconds:
    kgate demo
  Kill three of five:
    kgate demo --chaos
  Nodes that come back with what they had stored:
    kgate demo --protocol tree-token --chaos
  For a script:
    kgate demo --nodes 3 --seconds 3 --json
  Keep what every client did, and checker it again:
    kgate demo --trace run.ndjson
    kgate trace check run.ndjson";

/// What `kgate demo` is told.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=64), env = "KGATE_OPT_NODES")]
    nodes: u32,
    /// How many permits the gate has
    #[arg(short = 'k', long = "k", value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000), env = "KGATE_OPT_K")]
    permits: u32,
    /// How many clients contend [default: three for each node]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(1..=10_000), env = "KGATE_OPT_CLIENTS")]
    clients: Option<u32>,
    /// Which protocol; `kgate protocols` lists them
    #[arg(long, value_name = "NAME", default_value = "slots", env = "KGATE_OPT_PROTOCOL")]
    protocol: String,
    /// For how long
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400), env = "KGATE_OPT_SECONDS")]
    seconds: u64,
    /// Kill nodes, as many as the protocol tolerates
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_CHAOS")]
    chaos: bool,
    /// From which everything random is drawn [default: another one each time]
    #[arg(long, value_name = "SEED", value_parser = parse::seed, env = "KGATE_OPT_SEED")]
    seed: Option<u64>,
    /// Write what every client did to a file, one JSON object a line
    #[arg(long, value_name = "FILE", env = "KGATE_OPT_TRACE")]
    trace: Option<PathBuf>,
    /// Print one JSON object at the end, and nothing before
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    json: bool,
}

/// How long clients that have asked may wait when the run is over: longer than it takes to find any
/// crash.
const DRAIN: Duration = Duration::from_secs(20);
/// A protocol that converges is given this long, or a third of the run.
const CONVERGE: Duration = Duration::from_secs(2);

/// Another one each time.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

pub(crate) fn run(args: &DemoArgs) -> Outcome {
    let entry =
        registry::entry(&args.protocol).map_err(|error| Failure::Usage(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let report = runtime.context("starting a runtime")?.block_on(play(args, entry))?;
    let mut stdout = std::io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", serde_json::to_string_pretty(&report).context("printing JSON")?)?;
    } else {
        report.print(&mut stdout)?;
    }
    stdout.flush()?;
    if report.is_right() {
        return Ok(ExitCode::SUCCESS);
    }
    for wrong in report.violations.iter().chain(&report.troubles).filter(|_| args.json) {
        eprintln!("kgate: {wrong}");
    }
    Ok(ExitCode::FAILURE)
}

/// A demo that runs.
struct Play<'a> {
    args: &'a DemoArgs,
    entry: &'static Entry,
    cluster: Cluster,
    health: Vec<Health>,
    world: World,
    clients: Vec<JoinHandle<()>>,
    screen: Screen,
    rng: Rng,
    kills: u32,
    restarts: u32,
    last_kill: u64,
    troubles: Vec<String>,
}

async fn play(args: &DemoArgs, entry: &'static Entry) -> Result<Report, Failure> {
    let seed = args.seed.unwrap_or_else(random_seed);
    let run = Duration::from_secs(args.seconds);
    let mut rng = Rng::fork(seed, "chaos");
    let chaos = if args.chaos {
        Chaos::drawn(entry, args.nodes, args.permits, run, &mut rng)
    } else {
        Chaos::none()
    };
    let plan = Plan {
        nodes: args.nodes,
        gates: 1,
        permits: args.permits,
        protocol: entry.name,
        stores: entry.recovers,
    };
    let nodes = args.nodes as usize;
    let mut screen = Screen::new(args.json, nodes);
    screen.say(&format!(
        "kgate demo: {nodes} nodes, k = {}, {}, seed {seed:#x}",
        args.permits, entry.name
    ))?;
    screen.say(&format!("chaos: {}", chaos.words))?;
    let cluster = Cluster::start(&plan).await?;
    let (troubles, mut told_of_trouble) = mpsc::unbounded_channel();
    let (over, is_over) = watch::channel(false);
    let world = World { history: History::new(nodes), troubles, over: is_over, seed };
    let mut play = Play {
        args,
        entry,
        cluster,
        health: vec![Health::Up; nodes],
        world,
        clients: Vec::new(),
        screen,
        rng,
        kills: 0,
        restarts: 0,
        last_kill: 0,
        troubles: Vec::new(),
    };
    let settles = play.begin();
    play.contend(run, settles, chaos, &mut told_of_trouble).await?;
    over.send_replace(true);
    play.end(&mut told_of_trouble).await;
    play.report(seed, settles)
}

impl Play<'_> {
    /// All clients begin, spread over the nodes. When it is to be checked from, where that is not
    /// the start.
    fn begin(&mut self) -> Option<Duration> {
        let clients = self.args.clients.unwrap_or(3 * self.args.nodes) as usize;
        for client in 0..clients {
            let node = client % self.health.len();
            self.clients.push(self.world.begin(client, node, self.cluster.api(node)));
        }
        let settles =
            self.entry.heals.then(|| CONVERGE.min(Duration::from_secs(self.args.seconds) / 3));
        settles.inspect(|_| self.world.history.unsettled())
    }

    async fn contend(
        &mut self,
        run: Duration,
        settles: Option<Duration>,
        chaos: Chaos,
        told_of_trouble: &mut mpsc::UnboundedReceiver<Trouble>,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let mut settling = settles.map(|after| began + after);
        let mut kills = chaos.kills.iter().map(|after| began + *after).peekable();
        let mut returns: Option<(Instant, usize)> = None;
        let mut pace = tokio::time::interval(Duration::from_millis(self.screen.pace_ms()));
        loop {
            let title = format!("{:6.1} s of {} s", began.elapsed().as_secs_f64(), run.as_secs());
            // One at a time, where they come back.
            let one_down =
                self.health.contains(&Health::Killed) || self.health.contains(&Health::Starting);
            let kill = kills.peek().copied().filter(|_| chaos.back_after.is_none() || !one_down);
            tokio::select! {
                () = tokio::time::sleep_until(began + run) => break,
                () = at(settling) => {
                    self.world.history.settled();
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
                told = self.cluster.told() => self.on_told(told, &title)?,
                Some(Trouble(text)) = told_of_trouble.recv() => {
                    self.troubles.push(text);
                }
                _ = pace.tick() => self.screen.paint(&self.world.history, &self.health, &title)?,
            }
            if self.health.contains(&Health::Stopped) {
                break;
            }
        }
        if settling.is_some() {
            self.world.history.settled();
        }
        Ok(())
    }

    /// Kills a node: its clients first, in the trace, since they die with it; and they go on
    /// elsewhere.
    fn kill(&mut self, title: &str) -> Result<usize, Failure> {
        let up: Vec<usize> =
            (0..self.health.len()).filter(|&node| self.health[node] == Health::Up).collect();
        let index = self.rng.below(up.len() as u64);
        let victim = up[usize::try_from(index).expect("it is below the number of nodes")];
        let orphans = self.world.history.crash(victim);
        self.cluster.kill(victim);
        self.health[victim] = Health::Killed;
        self.kills += 1;
        self.last_kill = self.world.history.now();
        for client in orphans {
            self.clients[client].abort();
            let node = self.least_busy();
            self.clients[client] = self.world.begin(client, node, self.cluster.api(node));
        }
        self.screen.say(&format!("{title}  node {victim} killed"))?;
        Ok(victim)
    }

    /// The node with the fewest clients, of those that are up.
    fn least_busy(&self) -> usize {
        let seats = self.world.history.look().0;
        let busy = |node: &usize| seats.iter().filter(|seat| seat.node == *node).count();
        let up = (0..self.health.len()).filter(|&node| self.health[node] == Health::Up);
        up.min_by_key(busy).expect("some are always left")
    }

    fn on_told(&mut self, told: Told, title: &str) -> Result<(), Failure> {
        let node = told.node;
        match told.line {
            Some(line) if Cluster::is_ready(&line) => {
                self.health[node] = Health::Up;
                self.restarts += 1;
                self.screen.say(&format!("{title}  node {node} is back"))?;
            }
            Some(line) => self.troubles.push(format!("node {node}: {line}")),
            None => {
                self.health[node] = Health::Stopped;
                self.troubles.push(format!(
                    "node {node} has stopped, and nobody killed it ({}): a machine that is too busy may look dead to the others",
                    self.cluster.last_words(node)
                ));
            }
        }
        Ok(())
    }

    /// Waits until everybody who has asked was served and is out. Whoever is not has found a gate
    /// that is stuck.
    async fn end(&mut self, told_of_trouble: &mut mpsc::UnboundedReceiver<Trouble>) {
        let stopped = self.health.contains(&Health::Stopped);
        let deadline = Instant::now() + if stopped { Duration::ZERO } else { DRAIN };
        for (client, task) in self.clients.iter_mut().enumerate() {
            if tokio::time::timeout_at(deadline, &mut *task).await.is_err() {
                task.abort();
                if !stopped {
                    let text = format!(
                        "client {client} was not served within {} s of the end",
                        DRAIN.as_secs()
                    );
                    self.troubles.push(text);
                }
            }
        }
        while let Ok(Trouble(text)) = told_of_trouble.try_recv() {
            self.troubles.push(text);
        }
    }

    fn report(self, seed: u64, settles: Option<Duration>) -> Result<Report, Failure> {
        let (history, protocol) = (&self.world.history, self.entry.name);
        if let Some(path) = &self.args.trace {
            let written = File::create(path).and_then(|file| {
                history.trace(protocol, self.args.permits, &mut BufWriter::new(file))
            });
            written.with_context(|| format!("cannot write the trace {}", path.display()))?;
        }
        let stays = history.stays();
        let grants_since = stays.iter().filter(|stay| stay.granted > self.last_kill).count();
        let report = Report {
            protocol,
            nodes: self.args.nodes,
            k: self.args.permits,
            clients: self.clients.len(),
            seed: format!("{seed:#x}"),
            grants: 0,
            obtaining: Times::of(stays.iter().map(|stay| stay.granted - stay.asked).collect()),
            max_in_use: 0,
            violations: Vec::new(),
            kills: self.kills,
            restarts: self.restarts,
            grants_since: grants_since as u64,
            troubles: self.troubles,
            checked_from_s: settles.unwrap_or_default().as_secs_f64(),
        };
        let verdict = history.check(protocol, self.args.permits).context("our own trace")?;
        Ok(report.checked(&verdict))
    }
}

/// At that moment; never, if there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
