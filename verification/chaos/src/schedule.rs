//! What goes wrong in a run, and when: all of it drawn from the seed, before anything is started.
//!
//! A run draws which kinds of faults it has at all (a swarm: few kinds at a time show more than all
//! at once), then one fault after the other until its time is over. Faults overlap; those that
//! would meet at one process do not. Spans are drawn around the lease: much shorter, about as long,
//! longer.

mod draw;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

/// The way schedules are drawn. A change of it makes old results say nothing about the seeds of
/// today.
pub(crate) const VERSION: u32 = 2;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The network falls into two parts.
    Partition,
    /// Some are heard and do not hear, or the other way round.
    OneWay,
    /// Two halves that both see one node and not each other.
    Bridge,
    /// Short cuts, again and again.
    Flap,
    /// Nodes and clients are stopped for a time, as by `SIGSTOP` or a busy machine.
    Pause,
    /// kill -9 of nodes, which start again.
    Kill,
    /// Nodes are told to stop, and start again.
    Stop,
    /// kill -9 of all nodes at once.
    RestartAll,
    /// kill -9 of clients.
    Clients,
    /// Clocks of wrong rates.
    Skew,
    /// A disk that takes its time.
    SlowDisk,
    /// A node whose lines are narrow.
    SlowPeer,
    /// A node whose packets get lost.
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

    /// Those that nodes tolerate which take silence for death.
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
            .ok_or_else(|| anyhow::anyhow!("no fault is called `{text}`: choose of {}", names()))
    }
}

/// One way between two nodes: from, to.
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

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Cut(Vec<Way>),
    PauseNodes(Vec<u32>),
    PauseClients(u32, Part),
    KillNodes(Vec<u32>),
    StopNode(u32),
    KillClients(u32, Part),
    /// The lines of a node carry so many kilobits a second.
    Narrow(u32, u32),
    /// So many of a thousand packets of a node get lost.
    Lose(u32, u32),
    /// The proxy of a node holds each piece for up to so many milliseconds.
    Delay(u32, u32),
}

/// A fault from its begin to its end, in milliseconds of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) begin_ms: u64,
    pub(crate) end_ms: u64,
    pub(crate) deed: Deed,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, begin_ms, end_ms, deed } = self;
        write!(f, "{} from {begin_ms} to {end_ms} ms: ", kind.name())?;
        match deed {
            Deed::Cut(ways) => {
                let ways: Vec<String> =
                    ways.iter().map(|(from, to)| format!("{from}>{to}")).collect();
                write!(f, "cut {}", ways.join(" "))
            }
            Deed::PauseNodes(nodes) => write!(f, "pause nodes {nodes:?}"),
            Deed::PauseClients(node, part) => write!(f, "pause {part:?} at node {node}"),
            Deed::KillNodes(nodes) => write!(f, "kill nodes {nodes:?}"),
            Deed::StopNode(node) => write!(f, "stop node {node}"),
            Deed::KillClients(node, part) => write!(f, "kill {part:?} at node {node}"),
            Deed::Narrow(node, kbit) => write!(f, "node {node} has {kbit} kbit/s"),
            Deed::Delay(node, most_ms) => {
                write!(f, "node {node} is behind a proxy that takes up to {most_ms} ms")
            }
            Deed::Lose(node, of_thousand) => {
                write!(f, "node {node} loses {of_thousand} of 1000 packets")
            }
        }
    }
}

/// What a schedule is drawn for.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    /// The kinds that may be drawn.
    pub(crate) kinds: Vec<Kind>,
    /// How many nodes; drawn if none.
    pub(crate) nodes: Option<u32>,
    /// The lease: spans are drawn around it.
    pub(crate) lease_ms: u64,
    /// No pause of a node and no cut is longer.
    pub(crate) silence_max_ms: Option<u64>,
    /// How far clocks may be wrong, in parts per million.
    pub(crate) clock_error_ppm: u32,
}

/// All that is drawn for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) nodes: u32,
    pub(crate) voters: u32,
    /// Gates and their k.
    pub(crate) gates: Vec<(String, u32)>,
    /// The kinds that this run has.
    pub(crate) kinds: Vec<Kind>,
    /// The first first.
    pub(crate) faults: Vec<Fault>,
    /// By how much the clock of each node and its clients is wrong.
    pub(crate) clock_ppm: Vec<i64>,
    /// How long each node's disk takes for a sync, in milliseconds.
    pub(crate) sync_ms: Vec<u64>,
}

impl Plan {
    /// The same for the same frame.
    pub(crate) fn draw(frame: &Frame) -> Self {
        draw::plan(frame)
    }
}
