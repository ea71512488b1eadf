//! The bounds of a search: how often each event may happen.

pub use kgate_spec::scenario::{Channels, Down};
use serde::Serialize;

/// How often each event may happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// The requests of each process's client; the last number applies to all further processes.
    pub entries: Vec<u32>,
    /// Whether a client may ask again while it is inside.
    pub asks_inside: bool,
    /// The number of clients per process, all of which may wait at once.
    pub clients: u32,
    /// The largest weight of a request.
    pub weight_max: u32,
    /// The number of permanent crashes.
    pub crashes: u32,
    /// The number of crashes with a restart.
    pub restarts: u32,
    /// Whether a process restarts without state, in a new incarnation; otherwise it has what it had
    /// stored, and its client waits on.
    pub returns: bool,
    /// What happens to messages to a process that is down. A message that would be lost may also
    /// arrive after the restart.
    pub down: Down,
    /// The number of withdrawals.
    pub withdrawals: u32,
    /// The changes of k, in order. Each process is notified of each at any time, in this order.
    pub resizes: Vec<u32>,
    /// The number of lost messages.
    pub losses: u32,
    /// The number of duplicated messages.
    pub duplicates: u32,
    /// The number of expiring timers overall; unlimited if none. While a timer is armed, the state
    /// is not quiet.
    pub expiries: Option<u32>,
    /// What the protocol claims to tolerate. Beyond it, liveness is not checked.
    pub tolerates: Tolerates,
    /// How processes are notified of crashes.
    pub notifications: CrashNotifications,
    /// The order of messages in a channel.
    pub channels: Channels,
    /// Leaves out schedules in which a process suspects a live one: what a protocol that detects
    /// crashes itself assumes.
    pub responsive: bool,
}

impl Bounds {
    /// Every client asks `entries` times; nothing fails.
    pub fn new(entries: u32) -> Self {
        Self {
            entries: vec![entries],
            asks_inside: false,
            clients: 1,
            weight_max: 1,
            crashes: 0,
            restarts: 0,
            returns: false,
            down: Down::Lost,
            withdrawals: 0,
            resizes: Vec::new(),
            losses: 0,
            duplicates: 0,
            expiries: None,
            tolerates: Tolerates::default(),
            notifications: CrashNotifications::AnyOrder,
            channels: Channels::Fifo,
            responsive: false,
        }
    }

    /// The number of requests of that process's client.
    pub(crate) fn entries_of(&self, index: usize) -> u32 {
        self.entries.get(index).or(self.entries.last()).copied().unwrap_or(0)
    }
}

/// What a protocol claims to tolerate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tolerates {
    /// The number of permanent crashes.
    pub crashes: u32,
    /// Lost messages.
    pub loss: bool,
    /// Duplicated messages.
    pub duplicates: bool,
}

/// How processes are notified of crashes: never falsely, and each at any time after the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum CrashNotifications {
    /// No process is notified.
    None,
    /// Every process is notified, of several crashes in any order. Where processes restart without
    /// state, each incarnation is reported on its own, and a restarted process is notified of all
    /// incarnations that have ended. Then some process in its first incarnation is always up.
    AnyOrder,
    /// Every process is notified in the order of the crashes, as from an agreed log.
    InOrder,
    /// Every process is notified of crashes and returns by an agreed log ([`log`](crate::log)). All
    /// may be down at once.
    Log,
}
