//! What stops a search before its end: too many states, too much time, too much memory.
//!
//! The search library looks at its own limits only between threads' jobs; with one thread never. So
//! the world counts the states that it is asked to go on from, and when a limit is reached says of
//! every further one that nothing can happen there.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// When to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// After so many states.
    pub states: Option<usize>,
    /// After that time.
    pub time: Option<Duration>,
    /// When so many bytes of memory are in use.
    pub memory: Option<u64>,
}

/// Which limit stopped a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// A property does not hold: the search stops at the first wrong state.
    Found,
    /// The number of states.
    States,
    /// The time.
    Time,
    /// The memory.
    Memory,
}

/// How often the clock and the memory are looked at: every so many states.
const LOOK: usize = 4096;

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
    #[allow(clippy::disallowed_methods)] // A search may be given a time; what it finds in it does not depend on the clock.
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

    /// The search is over: whoever walks a schedule once more is not stopped.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
    }

    /// Whether the search may go on from one more state.
    pub(crate) fn allows(&self) -> bool {
        if self.released.load(Ordering::Relaxed) {
            return true;
        }
        let states = self.states.fetch_add(1, Ordering::Relaxed);
        if states.is_multiple_of(LOOK) {
            self.look();
        }
        self.stopped().is_none()
    }

    fn look(&self) {
        if self.limits.time.is_some_and(|most| self.started.elapsed() > most) {
            self.time.store(true, Ordering::Relaxed);
        }
        if self.limits.memory.is_some_and(|most| memory_in_use() > most) {
            self.memory.store(true, Ordering::Relaxed);
        }
    }

    /// Which limit was reached.
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

/// Bytes of memory that this program uses; 0 where the system does not tell.
fn memory_in_use() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
