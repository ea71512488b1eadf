//! What a gate is, and which definitions are valid.

use kgate_control::state::{BadSlots, KSource, Policy, Slots};
use kgate_protocols::registry::{self, Entry, UnknownName};
use serde::{Deserialize, Serialize};

use super::peer_message::GateId;

/// What a gate is: the same at all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The id of the gate.
    pub id: GateId,
    /// Its name.
    pub name: String,
    /// The number of its slots.
    pub k: u32,
    /// What k comes from.
    pub source: KSource,
    /// The name of its protocol.
    pub protocol: String,
    /// The number of queues that its slots are split into.
    pub lanes: u32,
    /// What happens to the slots of a silent holder.
    pub policy: Policy,
    /// The client or operator that defined it, for people.
    pub author: String,
}

/// Why a definition is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDefinition {
    /// The name is empty, too long, or has other characters.
    #[error(
        "invalid gate name `{name}`: use 1 to {most} letters, digits, dots, dashes, underscores \
         and slashes",
        most = Definition::LONGEST_NAME,
        name = shortened(.0)
    )]
    Name(String),
    /// k is out of range.
    #[error("k must be between 1 and {most}, not {0}", most = Definition::MOST)]
    K(u32),
    /// The names of the slots, or the expression, are not valid.
    #[error(transparent)]
    Slots(#[from] BadSlots),
    /// There are more lanes than slots, or than lanes are possible, or none.
    #[error("a gate with k = {k} has 1 to {most} lanes, not {lanes}")]
    Lanes {
        /// The k of the definition.
        k: u32,
        /// The most lanes with that k.
        most: u32,
        /// The lanes of the definition.
        lanes: u32,
    },
    /// No node drives a protocol that follows the agreed log by snapshots.
    #[error("no node runs `{0}` yet, only `kgate sim` does: omit the protocol, or choose `slots`")]
    LogNotSupported(&'static str),
    /// The protocol has no lanes.
    #[error("only `slots` has lanes, not `{0}`")]
    LanesNotSupported(&'static str),
    /// With this protocol k is at most the number of nodes.
    #[error(
        "with `{protocol}` k must be at most the number of nodes, {nodes}, not {k}; `slots` has no \
         such bound"
    )]
    KAboveNodes {
        /// The protocol of the definition.
        protocol: &'static str,
        /// The number of nodes.
        nodes: u32,
        /// The k of the definition.
        k: u32,
    },
    /// The protocol does not know leases.
    #[error("only `slots` has leases, not `{0}`")]
    LeasesNotSupported(&'static str),
    /// There is no such protocol.
    #[error(transparent)]
    UnknownProtocol(#[from] UnknownName),
}

impl Definition {
    /// The longest name of a gate.
    pub const LONGEST_NAME: usize = 128;
    /// The most slots of a gate.
    pub const MOST: u32 = 1 << 16;

    /// Its slots.
    pub fn slots(&self) -> Slots {
        Slots { k: self.k, source: self.source.clone() }
    }

    /// Checks a gate's name.
    pub fn check_name(name: &str) -> Result<(), BadDefinition> {
        let valid = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if name.is_empty() || name.len() > Self::LONGEST_NAME || !name.chars().all(valid) {
            return Err(BadDefinition::Name(name.to_owned()));
        }
        Ok(())
    }

    /// Checks a definition for a cluster of `nodes` nodes, and returns its protocol.
    pub(crate) fn check(&self, nodes: u32) -> Result<&'static Entry, BadDefinition> {
        let entry = registry::entry(&self.protocol)?;
        self.check_with(entry, nodes)?;
        Ok(entry)
    }

    /// The same with a protocol that is already known.
    pub(crate) fn check_with(&self, entry: &Entry, nodes: u32) -> Result<(), BadDefinition> {
        let Self { k, lanes, .. } = *self;
        if entry.follows_log {
            return Err(BadDefinition::LogNotSupported(entry.name));
        }
        Self::check_name(&self.name)?;
        if k == 0 || k > Self::MOST {
            return Err(BadDefinition::K(k));
        }
        self.slots().check()?;
        let most = k.min(64);
        if lanes == 0 || lanes > most {
            return Err(BadDefinition::Lanes { k, most, lanes });
        }
        if !entry.slots && lanes > 1 {
            return Err(BadDefinition::LanesNotSupported(entry.name));
        }
        if !entry.slots && entry.name != "tree-token" && k > nodes {
            return Err(BadDefinition::KAboveNodes { protocol: entry.name, nodes, k });
        }
        Ok(())
    }
}

/// The start of a name, safe to print.
fn shortened(name: &str) -> String {
    name.chars().take(40).flat_map(char::escape_debug).collect()
}
