//! The command line, from which help, checks and (later) completions are made.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use kgate_core::{NodeId, Span};
use kgate_sim::{Chance, Down, Latency, Partition, Pause, ReceiveCost, SendCost, Think};
use kgate_spec::view::{Shown, Window};

use crate::bench::BenchArgs;
use crate::certs::CertsArgs;
use crate::demo::node::DemoNodeArgs;
use crate::demo::{DemoArgs, HELP as DEMO_HELP};
use crate::evict::EvictArgs;
use crate::lab::{HELP as LAB_HELP, LabArgs};
use crate::members::{MEMBERS_HELP, MembersArgs};
use crate::node::{NODE_HELP, NodeArgs};
use crate::parse;
use crate::permits::RenewArgs;
use crate::run::options::{ACQUIRE_HELP, AcquireArgs, RUN_HELP, ReleaseArgs, RunArgs};
use crate::set::{SET_HELP, SetArgs};
use crate::slots::SlotArgs;
use crate::status::{ExplainArgs, LookArgs};

/// The gate that lets at most k through, anywhere, with no gatekeeper.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a permit of a gate
    #[command(after_long_help = RUN_HELP)]
    Run(Box<RunArgs>),
    /// Take a permit of a gate for a script, held in the background or by the cluster
    #[command(after_long_help = ACQUIRE_HELP)]
    Acquire(Box<AcquireArgs>),
    /// Let a permit of kgate acquire --ttl live on
    Renew(RenewArgs),
    /// Give back what kgate acquire took
    Release(ReleaseArgs),
    /// Show who holds what and who waits, at all nodes
    Status(LookArgs),
    /// Say why somebody waits at a gate: for whom, since when, and what would unblock it
    Explain(ExplainArgs),
    /// Show who holds what again whenever it has changed
    Watch(LookArgs),
    /// Give a gate another k or policy, online
    #[command(after_long_help = SET_HELP)]
    Set(SetArgs),
    /// List, add, remove, promote and demote the nodes of a cluster
    #[command(after_long_help = MEMBERS_HELP)]
    Members(MembersArgs),
    /// Have what a node holds come back, as soon as its lease is surely over; or a permit that the
    /// log holds
    Evict(EvictArgs),
    /// Run a node of a cluster
    #[command(after_long_help = NODE_HELP)]
    Node(NodeArgs),
    /// Simulate a protocol: processes ask for units again and again, and the run is measured and
    /// checked
    #[command(after_long_help = SIM_HELP)]
    Sim(Box<SimArgs>),
    /// Explore every schedule of a few processes (of stabilizing, every configuration), and print
    /// one that goes wrong if there is any
    #[command(after_long_help = CHECK_HELP)]
    Check(Box<CheckArgs>),
    /// Play scenarios: stories in which every step is prescribed, compared with what they tell
    #[command(after_long_help = SCENARIO_HELP)]
    Scenario(ScenarioArgs),
    /// Run experiments: grids of runs with tables, plots and verdicts on what was published
    #[command(after_long_help = LAB_HELP)]
    Lab(LabArgs),
    /// Look at a run that was written down with `kgate sim --trace`: as text, as a cluster_state,
    /// in ShiViz or Perfetto; or checker it
    #[command(after_long_help = TRACE_HELP)]
    Trace(TraceArgs),
    /// List the protocols: what each costs, which crashes it tolerates, where it is published
    Protocols(ProtocolsArgs),
    /// Make certificates for the nodes and clients of a cluster
    Certs(CertsArgs),
    /// Start a cluster on this machine, let clients contend, kill nodes, and checker what happened
    #[command(after_long_help = DEMO_HELP)]
    Demo(DemoArgs),
    /// Measure what kgate costs on this machine
    Bench(BenchArgs),
    #[command(hide = true)]
    DemoNode(DemoNodeArgs),
}

const SIM_HELP: &str = "\
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
    #[arg(short = 'k', long, value_name = "K", default_value_t = 3, env = "KGATE_OPT_UNITS")]
    pub(crate) units: u32,
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
    /// Where a swarm saves what fails, a file each [default: seeds]
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

const CHECK_HELP: &str = "\
Everything that can happen next is tried: which message arrives, who asks, who comes out, who crashes, who learns of a crash (each at \
any time). Liveness is checked where nothing is under way any more: whoever waits then waits for ever. With --fair, schedules that go \
on for ever are checked too: one that leaves somebody waiting although everything that could happen does happen in the end is wrong. The \
search stops at the first wrong state; one that was cut off says that it is not exhaustive. Exit code 1 means that a property does not hold.

The protocol stabilizing never rests, so its schedules have no end. It is explored in the state model instead: every configuration of the \
network, reached or not, and every step of every daemon from there. Clients, crashes, channels and schedules mean nothing then.

Examples:
  Two entries each, all schedules:
    kgate check --protocol raymond -n 3 -k 1 --entries 2
  A crash that everybody learns of some time:
    kgate check --protocol vcube -n 3 -k 1 --crashes 1
  Processes that crash and come back, on a path:
    kgate check --protocol tree-token -n 3 --graph path --restarts 1
  Two units of which each asks for one or both, and a process that comes back with nothing:
    kgate check --protocol slots -n 2 -k 2 --weight-max 2 --restarts 1 --channels unordered
  From any memory at all, under any daemon:
    kgate check --protocol stabilizing -n 3 -k 2 --graph path
  A published algorithm deadlocks without a fault:
    kgate check --protocol vcube -n 2 -k 1 --entries 2 --as-printed D1 --shortest
  A published algorithm lets three in where two may be: its shortest way there, drawn (some 10 s, a million states):
    kgate check --protocol vcube -n 4 -k 2 --entries 2,1,1,0 --as-printed D2 \\
        --property at-most-k --shortest --diagram d2.svg";

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Which protocol; `kgate protocols` lists them
    #[arg(long, value_name = "NAME", default_value = "raymond", env = "KGATE_OPT_PROTOCOL")]
    pub(crate) protocol: String,
    /// How many processes there are
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=16), env = "KGATE_OPT_PROCESSES")]
    pub(crate) processes: u32,
    /// How many units they share
    #[arg(short = 'k', long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16), env = "KGATE_OPT_UNITS")]
    pub(crate) units: u32,
    /// How often each process asks; several numbers: p0, p1, .., the last for all further ones
    #[arg(
        long, value_name = "E,..", default_value = "1", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(..=100), env = "KGATE_OPT_ENTRIES"
    )]
    pub(crate) entries: Vec<u32>,
    /// Clients may ask again while they are inside (tree-token, slots)
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_ASK_INSIDE")]
    pub(crate) ask_inside: bool,
    /// How many clients a process has: so many may wait there at once (slots)
    #[arg(long, value_name = "C", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8), env = "KGATE_OPT_CLIENTS")]
    pub(crate) clients: u32,
    /// The most units that a client asks for at once, where the protocol weighs requests: each asks
    /// for any number up to it
    #[arg(long, value_name = "H", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16), env = "KGATE_OPT_WEIGHT_MAX")]
    pub(crate) weight_max: u32,
    /// What k becomes, one value after the other, where the protocol tolerates that; each process
    /// learns of each at any time
    #[arg(
        long, value_name = "K,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16), env = "KGATE_OPT_RESIZE"
    )]
    pub(crate) resize: Vec<u32>,
    #[command(flatten)]
    pub(crate) slots: SlotArgs,
    /// Processes ask again whoever has not answered, whenever a timer runs out (slots, with
    /// --expiries)
    #[arg(long, value_parser = BoolishValueParser::new(), requires = "expiries", env = "KGATE_OPT_ASK_AGAIN")]
    pub(crate) ask_again: bool,
    /// How often timers may run out in all [default: as often as they like]. Where one still runs,
    /// liveness is not checked
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(..=100), env = "KGATE_OPT_EXPIRIES")]
    pub(crate) expiries: Option<u32>,
    /// How many processes may crash for good
    #[arg(long, value_name = "F", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=16), env = "KGATE_OPT_CRASHES")]
    pub(crate) crashes: u32,
    /// How often a process may crash and come back (tree-token, with what it had stored; slots,
    /// with nothing)
    #[arg(long, value_name = "R", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=16), env = "KGATE_OPT_RESTARTS")]
    pub(crate) restarts: u32,
    /// What becomes of messages to a process that is down and will come back, with --restarts
    #[arg(long, value_enum, value_name = "HOW", default_value = "lost", env = "KGATE_OPT_DOWN")]
    pub(crate) down: DownArg,
    /// How many requests may be withdrawn
    #[arg(long, value_name = "W", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100), env = "KGATE_OPT_WITHDRAWALS")]
    pub(crate) withdrawals: u32,
    /// How many messages may be lost. Where a protocol does not claim to tolerate what may go
    /// wrong, liveness is not checked, and that is told
    #[arg(long, value_name = "L", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100), env = "KGATE_OPT_LOSS")]
    pub(crate) loss: u32,
    /// How many messages may arrive twice
    #[arg(long, value_name = "D", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100), env = "KGATE_OPT_DUPLICATES")]
    pub(crate) duplicates: u32,
    /// Whether messages from one process to another keep their order
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value = "fifo",
        env = "KGATE_OPT_CHANNELS"
    )]
    pub(crate) channels: ChannelsArg,
    /// The network of tree-token (radial, balanced, path, star, caterpillar, random) [default:
    /// radial] or of stabilizing (these, ring, grid and complete) [default: grid]; or a file of
    /// edges
    #[arg(long, value_name = "SHAPE", env = "KGATE_OPT_GRAPH")]
    pub(crate) graph: Option<String>,
    /// How many crashes the protocol is told to tolerate (timer-free) [default: --crashes].
    /// Schedules in which somebody suspects a process that incarnations are left out then: the
    /// paper assumes that there are none (responsiveness)
    #[arg(long, value_name = "F", env = "KGATE_OPT_TOLERATE")]
    pub(crate) tolerate: Option<u32>,
    /// Run a published defect as printed instead of repaired, e.g. D1
    #[arg(long, value_name = "ID", env = "KGATE_OPT_AS_PRINTED")]
    pub(crate) as_printed: Option<String>,
    /// Visit the nearest states first: more memory, and a shortest schedule
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_SHORTEST")]
    pub(crate) shortest: bool,
    /// Take states for one that differ only in the names of processes, where the protocol does not
    /// compare names (tree-token with k = 1); not together with --fair, nor with --shortest
    #[arg(
        long, value_parser = BoolishValueParser::new(), conflicts_with_all = ["fair", "shortest"], env = "KGATE_OPT_SYMMETRY"
    )]
    pub(crate) symmetry: bool,
    /// Checker by this property alone, or by several; given by its name or a part of it, such as
    /// at-most-k
    #[arg(long, value_name = "NAME", env = "KGATE_OPT_PROPERTY")]
    pub(crate) property: Vec<String>,
    /// Look for schedules that go on for ever and starve somebody, too: more memory
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_FAIR")]
    pub(crate) fair: bool,
    /// Stop after so many states
    #[arg(long, value_name = "M", env = "KGATE_OPT_MAX_STATES")]
    pub(crate) max_states: Option<usize>,
    /// Stop after so many seconds
    #[arg(long, value_name = "S", env = "KGATE_OPT_MAX_SECONDS")]
    pub(crate) max_seconds: Option<u64>,
    /// Stop when so many GiB of memory are in use
    #[arg(long, value_name = "GIB", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1 << 20), env = "KGATE_OPT_MAX_MEMORY")]
    pub(crate) max_memory: u64,
    /// Write the counterexample as a scenario, for kgate scenario
    #[arg(long, value_name = "FILE", env = "KGATE_OPT_SCENARIO")]
    pub(crate) scenario: Option<PathBuf>,
    /// Draw the counterexample as a space-time diagram (SVG)
    #[arg(long, value_name = "FILE", env = "KGATE_OPT_DIAGRAM")]
    pub(crate) diagram: Option<PathBuf>,
    /// Walk through the states by hand: serves stateright's Explorer on that address until
    /// interrupted
    #[arg(
        long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:3000",
        conflicts_with_all = [
            "json", "fair", "shortest", "symmetry", "property", "scenario", "diagram", "max_states", "max_seconds"
        ],
        env = "KGATE_OPT_EXPLORE"
    )]
    pub(crate) explore: Option<std::net::SocketAddr>,
    /// Print one JSON object
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    pub(crate) json: bool,
}

const SCENARIO_HELP: &str = "\
A scenario is a small text file: its story, what is run, the steps, and below each step what followed from it. It is played by the \
simulator and checked by its checkers. Where a published defect is switched on, the same steps are played once more with the repair, as \
far as they are possible then, and nothing may go wrong. docs/SCENARIOS.md describes the format. To write one, write the header and the \
first steps and let --rewrite tell what follows; a step that is not possible is refused with those that are. Exit code 1 means that \
something came otherwise than told.

Examples:
  All stories of the repository:
    kgate scenario scenarios
  Tell anew what follows from each step:
    kgate scenario --rewrite scenarios/vcube/d1.txt
  Look at it:
    kgate scenario scenarios/vcube/d1.txt --diagram d1.svg
  Checker it by its trace alone:
    kgate scenario scenarios/raymond/two-of-three.txt --trace run.ndjson
    kgate trace check run.ndjson";

#[derive(Debug, Args)]
pub(crate) struct ScenarioArgs {
    /// Scenarios; of a directory, all its *.txt and those of the directories in it
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Write into each file what really followed from each step
    #[arg(long)]
    pub(crate) rewrite: bool,
    /// Write what happened to a file, one JSON object a line (one scenario only)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Draw it as a space-time diagram into an SVG file (one scenario only)
    #[arg(long, value_name = "FILE")]
    pub(crate) diagram: Option<PathBuf>,
    /// Print one JSON object a scenario
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DisseminationArg {
    /// straight to each
    Flat,
    /// down a tree, and the answers, put together, back up
    Tree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChannelsArg {
    /// they do
    Fifo,
    /// any of them may arrive next
    Unordered,
}

const TRACE_HELP: &str = "\
docs/TRACE.md describes the format; anybody may write it, for instance from the logs of a real cluster. A trace is read line by line and may be \
longer than memory. A cluster_state is drawn to scale; what is too much for one is refused with a window that would fit.

Examples:
  Write a run down, and read it:
    kgate sim --protocol raymond -n 3 -k 1 --load high --hold 1 --duration 10 --trace run.ndjson
    kgate trace run.ndjson
  Draw a part of it:
    kgate trace run.ndjson --as svg --window 2..6 --out run.svg
  Look at it in a browser, at https://bestchai.bitbucket.io/shiviz or https://ui.perfetto.dev:
    kgate trace run.ndjson --as shiviz --out run.log
    kgate trace run.ndjson --as perfetto --out run.json
  Checker it by itself:
    kgate trace check run.ndjson";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TraceCommand>,
    /// The trace; `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) file: Option<PathBuf>,
    /// As what to show it
    #[arg(long = "as", value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) form: FormArg,
    /// Only from a time to another, in time units, as in 10..20; either may be left out
    #[arg(long, value_name = "T..T")]
    pub(crate) window: Option<Window>,
    /// Only these processes, as in 0..7 (both included) or 0,3,9
    #[arg(long, visible_alias = "processes", value_name = "P..P,..")]
    pub(crate) show: Option<Shown>,
    /// Write it there [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormArg {
    /// a line an event, for people
    Text,
    /// a space-time diagram
    Svg,
    /// a log with vector clocks, for ShiViz
    Shiviz,
    /// Chrome trace events, for Perfetto
    Perfetto,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Checker a trace by itself, without the simulator or the protocol: at most k inside, slots
    /// and fences, who waits at the end
    Checker {
        /// The trace; `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print one JSON object
        #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ProtocolsArgs {
    /// Print one JSON object
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    pub(crate) json: bool,
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
