//! Which faults happen, and when: data, known before the run starts.
//!
//! A crash acts after everything else that is scheduled at its instant (robust-2012's totals come
//! out exactly so). What has not left the send queue of a process by then is never sent.
//!
//! Where a new incarnation begins with what others tell it, nothing drawn befalls the last process,
//! so that somebody always knows.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Span, Time};
pub use kgate_spec::scenario::Down;

use crate::config::{Config, ConfigError};
use crate::rng::Rng;

/// A crash: for good, or until the process comes back, with what it had stored or with nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Who.
    pub node: NodeId,
    /// When.
    pub at: Span,
    /// When it is back; never, if none.
    pub back: Option<Span>,
}

/// Faults that change memory and channels but not the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transient {
    /// Every process starts in any state at all.
    pub start: bool,
    /// A process's variables become anything at that time.
    pub strikes: Vec<(NodeId, Span)>,
    /// Up to so many messages that nobody sent are in each channel to a process that is struck.
    pub forged: u32,
}

impl Transient {
    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.start || !self.strikes.is_empty()
    }
}

/// What happens to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultEvent {
    /// It crashes and will come back.
    Down,
    /// It is back.
    Restart,
    /// It crashes for good.
    Crash,
    /// A transient fault strikes it.
    Corrupt,
    /// It stops.
    Pause,
    /// It goes on.
    Resume,
}

/// All faults of a run: those named, and those drawn.
#[derive(Clone, Debug)]
pub(crate) struct FaultPlan {
    /// In the order in which they happen.
    pub(crate) changes: Vec<(Time, NodeId, FaultEvent)>,
    crashes: Crashes,
}

/// When each process is down, in order; to the end of time if it is lost.
type Crashes = BTreeMap<NodeId, Vec<(Time, Time)>>;

/// How often a drawn recovery is drawn again because its process is down already.
const TRIES: u32 = 64;

impl FaultPlan {
    /// Draws the random crashes. Where not everybody asks, requesters are spared (vcube-2018
    /// section 8.2.2: "processes from 0 to 2 never fail, since they are the ones which send
    /// requests"). Those that come back spare nobody.
    pub(crate) fn generate(config: &Config) -> Result<Self, ConfigError> {
        let mut crashes = Crashes::new();
        for crash in &config.crashes {
            check(config, crash)?;
            let until = crash.back.map_or(Time::NEVER, |back| Time::ZERO + back);
            if !insert(&mut crashes, crash.node, Time::ZERO + crash.at, until) {
                return Err(ConfigError::CrashTwice { node: crash.node });
            }
        }
        generate_crashes(config, &mut crashes)?;
        generate_recoveries(config, &mut crashes)?;
        if config.somebody_must_stay()
            && (0..config.nodes).all(|node| crashes.contains_key(&NodeId(node)))
        {
            return Err(ConfigError::NobodyStays);
        }
        let end = Time::ZERO + config.duration;
        let mut changes = Vec::new();
        for (&node, downs) in &crashes {
            for &(from, until) in downs {
                if until == Time::NEVER {
                    changes.push((from, node, FaultEvent::Crash));
                } else {
                    // The run is checked with everybody back; but nobody is back at the very
                    // instant of its crash.
                    let back = until.min(end).max(from + Span(1));
                    changes.extend([
                        (from, node, FaultEvent::Down),
                        (back, node, FaultEvent::Restart),
                    ]);
                }
            }
        }
        for &(node, at) in &config.transient.strikes {
            if node.0 >= config.nodes || at > config.duration {
                let (nodes, duration) = (config.nodes, config.duration);
                return Err(ConfigError::Strike { node, at, nodes, duration });
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
        changes.sort_by_key(|&(at, node, _)| (at, node)); // Stable: down comes before back.
        Ok(Self { changes, crashes })
    }

    /// When `node`, which is up at `now`, next crashes; never, for most.
    pub(crate) fn end_of(&self, node: NodeId, now: Time) -> Time {
        if self.crashes.is_empty() {
            return Time::NEVER;
        }
        let downs = self.crashes.get(&node).map(Vec::as_slice).unwrap_or_default();
        downs.iter().map(|down| down.0).find(|&from| from >= now).unwrap_or(Time::NEVER)
    }
}

impl Config {
    /// The very same run with every drawn crash named, so that they can be looked at one by one.
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

fn check(config: &Config, crash: &Crash) -> Result<(), ConfigError> {
    let Crash { node, at, back } = *crash;
    if node.0 >= config.nodes {
        return Err(ConfigError::CrashOfNobody { node, nodes: config.nodes });
    }
    if at > config.duration {
        return Err(ConfigError::CrashAfterEnd { node, at, duration: config.duration });
    }
    if let Some(back) = back.filter(|&back| back <= at) {
        return Err(ConfigError::BackBefore { node, at, back });
    }
    Ok(())
}

/// Adds a time of being down; false if it touches another one of the same process.
fn insert(crashes: &mut Crashes, node: NodeId, from: Time, until: Time) -> bool {
    let downs = crashes.entry(node).or_default();
    let free = downs.iter().all(|down| until < down.0 || down.1 < from);
    if free {
        downs.push((from, until));
        downs.sort();
    }
    free
}

/// From this one on nobody is struck by what is drawn.
fn spared(config: &Config) -> u32 {
    if config.somebody_must_stay() { config.nodes - 1 } else { config.nodes }
}

fn generate_crashes(config: &Config, crashes: &mut Crashes) -> Result<(), ConfigError> {
    let struck = |node: &u32| config.everybody_asks() || !config.asks(NodeId(*node));
    let mut candidates: Vec<u32> = (0..spared(config))
        .filter(struck)
        .filter(|&node| !crashes.contains_key(&NodeId(node)))
        .collect();
    let lost =
        crashes.values().filter(|downs| downs.iter().any(|down| down.1 == Time::NEVER)).count();
    let living = u64::from(config.nodes) - lost as u64;
    if living == 0 {
        return Err(ConfigError::NobodyLeft);
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
            let node =
                NodeId(u32::try_from(rng.below(u64::from(spared(config)))).expect("a process"));
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
