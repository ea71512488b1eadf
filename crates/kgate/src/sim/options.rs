//! The options of `kgate sim`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kgate_core::{NodeId, Span};
use kgate_sim::{Chance, Down, Latency, LinkCut, Partition, Pause, ReceiveCost, SendCost, Think};
use kgate_spec::view::{Shown, Window};

use super::log::LogArgs;
use crate::parse;
use crate::slots::SlotArgs;

pub(crate) const HELP: &str = "\
Times are in time units (t.u.), as in the papers; think of seconds. The defaults are the setting
of vcube-2018, section 8: t_s = t_r = 0.1, t_t = 0.8, hold 0.0002, think 0.1, k = 3, 1000 t.u.,
three of sixteen processes request.

All randomness comes from --seed: the same command line gives the same run and the same hash, with
either engine. After the measured time no process issues a new request. The run continues until
every request is answered or nothing can change, so a deadlock is found instead of waited for.

Exit codes: 0 all properties hold; 1 a property is violated, and the command that replays the run
is printed; 2 usage error; 125 internal error, for example a full disk.

Examples:
  Three of sixteen processes share three slots:
    kgate sim
  All processes request:
    kgate sim --protocol raymond -n 128 --load high
  Crashes, detected by heartbeats:
    kgate sim --protocol bas -n 32 --random-crashes 3
  Tokens on a tree; processes crash and recover:
    kgate sim --protocol tree-token -n 22 --load high --random-recoveries 20
  One process stops for a while, two are cut off:
    kgate sim --detector oracle=5 --pause 1@50..80 --partition 0+3@100..150
  Self-stabilization: start from arbitrary memory:
    kgate sim --protocol stabilizing -n 12 --load high --hold 1 --start random
  A published algorithm grants three slots where k = 2:
    kgate sim -n 4 -k 2 --load high --latency uniform=0.1..2 --hold 1 \\
        --as-printed D2
  Numbered slots: requests of up to three slots, crashes with recovery, k changes twice:
    kgate sim --protocol slots -n 8 -k 4 --load high --hold 1 --weight-max 3 \
        --random-recoveries 20 --resize 2@300,6@600
  The first ten time units as a space-time diagram:
    kgate sim --protocol raymond -n 4 -k 2 --load high --hold 1 --diagram run.svg --window 0..10
  A thousand random settings of every protocol:
    kgate sim --swarm --seeds 1000
  robust-2012, section 5, up to the fifth crash:
    kgate sim --protocol raymond -n 16 -k 5 --load first=5 --hold 0.8 \\
        --first-request 0.9 --send 0 --latency constant=0.01 --receive 0 \\
        --duration 30 --crash 15@5,14@10,13@15,12@20,11@25";

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// The protocol, for example raymond; `kgate protocols` lists them
    #[arg(long, value_name = "NAME", default_value = "vcube")]
    pub(crate) protocol: String,
    /// Number of processes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 16)]
    pub(crate) processes: u32,
    /// Number of slots: at most k are in use at once
    #[arg(short = 'k', long, value_name = "K", default_value_t = 3)]
    pub(crate) k: u32,
    /// Which processes request: `low` = the first k, `high` = all, `first=M` = the first M,
    /// `only=P+P` = the processes listed
    #[arg(long, default_value = "low", value_parser = parse::load)]
    pub(crate) load: Requesters,
    /// How long a granted slot is held
    #[arg(long, value_name = "T", default_value = "0.0002", value_parser = parse::span)]
    pub(crate) hold: Span,
    /// Pause between a release and the next request of a process; `gaussian=MEAN,DEVIATION`
    /// draws it at random [default: 0.1]
    #[arg(long, value_name = "T", value_parser = parse::think)]
    pub(crate) think: Option<Think>,
    /// Replaces --think: a Gaussian pause with mean R x hold and a quarter of that as deviation
    /// (timer-free-2009)
    #[arg(long, value_name = "R", value_parser = parse::rho, conflicts_with = "think")]
    pub(crate) rho: Option<f64>,
    /// Time of the first request of each process
    #[arg(long, value_name = "T", default_value = "0", value_parser = parse::span)]
    pub(crate) first_request: Span,
    /// Number of requests per process [default: unlimited until the run ends]
    #[arg(long, value_name = "E", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) entries: Option<u32>,
    /// Each process requests again while it holds a slot, halfway through (tree-token, slots)
    #[arg(long)]
    pub(crate) ask_inside: bool,
    /// Number of clients per process; each requests independently (slots)
    #[arg(
        long, value_name = "C", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub(crate) clients: u32,
    /// Largest weight: each request takes between 1 and H slots, drawn at random (slots)
    #[arg(
        long, value_name = "H", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) weight_max: u32,
    /// Probability that a waiting client withdraws its request, for example 0.1 (slots)
    #[arg(long, value_name = "X", default_value = "0")]
    pub(crate) withdraw: Chance,
    /// Longest time such a client waits before it withdraws; needs --withdraw
    #[arg(long, value_name = "T", default_value = "10", value_parser = parse::span)]
    pub(crate) patience: Span,
    /// Changes of k as k@time, for example 2@300,6@600; each process learns of a change within
    /// the notification delay (slots)
    #[arg(long, value_name = "K@T,..", value_delimiter = ',', value_parser = parse::resize)]
    pub(crate) resize: Vec<(Span, u32)>,
    #[command(flatten)]
    pub(crate) slots: SlotArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Interval at which a process repeats a request to processes that have not answered;
    /// required with --loss (slots) [default: never]
    #[arg(long, value_name = "T", value_parser = parse::refresh)]
    pub(crate) ask_again: Option<Span>,
    /// Time to send a message (t_s)
    #[arg(long, value_name = "T", default_value = "0.1", value_parser = parse::span)]
    pub(crate) send: Span,
    /// Time a message spends in the network (t_t) [default: 0.8]
    #[arg(long, value_name = "T", value_parser = parse::span)]
    pub(crate) transmit: Option<Span>,
    /// Replaces --transmit: `constant=T`, `uniform=A..B`, `exponential=MEAN`, or clusters with
    /// a fixed latency per pair: `grid=10x10,intra=0.010..0.030,inter=0.180..0.220`
    #[arg(long, value_name = "SHAPE", value_parser = parse::latency)]
    pub(crate) latency: Option<Latency>,
    /// Time to receive a message (t_r)
    #[arg(long, value_name = "T", default_value = "0.1", value_parser = parse::span)]
    pub(crate) receive: Span,
    /// Whether sends of a process wait for each other
    #[arg(long, value_enum, value_name = "HOW", default_value = "queue")]
    pub(crate) send_cost: SendCostArg,
    /// Whether receives of a process wait for each other
    #[arg(long, value_enum, value_name = "HOW", default_value = "parallel")]
    pub(crate) receive_cost: ReceiveCostArg,
    /// Deliver the messages of each channel in the order in which they were sent, whatever the
    /// latency
    #[arg(long)]
    pub(crate) fifo: bool,
    /// Measured time; requests that are waiting when it ends are still served, checked and
    /// traced, but not counted
    #[arg(long, value_name = "T", default_value = "1000", value_parser = parse::span)]
    pub(crate) duration: Span,
    /// Check but do not measure until this time, so that the measurement starts in a steady
    /// state
    #[arg(long, value_name = "T", default_value = "0", value_parser = parse::span)]
    pub(crate) warmup: Span,
    /// Seed of all randomness, decimal or 0x..
    #[arg(long, default_value = "1", value_parser = parse::seed)]
    pub(crate) seed: u64,
    /// Crashes: process@time for a permanent crash, process@time..time for a crash with
    /// recovery (tree-token: with its stable storage; slots: with empty memory). A process that
    /// is down when the measured time ends recovers then
    #[arg(long, value_name = "P@T,..", value_delimiter = ',', value_parser = parse::crash)]
    pub(crate) crash: Vec<kgate_sim::Crash>,
    /// Number of additional permanent crashes at random times; unless --load is high, only
    /// processes that do not request crash
    #[arg(long, value_name = "F", default_value_t = 0)]
    pub(crate) random_crashes: u32,
    /// Number of crashes with recovery at random times, of any process (tree-token, slots)
    #[arg(
        long, value_name = "R", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=1_000_000)
    )]
    pub(crate) random_recoveries: u32,
    /// Longest downtime of a crash from --random-recoveries
    #[arg(long, value_name = "T", default_value = "10", value_parser = parse::span)]
    pub(crate) down_for: Span,
    /// What happens to messages for a process that is down and will recover
    #[arg(long, value_enum, value_name = "HOW", default_value = "lost")]
    pub(crate) down: DownArg,
    /// Processes that stop for a while and continue, as process@time..time
    #[arg(long, value_name = "P@T..T,..", value_delimiter = ',')]
    pub(crate) pause: Vec<Pause>,
    /// Processes cut off for a while: P+P@T..T both directions, P+P>@T..T outgoing messages
    /// only, >P+P@T..T incoming messages only. A message that would cross is delivered when the
    /// partition heals, or is lost if the protocol tolerates loss
    #[arg(long, value_name = "P+P@T..T,..", value_delimiter = ',')]
    pub(crate) partition: Vec<Partition>,
    /// Links that lose every message from process P to process Q from time T to the end of the run;
    /// every two processes must still reach each other through a third one (home with --ask-again)
    #[arg(long, value_name = "P-Q@T,..", value_delimiter = ',')]
    pub(crate) cut: Vec<LinkCut>,
    /// Probability that a message is lost within the measured time, for example 0.05
    /// (stabilizing; slots with --ask-again)
    #[arg(long, value_name = "X", default_value = "0")]
    pub(crate) loss: Chance,
    /// Probability that a message is delivered twice within the measured time
    #[arg(long, value_name = "X", default_value = "0")]
    pub(crate) duplicates: Chance,
    /// Number of crashes that the protocol is configured to tolerate, below k (timer-free)
    /// [default: k-1]
    #[arg(long, value_name = "F")]
    pub(crate) tolerate: Option<u32>,
    /// Interval at which idle processes send messages: timer-free then detects crashes without
    /// requests (off by default, as in the paper); stabilizing repeats its state [default
    /// there: --detect-interval]
    #[arg(long, value_name = "T", value_parser = parse::refresh)]
    pub(crate) refresh: Option<Span>,
    /// Topology of tree-token and stabilizing: radial, balanced, path, star, caterpillar,
    /// random (a tree); ring, grid, complete (stabilizing only); or a file of edges [default:
    /// radial for tree-token, grid for stabilizing]
    #[arg(long, value_name = "SHAPE|FILE")]
    pub(crate) graph: Option<String>,
    /// Simulate messages, or the paper's own state model (stabilizing)
    #[arg(long, value_enum, value_name = "MODEL", default_value = "messages")]
    pub(crate) model: ModelArg,
    /// Which enabled processes act in each step of the state model [default: distributed]
    #[arg(long, value_enum, value_name = "DAEMON")]
    pub(crate) daemon: Option<DaemonArg>,
    /// Number of rounds to run in the state model [default: 1000]
    #[arg(long, value_name = "ROUNDS")]
    pub(crate) rounds: Option<u64>,
    /// Start from clean states or from arbitrary states (stabilizing)
    #[arg(long, value_enum, value_name = "STATE", default_value = "clean")]
    pub(crate) start: StartArg,
    /// Transient faults: processes whose memory becomes arbitrary, as process@time, in the
    /// state model process@round (stabilizing)
    #[arg(long, value_name = "P@T,..", value_delimiter = ',', value_parser = parse::strike)]
    pub(crate) corrupt: Vec<(NodeId, Span)>,
    /// Largest number of forged messages that a transient fault puts into each channel to the
    /// process it hits
    #[arg(
        long, value_name = "C", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(..=1000)
    )]
    pub(crate) forged: u32,
    /// How processes learn of crashes: the protocol's `own` detector, or `oracle=T` = every
    /// process knows within T
    #[arg(long, value_name = "WHICH", default_value = "own", value_parser = parse::detector)]
    pub(crate) detector: Detector,
    /// Interval between the tests of the detector
    #[arg(long, value_name = "T", default_value = "10", value_parser = parse::span)]
    pub(crate) detect_interval: Span,
    /// How long the detector waits for an answer [default: twice the longest delay, at least 4]
    #[arg(long, value_name = "T", value_parser = parse::span)]
    pub(crate) detect_timeout: Option<Span>,
    /// Run a published defect as printed instead of repaired, for example D2; `kgate protocols`
    /// lists them
    #[arg(long, value_name = "ID")]
    pub(crate) as_printed: Option<String>,
    /// Event queue that drives the run; both give the same result
    #[arg(long, value_enum, default_value = "bucket")]
    pub(crate) engine: EngineArg,
    /// Number of runs, with consecutive seeds from --seed on
    #[arg(
        long, value_name = "R", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) runs: u32,
    /// Run many random settings, each generated from one seed with the faults that the protocol
    /// tolerates; shrink and save what fails. Takes only --protocol (default here: all),
    /// --seeds, --seed, --as-printed, --save and --json
    #[arg(long)]
    pub(crate) swarm: bool,
    /// Number of seeds per protocol in a swarm, from --seed on [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: Option<u64>,
    /// Directory in which a swarm saves failing seeds, one file each [default:
    /// verification/seeds]
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Write requests, sends, deliveries, grants, crashes and suspicions to a file, one JSON
    /// object per line
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Draw the run as a space-time diagram into an SVG file; choose a --window of a long run
    #[arg(long, value_name = "FILE")]
    pub(crate) diagram: Option<PathBuf>,
    /// Draw only this interval of time, for example 10..20; either end may be omitted
    #[arg(long, value_name = "T..T", requires = "diagram")]
    pub(crate) window: Option<Window>,
    /// Draw only these processes, for example 0..7 (both included) or 0,3,9
    #[arg(long, value_name = "P..P,..", requires = "diagram")]
    pub(crate) show: Option<Shown>,
}

/// Which processes request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requesters {
    Low,
    High,
    First(u32),
    Only(Vec<NodeId>),
}

/// How processes learn of crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detector {
    Own,
    Oracle(Span),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    /// the fast queue
    Bucket,
    /// the simple queue, to check the fast one against
    Heap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SendCostArg {
    /// one send queue per process: every copy occupies it
    Queue,
    /// only the copies of one broadcast wait for each other
    Staggered,
    /// sends never wait
    Flat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReceiveCostArg {
    /// receives never wait
    Parallel,
    /// one receive queue per process
    Queue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DownArg {
    /// they are lost
    Lost,
    /// they are delivered after the recovery
    Kept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModelArg {
    /// processes exchange messages
    Messages,
    /// a process reads its neighbours' states; a daemon chooses which processes act
    State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DaemonArg {
    /// all enabled processes
    Synchronous,
    /// one enabled process, at random
    Central,
    /// some enabled processes, at random; none is left out for ever
    Distributed,
    /// an adversary that leaves out any process it can
    Unfair,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StartArg {
    /// as the algorithm initialises them
    Clean,
    /// arbitrary states of their domains, and forged messages
    Random,
}

impl From<DownArg> for Down {
    fn from(arg: DownArg) -> Self {
        match arg {
            DownArg::Lost => Down::Lost,
            DownArg::Kept => Down::Kept,
        }
    }
}

impl From<SendCostArg> for SendCost {
    fn from(arg: SendCostArg) -> Self {
        match arg {
            SendCostArg::Queue => SendCost::Queue,
            SendCostArg::Staggered => SendCost::Staggered,
            SendCostArg::Flat => SendCost::Flat,
        }
    }
}

impl From<ReceiveCostArg> for ReceiveCost {
    fn from(arg: ReceiveCostArg) -> Self {
        match arg {
            ReceiveCostArg::Parallel => ReceiveCost::Parallel,
            ReceiveCostArg::Queue => ReceiveCost::Queue,
        }
    }
}
