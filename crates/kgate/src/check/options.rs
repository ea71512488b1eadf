//! The options of `kgate check`.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use kgate_check::Channels;

use crate::sim::options::DownArg;
use crate::slots::SlotArgs;

pub(crate) const HELP: &str = "\
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
    #[arg(short = 'k', long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16), env = "KGATE_OPT_K")]
    pub(crate) k: u32,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChannelsArg {
    /// they do
    Fifo,
    /// any of them may arrive next
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
