//! How often what may happen: the box that is searched.

pub use kgate_spec::scenario::{Channels, Down};
use serde::Serialize;

/// How often what may happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// How often each client asks; the last number is for all further processes too.
    pub entries: Vec<u32>,
    /// Whether a client may ask again while it is inside.
    pub asks_inside: bool,
    /// How many clients a process has: so many may wait at once.
    pub clients: u32,
    /// The most units that a client asks for at once.
    pub weight_max: u32,
    /// How many processes crash for good.
    pub crashes: u32,
    /// How often a process crashes and comes back.
    pub restarts: u32,
    /// Whether who comes back has nothing, and is another incarnation; else it has what it had
    /// stored, and its client waits on.
    pub returns: bool,
    /// What becomes of messages to a process that is down.
    pub down: Down,
    /// How many requests are withdrawn.
    pub withdrawals: u32,
    /// What k becomes, one value after the other; each process learns of each at any time, in this
    /// order.
    pub resizes: Vec<u32>,
    /// How many messages are lost.
    pub losses: u32,
    /// How many messages are doubled.
    pub duplicates: u32,
    /// How often timers run out in all; as often as they like, if none. Where one still runs,
    /// something is under way.
    pub expiries: Option<u32>,
    /// What the protocol claims to tolerate. Beyond, liveness is not checked.
    pub tolerates: Tolerates,
    /// Whether processes are told of crashes.
    pub notifications: CrashNotifications,
    /// Whether messages keep their order.
    pub channels: Channels,
    /// Leaves out schedules in which a process suspects another that is alive: what a protocol that
    /// finds crashes by itself assumes.
    pub responsive: bool,
}

impl Bounds {
    /// Every client asks `entries` times, nothing fails.
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

    /// How often the client of that process asks.
    pub(crate) fn entries_of(&self, index: usize) -> u32 {
        self.entries.get(index).or(self.entries.last()).copied().unwrap_or(0)
    }
}

/// What a protocol claims to tolerate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tolerates {
    /// So many crashes for good.
    pub crashes: u32,
    /// Lost messages.
    pub loss: bool,
    /// Doubled messages.
    pub duplicates: bool,
}

/// Whether processes are told of crashes: perfectly, and each at any time after the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum CrashNotifications {
    /// Nobody is told.
    None,
    /// Everybody is, of several crashes in any order. Of those that come back with nothing, each
    /// incarnation is told of by itself, and who comes back is told of all incarnations that have
    /// ended. Somebody in its first incarnation is always up then.
    AnyOrder,
    /// Everybody is, in the order of the crashes, as from an agreed log.
    InOrder,
    /// Everybody is, of crashes and returns, by an agreed log ([`log`](crate::log)). All may be
    /// down at once.
    Log,
}
