//! Pauses of processes and temporary network failures. All of them are known before the run starts.
//!
//! Every disturbance but one ends with the measured time at the latest, so that liveness is checked
//! after healing.
//!
//! - A *pause* stops a process and resumes it later (SIGSTOP, swapping, a long garbage collection).
//!   While it is paused, nothing is delivered to it, and neither its timers nor its clients act;
//!   afterwards all of that happens in order.
//! - A *partition* cuts some processes off from the others, in both directions or in one. A message
//!   that would cross the cut arrives when the partition heals, as over a link that retransmits;
//!   for a protocol that tolerates loss it is lost.
//! - A *cut link* loses every message of one direction between two processes, to the end of the run
//!   and beyond: the exception to the rule that disturbances end ([`LinkCut`]).
//! - *Loss* and *duplication* affect each message of the mutex protocol with a probability.
//!
//! A run has only disturbances that the protocol claims to tolerate ([`Claims`](crate::Claims)).

use std::fmt;
use std::str::FromStr;

use kgate_core::{NodeId, Span};

use crate::config::{Config, ConfigError};
use crate::link_cut::LinkCut;
use crate::rng::Rng;

/// The disturbances of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// The pauses.
    pub pauses: Vec<Pause>,
    /// The partitions.
    pub partitions: Vec<Partition>,
    /// The links that are cut to the end of the run.
    pub cuts: Vec<LinkCut>,
    /// The probability that a message is lost.
    pub loss: Chance,
    /// The probability that a message is duplicated.
    pub duplicates: Chance,
}

/// A pause of one process: `3@5..9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The paused process.
    pub node: NodeId,
    /// The begin.
    pub from: Span,
    /// The end.
    pub until: Span,
}

/// A partition that cuts some processes off from all others: `0+1@5..9`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The processes cut off; they still reach each other.
    pub nodes: Vec<NodeId>,
    /// Which messages are cut.
    pub direction: Direction,
    /// The begin.
    pub from: Span,
    /// The end.
    pub until: Span,
}

/// The direction of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Messages in both directions are cut: `0+1@5..9`.
    Both,
    /// Messages sent by the processes cut off: `0+1>@5..9`.
    Outbound,
    /// Messages sent to the processes cut off: `>0+1@5..9`.
    Inbound,
}

/// A probability, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance(pub u32);

impl Chance {
    /// The probability 0.
    pub const NEVER: Chance = Chance(0);
    const ALWAYS: u32 = 1_000_000;

    /// Samples whether the event happens.
    pub(crate) fn happens(self, rng: &mut Rng) -> bool {
        self > Self::NEVER && rng.below(u64::from(Self::ALWAYS)) < u64::from(self.0)
    }
}

impl Disturbance {
    /// Whether there is any disturbance.
    pub(crate) fn any(&self) -> bool {
        !self.pauses.is_empty() || self.affects_network()
    }

    /// Whether any disturbance affects messages.
    pub(crate) fn affects_network(&self) -> bool {
        !self.partitions.is_empty()
            || !self.cuts.is_empty()
            || self.loss > Chance::NEVER
            || self.duplicates > Chance::NEVER
    }

    pub(crate) fn times(&self) -> impl Iterator<Item = Span> {
        let pauses = self.pauses.iter().flat_map(|pause| [pause.from, pause.until]);
        let cuts = self.cuts.iter().map(|cut| cut.at);
        let partitions = self.partitions.iter().flat_map(|cut| [cut.from, cut.until]);
        pauses.chain(partitions).chain(cuts)
    }

    /// Checks that the protocol tolerates the disturbances and that they make sense.
    pub(crate) fn check(&self, config: &Config) -> Result<(), ConfigError> {
        let claims = &config.claims;
        if !self.pauses.is_empty() || !self.partitions.is_empty() {
            if !claims.tolerates_delay {
                return Err(ConfigError::DelayUnsupported);
            }
            if config.own_detector().is_some() {
                return Err(ConfigError::DetectorWouldSuspect);
            }
        }
        if self.loss > Chance::NEVER && !claims.tolerates_loss {
            return Err(ConfigError::LossUnsupported);
        }
        if self.duplicates > Chance::NEVER && !claims.tolerates_duplicates {
            return Err(ConfigError::DuplicatesUnsupported);
        }
        LinkCut::check_all(&self.cuts, config)?;
        self.check_times(config)
    }

    fn check_times(&self, config: &Config) -> Result<(), ConfigError> {
        let (nodes, duration) = (config.nodes, config.duration);
        let timely = |node: NodeId, from: Span, until: Span| {
            let right = node.0 < nodes && from < until && from < duration;
            right.then_some(()).ok_or(ConfigError::InvalidDisturbance {
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
                return Err(ConfigError::OverlappingPauses { node: pause.node });
            }
        }
        for cut in &self.partitions {
            for &node in &cut.nodes {
                timely(node, cut.from, cut.until)?;
            }
            let others = (0..nodes).any(|node| !cut.nodes.contains(&NodeId(node)));
            if cut.nodes.is_empty() || !others {
                return Err(ConfigError::EmptyPartitionSide { nodes });
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

/// Why a text is not a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDisturbanceError {
    /// The text is not a pause.
    #[error("not a pause or another period: write process@time..time such as 3@5..9")]
    Pause,
    /// The text is not a partition.
    #[error(
        "not a partition: write 0+1@5..9 to cut p0 and p1 off, 0+1>@5..9 to cut only messages \
         from them, \
         >0+1@5..9 to cut only messages to them"
    )]
    Partition,
    /// The text is not a cut link.
    #[error("not a cut link: write 1-0@5 for messages from p1 to p0 that are lost from t = 5 on")]
    LinkCut,
    /// The text is not a probability.
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

/// Splits `nodes@from..until`.
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

    /// The printed form parses back, and malformed text is refused.
    #[test]
    fn text_round_trips() {
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
