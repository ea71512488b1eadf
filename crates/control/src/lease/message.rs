//! The messages between nodes about leases, and what a node proposes to the log.

use kgate_core::{Incarnation, NodeId, Span};
use serde::{Deserialize, Serialize};

use crate::membership::{Eviction, StoreId};
use crate::voters::Voters;

/// A message from one node to another. Any of them may be lost, duplicated, delayed or reordered:
/// the rules tolerate all of that.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LeaseMessage {
    /// Asks a voter for its share in the sender's lease, each I_n (N1). Answered by
    /// [`LeaseMessage::Answer`] or [`LeaseMessage::Refusal`].
    Ping {
        /// The sender's incarnation.
        incarnation: Incarnation,
        /// The number of the ping: never used twice in one incarnation.
        seq: u64,
    },
    /// Gives a voter's share in the lease of the node that sent the ping (N3, N4).
    Answer {
        /// The incarnation in the ping.
        incarnation: Incarnation,
        /// The number of the ping.
        seq: u64,
        /// The voter's store (R4).
        store: StoreId,
        /// The newest voters in the voter's own log. The voter has applied them.
        voters: Voters,
        /// The last entry that the voter knows to be committed (N6).
        committed: u64,
    },
    /// Gives no share, and says why.
    Refusal {
        /// The incarnation in the ping.
        incarnation: Incarnation,
        /// The number of the ping.
        seq: u64,
        /// Why the voter refuses.
        reason: Refusal,
    },
    /// From a voter that has applied a suspicion, to all voters, repeatedly: it does not answer the
    /// suspected incarnation any more (E2).
    Promise {
        /// The suspected node.
        node: NodeId,
        /// The suspected incarnation.
        incarnation: Incarnation,
        /// The entry of the suspicion.
        at: u64,
        /// The time since the sender last answered that incarnation, or since its own start if that
        /// is later.
        age: Span,
    },
    /// Asks a voter how long it has not heard from a node (E1). Answered by
    /// [`LeaseMessage::SilenceReply`].
    SilenceQuery {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// How long the sender has not heard from a node (E1).
    SilenceReply {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// The time since its last ping, or since the sender knows that incarnation.
        silence: Span,
    },
}

/// Why a node gives no share in a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The asking incarnation is suspected by the entry of this index: it may ask to be cleared
    /// (E5).
    Suspected(u64),
    /// The asking incarnation is not a member, as far as the voter has applied the log.
    NotMember,
    /// The voter's log has newer voters than the voter has applied (N4).
    Behind,
    /// This node does not vote. These nodes do, as far as it has applied the log: the asker pings
    /// them, and counts nothing (N4).
    NotVoter(Voters),
}

/// What a node proposes to the log. Each proposal is a compare-and-set: outdated, it has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Proposal {
    /// Suspects an incarnation (E1, R2).
    Suspect {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// Clears an incarnation of a suspicion: proposed by that incarnation itself (E5).
    Unsuspect {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// The entry of the suspicion.
        at: u64,
    },
    /// Evicts an incarnation, whose lease is certainly over (E3). It has effect only if
    /// [`crate::membership::Membership::may_evict`] allows it (E4).
    Evict(Eviction),
}

/// What the node must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseEffect {
    /// Send a message. It may be lost.
    Send(NodeId, LeaseMessage),
    /// Propose to the log, once. The proposal may be lost: it is repeated as long as there is a
    /// reason for it.
    Propose(Proposal),
}
