//! What is proposed to the log, what it did, and what is different afterwards.

use std::collections::BTreeMap;

use kgate_core::{Fence, Incarnation, NodeId, Span};
use serde::{Deserialize, Serialize};

use super::cluster_state::{
    Cluster, ClusterId, DirectoryEntry, DurablePermit, Gate, GateId, PermitId, Policy, SecretHash,
};
use super::homes::Homes;
use super::once::OnceMark;
use super::slots::{KSource, Slots};
use crate::lease::Proposal;
use crate::membership::{Eviction, LeaseTerms, MembershipChange, StoreId};
use crate::voters::Voters;

/// The content of an entry of the log. Each command is a compare-and-set: applied twice, or too
/// late, it changes nothing and says why ([`super::Rejected`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The first command: what cluster this is. Each of the first nodes proposes it; the first
    /// proposal wins, and the others learn its id.
    Bootstrap {
        /// A random number, so that two clusters are never taken for one.
        cluster: ClusterId,
        /// The name of the cluster, for people.
        name: String,
        /// The first nodes. All of them must propose the same ones.
        nodes: BTreeMap<NodeId, DirectoryEntry>,
        /// The lease terms that nodes begin with.
        terms: LeaseTerms,
    },
    /// An operator, or a join token, puts a node into the directory, under a number that no other
    /// store ever had. Proposed again for the same store, it returns the same number.
    RegisterNode {
        /// The number that the proposer asks for, if any.
        node: Option<NodeId>,
        /// The name, for people. No two nodes have the same.
        name: String,
        /// The address at which its peers reach it.
        address: String,
        /// The store of its log. If it is not known yet, the first store that is added under this
        /// number is it.
        store: Option<StoreId>,
    },
    /// An incarnation of a node becomes a member. Rejected while another incarnation of it is one
    /// (rule R2).
    Add {
        /// Which node.
        node: NodeId,
        /// The incarnation. It must be greater than every earlier one of this node.
        incarnation: Incarnation,
        /// The store of the node's log (rule R4).
        store: StoreId,
        /// A random number for each start of the process: it tells a repeated proposal from a
        /// second process of the same node.
        start: u64,
        /// The lease terms of this incarnation.
        terms: LeaseTerms,
        /// The address at which its peers reach it.
        address: String,
    },
    /// An incarnation stops being a member by itself, after it has returned everything.
    Leave {
        /// Which node.
        node: NodeId,
        /// Which incarnation.
        incarnation: Incarnation,
    },
    /// An operator takes a node out of the directory. Rejected while an incarnation of it is a
    /// member, or while it votes.
    RemoveNode {
        /// Which node.
        node: NodeId,
    },
    /// An incarnation is suspected (rule E1).
    Suspect {
        /// Which node.
        node: NodeId,
        /// Which incarnation.
        incarnation: Incarnation,
    },
    /// An operator has an incarnation evicted (rule E6). It is suspected as by rule E1 and cannot
    /// be cleared as by rule E5. The eviction itself waits as long as any other.
    ForceEvict {
        /// Which node.
        node: NodeId,
        /// Which incarnation.
        incarnation: Incarnation,
        /// The operator, for people.
        author: String,
        /// No later incarnation becomes a member either: the node is to be removed.
        for_good: bool,
    },
    /// An incarnation is cleared of its suspicion (rule E5).
    Unsuspect {
        /// Which node.
        node: NodeId,
        /// Which incarnation.
        incarnation: Incarnation,
        /// The entry of the suspicion.
        at: u64,
    },
    /// An incarnation is evicted, if rule E4 allows it.
    Evict(Eviction),
    /// Creates a gate. The first one to do so wins; slots that it does not satisfy
    /// ([`Slots::satisfies`]) are a conflict.
    CreateGate {
        /// The name of the gate.
        name: String,
        /// Its slots.
        slots: Slots,
        /// The protocol that grants its slots.
        protocol: String,
        /// The number of queues that its slots are split into, fixed until the gate is deleted.
        lanes: u32,
        /// What happens to the slots of a silent holder.
        policy: Policy,
        /// The greatest weight of one request, if it is bounded.
        weight_max: Option<u32>,
        /// Who creates it, for people.
        author: String,
    },
    /// Changes a gate.
    SetGate {
        /// The name of the gate.
        name: String,
        /// The new number of slots, if it changes.
        k: Option<u32>,
        /// What k comes from, if that changes. With a new k alone, an expression is dropped, and
        /// names stay.
        source: Option<KSource>,
        /// The new policy, if it changes.
        policy: Option<Policy>,
        /// The version that is to be changed: rejected if the gate has another one by now. None
        /// changes whatever version there is.
        version: Option<u64>,
        /// Who changes it, for people.
        author: String,
    },
    /// Deletes a gate that has no slots, after every member has said of this version that nothing
    /// is held.
    DeleteGate {
        /// The name of the gate.
        name: String,
        /// The version that was found drained.
        version: u64,
    },
    /// Holds a durable permit. It is granted only after this is applied.
    HoldPermit {
        /// The gate.
        gate: GateId,
        /// The slots.
        slots: Vec<u32>,
        /// The fence under which they are held.
        fence: Fence,
        /// The node that decided, and its incarnation.
        by: (NodeId, Incarnation),
        /// Who holds it, for people.
        holder: String,
        /// The hash of the secret that the holder must show.
        secret: SecretHash,
        /// The time without a renewal after which it expires; none: it never does.
        ttl: Option<Span>,
    },
    /// Releases a durable permit: proposed for its holder, or by the node that decided, if nobody
    /// asks for the permit any more.
    ReleasePermit {
        /// Which permit.
        permit: PermitId,
        /// The hash of its secret.
        secret: SecretHash,
        /// How often it had been renewed when the proposer looked: rejected if it was renewed
        /// since. None releases it in any case.
        renewals: Option<u64>,
    },
    /// The holder of a durable permit is alive.
    RenewPermit {
        /// Which permit.
        permit: PermitId,
        /// The hash of its secret.
        secret: SecretHash,
    },
    /// A durable permit expires: a node has counted its time to live since the renewal of that
    /// number. Rejected if it was renewed since.
    ExpirePermit {
        /// Which permit.
        permit: PermitId,
        /// How often it had been renewed.
        renewals: u64,
    },
    /// A client uses a key of a gate. Rejected if the key is used by another one.
    MarkOnce {
        /// The gate.
        gate: GateId,
        /// The key.
        key: String,
        /// The hash of a random number of the client: the same when it proposes again.
        token: SecretHash,
        /// The client, for people.
        by: String,
        /// How long the key is used.
        ttl: Span,
    },
    /// The time to live of a key is over: a node has counted it since it learned of the mark.
    ExpireOnce {
        /// The gate.
        gate: GateId,
        /// The key.
        key: String,
        /// The entry that marked it.
        at: u64,
    },
    /// An operator evicts a durable permit.
    EvictPermit {
        /// Which permit.
        permit: PermitId,
        /// The operator, for people.
        author: String,
    },
}

impl Command {
    /// Whether requests of clients cause it, of which there may be any number. All others come from
    /// nodes and operators.
    pub fn is_of_clients(&self) -> bool {
        match self {
            Self::CreateGate { .. }
            | Self::HoldPermit { .. }
            | Self::ReleasePermit { .. }
            | Self::RenewPermit { .. }
            | Self::ExpirePermit { .. }
            | Self::MarkOnce { .. }
            | Self::ExpireOnce { .. } => true,
            Self::Bootstrap { .. }
            | Self::RegisterNode { .. }
            | Self::Add { .. }
            | Self::Leave { .. }
            | Self::RemoveNode { .. }
            | Self::Suspect { .. }
            | Self::ForceEvict { .. }
            | Self::Unsuspect { .. }
            | Self::Evict(_)
            | Self::SetGate { .. }
            | Self::DeleteGate { .. }
            | Self::EvictPermit { .. } => false,
        }
    }
}

/// What the leases propose.
impl From<Proposal> for Command {
    fn from(proposal: Proposal) -> Self {
        match proposal {
            Proposal::Suspect { node, incarnation } => Self::Suspect { node, incarnation },
            Proposal::Unsuspect { node, incarnation, at } => {
                Self::Unsuspect { node, incarnation, at }
            }
            Proposal::Evict(eviction) => Self::Evict(eviction),
        }
    }
}

/// What an entry did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Applied {
    /// The entry had no command: a change of voters, or the blank entry of a new leader.
    Nothing,
    /// The cluster has this id: the proposed one, or that of an earlier proposal.
    Bootstrapped(ClusterId),
    /// The node has this number.
    Registered(NodeId),
    /// The incarnation is a member since this entry.
    Added(u64),
    /// The incarnation is not a member any more.
    Gone,
    /// The node is out of the directory.
    Removed,
    /// The incarnation is suspected by this entry, which may be an earlier one.
    Suspected(u64),
    /// The incarnation is not suspected any more.
    Unsuspected,
    /// The gate is as asked for: created, changed, or as it was.
    Gate {
        /// The number of the gate.
        gate: GateId,
        /// The entry that made it so.
        version: u64,
    },
    /// The gate is deleted.
    Deleted,
    /// The durable permit is held, under this id.
    Held(PermitId),
    /// The durable permit has been renewed so many times.
    Renewed(u64),
    /// The slots of the durable permit are free.
    Freed,
    /// The key is used by this client, and by nobody else.
    Marked,
    /// The key is not used any more.
    OnceExpired,
}

/// What is different after an entry was applied. The node follows these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The cluster was bootstrapped.
    Bootstrapped(Cluster),
    /// The members changed.
    Membership {
        /// The entry: the view of the data plane from now on, if members came or went.
        at: u64,
        /// What changed.
        change: MembershipChange,
    },
    /// A node is in the directory, or its name, address, store or forced eviction changed.
    DirectoryUpdated(NodeId, DirectoryEntry),
    /// A node is out of the directory.
    DirectoryRemoved(NodeId),
    /// The homes of gates, after the members or their fitness changed. Unlike a change of the
    /// membership, this is the whole: terms depend on every change since the beginning of the log,
    /// which a node that was away for long has not seen.
    Homes(Homes),
    /// A gate was created.
    GateCreated(Gate),
    /// The slots or the policy of a gate changed. Its version is the entry that did it.
    GateChanged(Gate),
    /// A gate was deleted, by the entry of this index.
    GateDeleted(GateId, u64),
    /// A durable permit is held.
    PermitHeld(PermitId, DurablePermit),
    /// A durable permit was renewed, so many times in all.
    PermitRenewed(PermitId, u64),
    /// A durable permit is not held any more.
    PermitFreed {
        /// Which permit.
        id: PermitId,
        /// The permit as it was held.
        permit: DurablePermit,
        /// Why it is not.
        reason: FreeReason,
        /// The entry that freed it, or a later one of the same gate.
        at: u64,
    },
    /// A key of a gate is used.
    OnceMarked(GateId, String, OnceMark),
    /// A key of a gate is not used any more.
    OnceExpired(GateId, String),
    /// The voters, as applied.
    Voters(Voters),
}

/// Why a durable permit is not held any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FreeReason {
    /// It was released.
    Released,
    /// It was not renewed in time.
    Expired,
    /// This operator evicted it.
    Evicted(String),
    /// It ended while this node was away, for a reason that is not in the log any more.
    Unknown,
}
