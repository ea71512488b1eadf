//! The options of `kgate check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kgate_check::Channels;

use super::logged::LogArgs;
use crate::sim::options::DownArg;
use crate::slots::SlotArgs;

pub(crate) const HELP: &str = "\
The model checker tries every possible next event: a message arrives, a process requests, releases
or crashes, a process learns of a crash (each at any time). Safety is checked in every state.
Liveness is checked in quiescent states: a request that is waiting when nothing is in progress
waits for ever. With --fair, infinite schedules are checked too: a schedule in which every event
that stays possible happens eventually must not starve a process. The search stops at the first
violation; an incomplete search says that it is not exhaustive.

The protocol stabilizing never becomes quiescent. It is explored in the state model instead: every
configuration of the network, reachable or not, and every step of every daemon. Clients, crashes,
channels and schedules do not exist there.

The protocol home follows an agreed log, which is a part of what is explored: the log may suspect,
drain or evict a process, add it again, change k, or hold a permit, and every process applies each
entry at any time. Clients may ask another process to go on there. Messages arrive in any order,
and p0 is home as long as it is fit, then p1, and so on. --loss and --cuts make
processes repeat messages.

Exit codes: 0 all properties hold; 1 a property is violated; 2 usage error.

Examples:
  Two entries each, all schedules:
    kgate check --protocol raymond -n 3 -k 1 --entries 2
  One crash, of which every process learns eventually:
    kgate check --protocol vcube -n 3 -k 1 --crashes 1
  Crashes with recovery, on a path:
    kgate check --protocol tree-token -n 3 --graph path --restarts 1
  Requests for one or both of two slots, and a process that recovers with empty memory:
    kgate check --protocol slots -n 2 -k 2 --weight-max 2 --restarts 1 --channels unordered
  The home of a gate is drained while a client goes on elsewhere, by two attempts:
    kgate check --protocol home --entries 0,0,1 --drains 1 --faulty 0 --adoptions 2
  Self-stabilization: every start configuration, every daemon:
    kgate check --protocol stabilizing -n 3 -k 2 --graph path
  A published algorithm deadlocks without a fault:
    kgate check --protocol vcube -n 2 -k 1 --entries 2 --as-printed D1 --shortest
  A published algorithm grants three slots where k = 2; draw the shortest schedule (some 10 s):
    kgate check --protocol vcube -n 4 -k 2 --entries 2,1,1,0 --as-printed D2 \\
        --property at-most-k --shortest --diagram d2.svg";

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The protocol, for example raymond; `kgate protocols` lists them
    #[arg(long, value_name = "NAME", default_value = "raymond")]
    pub(crate) protocol: String,
    /// Number of processes
    #[arg(
        short = 'n', long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(2..=16)
    )]
    pub(crate) processes: u32,
    /// Number of slots
    #[arg(
        short = 'k', long, value_name = "K", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=16)
    )]
    pub(crate) k: u32,
    /// Number of requests per process; a list gives p0, p1, .., and its last number counts for
    /// all further ones
    #[arg(
        long, value_name = "E,..", default_value = "1", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(..=100)
    )]
    pub(crate) entries: Vec<u32>,
    /// Clients may request again while they hold a slot (tree-token, slots)
    #[arg(long)]
    pub(crate) ask_inside: bool,
    /// Number of clients per process: the most requests that wait there at once (slots, home)
    #[arg(
        long, value_name = "C", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=8)
    )]
    pub(crate) clients: u32,
    /// Largest weight of a request: each request takes any number of slots up to it (slots,
    /// home)
    #[arg(
        long, value_name = "H", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=16)
    )]
    pub(crate) weight_max: u32,
    /// Values that k takes, one after the other; each process learns of each at any time
    /// (slots, home)
    #[arg(
        long, value_name = "K,..", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=16)
    )]
    pub(crate) resize: Vec<u32>,
    #[command(flatten)]
    pub(crate) slots: SlotArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Processes repeat requests to processes that have not answered whenever a timer expires
    /// (slots, with --expiries)
    #[arg(long, requires = "expiries")]
    pub(crate) ask_again: bool,
    /// Number of timer expiries in total [default: unlimited]. Liveness is not checked while a
    /// timer is running. (home: number of early expiries [default: 0], in addition to those when
    /// no message from or to the process is on its way)
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(..=100))]
    pub(crate) expiries: Option<u32>,
    /// Number of processes that may crash permanently
    #[arg(
        long, value_name = "F", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=16)
    )]
    pub(crate) crashes: u32,
    /// Number of crashes with recovery (tree-token: with its stable storage; slots, home: with
    /// empty memory)
    #[arg(
        long, value_name = "R", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=16)
    )]
    pub(crate) restarts: u32,
    /// What happens to messages for a process that is down and will recover, with --restarts
    #[arg(long, value_enum, value_name = "HOW", default_value = "lost")]
    pub(crate) down: DownArg,
    /// Number of requests that may be withdrawn
    #[arg(
        long, value_name = "W", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=100)
    )]
    pub(crate) withdrawals: u32,
    /// Number of messages that may be lost. Liveness is not checked beyond the faults that the
    /// protocol claims to tolerate; the output says so
    #[arg(
        long, value_name = "L", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=100)
    )]
    pub(crate) loss: u32,
    /// Number of messages that may be delivered twice
    #[arg(
        long, value_name = "D", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=100)
    )]
    pub(crate) duplicates: u32,
    /// Whether the messages of a channel stay in order
    #[arg(long, value_enum, value_name = "HOW", default_value = "fifo")]
    pub(crate) channels: ChannelsArg,
    /// Topology of tree-token (radial, balanced, path, star, caterpillar, random) [default:
    /// radial] or of stabilizing (also ring, grid, complete) [default: grid]; or a file of
    /// edges
    #[arg(long, value_name = "SHAPE")]
    pub(crate) graph: Option<String>,
    /// Number of crashes that the protocol is configured to tolerate (timer-free) [default:
    /// --crashes]. Schedules in which a live process is suspected are then skipped: the paper
    /// excludes them (responsiveness)
    #[arg(long, value_name = "F")]
    pub(crate) tolerate: Option<u32>,
    /// Run a published defect as printed instead of repaired, for example D1
    #[arg(long, value_name = "ID")]
    pub(crate) as_printed: Option<String>,
    /// Search breadth-first: needs more memory and finds a shortest counterexample
    #[arg(long)]
    pub(crate) shortest: bool,
    /// Treat states as equal that differ only in the names of processes, for protocols that do
    /// not compare names (tree-token with k = 1); not with --fair or --shortest
    #[arg(long, conflicts_with_all = ["fair", "shortest"])]
    pub(crate) symmetry: bool,
    /// Check only this property, or several; a part of the name is enough, for example
    /// at-most-k
    #[arg(long, value_name = "NAME")]
    pub(crate) property: Vec<String>,
    /// Also search for fair infinite schedules that starve a process; needs more memory
    #[arg(long)]
    pub(crate) fair: bool,
    /// Stop after this number of states
    #[arg(long, value_name = "M")]
    pub(crate) max_states: Option<usize>,
    /// Stop after this number of seconds
    #[arg(long, value_name = "S")]
    pub(crate) max_seconds: Option<u64>,
    /// Stop when this many GiB of memory are in use
    #[arg(
        long, value_name = "GIB", default_value_t = 16,
        value_parser = clap::value_parser!(u64).range(1..=1 << 20)
    )]
    pub(crate) max_memory: u64,
    /// Write the counterexample as a scenario for kgate scenario
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,
    /// Draw the counterexample as a space-time diagram (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) diagram: Option<PathBuf>,
    /// Walk through the states by hand: serve stateright's Explorer on this address until
    /// interrupted
    #[arg(
        long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:3000",
        conflicts_with_all = [
            "json", "fair", "shortest", "symmetry", "property", "scenario", "diagram",
            "max_states", "max_seconds"
        ]
    )]
    pub(crate) explore: Option<std::net::SocketAddr>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChannelsArg {
    /// in the order in which they were sent
    Fifo,
    /// any message may arrive next
    Unordered,
}

impl From<ChannelsArg> for Channels {
    fn from(arg: ChannelsArg) -> Self {
        match arg {
            ChannelsArg::Fifo => Self::Fifo,
            ChannelsArg::Unordered => Self::Unordered,
        }
    }
}
