//! The options of `kgate sim`.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use kgate_core::{NodeId, Span};
use kgate_sim::{Chance, Down, Latency, Partition, Pause, ReceiveCost, SendCost, Think};
use kgate_spec::view::{Shown, Window};

use crate::parse;
use crate::slots::SlotArgs;

pub(crate) const HELP: &str = "\
Times are in time units (t.u.), as in the papers; think of seconds. Without options, the setting is that of vcube-2018 \
section 8: t_s = t_r = 0.1, t_t = 0.8, hold 0.0002, think 0.1, k = 3, 1000 t.u., three processes ask.

Everything random comes from --seed: the same command line gives the same run and the same hash, with either engine.
After the measured time nobody asks any more and the run goes on until every request is answered or nothing can change;
so a deadlock is found, not waited for. A run that is not correct exits with 1 and says how to replay it.

Examples:
  Three of sixteen processes share three units:
    kgate sim
  Everybody wants in:
    kgate sim --protocol raymond -n 128 --load high
  With crashes, found by heartbeats:
    kgate sim --protocol bas -n 32 --random-crashes 3
  Tokens on a tree, processes that crash and come back:
    kgate sim --protocol tree-token -n 22 --load high --random-recoveries 20
  A process that stops, and two that are cut off:
    kgate sim --detector oracle=5 --pause 1@50..80 --partition 0+3@100..150
  From any memory at all to a working gate:
    kgate sim --protocol stabilizing -n 12 --load high --hold 1 --start random
  A published algorithm lets three through a gate for two:
    kgate sim -n 4 -k 2 --load high --latency uniform=0.1..2 --hold 1 \\
        --as-printed D2
  Numbered slots, requests of up to three, processes that come back with nothing, a k that changes:
    kgate sim --protocol slots -n 8 -k 4 --load high --hold 1 --weight-max 3 \
        --random-recoveries 20 --resize 2@300,6@600
  The first ten time units as a space-time diagram:
    kgate sim --protocol raymond -n 4 -k 2 --load high --hold 1 --diagram run.svg --window 0..10
  A thousand settings of every protocol, each drawn from a seed:
    kgate sim --swarm --seeds 1000
  robust-2012, section 5, up to the fifth crash:
    kgate sim --protocol raymond -n 16 -k 5 --load first=5 --hold 0.8 \\
        --first-request 0.9 --send 0 --latency constant=0.01 --receive 0 \\
        --duration 30 --crash 15@5,14@10,13@15,12@20,11@25";

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Which protocol; `kgate protocols` lists them
    #[arg(long, value_name = "NAME", default_value = "vcube", env = "KGATE_OPT_PROTOCOL")]
    pub(crate) protocol: String,
    /// How many processes there are
    #[arg(short = 'n', long, value_name = "N", default_value_t = 16, env = "KGATE_OPT_PROCESSES")]
    pub(crate) processes: u32,
    /// How many units they share: at most k are inside at once
    #[arg(short = 'k', long, value_name = "K", default_value_t = 3, env = "KGATE_OPT_K")]
    pub(crate) k: u32,
    /// Who asks: `low` = the first k processes, `high` = all, `first=M` = the first M, `only=P+P` =
    /// these
    #[arg(long, default_value = "low", value_parser = parse::load, env = "KGATE_OPT_LOAD")]
    pub(crate) load: Asking,
    /// How long a unit is held
    #[arg(long, value_name = "T", default_value = "0.0002", value_parser = parse::span, env = "KGATE_OPT_HOLD")]
    pub(crate) hold: Span,
    /// How long a process waits after a release before it asks again [default: 0.1];
    /// `gaussian=MEAN,DEVIATION` draws it
    #[arg(long, value_name = "T", value_parser = parse::think, env = "KGATE_OPT_THINK")]
    pub(crate) think: Option<Think>,
    /// Replaces --think: a Gaussian pause with mean R x hold and a quarter of that as deviation
    /// (timer-free-2009)
    #[arg(
        long, value_name = "R", value_parser = parse::rho, conflicts_with = "think", env = "KGATE_OPT_RHO"
    )]
    pub(crate) rho: Option<f64>,
    /// When each process asks first
    #[arg(long, value_name = "T", default_value = "0", value_parser = parse::span, env = "KGATE_OPT_FIRST_REQUEST")]
    pub(crate) first_request: Span,
    /// How often each process asks [default: until the run ends]
    #[arg(long, value_name = "E", value_parser = clap::value_parser!(u32).range(1..), env = "KGATE_OPT_ENTRIES")]
    pub(crate) entries: Option<u32>,
    /// Each process asks again while it is still inside, halfway through (tree-token, slots)
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_ASK_INSIDE")]
    pub(crate) ask_inside: bool,
    /// How many clients each of these processes has, each asking by itself (slots)
    #[arg(long, value_name = "C", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000), env = "KGATE_OPT_CLIENTS")]
    pub(crate) clients: u32,
    /// The most units that a client asks for at once: each request draws a number up to it (slots)
    #[arg(long, value_name = "H", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), env = "KGATE_OPT_WEIGHT_MAX")]
    pub(crate) weight_max: u32,
    /// How likely a client gives up while it waits, as in 0.1 (slots)
    #[arg(long, value_name = "X", default_value = "0", env = "KGATE_OPT_WITHDRAW")]
    pub(crate) withdraw: Chance,
    /// How long such a client waits at most, with --withdraw
    #[arg(long, value_name = "T", default_value = "10", value_parser = parse::span, env = "KGATE_OPT_PATIENCE")]
    pub(crate) patience: Span,
    /// What k becomes, as units@time; each process learns of it within the time of news (slots)
    #[arg(
        long, value_name = "K@T,..", value_delimiter = ',', value_parser = parse::resize, env = "KGATE_OPT_RESIZE"
    )]
    pub(crate) resize: Vec<(Span, u32)>,
    #[command(flatten)]
    pub(crate) slots: SlotArgs,
    /// How often a process asks again whoever has not answered: --loss needs it (slots) [default:
    /// never]
    #[arg(long, value_name = "T", value_parser = parse::refresh, env = "KGATE_OPT_ASK_AGAIN")]
    pub(crate) ask_again: Option<Span>,
    /// Time to send a message (t_s)
    #[arg(long, value_name = "T", default_value = "0.1", value_parser = parse::span, env = "KGATE_OPT_SEND")]
    pub(crate) send: Span,
    /// Time a message spends in the network (t_t) [default: 0.8]
    #[arg(long, value_name = "T", value_parser = parse::span, env = "KGATE_OPT_TRANSMIT")]
    pub(crate) transmit: Option<Span>,
    /// Replaces --transmit: `constant=T`, `uniform=A..B`, `exponential=MEAN`, or clusters with a
    /// fixed latency for each pair: `grid=10x10,intra=0.010..0.030,inter=0.180..0.220`
    #[arg(long, value_name = "SHAPE", value_parser = parse::latency, env = "KGATE_OPT_LATENCY")]
    pub(crate) latency: Option<Latency>,
    /// Time to receive a message (t_r)
    #[arg(long, value_name = "T", default_value = "0.1", value_parser = parse::span, env = "KGATE_OPT_RECEIVE")]
    pub(crate) receive: Span,
    /// Whether sends wait for each other
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value = "queue",
        env = "KGATE_OPT_SEND_COST"
    )]
    pub(crate) send_cost: SendCostArg,
    /// Whether receives wait for each other
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value = "parallel",
        env = "KGATE_OPT_RECEIVE_COST"
    )]
    pub(crate) receive_cost: ReceiveCostArg,
    /// Messages from one process to another never overtake each other, whatever the latency
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_FIFO")]
    pub(crate) fifo: bool,
    /// How long to run; who waits then is still served and checked, and written to a trace, but not
    /// counted
    #[arg(long, value_name = "T", default_value = "1000", value_parser = parse::span, env = "KGATE_OPT_DURATION")]
    pub(crate) duration: Span,
    /// What happens up to then is checked but not measured, so that a steady state is
    #[arg(long, value_name = "T", default_value = "0", value_parser = parse::span, env = "KGATE_OPT_WARMUP")]
    pub(crate) warmup: Span,
    /// What everything random comes from; decimal or 0x..
    #[arg(long, default_value = "1", value_parser = parse::seed, env = "KGATE_OPT_SEED")]
    pub(crate) seed: u64,
    /// Crashes: for good as process@time, with recovery as process@time..time (tree-token, with
    /// what was stored; slots, with nothing; who is down at the end of the measured time is back
    /// then)
    #[arg(
        long, value_name = "P@T,..", value_delimiter = ',', value_parser = parse::crash, env = "KGATE_OPT_CRASH"
    )]
    pub(crate) crash: Vec<kgate_sim::Crash>,
    /// More crashes at random times; unless all ask, of processes that do not ask
    #[arg(long, value_name = "F", default_value_t = 0, env = "KGATE_OPT_RANDOM_CRASHES")]
    pub(crate) random_crashes: u32,
    /// Crashes with recovery, at random times, of any process (tree-token, slots)
    #[arg(
        long, value_name = "R", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000),
        env = "KGATE_OPT_RANDOM_RECOVERIES"
    )]
    pub(crate) random_recoveries: u32,
    /// How long a process of those is down at most
    #[arg(long, value_name = "T", default_value = "10", value_parser = parse::span, env = "KGATE_OPT_DOWN_FOR")]
    pub(crate) down_for: Span,
    /// What becomes of messages to a process that is down and will come back
    #[arg(long, value_enum, value_name = "HOW", default_value = "lost", env = "KGATE_OPT_DOWN")]
    pub(crate) down: DownArg,
    /// Processes that stop for a time and go on, as process@time..time
    #[arg(long, value_name = "P@T..T,..", value_delimiter = ',', env = "KGATE_OPT_PAUSE")]
    pub(crate) pause: Vec<Pause>,
    /// Processes cut off for a time: P+P@T..T both ways, P+P>@T..T what they send, >P+P@T..T what
    /// is sent to them. What would cross arrives when the cut heals, or is lost where the protocol
    /// tolerates loss
    #[arg(long, value_name = "P+P@T..T,..", value_delimiter = ',', env = "KGATE_OPT_PARTITION")]
    pub(crate) partition: Vec<Partition>,
    /// How likely a message is lost, as in 0.05, within the measured time (stabilizing; slots with
    /// --ask-again)
    #[arg(long, value_name = "X", default_value = "0", env = "KGATE_OPT_LOSS")]
    pub(crate) loss: Chance,
    /// How likely a message arrives twice, within the measured time
    #[arg(long, value_name = "X", default_value = "0", env = "KGATE_OPT_DUPLICATES")]
    pub(crate) duplicates: Chance,
    /// How many crashes the protocol is told to tolerate, below k (timer-free) [default: k-1]
    #[arg(long, value_name = "F", env = "KGATE_OPT_TOLERATE")]
    pub(crate) tolerate: Option<u32>,
    /// How often idle processes speak: timer-free then finds crashes though nobody asks (off by
    /// default, as in the paper); stabilizing repeats its state so often [default there:
    /// --detect-interval]
    #[arg(long, value_name = "T", value_parser = parse::refresh, env = "KGATE_OPT_REFRESH")]
    pub(crate) refresh: Option<Span>,
    /// The network of tree-token and stabilizing: radial, balanced, path, star, caterpillar, random
    /// (of a tree), and ring, grid, complete (stabilizing only), or a file of edges [default:
    /// radial for tree-token, grid for stabilizing]
    #[arg(long, value_name = "SHAPE|FILE", env = "KGATE_OPT_GRAPH")]
    pub(crate) graph: Option<String>,
    /// Run over messages, or in the paper's own state model (stabilizing)
    #[arg(
        long,
        value_enum,
        value_name = "MODEL",
        default_value = "messages",
        env = "KGATE_OPT_MODEL"
    )]
    pub(crate) model: ModelArg,
    /// Who may act, in the state model [default: distributed]
    #[arg(long, value_enum, value_name = "DAEMON", env = "KGATE_OPT_DAEMON")]
    pub(crate) daemon: Option<DaemonArg>,
    /// How many rounds to run in the state model [default: 1000]
    #[arg(long, value_name = "ROUNDS", env = "KGATE_OPT_ROUNDS")]
    pub(crate) rounds: Option<u64>,
    /// Start from clean states, or from any states at all (stabilizing)
    #[arg(
        long,
        value_enum,
        value_name = "STATE",
        default_value = "clean",
        env = "KGATE_OPT_START"
    )]
    pub(crate) start: StartArg,
    /// Processes whose memory becomes anything, as process@time, in the state model process@round
    /// (stabilizing)
    #[arg(
        long, value_name = "P@T,..", value_delimiter = ',', value_parser = parse::strike, env = "KGATE_OPT_CORRUPT"
    )]
    pub(crate) corrupt: Vec<(NodeId, Span)>,
    /// Up to so many messages that nobody sent, in each channel to a process whose memory becomes
    /// anything
    #[arg(
        long, value_name = "C", default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=1000),
        env = "KGATE_OPT_FORGED"
    )]
    pub(crate) forged: u32,
    /// How crashes are learnt of: the protocol's `own` detector, or `oracle=T` = everybody knows
    /// within T
    #[arg(long, value_name = "WHICH", default_value = "own", value_parser = parse::detector, env = "KGATE_OPT_DETECTOR")]
    pub(crate) detector: Detector,
    /// How often the detector tests
    #[arg(
        long, value_name = "T", default_value = "10", value_parser = parse::span, env = "KGATE_OPT_DETECT_INTERVAL"
    )]
    pub(crate) detect_interval: Span,
    /// How long the detector waits for an answer [default: twice the longest delay, at least 4]
    #[arg(long, value_name = "T", value_parser = parse::span, env = "KGATE_OPT_DETECT_TIMEOUT")]
    pub(crate) detect_timeout: Option<Span>,
    /// Run a published defect as printed instead of repaired, e.g. D2; `kgate protocols` lists them
    #[arg(long, value_name = "ID", env = "KGATE_OPT_AS_PRINTED")]
    pub(crate) as_printed: Option<String>,
    /// Which event queue drives the run; the result is the same
    #[arg(long, value_enum, default_value = "bucket", env = "KGATE_OPT_ENGINE")]
    pub(crate) engine: EngineArg,
    /// Run that many seeds, from --seed on
    #[arg(
        long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..),
        env = "KGATE_OPT_RUNS"
    )]
    pub(crate) runs: u32,
    /// Run many settings, each drawn whole from a seed with the faults that the protocol tolerates;
    /// shrink and save what fails. Takes --protocol (or `all`, the default here), --seeds, --seed,
    /// --as-printed, --save and --json, nothing else
    #[arg(long)]
    pub(crate) swarm: bool,
    /// How many seeds a swarm runs of each protocol, from --seed on [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: Option<u64>,
    /// Where a swarm saves what fails, a file each [default: verification/seeds]
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    pub(crate) json: bool,
    /// Write requests, sends, deliveries, grants, crashes and suspicions to a file, one JSON object
    /// a line
    #[arg(long, value_name = "FILE", env = "KGATE_OPT_TRACE")]
    pub(crate) trace: Option<PathBuf>,
    /// Draw the run as a space-time diagram into an SVG file; of a long run, choose a --window
    #[arg(long, value_name = "FILE", env = "KGATE_OPT_DIAGRAM")]
    pub(crate) diagram: Option<PathBuf>,
    /// Draw only from a time to another, as in 10..20; either may be left out
    #[arg(long, value_name = "T..T", requires = "diagram")]
    pub(crate) window: Option<Window>,
    /// Draw only these processes, as in 0..7 (both included) or 0,3,9
    #[arg(long, value_name = "P..P,..", requires = "diagram")]
    pub(crate) show: Option<Shown>,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    Low,
    High,
    First(u32),
    Only(Vec<NodeId>),
}

/// How crashes are learnt of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detector {
    Own,
    Oracle(Span),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    /// the fast one
    Bucket,
    /// the simple one, to check the other
    Heap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SendCostArg {
    /// one send queue a process: every copy occupies it
    Queue,
    /// only the copies of one send wait for each other
    Staggered,
    /// nothing waits
    Flat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReceiveCostArg {
    /// nothing waits
    Parallel,
    /// one receive queue a process
    Queue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DownArg {
    /// they are lost
    Lost,
    /// they are delivered when it is back
    Kept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModelArg {
    /// processes send each other messages
    Messages,
    /// a process reads its neighbours' states; a daemon chooses who acts
    State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DaemonArg {
    /// everybody who can
    Synchronous,
    /// one at a time, at random
    Central,
    /// some of those who can, at random, and nobody is left out for ever
    Distributed,
    /// an adversary that leaves out whom it can
    Unfair,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StartArg {
    /// as the algorithm would initialise them
    Clean,
    /// any states of their domains, and messages that nobody sent
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
