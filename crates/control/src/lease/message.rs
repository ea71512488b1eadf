//! What nodes say to each other about leases, and what they want of the log.

use kgate_core::{Incarnation, NodeId, Span};
use serde::{Deserialize, Serialize};

use crate::membership::StoreId;
use crate::voters::Voters;

/// What nodes say to each other. Every message may be lost, doubled, late or out of order: nothing
/// here needs more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LeaseMessage {
    /// To each voter, each I_n (N1). Answered by [`LeaseMessage::Answer`] or
    /// [`LeaseMessage::Refusal`].
    Ping {
        /// The sender's incarnation.
        incarnation: Incarnation,
        /// Never used twice in one incarnation.
        seq: u64,
    },
    /// A voter's share in the lease (N3, N4).
    Answer {
        /// Of the asker.
        incarnation: Incarnation,
        /// Of the ping.
        seq: u64,
        /// The voter's store (R4).
        store: StoreId,
        /// The newest voters in the voter's own log; it has applied them too.
        voters: Voters,
        /// How far the log is decided, as the voter knows (N6).
        committed: u64,
    },
    /// No share, and why.
    Refusal {
        /// Of the asker.
        incarnation: Incarnation,
        /// Of the ping.
        seq: u64,
        /// Why.
        why: Refusal,
    },
    /// From a voter that has applied a suspicion, to all voters, again and again (E2).
    Promise {
        /// Who is suspected.
        node: NodeId,
        /// Which incarnation of it.
        incarnation: Incarnation,
        /// By which entry.
        at: u64,
        /// So long ago was the sender's last answer to it, or its own start.
        age: Span,
    },
    /// How long have you not heard of that node? To each voter (E1). Answered by
    /// [`LeaseMessage::SilenceReply`].
    SilenceQuery {
        /// Who is asked about.
        node: NodeId,
        /// Which incarnation of it.
        incarnation: Incarnation,
    },
    /// So long (E1).
    SilenceReply {
        /// Who was asked about.
        node: NodeId,
        /// Which incarnation of it.
        incarnation: Incarnation,
        /// The time since its last ping, or since the sender knows of it.
        silence: Span,
    },
}

/// Why a node gives no share in a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The asker is suspected by the entry of this index: it may ask to be cleared of it (E5).
    Suspected(u64),
    /// The asker is not a member in that incarnation, as far as the voter has applied the log.
    NotMember,
    /// The voter has newer voters in its log than it has applied (N4).
    Behind,
    /// This node does not vote; here are those who do, as far as it has applied the log. Says whom
    /// to ping, nothing else.
    NotVoter(Voters),
}

/// What a node wants to be in the log. Each is compare-and-set: void, if it is outdated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Proposal {
    /// That incarnation is suspected (E1, R2).
    Suspect {
        /// Who.
        node: NodeId,
        /// Which incarnation of it.
        incarnation: Incarnation,
    },
    /// It is not any more: proposed by itself (E5).
    Unsuspect {
        /// Who.
        node: NodeId,
        /// Which incarnation of it.
        incarnation: Incarnation,
        /// The suspicion that it answers.
        at: u64,
    },
    /// Its lease is over for certain (E3). Applied only if
    /// [`crate::membership::Membership::may_evict`] (E4).
    Evict {
        /// Who.
        node: NodeId,
        /// Which incarnation of it.
        incarnation: Incarnation,
        /// The suspicion that was waited for.
        at: u64,
        /// The entry that made the voters of whom a quorum promised.
        voters_at: u64,
        /// How long was waited.
        waited: Span,
    },
}

/// What a node has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseEffect {
    /// Send this. It may be lost.
    Send(NodeId, LeaseMessage),
    /// Propose this to the log, once. It may be lost: it comes again while there is a reason.
    Propose(Proposal),
}
