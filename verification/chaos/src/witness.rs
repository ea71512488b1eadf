//! A witness of the machine itself: for how long did a processor not run somebody who was ready?
//!
//! `kgate run` needs its turn within K to end a tree in time (assumption A2). On each processor a
//! thread sleeps for a moment, again and again, and writes down whenever it was woken much later
//! than it asked. It excuses nobody; but whoever reads of a child that outlived its deadline sees
//! whether the machine stood still.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::clock;
use crate::record::{What, Writer};

/// So often it looks.
const BEAT: Duration = Duration::from_millis(5);
/// Later than this is written down: about K of short leases.
const LATE: Duration = Duration::from_millis(40);

/// Looks while it is alive.
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
                // Where that is not allowed it still sees something.
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
