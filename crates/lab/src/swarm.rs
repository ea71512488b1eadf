//! Swarm testing: many runs of a protocol, each with a whole setting generated from a seed, and
//! each checked.
//!
//! Each seed runs on both engines, and the hashes must be equal. A violation is a [`Failure`]: the
//! first seed of each violated property is shrunk ([`shrink`](mod@crate::shrink)) and reported with
//! the command that replays it. A swarm without a grant or without a fault shows nothing, and says
//! so ([`Summary::nothing_shown`]).
//!
//! Threads share the seeds; the result depends on the seeds alone.
//!
//! Source: Groce et al. 2012, Swarm Testing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kgate_protocols::registry::Entry;
use kgate_sim::{Report, RunError};
use kgate_spec::AtMostK;
use serde::Serialize;

use crate::case::Queue;
use crate::{Case, command, generate, generate_disturbed, shrink};

/// The swarm of one protocol.
#[derive(Clone, Copy, Debug)]
pub struct Swarm<'a> {
    /// The protocol.
    pub entry: &'static Entry,
    /// The first seed.
    pub first: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// The published defect that is switched on, if any.
    pub as_printed: Option<&'a str>,
    /// Decides whether a run is correct.
    pub checker: Checker,
}

/// Returns the violation of a run, if there is one.
pub type Checker = fn(&Report) -> Option<Wrong>;

/// A violated property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The name of the property.
    pub property: String,
    /// What happened.
    pub text: String,
}

/// The verdict of the simulator's checkers. If "at most k slots in use" is violated, that one is
/// reported: it is the property that matters most, and other checkers often see the cause earlier.
pub fn check(report: &Report) -> Option<Wrong> {
    let crowded = report.violations.iter().find(|violation| violation.property == AtMostK::NAME);
    let violation = crowded.or(report.violations.first())?;
    Some(Wrong { property: violation.property.into(), text: violation.to_string() })
}

/// Both engines make the same run of a seed.
pub const SAME_RUN: &str = "the same seed gives the same run";
/// No assertion within the protocol panics.
pub const NO_PANIC: &str = "no assertion of the protocol fails";
/// The simulator accepts every generated setting.
pub const CAN_RUN: &str = "a generated setting can be run";

/// Totals over the runs of a swarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Runs; a run on both engines counts once.
    pub runs: u64,
    /// Requests issued.
    pub requests: u64,
    /// Requests granted.
    pub grants: u64,
    /// Runs in which all k slots were in use at once.
    pub full: u64,
    /// Permanent crashes.
    pub crashes: u64,
    /// Crashes with recovery.
    pub recoveries: u64,
    /// Transient faults: processes whose memory became arbitrary.
    pub corruptions: u64,
    /// Pauses of processes.
    pub pauses: u64,
    /// Partitions of the network.
    pub partitions: u64,
    /// Messages lost.
    pub lost: u64,
    /// Messages duplicated.
    pub doubled: u64,
    /// Live processes that the agreed log declared unfit to be home.
    pub unfit: u64,
    /// Live processes that the agreed log evicted.
    pub evictions: u64,
    /// Clients that went on at another process.
    pub adoptions: u64,
    /// Requests withdrawn.
    pub withdrawals: u64,
    /// Requests that ended because k became too small for them.
    pub refused: u64,
}

impl Tally {
    fn count(&mut self, case: &Case, report: &Report) {
        let transient = &case.config.transient;
        let start = if transient.start { u64::from(case.config.nodes) } else { 0 };
        self.runs += 1;
        self.requests += report.requests;
        self.grants += report.grants;
        self.full += u64::from(report.max_in_use >= report.k as usize);
        self.crashes += u64::from(report.crashes);
        self.recoveries += u64::from(report.recoveries);
        self.corruptions += start + transient.strikes.len() as u64;
        self.pauses += u64::from(report.pauses);
        self.partitions += u64::from(report.partitions);
        self.lost += report.lost;
        self.doubled += report.duplicated;
        self.unfit += case.config.agreement.unfit.len() as u64;
        self.evictions += case.config.agreement.evictions.len() as u64;
        self.adoptions += report.adoptions;
        self.withdrawals += report.withdrawals;
        self.refused += report.refused;
    }

    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.requests += other.requests;
        self.grants += other.grants;
        self.full += other.full;
        self.crashes += other.crashes;
        self.recoveries += other.recoveries;
        self.corruptions += other.corruptions;
        self.pauses += other.pauses;
        self.partitions += other.partitions;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.unfit += other.unfit;
        self.evictions += other.evictions;
        self.adoptions += other.adoptions;
        self.withdrawals += other.withdrawals;
        self.refused += other.refused;
    }

    /// Requests that ended without a grant, by reason.
    pub fn ended(&self) -> [(&'static str, u64); 2] {
        [("withdrawn", self.withdrawals), ("too large after a resize", self.refused)]
    }

    /// The number of faults, by kind.
    pub fn faults(&self) -> [(&'static str, u64); 9] {
        [
            ("crashes", self.crashes),
            ("recoveries", self.recoveries),
            ("corruptions", self.corruptions),
            ("pauses", self.pauses),
            ("partitions", self.partitions),
            ("messages lost", self.lost),
            ("messages duplicated", self.doubled),
            ("unfit", self.unfit),
            ("evictions", self.evictions),
        ]
    }
}

/// The result of the swarm of one protocol.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The protocol.
    pub protocol: &'static str,
    /// The published defect that was switched on, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_printed: Option<String>,
    /// The first seed.
    pub first_seed: u64,
    /// Totals over all runs.
    #[serde(flatten)]
    pub tally: Tally,
    /// Number of failing seeds.
    pub wrong: u64,
    /// The first failing seed of each violated property, shrunk.
    pub failures: Vec<Failure>,
}

impl Summary {
    /// The reason why a swarm without failures shows nothing, if there is one.
    pub fn nothing_shown(&self) -> Option<&'static str> {
        if self.tally.grants == 0 {
            return Some("no request was granted");
        }
        let faults: u64 = self.tally.faults().iter().map(|(_, count)| count).sum();
        (faults == 0).then_some("no fault happened")
    }

    /// Whether no seed failed and the swarm shows something.
    pub fn succeeded(&self) -> bool {
        self.wrong == 0 && self.nothing_shown().is_none()
    }
}

/// A failing seed, with its shrunk case.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The violated property.
    pub property: String,
    /// What happened in the shrunk run.
    pub text: String,
    /// Number of seeds that violate this property.
    pub seeds: u64,
    /// The case as generated.
    #[serde(skip)]
    pub found: Case,
    /// The shrunk case.
    #[serde(skip)]
    pub shrunk: Case,
    /// Number of runs that shrinking took.
    pub shrunk_in_runs: u32,
    /// The command that replays the shrunk run.
    pub command: String,
}

impl Failure {
    /// The file name of the stored seed: protocol, published defect if one is switched on,
    /// property, seed.
    pub fn file_name(&self) -> String {
        let slug: String = self
            .property
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let printed =
            self.printed().map(|id| format!("-{}", id.to_ascii_lowercase())).unwrap_or_default();
        format!("{}{printed}-{slug}-{:#x}.txt", self.found.entry.name, self.seed)
    }

    /// The contents of the stored seed: what happened, the expected verdict, and the command. A
    /// published defect must show a violation; a repaired protocol must be correct once the bug is
    /// fixed.
    pub fn file_text(&self) -> String {
        let (name, property) = (self.found.entry.name, &self.property);
        let (of, expect, flag) = match self.printed() {
            Some(id) => (
                format!("{name} as printed ({id})"),
                format!("VIOLATED {property}"),
                format!(" --as-printed {id}"),
            ),
            None => (name.to_owned(), "correct".into(), String::new()),
        };
        let config = &self.found.config;
        format!(
            "# {of}: {}\n# found by: kgate sim --swarm --protocol {name} --seed {:#x} \
             --seeds 1{flag}\n\
             # shrunk from n = {}, k = {}, {} requesters, {} t.u. in {} runs\n# expect: {expect}\n\
             {}\n",
            self.text,
            self.seed,
            config.nodes,
            config.k,
            config.load.requesters,
            config.duration,
            self.shrunk_in_runs,
            self.command
        )
    }

    fn printed(&self) -> Option<&'static str> {
        let printed = self.found.config.printed;
        self.found
            .entry
            .published_defects()
            .find(|defect| printed.has(defect.switch))
            .map(|defect| defect.id)
    }
}

impl Swarm<'_> {
    /// The setting of one seed. A published defect meets only the faults of its paper: the paper
    /// claims to tolerate no others. An omission of `home` meets all that `home` tolerates.
    pub fn case(&self, seed: u64) -> Case {
        match self.as_printed {
            Some(id) if self.entry.follows_log => {
                generate_disturbed(self.entry.name, seed).as_printed(id)
            }
            Some(id) => generate(self.entry.name, seed).as_printed(id),
            None => generate_disturbed(self.entry.name, seed),
        }
    }

    /// Runs all seeds; `progress` is called with the number of seeds done.
    pub fn run(&self, progress: &(impl Fn(u64) + Sync)) -> Summary {
        let next = AtomicU64::new(0);
        let found = Mutex::new((Tally::default(), Vec::new()));
        let work = || {
            let (mut tally, mut wrong) = (Tally::default(), Vec::new());
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.seeds {
                    break;
                }
                let seed = self.first.wrapping_add(index);
                let case = self.case(seed);
                match examine(&case, self.checker) {
                    Ok(report) => tally.count(&case, &report),
                    Err((ran, what)) => {
                        if let Some(report) = ran {
                            tally.count(&case, &report);
                        }
                        wrong.push((index, case, what));
                    }
                }
                progress(index + 1);
            }
            let mut found = found.lock().expect("no thread panics with the lock");
            found.0.add(&tally);
            found.1.append(&mut wrong);
        };
        std::thread::scope(|scope| {
            for _ in 0..workers().min(self.seeds) {
                scope.spawn(work);
            }
        });
        let (tally, mut wrong) = found.into_inner().expect("no thread panics with the lock");
        wrong.sort_by_key(|(index, ..)| *index);
        Summary {
            protocol: self.entry.name,
            as_printed: self.as_printed.map(str::to_ascii_uppercase),
            first_seed: self.first,
            tally,
            wrong: wrong.len() as u64,
            failures: self.failures(&wrong),
        }
    }

    /// The first failing seed of each property, shrunk.
    fn failures(&self, wrong: &[(u64, Case, Wrong)]) -> Vec<Failure> {
        let mut failures: Vec<Failure> = Vec::new();
        for (_, case, what) in wrong {
            if let Some(known) =
                failures.iter_mut().find(|failure| failure.property == what.property)
            {
                known.seeds += 1;
                continue;
            }
            let shrunk = shrink::shrink(case, what, self.checker);
            failures.push(Failure {
                seed: case.config.seed,
                property: what.property.clone(),
                text: shrunk.wrong.text,
                seeds: 1,
                found: case.clone(),
                command: command(&shrunk.case),
                shrunk: shrunk.case,
                shrunk_in_runs: shrunk.runs,
            });
        }
        failures
    }
}

fn workers() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// Runs a case on both engines and checks it. The error holds the report too, if the run completed.
#[allow(clippy::result_large_err)] // Rare, and both sides are as large.
pub fn examine(case: &Case, checker: Checker) -> Result<Report, (Option<Report>, Wrong)> {
    let first = attempt(case, Queue::Bucket).map_err(|wrong| (None, wrong))?;
    let second = attempt(case, Queue::Heap).map_err(|wrong| (None, wrong))?;
    if first.hash != second.hash {
        let text = format!("the engines disagree: {} and {}", first.hash, second.hash);
        return Err((Some(first), Wrong { property: SAME_RUN.into(), text }));
    }
    match checker(&first) {
        None => Ok(first),
        Some(wrong) => Err((Some(first), wrong)),
    }
}

/// Makes one run. A failed assertion of a protocol panics, which counts as a violation.
fn attempt(case: &Case, queue: Queue) -> Result<Report, Wrong> {
    let wrong = |property: &str, text: String| Wrong { property: property.into(), text };
    match catch_unwind(AssertUnwindSafe(|| case.try_run(queue, None))) {
        Ok(Ok(report)) => Ok(report),
        Ok(Err(RunError::Config(error))) => Err(wrong(CAN_RUN, error.to_string())),
        Ok(Err(error @ (RunError::OpenTrace(_) | RunError::Trace(_)))) => {
            unreachable!("the run writes no trace: {error}")
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(wrong(NO_PANIC, text.unwrap_or_else(|| "a panic without a message".into())))
        }
    }
}

/// The violation of one run on the fast engine; of both engines if the property compares them.
pub(crate) fn wrong_once(case: &Case, property: &str, checker: Checker) -> Option<Wrong> {
    if property == SAME_RUN {
        return examine(case, checker).err().map(|(_, wrong)| wrong);
    }
    match attempt(case, Queue::Bucket) {
        Ok(report) => checker(&report),
        Err(wrong) => Some(wrong),
    }
}
