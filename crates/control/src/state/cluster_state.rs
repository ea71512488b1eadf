//! The part of the replicated state that nodes and people read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kgate_core::{Fence, Incarnation, NodeId, Span, Term};
use serde::{Deserialize, Serialize};

use super::{Change, Homes, KSource, OnceMark, Slots};
use crate::membership::{LeaseTerms, Membership, StoreId};
use crate::voters::Voters;

/// A random number, drawn when a cluster is bootstrapped: no two clusters have the same.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ClusterId(pub u64);

/// The number of a gate, by which all nodes know it. It is never used again for another gate. The
/// log gives numbers from 1; 0 is free for the node's own use.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct GateId(pub u32);

/// The id of a durable permit: the index of the entry that holds it.
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

/// The hash of the secret that a holder must show. The secret itself is not in the log, which many
/// can read.
pub type SecretHash = [u8; 32];

/// What happens to the slots of a silent holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Policy {
    /// They return when its node is evicted.
    #[default]
    Lease,
    /// They stay taken until the holder releases them, their time to live is over, or an operator
    /// evicts them.
    Hold,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its id.
    pub id: ClusterId,
    /// Its name, for people.
    pub name: String,
    /// The lease terms that nodes begin with.
    pub terms: LeaseTerms,
    /// The first nodes, as each of them proposed them.
    pub initial_members: BTreeSet<NodeId>,
}

/// A node in the directory: an incarnation of it may become a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// The name, for people. No two nodes have the same.
    pub name: String,
    /// The address at which its peers reach it.
    pub address: String,
    /// The store of its log, once it is known. No other store is ever added under this number (rule
    /// R4).
    pub store: Option<StoreId>,
    /// How its latest incarnation became a member, if one ever did.
    pub last: Option<Admission>,
    /// The forced eviction of its latest incarnation, if an operator ordered one.
    pub forced_eviction: Option<ForcedEviction>,
}

/// An operator's order to evict an incarnation of a node (rule E6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForcedEviction {
    /// The incarnation to evict.
    pub incarnation: Incarnation,
    /// The operator, for people.
    pub author: String,
    /// No later incarnation becomes a member either.
    pub for_good: bool,
}

/// How an incarnation of a node became a member. Stays in the directory after the incarnation is
/// gone, so that it, and every earlier one, is refused from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// The incarnation.
    pub incarnation: Incarnation,
    /// The index of the entry that added it.
    pub at: u64,
    /// The random number of the process start that proposed it: the same start may propose again,
    /// another start of the same incarnation is refused.
    pub start: u64,
}

/// A gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Its number.
    pub id: GateId,
    /// Its name.
    pub name: String,
    /// The number of slots.
    pub k: u32,
    /// What k comes from.
    pub source: KSource,
    /// The protocol that grants its slots.
    pub protocol: String,
    /// The number of queues that its slots are split into.
    pub lanes: u32,
    /// What happens to the slots of a silent holder.
    pub policy: Policy,
    /// The greatest weight of one request, if it is bounded.
    pub weight_max: Option<u32>,
    /// Who set k, for people.
    pub author: String,
    /// The entry that created it.
    pub created: u64,
    /// The entry that changed it last: part of its view ([`ClusterState::view_of`]).
    pub version: u64,
    /// The entry that changed last what the log says of it: the gate itself, or which of its slots
    /// durable permits hold.
    pub touched: u64,
    /// How many changes the directory of homes had seen when it was created.
    pub created_in: Term,
}

impl Gate {
    /// Its slots.
    pub fn slots(&self) -> Slots {
        Slots { k: self.k, source: self.source.clone() }
    }
}

/// A permit that outlives its node: the log holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurablePermit {
    /// The gate.
    pub gate: GateId,
    /// The slots, in order.
    pub slots: Vec<u32>,
    /// The fence under which they are held.
    pub fence: Fence,
    /// The node that decided, and its incarnation.
    pub by: (NodeId, Incarnation),
    /// Who holds it, for people.
    pub holder: String,
    /// The hash of the secret that its holder must show.
    pub secret: SecretHash,
    /// The time without a renewal after which it expires; none: it never does.
    pub ttl: Option<Span>,
    /// How often it was renewed.
    pub renewals: u64,
}

/// What the log says, as of one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterState {
    /// The last entry that is applied.
    pub applied: u64,
    /// The last entry that added or removed a member.
    pub view: u64,
    /// The cluster, once it is bootstrapped.
    pub cluster: Option<Cluster>,
    /// The nodes that vote.
    pub voters: Voters,
    /// The nodes that receive the log without a vote.
    pub learners: BTreeSet<NodeId>,
    /// The nodes that may become members.
    pub directory: BTreeMap<NodeId, DirectoryEntry>,
    /// The members.
    pub membership: Membership,
    /// The homes of gates.
    pub homes: Homes,
    /// The gates.
    pub gates: BTreeMap<GateId, Gate>,
    /// The durable permits.
    pub permits: BTreeMap<PermitId, DurablePermit>,
    /// The keys of each gate that are used.
    pub once: BTreeMap<GateId, BTreeMap<String, OnceMark>>,
}

impl ClusterState {
    /// The gate of that name.
    pub fn gate(&self, name: &str) -> Option<&Gate> {
        self.gates.values().find(|gate| gate.name == name)
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.directory.iter().find(|(_, entry)| entry.name == name).map(|(node, _)| *node)
    }

    /// The changes that lead from an older state to this one, for a node that was away for longer
    /// than entries are kept: what ended comes before what is new, in the order of the entries.
    pub fn changes_since(&self, older: &ClusterState) -> Vec<Change> {
        let mut changes = Vec::new();
        self.members_since(older, &mut changes);
        if self.homes != older.homes {
            changes.push(Change::Homes(self.homes.clone()));
        }
        self.gates_since(older, &mut changes);
        self.permits_since(older, &mut changes);
        self.once_since(older, &mut changes);
        if self.voters != older.voters {
            changes.push(Change::Voters(self.voters.clone()));
        }
        changes
    }

    /// Follows a change, as a node does that learns of changes alone. The entry that brought it is
    /// applied ([`Self::applied`]) once all of its changes are followed.
    pub fn follow(&mut self, change: &Change) {
        match change {
            Change::Bootstrapped(cluster) => self.cluster = Some(cluster.clone()),
            Change::Membership { change, .. } => self.membership.apply(*change),
            Change::DirectoryUpdated(node, entry) => {
                self.directory.insert(*node, entry.clone());
            }
            Change::DirectoryRemoved(node) => {
                self.directory.remove(node);
            }
            Change::Homes(homes) => self.homes = homes.clone(),
            Change::GateCreated(gate) | Change::GateChanged(gate) => {
                self.gates.insert(gate.id, gate.clone());
            }
            Change::GateDeleted(id, _) => {
                self.gates.remove(id);
                self.once.remove(id);
            }
            Change::PermitHeld(id, permit) => {
                self.permits.insert(*id, permit.clone());
                self.touch(permit.gate, id.0);
            }
            Change::PermitRenewed(id, renewals) => {
                if let Some(permit) = self.permits.get_mut(id) {
                    permit.renewals = *renewals;
                }
            }
            Change::PermitFreed { id, permit, at, .. } => {
                self.permits.remove(id);
                self.touch(permit.gate, *at);
            }
            Change::OnceMarked(gate, key, mark) => {
                self.once.entry(*gate).or_default().insert(key.clone(), mark.clone());
            }
            Change::OnceExpired(gate, key) => self.forget_once(*gate, key),
            Change::Voters(voters) => self.voters = voters.clone(),
        }
    }

    /// The view of a gate: the last entry that added or removed a member, or changed that gate
    /// (docs/internals/leases.md, fences).
    pub fn view_of(&self, gate: &Gate) -> u64 {
        self.view.max(gate.version)
    }

    /// What the log says of a gate to its protocol has changed, by that entry.
    pub(super) fn touch(&mut self, gate: GateId, at: u64) {
        if let Some(gate) = self.gates.get_mut(&gate) {
            gate.touched = gate.touched.max(at);
        }
    }

    /// The slots of a gate that durable permits hold.
    pub fn held_slots(&self, gate: GateId) -> BTreeSet<u32> {
        let permits = self.permits.values().filter(|permit| permit.gate == gate);
        permits.flat_map(|permit| permit.slots.iter().copied()).collect()
    }
}
