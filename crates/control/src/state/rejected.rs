//! Why an entry of the log changed nothing.
//!
//! A [`Rejected`] is part of what applying an entry returns, so it is the same at every node and
//! crosses the network when the proposer is not the leader. Code matches on variants and fields;
//! the text is made where somebody reads it.

use std::collections::BTreeSet;
use std::fmt;

use kgate_core::{Incarnation, NodeId};
use serde::{Deserialize, Serialize};

use super::cluster_state::{GateId, PermitId};
use super::{BadSlots, Slots, bounds};
use crate::membership::EvictionError;
use crate::voters::{NodeList, VOTERS_MAX};

/// Why an entry of the log changed nothing. The state is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejected {
    /// The entry that bootstraps the cluster is not applied yet.
    #[error("the cluster is not bootstrapped yet: start all of its first voters")]
    NotBootstrapped,
    /// The cluster was bootstrapped under another name or with other nodes.
    #[error(
        "the cluster `{name}` was bootstrapped with {}, but this node is configured for \
        `{wanted_name}` with {}: \
         make the configurations the same",
        NodeList(initial_members),
        NodeList(wanted_members)
    )]
    OtherCluster {
        /// The name that the log has.
        name: String,
        /// The first nodes that the log has.
        initial_members: BTreeSet<NodeId>,
        /// The name that was proposed.
        wanted_name: String,
        /// The first nodes that were proposed.
        wanted_members: BTreeSet<NodeId>,
    },
    /// A field of the command is out of bounds.
    #[error(transparent)]
    Invalid(Invalid),
    /// The state has reached a bound.
    #[error(transparent)]
    LimitReached(Limit),

    /// The node is not in the directory.
    #[error("{0} is not in the directory: add it with `kgate members add` first")]
    NotRegistered(NodeId),
    /// The store belongs to a node that is in the directory already.
    #[error("this store belongs to {node}, named `{name}`: use that name, or an empty folder")]
    StoreTaken {
        /// Which node.
        node: NodeId,
        /// Its name.
        name: String,
    },
    /// Another node has the name.
    #[error("the name `{name}` belongs to {node}: choose another one")]
    NameTaken {
        /// Which node.
        node: NodeId,
        /// The name.
        name: String,
    },
    /// The number was given to a node before. Numbers are never used again (rule R4).
    #[error(
        "{node} is or was the number of another node, and numbers are never used again: {next} \
        is free"
    )]
    NumberTaken {
        /// The number.
        node: NodeId,
        /// The lowest number that is free.
        next: NodeId,
    },
    /// The node is known with another store (rule R4).
    #[error(
        "{0} is known with another store: this one is new, foreign or a copy, and has forgotten \
        what was promised; \
         remove {0} and add it anew"
    )]
    StoreMismatch(NodeId),
    /// An operator removes the node: no incarnation of it becomes a member any more.
    #[error("{node} was removed by {author}: to use it again, add it anew with an empty folder")]
    Removed {
        /// Which node.
        node: NodeId,
        /// Who removed it.
        author: String,
    },

    /// Another incarnation of the node is a member (rule R2), suspected or not.
    #[error(
        "{node} is a member already, as incarnation {}: it must be evicted before another begins",
        .incarnation.0
    )]
    AlreadyMember {
        /// Which node.
        node: NodeId,
        /// The incarnation that is a member.
        incarnation: Incarnation,
    },
    /// A later incarnation, or the same one, was a member before.
    #[error(
        "{node} was a member as incarnation {}, which is gone for good: incarnation {} is not a \
        later one",
        .last.0, .given.0
    )]
    StaleIncarnation {
        /// Which node.
        node: NodeId,
        /// Its latest incarnation that was a member.
        last: Incarnation,
        /// The incarnation that was proposed.
        given: Incarnation,
    },
    /// The incarnation is not a member, or not any more.
    #[error("incarnation {} of {node} is not a member", .incarnation.0)]
    NotMember {
        /// Which node.
        node: NodeId,
        /// Which incarnation.
        incarnation: Incarnation,
    },
    /// The node cannot be removed while an incarnation of it is a member.
    #[error("{node} is a member, as incarnation {}: stop it or evict it first", .incarnation.0)]
    StillMember {
        /// Which node.
        node: NodeId,
        /// The incarnation that is a member.
        incarnation: Incarnation,
    },
    /// The node cannot be removed while it votes.
    #[error("{0} votes: demote it first")]
    StillVoter(NodeId),
    /// The node is not suspected by that entry, or not any more (rule E5).
    #[error("{node} is not suspected by entry {at}, or not any more")]
    NotSuspected {
        /// Which node.
        node: NodeId,
        /// The entry of the suspicion.
        at: u64,
    },
    /// An operator has this incarnation evicted: it cannot be cleared of its suspicion (rule E6).
    #[error("{node} is being evicted by {author}")]
    BeingEvicted {
        /// Which node.
        node: NodeId,
        /// The operator.
        author: String,
    },
    /// The eviction has no effect (rule E4).
    #[error(transparent)]
    Eviction(EvictionError),
    /// The nodes cannot be the voters.
    #[error(transparent)]
    Voters(InvalidVoters),

    /// The gate exists with other slots.
    #[error(
        "gate {gate} has {slots}, set by {author}; {wanted_by} asks for {wanted}: leave out {}, \
         or an operator changes it: `kgate set {gate} {}`",
        .wanted.flag(),
        .slots.change_to(.wanted)
    )]
    Conflict {
        /// Which gate.
        gate: String,
        /// Its slots.
        slots: Box<Slots>,
        /// Who set them.
        author: String,
        /// The slots that were proposed.
        wanted: Box<Slots>,
        /// Who proposed it.
        wanted_by: String,
    },
    /// The gate exists with another protocol or another number of lanes.
    #[error(
        "gate {gate} uses protocol {protocol} with {lanes} lanes since it was created, which \
        cannot be changed to \
         {wanted_protocol} with {wanted_lanes}: delete it and create it anew, or use another name"
    )]
    ProtocolConflict {
        /// Which gate.
        gate: String,
        /// Its protocol.
        protocol: String,
        /// Its number of lanes.
        lanes: u32,
        /// The protocol that was proposed.
        wanted_protocol: String,
        /// The number of lanes that was proposed.
        wanted_lanes: u32,
    },
    /// There is no gate of that name.
    #[error("there is no gate {0}")]
    NoGate(String),
    /// There is no gate of that number any more.
    #[error("gate number {} was deleted", .0.0)]
    GateDeleted(GateId),
    /// The gate cannot be deleted while it has slots.
    #[error("gate {gate} has k = {k}: set k = 0 and let it drain first")]
    GateNotClosed {
        /// Which gate.
        gate: String,
        /// Its k.
        k: u32,
    },
    /// The gate was changed after it was found drained.
    #[error("gate {gate} was changed by entry {version} after it was found drained: try again")]
    GateChanged {
        /// Which gate.
        gate: String,
        /// The entry that changed it last.
        version: u64,
    },
    /// The gate cannot be deleted while the log holds permits of it.
    #[error("gate {0} has durable permits: they must be released or evicted first")]
    GateHasPermits(String),

    /// The key was marked before, by somebody else.
    #[error("key `{key}` of gate {gate} was used by {by}: it is used at most once")]
    OnceUsed {
        /// Which gate.
        gate: String,
        /// The start of the key.
        key: String,
        /// Who marked it.
        by: String,
    },
    /// The key is not marked by that entry, or not any more.
    #[error("key `{key}` is not used any more, or again")]
    OnceExpired {
        /// The start of the key.
        key: String,
    },

    /// The permit is not held, or not any more.
    #[error("{0} is not held any more: it was released, has expired or was evicted")]
    PermitNotHeld(PermitId),
    /// The secret is not that of the permit.
    #[error("{0} has another secret: permission denied")]
    WrongSecret(PermitId),
    /// The permit was renewed after the proposer last looked.
    #[error("{permit} was renewed meanwhile, {renewals} times in all: its holder is alive")]
    RenewedSince {
        /// Which permit.
        permit: PermitId,
        /// How often it has been renewed.
        renewals: u64,
    },
    /// The permit never expires.
    #[error("{0} has no time to live: it never expires")]
    NoTtl(PermitId),
    /// Other decisions were applied before this decision to grant. The node that made it must drop
    /// it, and may decide again.
    #[error(transparent)]
    Outdated(Outdated),
}

/// Which field of a command is out of bounds, and what it may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Invalid {
    /// A text is too short or too long, or has control characters.
    #[error(
        "{field} must have {least} to {} bytes without control characters: not `{}`",
        bounds::TEXT, .start.escape_debug()
    )]
    Text {
        /// Which text.
        field: TextField,
        /// The least number of bytes.
        least: u8,
        /// How the text begins.
        start: String,
    },
    /// Not the name of a gate.
    #[error(
        "the name of a gate must have 1 to {} letters, digits, dots, dashes, underscores or \
        slashes: not `{}`",
        bounds::TEXT, .0.escape_debug()
    )]
    GateName(String),
    /// k is above the bound.
    #[error("k = {0} is too many slots for one gate: at most {most}", most = bounds::SLOTS)]
    K(u32),
    /// The names of slots, or the expression, are not valid.
    #[error(transparent)]
    Slots(BadSlots),
    /// A gate cannot be created without slots.
    #[error("a gate is created with k of at least 1: k = 0 closes a gate that exists")]
    ZeroK,
    /// A gate cannot have more lanes than slots, nor none.
    #[error("a gate with k = {k} has 1 to {k} lanes: not {lanes}")]
    Lanes {
        /// The gate's k.
        k: u32,
        /// The number of lanes.
        lanes: u32,
    },
    /// The greatest weight of a gate's requests cannot be zero.
    #[error("a request has a weight of at least 1: weight_max = 0 would refuse them all")]
    ZeroWeightMax,
    /// A durable permit has no slot, or more than it may have.
    #[error("a durable permit of gate {gate} has 1 to {most} slots: not {given}")]
    Weight {
        /// Which gate.
        gate: String,
        /// The most slots of one durable permit.
        most: usize,
        /// The number of slots.
        given: usize,
    },
    /// The number of first nodes is out of bounds.
    #[error("a cluster is bootstrapped with 1 to {most} nodes: not {0}", most = bounds::NODES)]
    InitialMemberCount(usize),
    /// Two of the first nodes have one name.
    #[error("two of the first nodes are named `{0}`: each needs a name of its own")]
    DuplicateName(String),
    /// The number of a node is above the bound.
    #[error("numbers of nodes are below {}: not {}", bounds::NODE_NUMBERS, .0.0)]
    NodeNumber(NodeId),
    /// The terms of a lease cannot be.
    #[error("a lease must be longer than zero, and clock_error below 1000000 ppm")]
    LeaseTerms,
    /// The command does not fit into a message.
    #[error("the command has more than {most} bytes, its maximum: shorten its texts")]
    CommandTooLong {
        /// The most bytes of a command.
        most: usize,
    },
}

/// A text that a command carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextField {
    /// The name of the cluster.
    ClusterName,
    /// The name of a node.
    NodeName,
    /// The address of a node.
    Address,
    /// Who proposes the command.
    Author,
    /// Who holds a permit.
    Holder,
    /// The name of a protocol.
    Protocol,
    /// A key that is used once.
    OnceKey,
}

impl fmt::Display for TextField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TextField::ClusterName => "the name of a cluster",
            TextField::NodeName => "the name of a node",
            TextField::Address => "an address",
            TextField::Author => "an author",
            TextField::Holder => "a holder",
            TextField::Protocol => "the name of a protocol",
            TextField::OnceKey => "a key of --once",
        })
    }
}

/// Which bound of the state is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Limit {
    /// The directory is full.
    #[error("there are {} nodes already: remove one first", bounds::NODES)]
    Nodes,
    /// There are too many gates.
    #[error("there are {} gates already: delete one first", bounds::GATES)]
    Gates,
    /// Too many slots have names.
    #[error(
        "the gates would have more than {} named slots in all: drop names that are not needed with \
         `kgate set NAME --no-names`",
        bounds::NAMES_IN_ALL
    )]
    Names,
    /// Too many keys are used.
    #[error(
        "{} keys of --once are used at this gate, or {} at all gates, the maximum: wait until some \
         expire, and give a shorter --once-ttl",
        bounds::ONCE_KEYS,
        bounds::ONCE_KEYS_IN_ALL
    )]
    OnceKeys,
    /// The log holds too many permits.
    #[error("the log holds {} permits already: release or evict one first", bounds::PERMITS)]
    Permits,
    /// The log remembers the fences of too many slots.
    #[error(
        "durable permits have used {} slots, the maximum: gates with durable permits need fewer \
        slots",
        bounds::FENCES
    )]
    Fences,
}

/// Why the decision to grant a durable permit does not stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Outdated {
    /// The gate has fewer slots now.
    #[error("gate {gate} has k = {k} now: slot {slot} must not be granted any more")]
    BeyondK {
        /// Which gate.
        gate: String,
        /// Its k.
        k: u32,
        /// The slot.
        slot: u32,
    },
    /// Another durable permit has the slot.
    #[error("slot {slot} of gate {gate} is held already")]
    SlotHeld {
        /// Which gate.
        gate: String,
        /// The slot.
        slot: u32,
    },
    /// The slot was held under this fence or a later one.
    #[error("slot {slot} of gate {gate} was held under a later fence")]
    LaterFence {
        /// Which gate.
        gate: String,
        /// The slot.
        slot: u32,
    },
    /// The holder has this permit already, by the decision of another node.
    #[error("{0} is its holder's already")]
    AlreadyGranted(PermitId),
}

/// Why nodes cannot be the voters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum InvalidVoters {
    /// There would be none, or too many.
    #[error("a cluster has 1 to {VOTERS_MAX} voters, best 1, 3 or 5: not {0}")]
    Count(usize),
    /// These do not receive the log yet.
    #[error("{} does not receive the log yet: add it first", NodeList(.0))]
    NotLearners(BTreeSet<NodeId>),
    /// These are not among the first nodes.
    #[error("{} votes, but is not among the first nodes", NodeList(.0))]
    NotInitialMembers(BTreeSet<NodeId>),
    /// The node belongs to a cluster without the other one.
    #[error("{node} belongs to a cluster without {missing}: add {missing} to that cluster")]
    OtherCluster {
        /// The node.
        node: NodeId,
        /// The voter that its cluster does not know.
        missing: NodeId,
    },
}
