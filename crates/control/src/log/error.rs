//! The errors of the log: why it cannot be opened, why a proposal was not applied, why a message is
//! malformed.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use kgate_core::NodeId;
use serde::{Deserialize, Serialize};

use super::api::StopReason;
use crate::state::Rejected;
use crate::voters::NodeList;

/// Why a proposal was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// It was decided, and changed nothing.
    #[error(transparent)]
    Rejected(Rejected),
    /// It was not decided in time. It may still be applied later.
    #[error("no quorum: {0}")]
    NoQuorum(Unavailable),
    /// The log of this node has stopped.
    #[error("the log of this node has stopped")]
    Stopped,
}

/// Why nothing could be decided. The same proposal may succeed later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Unavailable {
    /// This node has no log yet.
    #[error("{0} has no log yet: the cluster is not bootstrapped, or this node was not added")]
    NoLog(NodeId),
    /// This node knows no leader.
    #[error("{node} knows no leader; the voters are {}", NodeList(voters))]
    NoLeader {
        /// This node.
        node: NodeId,
        /// The voters that it knows.
        voters: BTreeSet<NodeId>,
    },
    /// The leader has no quorum.
    #[error(
        "{leader} leads, but too few of the voters {} answer; the proposal may still be applied",
        NodeList(voters)
    )]
    NoMajority {
        /// The leader.
        leader: NodeId,
        /// The voters.
        voters: BTreeSet<NodeId>,
    },
    /// The leader does not reply to this node.
    #[error("{leader} leads, but {reason}; the voters are {}", NodeList(voters))]
    LeaderSilent {
        /// The leader.
        leader: NodeId,
        /// What is known of the reason.
        reason: NoReply,
        /// The voters.
        voters: BTreeSet<NodeId>,
    },
    /// The node that was asked does not lead any more.
    #[error("the leader has changed")]
    NotLeader {
        /// The new leader, if it is known.
        leader: Option<NodeId>,
    },
    /// The log of the leader has stopped.
    #[error("the log of the leader has stopped")]
    LeaderStopped,
    /// The leader sent a reply of another kind than the request calls for.
    #[error("the leader sent an unexpected reply: it may run another version of kgate")]
    UnexpectedReply,
    /// These voters do not answer; all must, when a cluster is bootstrapped.
    #[error("{} does not answer: all voters must run when a cluster is bootstrapped", NodeList(.0))]
    MissingVoters(BTreeSet<NodeId>),
    /// The node that is to become a learner does not answer.
    #[error("{0} does not answer")]
    NodeSilent(NodeId),
    /// The node that is to vote lacks too many entries.
    #[error("{0} has not caught up with the log yet")]
    CatchingUp(NodeId),
    /// Voters are changed one change at a time.
    #[error("another change of voters is in progress")]
    ChangeInProgress,
    /// Too many entries wait for a quorum.
    #[error("{0} entries wait for a quorum already")]
    TooManyUncommitted(u64),
    /// The entry that a read waits for is not applied at this node yet.
    #[error("entry {index} is not applied at {node} yet")]
    NotApplied {
        /// This node.
        node: NodeId,
        /// The entry.
        index: u64,
    },
}

/// Why a request to another log has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NoReply {
    /// It did not come in time.
    #[error("it does not answer")]
    TimedOut,
    /// The request was not sent.
    #[error("the message is too long")]
    TooLong,
    /// One of the two nodes has another store than the other one knows (rule R4).
    #[error("one of the two stores is not the known one")]
    StoreMismatch,
}

/// Why the log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The store cannot be opened.
    #[error("cannot open the log {}: {source}", .path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: StoreError,
    },
    /// The times of the log do not fit together.
    #[error("invalid times of the log: {0}")]
    Timing(String),
    /// The thread of the log cannot be started.
    #[error("cannot start the thread of the log: {0}")]
    Thread(io::Error),
    /// The log stopped while it started.
    #[error("the log stopped while it started: {0}")]
    Start(StopReason),
}

/// Why the store cannot be opened, read or written. The log cannot go on after it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder or the file.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The database.
    #[error("{0}")]
    Database(Arc<redb::Error>),
    /// A record cannot be encoded.
    #[error("a record cannot be encoded: {0}")]
    Encode(postcard::Error),
    /// A record cannot be decoded.
    #[error(
        "a record cannot be decoded: it is damaged, or was written by another version of kgate"
    )]
    Decode(postcard::Error),
    /// The file has another format.
    #[error(
        "its format is version {found}, this kgate reads version {supported}: use the kgate that \
        wrote it"
    )]
    Format {
        /// The version of the file.
        found: u32,
        /// The version that this kgate reads.
        supported: u32,
    },
    /// The store belongs to another node (rule R4).
    #[error(
        "it is the store of {owner}, not of {node}: a copied or foreign store must not be used \
        (rule R4)"
    )]
    OtherNode {
        /// The node that it belongs to.
        owner: NodeId,
        /// The node that opened it.
        node: NodeId,
    },
    /// Entries that were applied are missing.
    #[error("entries up to {0} were applied, but are missing: the store is damaged")]
    MissingEntries(u64),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

/// redb has an error type for each kind of operation.
macro_rules! from_redb {
    ($($error:ident)*) => {$(
        impl From<redb::$error> for StoreError {
            fn from(error: redb::$error) -> Self {
                Self::Database(Arc::new(error.into()))
            }
        }
    )*};
}

from_redb!(
    CommitError CompactionError DatabaseError SetDurabilityError StorageError TableError
    TransactionError
);

/// Why bytes are not a message of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedMessage {
    /// There are no bytes.
    #[error("malformed message of a log: it is empty")]
    Empty,
    /// There are more bytes than a message may have.
    #[error("malformed message of a log: it is too long")]
    TooLong,
    /// The first byte names another version of the messages.
    #[error("message of a log in version {0}: the sender runs another version of kgate")]
    Version(u8),
    /// The bytes cannot be decoded.
    #[error("malformed message of a log: it cannot be decoded")]
    Undecodable,
    /// There are bytes behind the end of the message.
    #[error("malformed message of a log: there are bytes behind its end")]
    TrailingBytes,
}
