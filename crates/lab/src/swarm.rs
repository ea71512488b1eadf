//! A swarm: many runs of a system, each in a setting of its own, drawn whole from a seed; every one
//! is checked.
//!
//! Each seed is run on both engines, and the hashes must be equal. What is not correct is a
//! [`Failure`]: the first seed of each property that does not hold is shrunk
//! ([`shrink`](mod@crate::shrink)) and comes with the command that shows it again. A swarm in which
//! nobody entered or nothing went wrong has shown nothing, and says so
//! ([`Summary::nothing_shown`]).
//!
//! Seeds are shared out among threads; what is found depends on the seeds alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kgate_protocols::registry::Entry;
use kgate_sim::{Report, RunError};
use kgate_spec::AtMostK;
use serde::Serialize;

use crate::case::Queue;
use crate::{Case, command, generate, generate_disturbed, shrink};

/// What to run of one system.
#[derive(Clone, Copy, Debug)]
pub struct Swarm<'a> {
    /// The system.
    pub entry: &'static Entry,
    /// The first seed.
    pub first: u64,
    /// How many seeds.
    pub seeds: u64,
    /// A published defect to run as printed.
    pub as_printed: Option<&'a str>,
    /// Who checkers.
    pub checker: Checker,
}

/// Says what was wrong with a run, if anything.
pub type Checker = fn(&Report) -> Option<Wrong>;

/// A property that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Which.
    pub property: String,
    /// What happened.
    pub text: String,
}

/// The checkers of the simulator. If too many are inside, that is what is told: it is what
/// everybody cares for, and others often see it coming.
pub fn check(report: &Report) -> Option<Wrong> {
    let crowded = report.violations.iter().find(|violation| violation.property == AtMostK::NAME);
    let violation = crowded.or(report.violations.first())?;
    Some(Wrong { property: violation.property.into(), text: violation.to_string() })
}

/// Both engines, the same run.
pub const SAME_RUN: &str = "the same seed gives the same run";
/// An assertion of the protocol's own did not hold.
pub const NO_PANIC: &str = "no assertion of the protocol fails";
/// The rng gave what the simulator refuses.
pub const CAN_RUN: &str = "a generated setting can be run";

/// What the runs of a swarm came to, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Runs, each counted once though it was made on both engines.
    pub runs: u64,
    /// Requests.
    pub requests: u64,
    /// Grants.
    pub grants: u64,
    /// Runs in which k were inside at once.
    pub full: u64,
    /// Crashes for good.
    pub crashes: u64,
    /// Crashes with recovery.
    pub recoveries: u64,
    /// Processes whose memory became anything.
    pub corruptions: u64,
    /// Times that a process was stopped and went on.
    pub pauses: u64,
    /// Partitions.
    pub partitions: u64,
    /// Messages lost.
    pub lost: u64,
    /// Messages doubled.
    pub doubled: u64,
    /// Requests that were taken back.
    pub withdrawals: u64,
    /// Requests that ended because k had become too small for them.
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
        self.withdrawals += other.withdrawals;
        self.refused += other.refused;
    }

    /// How requests ended, beside grants.
    pub fn ended(&self) -> [(&'static str, u64); 2] {
        [("given up", self.withdrawals), ("too large after a resize", self.refused)]
    }

    /// The faults by kind.
    pub fn faults(&self) -> [(&'static str, u64); 7] {
        [
            ("crashes", self.crashes),
            ("recoveries", self.recoveries),
            ("corruptions", self.corruptions),
            ("pauses", self.pauses),
            ("partitions", self.partitions),
            ("messages lost", self.lost),
            ("messages doubled", self.doubled),
        ]
    }
}

/// What a swarm of one system found.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The system.
    pub protocol: &'static str,
    /// The defect that ran as printed, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_printed: Option<String>,
    /// The first seed.
    pub first_seed: u64,
    /// What happened.
    #[serde(flatten)]
    pub tally: Tally,
    /// How many seeds were not correct.
    pub wrong: u64,
    /// For each property that did not hold, the first seed, shrunk.
    pub failures: Vec<Failure>,
}

impl Summary {
    /// Why a swarm without failures is no success, if it is none.
    pub fn nothing_shown(&self) -> Option<&'static str> {
        if self.tally.grants == 0 {
            return Some("nobody ever entered");
        }
        let faults: u64 = self.tally.faults().iter().map(|(_, count)| count).sum();
        (faults == 0).then_some("no fault ever happened")
    }

    /// Everything was correct, and something was shown.
    pub fn succeeded(&self) -> bool {
        self.wrong == 0 && self.nothing_shown().is_none()
    }
}

/// A seed that is not correct, and what is left of it.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What did not hold.
    pub property: String,
    /// What happened in the shrunk run.
    pub text: String,
    /// How many seeds violated this property.
    pub seeds: u64,
    /// As it was drawn.
    #[serde(skip)]
    pub found: Case,
    /// As small as it could be made.
    #[serde(skip)]
    pub shrunk: Case,
    /// How many runs that took.
    pub shrunk_in_runs: u32,
    /// The command that shows the shrunk run.
    pub command: String,
}

impl Failure {
    /// What a stored seed is called: the system, the defect if it ran as printed, the property, the
    /// seed.
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

    /// What a stored seed says: what happened, what is expected, and the command. A published
    /// defect is expected to show; what runs repaired is expected to be correct, once it is.
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
            "# {of}: {}\n# found by: kgate sim --swarm --protocol {name} --seed {:#x} --seeds 1{flag}\n\
             # shrunk from n = {}, k = {}, {} requesters, {} t.u. in {} runs\n# expect: {expect}\n{}\n",
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
    /// The setting of one seed. What runs as printed meets the faults of its paper only: it never
    /// claimed to tolerate more.
    pub fn case(&self, seed: u64) -> Case {
        match self.as_printed {
            Some(id) => generate(self.entry.name, seed).as_printed(id),
            None => generate_disturbed(self.entry.name, seed),
        }
    }

    /// Runs all seeds; `progress` is told how many are done.
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
            let mut found = found.lock().expect("nobody panics with it");
            found.0.add(&tally);
            found.1.append(&mut wrong);
        };
        std::thread::scope(|scope| {
            for _ in 0..workers().min(self.seeds) {
                scope.spawn(work);
            }
        });
        let (tally, mut wrong) = found.into_inner().expect("nobody panics with it");
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

    /// The first of each property, shrunk.
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

/// Runs a case on both engines and checkers it. What ran is told even if it was wrong.
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

/// One run. A broken invariant of a protocol is a panic, and a finding.
fn attempt(case: &Case, queue: Queue) -> Result<Report, Wrong> {
    let wrong = |property: &str, text: String| Wrong { property: property.into(), text };
    match catch_unwind(AssertUnwindSafe(|| case.try_run(queue, None))) {
        Ok(Ok(report)) => Ok(report),
        Ok(Err(RunError::Config(error))) => Err(wrong(CAN_RUN, error.to_string())),
        Ok(Err(error @ (RunError::OpenTrace(_) | RunError::Trace(_)))) => {
            unreachable!("no trace was asked for: {error}")
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(wrong(NO_PANIC, text.unwrap_or_else(|| "a panic without words".into())))
        }
    }
}

/// What is wrong with one run on the fast engine; on both, where that is the question.
pub(crate) fn wrong_once(case: &Case, property: &str, checker: Checker) -> Option<Wrong> {
    if property == SAME_RUN {
        return examine(case, checker).err().map(|(_, wrong)| wrong);
    }
    match attempt(case, Queue::Bucket) {
        Ok(report) => checker(&report),
        Err(wrong) => Some(wrong),
    }
}
