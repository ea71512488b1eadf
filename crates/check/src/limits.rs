//! The limits that stop a search early: too many states, too much time, too much memory.
//!
//! The search library checks its own limits only between the jobs of its threads, so with one
//! thread never. Therefore the model counts the states that it expands, and once a limit is reached
//! it reports no further transitions.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// The limits of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of states.
    pub states: Option<usize>,
    /// The longest time.
    pub time: Option<Duration>,
    /// The largest memory of this process, in bytes.
    pub memory: Option<u64>,
}

/// Why a search stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// A property is violated: the search stops at the first violation.
    Found,
    /// The number of states reached its limit.
    States,
    /// The time reached its limit.
    Time,
    /// The memory reached its limit.
    Memory,
}

/// The number of states between two checks of the clock and the memory.
const CHECK_INTERVAL: usize = 4096;

#[derive(Debug)]
pub(crate) struct LimitGuard {
    limits: Limits,
    started: Instant,
    states: AtomicUsize,
    time: AtomicBool,
    memory: AtomicBool,
    released: AtomicBool,
}

impl LimitGuard {
    #[allow(clippy::disallowed_methods)] // For the time limit; the findings do not depend on it.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            started: Instant::now(),
            states: AtomicUsize::new(0),
            time: AtomicBool::new(false),
            memory: AtomicBool::new(false),
            released: AtomicBool::new(false),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// The search is over: replaying a schedule is not limited.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
    }

    /// Whether the search may expand one more state.
    pub(crate) fn allows(&self) -> bool {
        if self.released.load(Ordering::Relaxed) {
            return true;
        }
        let states = self.states.fetch_add(1, Ordering::Relaxed);
        if states.is_multiple_of(CHECK_INTERVAL) {
            self.check();
        }
        self.stopped().is_none()
    }

    fn check(&self) {
        if self.limits.time.is_some_and(|most| self.started.elapsed() > most) {
            self.time.store(true, Ordering::Relaxed);
        }
        if self.limits.memory.is_some_and(|most| memory_in_use() > most) {
            self.memory.store(true, Ordering::Relaxed);
        }
    }

    /// The limit that was reached.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        if self.limits.states.is_some_and(|most| self.states.load(Ordering::Relaxed) > most) {
            Some(Stopped::States)
        } else if self.time.load(Ordering::Relaxed) {
            Some(Stopped::Time)
        } else {
            self.memory.load(Ordering::Relaxed).then_some(Stopped::Memory)
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// The memory of this process in bytes; 0 where the system does not report it.
fn memory_in_use() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
