//! The fault plan: which faults happen, and when. It is known before the run starts.
//!
//! A crash takes effect after everything else scheduled at its instant (which reproduces the totals
//! of robust-2012 exactly). Messages still in the send queue of the process are never sent.
//!
//! Where a new incarnation learns the state from other processes, no generated crash hits the last
//! process, so that one always knows.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Span, Time};
pub use kgate_spec::scenario::Down;

use crate::config::{Config, ConfigError};
use crate::rng::Rng;

/// A crash: permanent, or until the process restarts with what it had stored or without state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The process.
    pub node: NodeId,
    /// The time of the crash.
    pub at: Span,
    /// The time of the restart; none if the crash is permanent.
    pub back: Option<Span>,
}

/// Transient faults: they corrupt memory and channels, but not the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transient {
    /// Every process starts in an arbitrary state.
    pub start: bool,
    /// The processes whose variables become arbitrary, and when.
    pub strikes: Vec<(NodeId, Span)>,
    /// The largest number of forged messages in each channel to a corrupted process.
    pub forged: u32,
}

impl Transient {
    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.start || !self.strikes.is_empty()
    }
}

/// A fault of a process, or the end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultEvent {
    /// The process crashes and will restart.
    Down,
    /// The process restarts.
    Restart,
    /// The process crashes permanently.
    Crash,
    /// A transient fault corrupts the process and the channels to it.
    Corrupt,
    /// The process pauses.
    Pause,
    /// The process resumes.
    Resume,
}

/// The faults of a run, named and generated.
#[derive(Clone, Debug)]
pub(crate) struct FaultPlan {
    /// The events in the order in which they happen.
    pub(crate) changes: Vec<(Time, NodeId, FaultEvent)>,
    crashes: Crashes,
}

/// The downtimes of each process, in order; a permanent crash lasts to the end of time.
type Crashes = BTreeMap<NodeId, Vec<(Time, Time)>>;

/// How often a generated recovery is generated again because its process is already down.
const TRIES: u32 = 64;

impl FaultPlan {
    /// Generates the random crashes. Unless every process asks, permanent crashes spare the
    /// requesters (vcube-2018 section 8.2.2: "processes from 0 to 2 never fail, since they are the
    /// ones which send requests"). Crashes with recovery may hit any process.
    pub(crate) fn generate(config: &Config) -> Result<Self, ConfigError> {
        let mut crashes = Crashes::new();
        for crash in &config.crashes {
            check(config, crash)?;
            let until = crash.back.map_or(Time::NEVER, |back| Time::ZERO + back);
            if !insert(&mut crashes, crash.node, Time::ZERO + crash.at, until) {
                return Err(ConfigError::OverlappingCrashes { node: crash.node });
            }
        }
        generate_crashes(config, &mut crashes)?;
        generate_recoveries(config, &mut crashes)?;
        if config.somebody_must_stay()
            && (0..config.nodes).all(|node| crashes.contains_key(&NodeId(node)))
        {
            return Err(ConfigError::NobodyStaysUp);
        }
        Ok(Self { changes: fault_events(config, &crashes)?, crashes })
    }

    /// The time of the next crash of `node`, which is up at `now`.
    pub(crate) fn end_of(&self, node: NodeId, now: Time) -> Time {
        if self.crashes.is_empty() {
            return Time::NEVER;
        }
        let downs = self.crashes.get(&node).map(Vec::as_slice).unwrap_or_default();
        downs.iter().map(|down| down.0).find(|&from| from >= now).unwrap_or(Time::NEVER)
    }
}

impl Config {
    /// The same run with every generated crash named, so that each can be removed on its own.
    pub fn with_named_crashes(&self) -> Result<Self, ConfigError> {
        let plan = FaultPlan::generate(self)?;
        let named = plan.crashes.iter().flat_map(|(&node, downs)| {
            downs.iter().map(move |&(from, until)| Crash {
                node,
                at: from.since(Time::ZERO),
                back: (until != Time::NEVER).then(|| until.since(Time::ZERO)),
            })
        });
        Ok(Self {
            crashes: named.collect(),
            random_crashes: 0,
            random_recoveries: 0,
            ..self.clone()
        })
    }
}

/// The fault events of a run with these crashes, in the order in which they happen.
fn fault_events(
    config: &Config,
    crashes: &Crashes,
) -> Result<Vec<(Time, NodeId, FaultEvent)>, ConfigError> {
    let end = Time::ZERO + config.duration;
    let mut changes = Vec::new();
    for (&node, downs) in crashes {
        for &(from, until) in downs {
            if until == Time::NEVER {
                changes.push((from, node, FaultEvent::Crash));
            } else {
                // Every process is back when the run is checked; but no process restarts at the
                // very instant of its crash.
                let back = until.min(end).max(from + Span(1));
                changes.extend([(from, node, FaultEvent::Down), (back, node, FaultEvent::Restart)]);
            }
        }
    }
    for &(node, at) in &config.transient.strikes {
        if node.0 >= config.nodes || at > config.duration {
            let (nodes, duration) = (config.nodes, config.duration);
            return Err(ConfigError::InvalidCorruption { node, at, nodes, duration });
        }
        changes.push((Time::ZERO + at, node, FaultEvent::Corrupt));
    }
    let mut pauses = config.disturbance.pauses.clone();
    pauses.sort_by_key(|pause| pause.from);
    for pause in pauses {
        let until = (Time::ZERO + pause.until).min(end);
        changes.extend([
            (Time::ZERO + pause.from, pause.node, FaultEvent::Pause),
            (until, pause.node, FaultEvent::Resume),
        ]);
    }
    // Stable: a crash comes before its restart.
    changes.sort_by_key(|&(at, node, _)| (at, node));
    Ok(changes)
}

fn check(config: &Config, crash: &Crash) -> Result<(), ConfigError> {
    let Crash { node, at, back } = *crash;
    if node.0 >= config.nodes {
        return Err(ConfigError::UnknownCrashNode { node, nodes: config.nodes });
    }
    if at > config.duration {
        return Err(ConfigError::CrashAfterEnd { node, at, duration: config.duration });
    }
    if let Some(back) = back.filter(|&back| back <= at) {
        return Err(ConfigError::RestartBeforeCrash { node, at, back });
    }
    Ok(())
}

/// Adds a downtime; false if it touches another downtime of the same process.
fn insert(crashes: &mut Crashes, node: NodeId, from: Time, until: Time) -> bool {
    let downs = crashes.entry(node).or_default();
    let free = downs.iter().all(|down| until < down.0 || down.1 < from);
    if free {
        downs.push((from, until));
        downs.sort();
    }
    free
}

/// The first process that generated crashes spare.
fn first_spared(config: &Config) -> u32 {
    if config.somebody_must_stay() { config.nodes - 1 } else { config.nodes }
}

fn generate_crashes(config: &Config, crashes: &mut Crashes) -> Result<(), ConfigError> {
    let may_crash = |node: &u32| config.everybody_asks() || !config.asks(NodeId(*node));
    let mut candidates: Vec<u32> = (0..first_spared(config))
        .filter(may_crash)
        .filter(|&node| !crashes.contains_key(&NodeId(node)))
        .collect();
    let lost =
        crashes.values().filter(|downs| downs.iter().any(|down| down.1 == Time::NEVER)).count();
    let living = u64::from(config.nodes) - lost as u64;
    if living == 0 {
        return Err(ConfigError::NoSurvivor);
    }
    let most = u32::try_from((candidates.len() as u64).min(living - 1)).unwrap_or(u32::MAX);
    if config.random_crashes > most {
        return Err(ConfigError::TooManyCrashes { asked: config.random_crashes, most });
    }
    let mut rng = Rng::fork(config.seed, "faults");
    for _ in 0..config.random_crashes {
        let place =
            usize::try_from(rng.below(candidates.len() as u64)).expect("a place in a vector");
        let node = NodeId(candidates.swap_remove(place));
        insert(crashes, node, Time(rng.within(0, config.duration.0)), Time::NEVER);
    }
    Ok(())
}

fn generate_recoveries(config: &Config, crashes: &mut Crashes) -> Result<(), ConfigError> {
    let mut rng = Rng::fork(config.seed, "recoveries");
    for fit in 0..config.random_recoveries {
        let mut placed = false;
        for _ in 0..TRIES {
            let node = NodeId(
                u32::try_from(rng.below(u64::from(first_spared(config)))).expect("a process"),
            );
            let from = Time(rng.within(0, config.duration.0));
            let until = from + Span(rng.within(1, config.down_for.0.max(1)));
            placed = insert(crashes, node, from, until);
            if placed {
                break;
            }
        }
        if !placed {
            return Err(ConfigError::TooManyRecoveries { asked: config.random_recoveries, fit });
        }
    }
    Ok(())
}
