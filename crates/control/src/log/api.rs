//! The types between the log and its node.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::NodeId;
use tokio::sync::mpsc;

use super::Log;
use crate::membership::{LeaseTerms, StoreId};
use crate::state::{Change, ClusterId, ClusterState, DirectoryEntry};
use crate::voters::Voters;

/// Carries messages to the logs of other nodes. The receiving node passes them to [`Log::receive`]
/// with the number of the sender. A transport may lose messages without notice. It must not block:
/// the log's own thread calls it.
pub trait Transport: Send + Sync + 'static {
    /// Sends a message, if it can.
    fn send(&self, to: NodeId, bytes: Vec<u8>);
}

/// What [`Log::open`] returns.
#[derive(Debug)]
pub struct Opened {
    /// The handle.
    pub log: Log,
    /// The id of the store (rule R4).
    pub store: StoreId,
    /// The state as this node had applied it.
    pub cluster_state: ClusterState,
    /// The entries that are applied after that.
    pub entries: mpsc::UnboundedReceiver<AppliedEntry>,
}

/// An entry that this node has applied and stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedEntry {
    /// Its index. Entries that change nothing are reported too. After an absence longer than
    /// entries are kept, one of these stands for all that were missed.
    pub index: u64,
    /// What is different now.
    pub changes: Vec<Change>,
}

/// The state of the log at this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// The leader, as far as this node knows.
    pub leader: Option<NodeId>,
    /// This node is the leader.
    pub is_leader: bool,
    /// The term.
    pub term: u64,
    /// The last entry that is applied here.
    pub applied: u64,
    /// The last entry that this node knows to be committed.
    pub committed: u64,
    /// The newest voters in this node's log, committed or not. May be behind
    /// [`Log::voters_appended`] by a moment.
    pub appended: Voters,
    /// The voters, as applied.
    pub voters: Voters,
    /// The nodes that receive the log without a vote, as applied.
    pub learners: BTreeSet<NodeId>,
    /// Other nodes know this one with another store (rule R4): it must be removed and added anew.
    pub store_mismatch: bool,
    /// Why the log has stopped, if it has.
    pub stopped: Option<StopReason>,
}

/// Why the log of a node has stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The node asked for it.
    #[error("the log was stopped")]
    Requested,
    /// The store failed to read or write.
    #[error("the log's store failed: {0}")]
    Store(String),
    /// A defect.
    #[error("the log's thread panicked")]
    Panicked,
}

/// What the first nodes of a cluster agree on. All of them propose the same, except for the id: the
/// first proposal wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// A random number.
    pub cluster: ClusterId,
    /// The name of the cluster, for people.
    pub name: String,
    /// The first nodes.
    pub nodes: BTreeMap<NodeId, DirectoryEntry>,
    /// Which of them vote.
    pub voters: BTreeSet<NodeId>,
    /// The lease terms that nodes begin with.
    pub terms: LeaseTerms,
}
