//! What the log says, to be read: by people, and by a node when it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kgate_core::{Fence, Incarnation, NodeId, Span};
use serde::{Deserialize, Serialize};

use crate::membership::{LeaseTerms, Membership, StoreId};
use crate::voters::Voters;

/// Made at random when a cluster is founded: keeps two of them apart.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ClusterId(pub u64);

/// The number of a gate, never used again for another. 0 is free for the node's own use.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct GateId(pub u32);

/// Names a permit of the log: the index of the entry that holds it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct PermitId(pub u64);

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "permit {}", self.0)
    }
}

/// The hash of what a holder must show. The log is read by many, so the secret itself is not in it.
pub type SecretHash = [u8; 32];

/// What becomes of the slots of a holder that is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Policy {
    /// They return when its node is evicted.
    #[default]
    Lease,
    /// They stay taken until it returns, or an operator evicts it.
    Hold,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its id.
    pub id: ClusterId,
    /// For people.
    pub name: String,
    /// The terms of leases that nodes begin with.
    pub terms: LeaseTerms,
    /// The first nodes, as all of them named them.
    pub founders: BTreeSet<NodeId>,
}

/// A node that may take part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// For people; one name, one node.
    pub name: String,
    /// Where its peers reach it.
    pub address: String,
    /// The store that its log is in, once it is known. Never another under this number (rule R4).
    pub store: Option<StoreId>,
    /// Its latest incarnation that took part.
    pub last: Option<Admission>,
    /// An operator has this incarnation of it evicted.
    pub forced_eviction: Option<ForcedEviction>,
}

/// What an operator has decided about an incarnation of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForcedEviction {
    /// Which incarnation.
    pub incarnation: Incarnation,
    /// Who says so, for people.
    pub author: String,
    /// No later incarnation of it takes part either.
    pub for_good: bool,
}

/// An incarnation of a node that takes part or took part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// Its number.
    pub incarnation: Incarnation,
    /// The entry that added it.
    pub at: u64,
    /// Random: names the start that added it.
    pub start: u64,
}

/// A gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Its number.
    pub id: GateId,
    /// Its name.
    pub name: String,
    /// How many slots.
    pub k: u32,
    /// By which protocol.
    pub protocol: String,
    /// Into how many queues its slots are split.
    pub lanes: u32,
    /// What becomes of a silent holder's slots.
    pub policy: Policy,
    /// The most slots of one permit.
    pub weight_max: Option<u32>,
    /// Who has set k, for people.
    pub author: String,
    /// The entry that made it.
    pub made: u64,
    /// The entry that changed it last: its part of the view.
    pub version: u64,
}

/// A permit that is held by the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurablePermit {
    /// Of which gate.
    pub gate: GateId,
    /// Which slots, in order.
    pub slots: Vec<u32>,
    /// Its fence.
    pub fence: Fence,
    /// Who decided.
    pub by: (NodeId, Incarnation),
    /// Who holds it, for people.
    pub holder: String,
    /// What its holder must show, hashed.
    pub secret: SecretHash,
    /// After so long without a renewal it may be taken back.
    pub ttl: Option<Span>,
    /// How often it was renewed.
    pub renewals: u64,
}

/// All that the log says, as of one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterState {
    /// The entry.
    pub applied: u64,
    /// The last entry that changed the members.
    pub view: u64,
    /// The cluster, once it is founded.
    pub cluster: Option<Cluster>,
    /// Who votes.
    pub voters: Voters,
    /// Who hears the log without a vote.
    pub learners: BTreeSet<NodeId>,
    /// Who may take part.
    pub directory: BTreeMap<NodeId, DirectoryEntry>,
    /// Who takes part.
    pub membership: Membership,
    /// The gates.
    pub gates: BTreeMap<GateId, Gate>,
    /// The permits that the log holds.
    pub permits: BTreeMap<PermitId, DurablePermit>,
}

impl ClusterState {
    /// The gate of that name.
    pub fn gate(&self, name: &str) -> Option<&Gate> {
        self.gates.values().find(|gate| gate.name == name)
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.directory.iter().find(|(_, listed)| listed.name == name).map(|(node, _)| *node)
    }

    /// What leads from an older cluster_state to this one ([`super::State::changes_since`]).
    pub fn changes_since(&self, older: &ClusterState) -> Vec<super::Change> {
        super::State::of(self.clone()).changes_since(older)
    }

    /// The view that a gate is in: the last entry that changed the members or that gate
    /// (docs/internals/leases.md, fences).
    pub fn view_of(&self, gate: &Gate) -> u64 {
        self.view.max(gate.version)
    }

    /// The slots of a gate that the log holds.
    pub fn held_slots(&self, gate: GateId) -> BTreeSet<u32> {
        let permits = self.permits.values().filter(|permit| permit.gate == gate);
        permits.flat_map(|permit| permit.slots.iter().copied()).collect()
    }
}
