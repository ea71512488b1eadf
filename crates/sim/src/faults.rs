//! Who crashes, and when: data, known before the run starts.
//!
//! A crash acts after everything else that is scheduled at its instant (robust-2012's totals come out exactly so). What has
//! not left the send queue of a process by then is never sent.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Span, Time};

use crate::config::{Config, ConfigError};
use crate::rng::Rng;

/// A crash for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Who.
    pub node: NodeId,
    /// When.
    pub at: Span,
}

/// All crashes of a run: those named, and those drawn.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// In the order in which they happen.
    pub(crate) crashes: Vec<(Time, NodeId)>,
    when: BTreeMap<NodeId, Time>,
}

impl Plan {
    /// Draws the random crashes. Where not everybody asks, requesters are spared (vcube-2018 section 8.2.2: "processes from
    /// 0 to 2 never fail, since they are the ones which send requests").
    pub(crate) fn draw(config: &Config) -> Result<Self, ConfigError> {
        let mut when: BTreeMap<NodeId, Time> = BTreeMap::new();
        for crash in &config.crashes {
            if crash.node.0 >= config.nodes {
                return Err(ConfigError::CrashOfNobody { node: crash.node, nodes: config.nodes });
            }
            if crash.at > config.duration {
                let (node, at, duration) = (crash.node, crash.at, config.duration);
                return Err(ConfigError::CrashAfterEnd { node, at, duration });
            }
            if when.insert(crash.node, Time::ZERO + crash.at).is_some() {
                return Err(ConfigError::CrashTwice { node: crash.node });
            }
        }
        let everybody_asks = config.load.requesters >= config.nodes;
        let first = if everybody_asks { 0 } else { config.load.requesters };
        let mut candidates: Vec<u32> =
            (first..config.nodes).filter(|&node| !when.contains_key(&NodeId(node))).collect();
        let living = u64::from(config.nodes) - when.len() as u64;
        let most = u32::try_from((candidates.len() as u64).min(living.saturating_sub(1))).unwrap_or(u32::MAX);
        if config.random_crashes > most {
            return Err(ConfigError::TooManyCrashes { asked: config.random_crashes, most });
        }
        let mut rng = Rng::fork(config.seed, "faults");
        for _ in 0..config.random_crashes {
            let place = usize::try_from(rng.below(candidates.len() as u64)).expect("a place in a vector");
            let node = NodeId(candidates.swap_remove(place));
            when.insert(node, Time(rng.within(0, config.duration.0)));
        }
        let mut crashes: Vec<(Time, NodeId)> = when.iter().map(|(node, at)| (*at, *node)).collect();
        crashes.sort();
        Ok(Self { crashes, when })
    }

    /// When `node` crashes; never, for most.
    pub(crate) fn end_of(&self, node: NodeId) -> Time {
        if self.when.is_empty() { Time::NEVER } else { self.when.get(&node).copied().unwrap_or(Time::NEVER) }
    }
}
