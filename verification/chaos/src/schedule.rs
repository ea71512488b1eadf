//! The schedule of a run: its faults and their times, drawn from the seed before the run starts.
//!
//! A run first draws its kinds of faults (a swarm: few kinds at a time find more than all at once),
//! then one fault after the other until its time is over. Faults overlap, but not at one process.
//! Durations are drawn around the length of the lease: much shorter, about as long, longer.

mod draw;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

/// Version of the way in which schedules are drawn. After a change, old results say nothing about
/// the present seeds.
pub(crate) const VERSION: u32 = 2;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The network falls into two parts.
    Partition,
    /// Messages of some nodes pass in one direction only.
    OneWay,
    /// Two halves that both reach one node but not each other.
    Bridge,
    /// Short cuts, again and again.
    Flap,
    /// Nodes and clients are stopped for a time by SIGSTOP.
    Pause,
    /// kill -9 of nodes, which start again.
    Kill,
    /// Nodes are stopped by SIGTERM and start again.
    Stop,
    /// kill -9 of all nodes at once.
    RestartAll,
    /// kill -9 of clients.
    Clients,
    /// Clocks of wrong rates.
    Skew,
    /// A slow disk.
    SlowDisk,
    /// A node with little bandwidth.
    SlowPeer,
    /// A node that loses packets.
    Loss,
    /// A node behind a proxy that delays, stalls and breaks connections.
    Delay,
}

impl Kind {
    pub(crate) const ALL: [(Kind, &'static str); 14] = [
        (Kind::Partition, "partition"),
        (Kind::OneWay, "one-way"),
        (Kind::Bridge, "bridge"),
        (Kind::Flap, "flap"),
        (Kind::Pause, "pause"),
        (Kind::Kill, "kill"),
        (Kind::Stop, "stop"),
        (Kind::RestartAll, "restart-all"),
        (Kind::Clients, "clients"),
        (Kind::Skew, "skew"),
        (Kind::SlowDisk, "slow-disk"),
        (Kind::SlowPeer, "slow-peer"),
        (Kind::Loss, "loss"),
        (Kind::Delay, "delay"),
    ];

    /// The kinds that crash-stop nodes tolerate.
    pub(crate) const CRASH_STOP: [Kind; 3] = [Kind::Pause, Kind::Clients, Kind::SlowPeer];

    pub(crate) fn all() -> Vec<Kind> {
        Self::ALL.iter().map(|(kind, _)| *kind).collect()
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        let names = || Self::ALL.map(|(_, name)| name).join(", ");
        found
            .map(|(kind, _)| *kind)
            .ok_or_else(|| anyhow::anyhow!("unknown fault `{text}`: choose from {}", names()))
    }
}

/// A direction between two nodes: from, to.
pub(crate) type Way = (u32, u32);

/// Which processes of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Programs that use the library.
    Api,
    /// The fronts of `kgate run`.
    Fronts,
    /// Its guards.
    Guards,
    /// Front, guard and child of it together.
    Trees,
}

/// What a fault does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Cut(Vec<Way>),
    PauseNodes(Vec<u32>),
    PauseClients(u32, Part),
    KillNodes(Vec<u32>),
    StopNode(u32),
    KillClients(u32, Part),
    /// Limits the bandwidth of a node to that many kilobits per second.
    Narrow(u32, u32),
    /// Drops that many of a thousand packets of a node.
    Lose(u32, u32),
    /// The proxy of a node delays each piece by up to that many milliseconds.
    Delay(u32, u32),
}

/// A fault from its begin to its end, in milliseconds of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) begin_ms: u64,
    pub(crate) end_ms: u64,
    pub(crate) action: Action,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, begin_ms, end_ms, action } = self;
        write!(f, "{} from {begin_ms} to {end_ms} ms: ", kind.name())?;
        match action {
            Action::Cut(ways) => {
                let ways: Vec<String> =
                    ways.iter().map(|(from, to)| format!("{from}>{to}")).collect();
                write!(f, "cut {}", ways.join(" "))
            }
            Action::PauseNodes(nodes) => write!(f, "pause nodes {nodes:?}"),
            Action::PauseClients(node, part) => write!(f, "pause {part:?} at node {node}"),
            Action::KillNodes(nodes) => write!(f, "kill nodes {nodes:?}"),
            Action::StopNode(node) => write!(f, "stop node {node}"),
            Action::KillClients(node, part) => write!(f, "kill {part:?} at node {node}"),
            Action::Narrow(node, kbit) => write!(f, "node {node} has {kbit} kbit/s"),
            Action::Delay(node, most_ms) => {
                write!(f, "node {node} is behind a proxy that takes up to {most_ms} ms")
            }
            Action::Lose(node, of_thousand) => {
                write!(f, "node {node} loses {of_thousand} of 1000 packets")
            }
        }
    }
}

/// The parameters from which a schedule is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    /// The kinds that may be drawn.
    pub(crate) kinds: Vec<Kind>,
    /// Number of nodes; drawn if `None`.
    pub(crate) nodes: Option<u32>,
    /// Length of the lease; durations are drawn around it.
    pub(crate) lease_ms: u64,
    /// Maximum duration of a pause of a node and of a cut.
    pub(crate) silence_max_ms: Option<u64>,
    /// Maximum error of a clock, in parts per million.
    pub(crate) clock_error_ppm: u32,
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) nodes: u32,
    pub(crate) voters: u32,
    /// Gates and their k.
    pub(crate) gates: Vec<(String, u32)>,
    /// The kinds that this run has.
    pub(crate) kinds: Vec<Kind>,
    /// Ordered by begin.
    pub(crate) faults: Vec<Fault>,
    /// Error of the clock of each node and its clients.
    pub(crate) clock_ppm: Vec<i64>,
    /// Duration of a sync of each node's disk, in milliseconds.
    pub(crate) sync_ms: Vec<u64>,
}

impl Plan {
    /// Draws the plan; the same frame gives the same plan.
    pub(crate) fn draw(frame: &Frame) -> Self {
        draw::plan(frame)
    }
}
