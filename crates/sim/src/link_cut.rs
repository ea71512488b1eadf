//! Links between two processes that are cut to the end of the run: a fault that never heals.
//!
//! Both processes stay connected to others, so no log or detector suspects either. A protocol
//! without relays waits for ever; `home` sends through a third process, so liveness is checked
//! while the link is still cut.

use std::fmt;
use std::str::FromStr;

use kgate_core::{NodeId, Span};

use crate::config::{Config, ConfigError};
use crate::disturbance::ParseDisturbanceError;

/// A link that is cut in one direction, from some time to the end of the run: `1-0@5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCut {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The time of the cut.
    pub at: Span,
}

impl LinkCut {
    /// Checks that the protocol relays, and that every two processes still reach each other.
    pub(crate) fn check_all(cuts: &[Self], config: &Config) -> Result<(), ConfigError> {
        let (nodes, duration) = (config.nodes, config.duration);
        if cuts.is_empty() {
            return Ok(());
        }
        if !config.claims.follows_log || !config.claims.tolerates_loss {
            return Err(ConfigError::CutUnsupported);
        }
        let is_valid =
            |cut: &&Self| cut.from != cut.to && cut.from.max(cut.to).0 < nodes && cut.at < duration;
        if let Some(&cut) = cuts.iter().find(|cut| !is_valid(cut)) {
            return Err(ConfigError::InvalidCut { cut, nodes, duration });
        }
        let all: Vec<NodeId> = (0..nodes).map(NodeId).collect();
        match Self::separated(cuts, &all) {
            Some((one, other)) => Err(ConfigError::CutApart { one, other }),
            None => Ok(()),
        }
    }

    /// Two of these processes that do not reach each other in both directions, neither directly nor
    /// through a third one of them.
    pub fn separated(cuts: &[Self], of: &[NodeId]) -> Option<(NodeId, NodeId)> {
        let reach = |one, other| {
            !cuts.iter().any(|cut| [(one, other), (other, one)].contains(&(cut.from, cut.to)))
        };
        let is_apart = |(one, other): &(NodeId, NodeId)| {
            let relays = |relay: &NodeId| {
                ![*one, *other].contains(relay) && reach(*one, *relay) && reach(*relay, *other)
            };
            of.contains(one) && of.contains(other) && !of.iter().any(relays)
        };
        cuts.iter().map(|cut| (cut.from, cut.to)).find(is_apart)
    }
}

impl fmt::Display for LinkCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}@{}", self.from.0, self.to.0, self.at)
    }
}

impl FromStr for LinkCut {
    type Err = ParseDisturbanceError;
    fn from_str(text: &str) -> Result<Self, ParseDisturbanceError> {
        let node = |name: &str| name.strip_prefix('p').unwrap_or(name).parse().ok().map(NodeId);
        let parse = || {
            let (link, at) = text.split_once('@')?;
            let (from, to) = link.split_once('-')?;
            Some(Self { from: node(from)?, to: node(to)?, at: at.parse().ok()? })
        };
        parse().ok_or(ParseDisturbanceError::LinkCut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The printed form parses back, and malformed text is refused.
    #[test]
    fn text_round_trips() {
        for text in ["1-0@5", "0-12@0.5"] {
            assert_eq!(text.parse::<LinkCut>().unwrap().to_string(), text);
        }
        for text in ["", "1-0", "1@5", "1-@5", "-0@5", "1-0@", "1>0@5", "1-0@5..9"] {
            assert_eq!(text.parse::<LinkCut>(), Err(ParseDisturbanceError::LinkCut), "{text:?}");
        }
    }

    /// Two processes are apart if a direction between them is cut and no third one reaches both.
    #[test]
    fn separated_processes_are_found() {
        let separated = |cuts: &str, nodes: &[u32]| {
            let cuts: Vec<LinkCut> = cuts.split(',').map(|cut| cut.parse().unwrap()).collect();
            let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
            LinkCut::separated(&cuts, &nodes)
        };
        assert_eq!(separated("1-0@5,0-1@0", &[0, 1, 2]), None);
        assert_eq!(separated("1-0@5", &[0, 1]), Some((NodeId(1), NodeId(0))));
        assert_eq!(separated("1-0@5", &[0, 2]), None);
        assert_eq!(separated("1-0@5,0-2@5", &[0, 1, 2]), Some((NodeId(1), NodeId(0))));
        assert_eq!(separated("1-0@5,0-2@5", &[0, 1, 2, 3]), None);
    }
}
