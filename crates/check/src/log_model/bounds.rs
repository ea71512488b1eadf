//! The bounds of a search in the log model: how often each event may happen.

use kgate_core::NodeId;

/// How often each event may happen. Where the word is *processes*, it is those of `faulty`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBounds {
    /// The requests of each process; the last number applies to all further processes.
    pub entries: Vec<u32>,
    /// The number of clients per process, all of which may wait at once.
    pub clients: u32,
    /// The largest weight of a request.
    pub weight_max: u32,
    /// The number of withdrawals.
    pub withdrawals: u32,
    /// The processes that crash, and that the log suspects, drains or evicts; all if none.
    pub faulty: Vec<u32>,
    /// The number of permanent crashes.
    pub crashes: u32,
    /// The number of crashes with a restart without state.
    pub restarts: u32,
    /// The number of suspicions of processes that run. Each may be cleared at any time, or never.
    pub suspicions: u32,
    /// The number of processes that are drained.
    pub drains: u32,
    /// How often a process that runs loses its lease. It may be evicted then, and is added again;
    /// or it gets another lease.
    pub evictions: u32,
    /// The number of adoption requests.
    pub adoptions: u32,
    /// The number of clients inside that die.
    pub deaths: u32,
    /// The number of permits that the log is to hold.
    pub durable: u32,
    /// The changes of k, in order.
    pub resizes: Vec<u32>,
    /// The number of lost messages.
    pub losses: u32,
    /// The links that may be cut, each from a sender to a receiver, at any time and for good.
    /// Whichever are, every two processes still reach each other in both directions, directly or
    /// through a third one.
    pub cuts: Vec<(NodeId, NodeId)>,
    /// The number of duplicated messages.
    pub duplicates: u32,
    /// The number of timers that expire early. A timer may always expire when no message from or to
    /// its process is in flight.
    pub expiries: u32,
    /// Rules of the driver that are left out.
    pub omissions: Omissions,
}

/// Rules that a driver of `home` keeps, left out to show that a search misses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Omissions {
    /// H13: a lapse is passed on before the log is known.
    pub barrier: bool,
    /// H14: a grant is released when its durable permit is proposed.
    pub held: bool,
    /// H18: a node is evicted while clients believe by its lease,
    pub evict: bool,
    /// or have asked it for an adoption.
    pub evict_asked: bool,
}

impl LogBounds {
    /// Every process requests that often; nothing fails.
    pub fn new(entries: u32) -> Self {
        Self {
            entries: vec![entries],
            clients: 1,
            weight_max: 1,
            withdrawals: 0,
            faulty: Vec::new(),
            crashes: 0,
            restarts: 0,
            suspicions: 0,
            drains: 0,
            evictions: 0,
            adoptions: 0,
            deaths: 0,
            durable: 0,
            resizes: Vec::new(),
            losses: 0,
            cuts: Vec::new(),
            duplicates: 0,
            expiries: 0,
            omissions: Omissions::default(),
        }
    }

    /// The number of requests of a process.
    pub(super) fn entries_of(&self, node: NodeId) -> u32 {
        self.entries.get(node.index()).or(self.entries.last()).copied().unwrap_or(0)
    }

    /// Whether messages may be lost, so that processes must repeat them.
    pub fn loses_messages(&self) -> bool {
        self.losses > 0 || !self.cuts.is_empty()
    }

    /// Whether a process may crash, or the log may turn against it.
    pub(super) fn is_faulty(&self, node: NodeId) -> bool {
        self.faulty.is_empty() || self.faulty.contains(&node.0)
    }
}
