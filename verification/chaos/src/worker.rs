//! A client of one node: it acquires, holds for a while, releases, and acquires again until the run
//! ends.
//!
//! One kind starts `kgate run`, the other uses the library. Both record their requests and the
//! results. They are processes in their node's namespace, so that the driver can stop and kill
//! them.

mod api;
mod run;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use kgate_sim::Rng;

use crate::job::Job;
use crate::record::Writer;

/// The state of a worker.
struct Worker {
    run: PathBuf,
    node: u32,
    /// Prefix of the names of its requests.
    name: String,
    job: Job,
    rng: Rng,
    writer: Writer,
    asked: u64,
}

/// The kinds of workers.
pub(crate) const KINDS: [&str; 2] = ["run", "api"];

/// `worker RUN NODE KIND INCARNATION`.
pub(crate) fn main(words: &[&str]) -> Result<()> {
    let [run, node, kind, incarnation] = words else { bail!("a worker is started by a chaos run") };
    let run = Path::new(run).to_owned();
    let name = format!("{node}-{kind}-{incarnation}");
    let node = node.parse()?;
    let job = Job::read(&run)?;
    let rng = Rng::fork(job.seed, &name);
    let writer = Writer::open(&run, &name, node)?;
    let worker = Worker { run, node, name, job, rng, writer, asked: 0 };
    if *kind == "run" { run::work(worker) } else { api::work(worker) }
}

/// How long a request waits for a permit.
enum Patience {
    ForEver,
    AtMost(Duration),
    NotAtAll,
}

/// A request.
struct Request {
    who: String,
    gate: String,
    k: u32,
    permits: u32,
    hold: Duration,
    patience: Patience,
}

impl Worker {
    fn draw_request(&mut self) -> Request {
        let gates = &self.job.gates;
        let (gate, k) =
            gates[usize::try_from(self.rng.below(gates.len() as u64)).unwrap_or(0)].clone();
        let permits = if k > 1 && self.rng.below(6) == 0 { 2 } else { 1 };
        // Mostly short, sometimes longer than a lease.
        let longest = if self.rng.below(12) == 0 { self.job.lease_ms * 3 / 2 } else { 50 };
        let hold = Duration::from_millis(self.rng.within(2, longest));
        let patience = match self.rng.below(10) {
            0 => Patience::NotAtAll,
            1 | 2 => Patience::AtMost(Duration::from_millis(self.rng.within(50, 2_000))),
            _ => Patience::ForEver,
        };
        self.asked += 1;
        Request { who: format!("{}.{}", self.name, self.asked), gate, k, permits, hold, patience }
    }

    /// The pause between two requests.
    fn rest(&mut self) -> Duration {
        Duration::from_millis(self.rng.within(1, 40))
    }
}
