//! The messages between logs, and their encoding.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::NodeId;
use openraft::error::InstallSnapshotError;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use super::error::{MalformedMessage, Unavailable};
use super::raft::{LogId, Types};
use super::reconfiguration::VoterWarning;
use crate::membership::StoreId;
use crate::state::{Applied, Command, Rejected};

/// The first byte of every message: the version of the encoding.
pub(super) const VERSION: u8 = 3;
/// The most bytes of a message.
pub(super) const MESSAGE_MAX: usize = 1 << 20;
/// The most bytes of one piece of a snapshot.
pub(super) const CHUNK: u64 = 256 * 1024;
/// The most bytes of a snapshot: twice what a state within its bounds can need.
pub(super) const SNAPSHOT_MAX: u64 = 128 << 20;
/// The most bytes of a command: with what surrounds it, it fits into a message.
pub(super) const COMMAND_MAX: usize = MESSAGE_MAX / 2;

/// A message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Envelope {
    /// The store of the sender (rule R4).
    pub(super) from: StoreId,
    /// The store that the sender knows the receiver with, if it knows one (rule R4).
    pub(super) to: Option<StoreId>,
    /// The number of the request: its reply has the same.
    pub(super) id: u64,
    /// How long a write takes on the sender's disk, in milliseconds.
    pub(super) write_ms: u32,
    pub(super) body: Body,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Body {
    Request(Request),
    Reply(Reply),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Vote(VoteRequest<u32>),
    Append(AppendEntriesRequest<Types>),
    Snapshot(InstallSnapshotRequest<Types>),
    /// Whether the receiver would vote for the sender, whose log ends at that entry. Answered by
    /// [`Reply::PreVote`].
    PreVote(Option<LogId>),
    /// Which store the receiver has, and which nodes its log knows. Answered by
    /// [`Reply::Identity`].
    Identify,
    /// A request to the leader, and how many milliseconds the sender waits. Answered by
    /// [`Reply::Leader`] once it is decided.
    Leader(LeaderRequest, u64),
}

impl Request {
    /// Whether it belongs to the consensus protocol itself.
    pub(super) fn is_raft(&self) -> bool {
        match self {
            Self::Vote(_) | Self::Append(_) | Self::Snapshot(_) | Self::PreVote(_) => true,
            Self::Identify | Self::Leader(..) => false,
        }
    }

    /// Whether requests of clients cause it.
    pub(super) fn is_of_clients(&self) -> bool {
        matches!(self, Self::Leader(LeaderRequest::Propose(command), _) if command.is_of_clients())
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Vote(VoteResponse<u32>),
    Append(AppendEntriesResponse<u32>),
    Snapshot(Result<InstallSnapshotResponse<u32>, InstallSnapshotError>),
    PreVote(bool),
    /// The nodes that the sender's log knows, with their stores. None, if the log is empty.
    Identity(BTreeMap<NodeId, StoreId>),
    Leader(LeaderReply),
    /// The request was for another store than the receiver's, or came from another store than the
    /// known one (rule R4).
    StoreMismatch,
}

/// A request that only the leader can serve.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum LeaderRequest {
    Propose(Command),
    /// The index that a node must have applied to know everything that was committed before this.
    ReadIndex,
    AddLearner(NodeId),
    RemoveLearner(NodeId),
    Promote(NodeId),
    Demote(NodeId),
    SetVoters(BTreeSet<NodeId>),
}

/// The reply to a [`LeaderRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LeaderReply {
    Applied(Applied),
    Rejected(Rejected),
    /// To [`LeaderRequest::ReadIndex`].
    ReadAt(u64),
    /// The voters or learners are as asked for.
    Changed(Option<VoterWarning>),
    /// Nothing was decided: ask another node, or later.
    Unavailable(Unavailable),
}

impl Envelope {
    /// None if it is too long to be sent.
    pub(super) fn to_bytes(&self) -> Option<Vec<u8>> {
        let bytes = postcard::to_extend(self, vec![VERSION]).ok()?;
        (bytes.len() <= MESSAGE_MAX).then_some(bytes)
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        if bytes.len() > MESSAGE_MAX {
            return Err(MalformedMessage::TooLong);
        }
        match bytes.split_first() {
            Some((&VERSION, rest)) => match postcard::take_from_bytes(rest) {
                Ok((envelope, [])) => Ok(envelope),
                Ok(_) => Err(MalformedMessage::TrailingBytes),
                Err(_) => Err(MalformedMessage::Undecodable),
            },
            Some((version, _)) => Err(MalformedMessage::Version(*version)),
            None => Err(MalformedMessage::Empty),
        }
    }
}
