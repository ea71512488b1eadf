//! Processes that stop for a time, and networks that fail for a time: data, known before the run
//! starts.
//!
//! All of it ends with the measured time at the latest, so that liveness is checked after healing.
//!
//! - A *pause* is a process that is stopped and goes on (SIGSTOP, a machine that swaps, a long
//!   collection of garbage): meanwhile nothing is handed to it and neither its timers nor its
//!   client do anything; then all of that happens, in order.
//! - A *partition* cuts some processes off from the others, both ways or one way. What would arrive
//!   across the cut arrives when it heals, as from a link that sends again; for a protocol that
//!   tolerates loss it is lost.
//! - *Loss* and *duplicates* befall each message of the mutex with a chance.
//!
//! Only what a protocol claims to tolerate may befall it ([`Claims`](crate::Claims)).

use std::fmt;
use std::str::FromStr;

use kgate_core::{NodeId, Span};

use crate::config::{Config, ConfigError};
use crate::rng::Rng;

/// Everything of this kind that befalls a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Processes that stop for a time.
    pub pauses: Vec<Pause>,
    /// Processes that are cut off for a time.
    pub partitions: Vec<Partition>,
    /// How likely a message is lost.
    pub loss: Chance,
    /// How likely a message is doubled.
    pub duplicates: Chance,
}

/// A process stops for a time: `3@5..9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Who.
    pub node: NodeId,
    /// From when on.
    pub from: Span,
    /// Until when.
    pub until: Span,
}

/// Processes that are cut off from all others for a time: `0+1+2@5..9`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Who; those talk to each other as ever.
    pub nodes: Vec<NodeId>,
    /// What does not get through.
    pub direction: Direction,
    /// From when on.
    pub from: Span,
    /// Until when.
    pub until: Span,
}

/// What does not get through a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Nothing: `0+1@5..9`.
    Both,
    /// What those who are cut off send: `0+1>@5..9`.
    Outbound,
    /// What is sent to them: `>0+1@5..9`.
    Inbound,
}

/// A probability, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance(pub u32);

impl Chance {
    /// It never happens.
    pub const NEVER: Chance = Chance(0);
    const ALWAYS: u32 = 1_000_000;

    /// Whether it happens this time.
    pub(crate) fn happens(self, rng: &mut Rng) -> bool {
        self > Self::NEVER && rng.below(u64::from(Self::ALWAYS)) < u64::from(self.0)
    }
}

impl Disturbance {
    /// Whether anything befalls the run.
    pub(crate) fn any(&self) -> bool {
        !self.pauses.is_empty() || self.affects_network()
    }

    /// Whether anything befalls messages.
    pub(crate) fn affects_network(&self) -> bool {
        !self.partitions.is_empty() || self.loss > Chance::NEVER || self.duplicates > Chance::NEVER
    }

    pub(crate) fn times(&self) -> impl Iterator<Item = Span> {
        let pauses = self.pauses.iter().flat_map(|pause| [pause.from, pause.until]);
        pauses.chain(self.partitions.iter().flat_map(|cut| [cut.from, cut.until]))
    }

    /// What befalls the run is borne and makes sense.
    pub(crate) fn check(&self, config: &Config) -> Result<(), ConfigError> {
        let claims = &config.claims;
        if !self.pauses.is_empty() || !self.partitions.is_empty() {
            if !claims.tolerates_delay {
                return Err(ConfigError::DelayNotBorne);
            }
            if config.own_detector().is_some() {
                return Err(ConfigError::WouldSuspect);
            }
        }
        if self.loss > Chance::NEVER && !claims.tolerates_loss {
            return Err(ConfigError::LossNotBorne);
        }
        if self.duplicates > Chance::NEVER && !claims.tolerates_duplicates {
            return Err(ConfigError::DuplicatesNotBorne);
        }
        self.check_times(config)
    }

    fn check_times(&self, config: &Config) -> Result<(), ConfigError> {
        let (nodes, duration) = (config.nodes, config.duration);
        let timely = |node: NodeId, from: Span, until: Span| {
            let right = node.0 < nodes && from < until && from < duration;
            right.then_some(()).ok_or(ConfigError::Disturbance {
                node,
                from,
                until,
                nodes,
                duration,
            })
        };
        for (index, pause) in self.pauses.iter().enumerate() {
            timely(pause.node, pause.from, pause.until)?;
            let apart = |other: &Pause| other.until <= pause.from || pause.until <= other.from;
            if self.pauses[..index].iter().any(|other| other.node == pause.node && !apart(other)) {
                return Err(ConfigError::PauseTwice { node: pause.node });
            }
        }
        for cut in &self.partitions {
            for &node in &cut.nodes {
                timely(node, cut.from, cut.until)?;
            }
            let others = (0..nodes).any(|node| !cut.nodes.contains(&NodeId(node)));
            if cut.nodes.is_empty() || !others {
                return Err(ConfigError::PartitionOfAll { nodes });
            }
        }
        Ok(())
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}..{}", self.node.0, self.from, self.until)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.nodes.iter().map(|node| node.0.to_string()).collect();
        let (before, after) = match self.direction {
            Direction::Both => ("", ""),
            Direction::Outbound => ("", ">"),
            Direction::Inbound => (">", ""),
        };
        write!(f, "{before}{}{after}@{}..{}", names.join("+"), self.from, self.until)
    }
}

/// A decimal number: `0.05`.
impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A millionth is a thousand of the billionths that a span prints without trailing zeros.
        write!(f, "{}", Span(u64::from(self.0) * 1000))
    }
}

/// Why a text is no disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDisturbanceError {
    /// No pause.
    #[error("not a pause: write process@time..time such as 3@5..9")]
    Pause,
    /// No partition.
    #[error(
        "not a partition: write 0+1@5..9 to cut p0 and p1 off, 0+1>@5..9 if only what they send is held up, >0+1@5..9 if \
         only what is sent to them"
    )]
    Partition,
    /// No probability.
    #[error(
        "not a probability: write a number from 0 to 1 with at most six decimals, such as 0.05"
    )]
    Chance,
}

impl FromStr for Pause {
    type Err = ParseDisturbanceError;
    fn from_str(text: &str) -> Result<Self, ParseDisturbanceError> {
        let parse = || {
            let (name, (from, until)) = at(text)?;
            Some(Self { node: node(name)?, from, until })
        };
        parse().ok_or(ParseDisturbanceError::Pause)
    }
}

impl FromStr for Partition {
    type Err = ParseDisturbanceError;
    fn from_str(text: &str) -> Result<Self, ParseDisturbanceError> {
        let parse = || {
            let (names, (from, until)) = at(text)?;
            let (direction, names) = match (names.strip_prefix('>'), names.strip_suffix('>')) {
                (None, None) => (Direction::Both, names),
                (None, Some(names)) => (Direction::Outbound, names),
                (Some(names), None) => (Direction::Inbound, names),
                (Some(_), Some(_)) => return None,
            };
            let mut nodes = names.split('+').map(node).collect::<Option<Vec<NodeId>>>()?;
            nodes.sort_unstable();
            nodes.dedup();
            Some(Self { nodes, direction, from, until })
        };
        parse().ok_or(ParseDisturbanceError::Partition)
    }
}

impl FromStr for Chance {
    type Err = ParseDisturbanceError;
    fn from_str(text: &str) -> Result<Self, ParseDisturbanceError> {
        let span: Span = text.parse().map_err(|_| ParseDisturbanceError::Chance)?;
        let millionths =
            u32::try_from(span.0 / 1000).ok().filter(|&millionths| millionths <= Self::ALWAYS);
        let exact = span.0.is_multiple_of(1000);
        millionths.filter(|_| exact).map(Self).ok_or(ParseDisturbanceError::Chance)
    }
}

/// `who@from..until`.
fn at(text: &str) -> Option<(&str, (Span, Span))> {
    let (who, when) = text.split_once('@')?;
    let (from, until) = when.split_once("..")?;
    Some((who, (from.parse().ok()?, until.parse().ok()?)))
}

/// `p3` or `3`.
fn node(name: &str) -> Option<NodeId> {
    name.strip_prefix('p').unwrap_or(name).parse().ok().map(NodeId)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is printed can be typed, and what cannot be meant is refused.
    #[test]
    fn text_and_back() {
        for text in ["3@5..9", "0@0.5..1"] {
            assert_eq!(text.parse::<Pause>().unwrap().to_string(), text);
        }
        for text in ["0+1@5..9", "0+1>@5..9", ">7@5..9.5"] {
            assert_eq!(text.parse::<Partition>().unwrap().to_string(), text);
        }
        for text in ["0", "0.05", "1", "0.000001"] {
            assert_eq!(text.parse::<Chance>().unwrap().to_string(), text);
        }
        assert_eq!("p3+p1+p3@5..9".parse::<Partition>().unwrap().nodes, [NodeId(1), NodeId(3)]);
        for text in ["", "3", "3@5", "3@5..", "@5..9", "x@5..9", "0+1@5..9"] {
            assert_eq!(text.parse::<Pause>(), Err(ParseDisturbanceError::Pause), "{text:?}");
        }
        for text in ["", "0+@5..9", ">0>@5..9", "0+1", "0>1@5..9"] {
            assert_eq!(
                text.parse::<Partition>(),
                Err(ParseDisturbanceError::Partition),
                "{text:?}"
            );
        }
        for text in ["", "1.1", "-1", "x", "0.0000001", "99999999999"] {
            assert_eq!(text.parse::<Chance>(), Err(ParseDisturbanceError::Chance), "{text:?}");
        }
    }
}
