//! What is put into the log, and what comes of it.

use std::collections::BTreeMap;

use kgate_core::{Fence, Incarnation, NodeId, Span};
use serde::{Deserialize, Serialize};

use super::cluster_state::{
    ClusterId, DirectoryEntry, DurablePermit, Gate, GateId, PermitId, Policy, SecretHash,
};
use crate::lease::Proposal;
use crate::membership::{LeaseTerms, MembershipChange, StoreId};
use crate::voters::Voters;

/// One entry of the log. Each is compare-and-set: applied twice, or too late, it changes nothing
/// and says why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The first entry: what cluster this is. Proposed by each of its first nodes; the first wins,
    /// the others learn its id.
    Bootstrap {
        /// Random, so that two clusters are never taken for one.
        cluster: ClusterId,
        /// For people.
        name: String,
        /// The first nodes. All must name the same.
        nodes: BTreeMap<NodeId, DirectoryEntry>,
        /// The terms of leases that nodes begin with.
        terms: LeaseTerms,
    },
    /// A node may take part: it gets a number that no other store ever had. Again for the same
    /// store: the same number.
    RegisterNode {
        /// The number that is wished for.
        node: Option<NodeId>,
        /// For people; one name, one node.
        name: String,
        /// Where its peers reach it.
        address: String,
        /// The store that its log is in. If it is not known, the first that takes part under this
        /// number is it.
        store: Option<StoreId>,
    },
    /// An incarnation of a node begins. Rejected while another incarnation of it is a member (rule
    /// R2).
    Add {
        /// Which node.
        node: NodeId,
        /// Greater than every incarnation of it before.
        incarnation: Incarnation,
        /// The store that it remembers with (rule R4).
        store: StoreId,
        /// Random for each start, so that a repetition is told from a second daemon of the same
        /// number.
        start: u64,
        /// The terms of its lease, for this incarnation.
        terms: LeaseTerms,
        /// Where its peers reach it.
        address: String,
    },
    /// An incarnation ends by its own will, after it has given everything back.
    Leave {
        /// Which node.
        node: NodeId,
        /// Which incarnation.
        incarnation: Incarnation,
    },
    /// An operator takes a node off the directory. Rejected while an incarnation of it is a member,
    /// or while it votes.
    RemoveNode {
        /// Which node.
        node: NodeId,
    },
    /// Rule E1.
    Suspect {
        /// Whom.
        node: NodeId,
        /// In which incarnation.
        incarnation: Incarnation,
    },
    /// An operator has an incarnation of a node evicted: it is suspected as by rule E1, and cannot
    /// be cleared of it (rule E5). The voters wait as ever (rule E6).
    ForceEvict {
        /// Whom.
        node: NodeId,
        /// In which incarnation.
        incarnation: Incarnation,
        /// Who says so, for people.
        author: String,
        /// No later incarnation of it takes part either: the node is to be removed.
        for_good: bool,
    },
    /// Rule E5.
    Unsuspect {
        /// Whom.
        node: NodeId,
        /// In which incarnation.
        incarnation: Incarnation,
        /// By which entry it is suspected.
        at: u64,
    },
    /// Rule E4.
    Evict {
        /// Whom.
        node: NodeId,
        /// In which incarnation.
        incarnation: Incarnation,
        /// By which entry it is suspected.
        at: u64,
        /// By which entry those vote who have promised.
        voters_at: u64,
        /// How long the promises have surely been kept.
        waited: Span,
    },
    /// A gate. The first wins; another k is a conflict.
    CreateGate {
        /// Its name.
        name: String,
        /// How many slots.
        k: u32,
        /// By which protocol.
        protocol: String,
        /// Into how many queues its slots are split, for its whole incarnation.
        lanes: u32,
        /// What becomes of a silent holder's slots.
        policy: Policy,
        /// The most slots of one permit.
        weight_max: Option<u32>,
        /// Who says so, for people.
        author: String,
    },
    /// Changes a gate that is there.
    SetGate {
        /// Its name.
        name: String,
        /// How many slots from now on.
        k: Option<u32>,
        /// What becomes of a silent holder's slots from now on.
        policy: Option<Policy>,
        /// The version that is to be changed: void if somebody else was faster. Whatever it is, if
        /// none.
        version: Option<u64>,
        /// Who says so, for people.
        author: String,
    },
    /// Ends a gate that has no slots any more, and of which every member has said of this version
    /// that nothing is held.
    DeleteGate {
        /// Its name.
        name: String,
        /// The version that was found drained.
        version: u64,
    },
    /// A permit that outlives its node is decided: only when this is applied is it granted.
    HoldPermit {
        /// Of which gate.
        gate: GateId,
        /// Which slots.
        slots: Vec<u32>,
        /// Its fence.
        fence: Fence,
        /// Who decided.
        by: (NodeId, Incarnation),
        /// Who holds it, for people.
        holder: String,
        /// What its holder must show, hashed.
        secret: SecretHash,
        /// After so long without a renewal it may be taken back; never, if none.
        ttl: Option<Span>,
    },
    /// Its holder gives it back; or who decided it does, because nobody wants it any more.
    ReleasePermit {
        /// Which.
        permit: PermitId,
        /// The holder's.
        secret: SecretHash,
        /// How often it had been renewed: void if its holder was heard since. However often, if
        /// none.
        renewals: Option<u64>,
    },
    /// Its holder is alive.
    RenewPermit {
        /// Which.
        permit: PermitId,
        /// The holder's.
        secret: SecretHash,
    },
    /// Its time is over: somebody has counted it since the renewal of that number. Rejected if it
    /// was renewed since.
    ExpirePermit {
        /// Which.
        permit: PermitId,
        /// How often it had been renewed.
        renewals: u64,
    },
    /// An operator takes it back.
    EvictPermit {
        /// Which.
        permit: PermitId,
        /// Who says so, for people.
        author: String,
    },
}

impl Command {
    /// Whether requests of clients cause it, of which there may be any number. The others are about
    /// nodes, or by operators.
    pub fn is_of_clients(&self) -> bool {
        match self {
            Self::CreateGate { .. }
            | Self::HoldPermit { .. }
            | Self::ReleasePermit { .. }
            | Self::RenewPermit { .. }
            | Self::ExpirePermit { .. } => true,
            Self::Bootstrap { .. }
            | Self::RegisterNode { .. }
            | Self::Add { .. }
            | Self::Leave { .. }
            | Self::RemoveNode { .. }
            | Self::Suspect { .. }
            | Self::ForceEvict { .. }
            | Self::Unsuspect { .. }
            | Self::Evict { .. }
            | Self::SetGate { .. }
            | Self::DeleteGate { .. }
            | Self::EvictPermit { .. } => false,
        }
    }
}

/// What leases propose.
impl From<Proposal> for Command {
    fn from(proposal: Proposal) -> Self {
        match proposal {
            Proposal::Suspect { node, incarnation } => Self::Suspect { node, incarnation },
            Proposal::Unsuspect { node, incarnation, at } => {
                Self::Unsuspect { node, incarnation, at }
            }
            Proposal::Evict { node, incarnation, at, voters_at, waited } => {
                Self::Evict { node, incarnation, at, voters_at, waited }
            }
        }
    }
}

/// What an entry has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Applied {
    /// It was not a command: a change of voters, or a leader's first word.
    Nothing,
    /// The cluster has this id: one's own, or that of whoever was first.
    Bootstrapped(ClusterId),
    /// The node has this number.
    Registered(NodeId),
    /// The incarnation takes part since this entry.
    Added(u64),
    /// The incarnation is gone.
    Gone,
    /// The node is off the directory.
    Removed,
    /// It is suspected by this entry, perhaps an earlier one.
    Suspected(u64),
    /// It is not suspected any more.
    Unsuspected,
    /// The gate is as asked for: made, changed, or as it was.
    Gate {
        /// Its number.
        gate: GateId,
        /// The entry that made it so.
        version: u64,
    },
    /// The gate is gone.
    Deleted,
    /// The permit is in the log, under this name.
    Held(PermitId),
    /// It has been renewed so often.
    Renewed(u64),
    /// Its slots are free.
    Freed,
}

/// Why an entry has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejected {
    /// The gate is there with another number of slots.
    #[error("gate {gate} has k = {k}, set by {author}; {wanted_by} asks for k = {wanted}")]
    Conflict {
        /// Which gate.
        gate: String,
        /// Its k.
        k: u32,
        /// Who has set it.
        author: String,
        /// The k that was asked for.
        wanted: u32,
        /// By whom.
        wanted_by: String,
    },
    /// That permit is not held, or not any more.
    #[error("{0} is not held any more: it was given back, has expired or was evicted")]
    PermitNotHeld(PermitId),
    /// Another incarnation of the node is a member (rule R2), suspected or not.
    #[error("{node} is a member already, as incarnation {}: it must be evicted before another begins", .incarnation.0)]
    AlreadyMember {
        /// Which node.
        node: NodeId,
        /// The incarnation that is a member.
        incarnation: Incarnation,
    },
    /// The incarnation is not a member, or not any more.
    #[error("incarnation {} of {node} is not a member", .incarnation.0)]
    NotMember {
        /// Which node.
        node: NodeId,
        /// Which incarnation.
        incarnation: Incarnation,
    },
    /// The node is known with another store (rule R4).
    #[error(
        "{0} is known with another store: this one is new, foreign or a copy, and has forgotten what was promised; \
         remove {0} and add it anew"
    )]
    StoreMismatch(NodeId),
    /// An operator removes the node: no incarnation of it takes part any more.
    #[error(
        "{node} was removed by {author}: add it anew, with an empty folder, if it is to take part"
    )]
    Removed {
        /// Which node.
        node: NodeId,
        /// By whom.
        author: String,
    },
    /// What was decided does not stand any more: whoever decided it gives it back, and may decide
    /// anew.
    #[error("{0}")]
    Outdated(String),
    /// Anything else, in words.
    #[error("{0}")]
    Refused(String),
    /// There are voters, and no cluster yet: its first entry is still on its way.
    #[error("the cluster is not founded yet")]
    NotBootstrapped,
}

/// What an applied entry changes, for the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The cluster has got its id.
    Bootstrapped(ClusterId),
    /// The members. `at` is the entry that did it: the view that the data plane goes on in.
    Membership {
        /// The entry.
        at: u64,
        /// What it does.
        change: MembershipChange,
    },
    /// A node is on the directory, or its address or store is another.
    DirectoryUpdated(NodeId, DirectoryEntry),
    /// A node is off the directory.
    DirectoryRemoved(NodeId),
    /// A gate is new.
    GateCreated(Gate),
    /// A gate has another k or policy; its version says since when.
    GateChanged(Gate),
    /// A gate is gone, by this entry.
    GateDeleted(GateId, u64),
    /// A permit is held by the log.
    PermitHeld(PermitId, DurablePermit),
    /// Its holder has renewed it: so often now.
    PermitRenewed(PermitId, u64),
    /// It is not held any more.
    PermitFreed(PermitId, DurablePermit, FreeReason),
    /// These vote, as applied.
    Voters(Voters),
}

/// Why a permit that was in the log is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FreeReason {
    /// Its holder gave it back.
    Released,
    /// It was not renewed in time.
    Expired,
    /// This operator took it back.
    Evicted(String),
    /// While this node was away; by what is not known here.
    Unknown,
}
