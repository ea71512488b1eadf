//! The witness of the machine: how long did a processor not run a thread that was ready?
//!
//! `kgate run` needs its turn within K to end a tree in time (assumption A2). On each processor a
//! thread sleeps for a moment, again and again, and records when it was woken much later than it
//! asked. A stall excuses no violation; but the reader of a report about a child that outlived its
//! deadline sees whether the machine stalled.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::clock;
use crate::record::{What, Writer};

/// Interval of the probes.
const BEAT: Duration = Duration::from_millis(5);
/// Longer delays are recorded: about K of the `fast` timing.
const LATE: Duration = Duration::from_millis(40);

/// Runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Witness {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Witness {
    /// One thread for each processor.
    pub(crate) fn start(run: &Path) -> Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut threads = Vec::new();
        for processor in 0..processors {
            let mut writer = Writer::open(run, &format!("witness-{processor}"), 0)?;
            let over = Arc::clone(&over);
            threads.push(std::thread::spawn(move || {
                let mut only = CpuSet::new();
                only.set(processor);
                // Without the right to pin a thread the witness still sees some stalls.
                let _ = sched_setaffinity(None, &only);
                while !over.load(Ordering::Relaxed) {
                    let asleep = clock::now();
                    clock::pause(BEAT);
                    let late = clock::now().saturating_sub(asleep + clock::nanoseconds(BEAT));
                    if late > clock::nanoseconds(LATE) {
                        let what = What::Stalled { processor, ms: late / 1_000_000 };
                        let _ = writer.write_at(asleep, "", what);
                    }
                }
            }));
        }
        Ok(Self { over, threads })
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
