//! What is said between the log and its node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use kgate_core::NodeId;
use tokio::sync::mpsc;

use super::Log;
use crate::membership::{LeaseTerms, StoreId};
use crate::state::{Change, ClusterId, ClusterState, DirectoryEntry, Rejected};
use crate::voters::Voters;

/// Carries bytes to the log of another node, whose handle [receives](Log::receive) them with the
/// sender's number. May lose them, silently. Must not block: it is called from the log's own
/// thread.
pub trait Transport: Send + Sync + 'static {
    /// Sends, if it can.
    fn send(&self, to: NodeId, bytes: Vec<u8>);
}

/// A log that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The handle.
    pub log: Log,
    /// The id of its store (rule R4).
    pub store: StoreId,
    /// What it says so far.
    pub cluster_state: ClusterState,
    /// What it says from there on.
    pub news: mpsc::UnboundedReceiver<AppliedEntry>,
}

/// An entry was applied, and is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedEntry {
    /// Its index. Entries that change nothing come too; after an absence longer than the log is
    /// kept, one stands for all that was missed.
    pub index: u64,
    /// What it changes.
    pub changes: Vec<Change>,
}

/// How the log is at this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// Who leads, as far as is known here.
    pub leader: Option<NodeId>,
    /// This node leads.
    pub is_leader: bool,
    /// The term.
    pub term: u64,
    /// The last entry that is applied here.
    pub applied: u64,
    /// The last entry that is known here to be agreed on.
    pub committed: u64,
    /// The newest voters in this node's log, agreed or not. [`Log::voters_appended`] is never
    /// behind, this may be by a moment.
    pub appended: Voters,
    /// The voters as applied.
    pub voters: Voters,
    /// Who hears the log without a vote, as applied.
    pub learners: BTreeSet<NodeId>,
    /// Others know this node with another store (rule R4): it must be removed and added anew.
    pub store_mismatch: bool,
    /// Why the log cannot go on, if it cannot: its disk has failed, or it was stopped.
    pub stopped: Option<String>,
}

/// What the first nodes of a cluster agree on. All of them say the same, except for the id: the
/// first wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// Random.
    pub cluster: ClusterId,
    /// For people.
    pub name: String,
    /// The first nodes.
    pub nodes: BTreeMap<NodeId, DirectoryEntry>,
    /// Those of them that vote.
    pub voters: BTreeSet<NodeId>,
    /// The terms of leases that nodes begin with.
    pub terms: LeaseTerms,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// It was decided, and changes nothing.
    #[error(transparent)]
    Rejected(Rejected),
    /// Nobody who could decide was found in time. It may still come to be done.
    #[error("no quorum: {0}")]
    NoQuorum(String),
    /// The log of this node has stopped.
    #[error("the log of this node has stopped")]
    Stopped,
}

/// Why the log cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log {}: {why}", .path.display())]
pub struct LogError {
    pub(super) path: PathBuf,
    pub(super) why: String,
}

/// Bytes that no log has sent, or one of another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message of a log: {0}")]
pub struct MalformedMessage(pub(super) &'static str);
