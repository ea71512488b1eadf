//! Messages between logs, as bytes.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::NodeId;
use openraft::error::InstallSnapshotError;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use super::api::MalformedMessage;
use super::raft::{LogId, Types};
use crate::membership::StoreId;
use crate::state::{Applied, Command, Rejected};

/// The first byte of every message. Another version has another.
const VERSION: u8 = 2;
/// The longest message.
pub(super) const LONGEST: usize = 1 << 20;
/// The longest piece of a snapshot.
pub(super) const CHUNK: u64 = 256 * 1024;

/// The longest snapshot: twice what a state within its bounds can come to.
pub(super) const SNAPSHOT: u64 = 128 << 20;
/// The longest command: with what is around it, it fits into a message.
pub(super) const COMMAND: usize = LONGEST / 2;

/// A message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Envelope {
    /// The store of who sends it (rule R4).
    pub(super) from: StoreId,
    /// The store that the receiver is known with, if it is.
    pub(super) to: Option<StoreId>,
    /// Names the question.
    pub(super) id: u64,
    /// How long a write takes at who sends it, in milliseconds.
    pub(super) write_ms: u32,
    pub(super) body: Body,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Body {
    Ask(Request),
    Answer(Reply),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Vote(VoteRequest<u32>),
    Append(AppendEntriesRequest<Types>),
    Snapshot(InstallSnapshotRequest<Types>),
    /// Would you elect me, whose log ends there? Answered by `Reply::Canvass`.
    Canvass(Option<LogId>),
    /// Which store have you, and whom do you know? Answered by `Reply::Hello`.
    Hello,
    /// For the leader; for so many milliseconds. Answered by `Reply::Order` when it is decided.
    Order(Order, u64),
}

impl Request {
    /// Whether it is of the agreement itself.
    pub(super) fn is_raft(&self) -> bool {
        match self {
            Self::Vote(_) | Self::Append(_) | Self::Snapshot(_) | Self::Canvass(_) => true,
            Self::Hello | Self::Order(..) => false,
        }
    }

    /// Whether requests of clients cause it.
    pub(super) fn is_of_clients(&self) -> bool {
        matches!(self, Self::Order(Order::Propose(command), _) if command.is_of_clients())
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Vote(VoteResponse<u32>),
    Append(AppendEntriesResponse<u32>),
    Snapshot(Result<InstallSnapshotResponse<u32>, InstallSnapshotError>),
    Canvass(bool),
    /// Whom the sender's log knows, with their stores; nobody, if it is empty.
    Hello(BTreeMap<NodeId, StoreId>),
    Order(Ruling),
    /// The question is for another store than the one that is here, or from another than the known
    /// one (rule R4).
    Stranger,
}

/// What a leader is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Order {
    Propose(Command),
    /// Up to where must one have applied to know everything that is done by now?
    Read,
    AddLearner(NodeId),
    RemoveLearner(NodeId),
    Promote(NodeId),
    Demote(NodeId),
    SetVoters(BTreeSet<NodeId>),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ruling {
    Applied(Applied),
    Rejected(Rejected),
    /// For `Read`.
    ReadAt(u64),
    /// For changes of voters and learners, with a warning.
    Changed(Option<String>),
    /// Ask somebody else, or later.
    NotNow(String),
}

impl Envelope {
    /// None if it is too long to be sent.
    pub(super) fn to_bytes(&self) -> Option<Vec<u8>> {
        let bytes = postcard::to_extend(self, vec![VERSION]).ok()?;
        (bytes.len() <= LONGEST).then_some(bytes)
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        if bytes.len() > LONGEST {
            return Err(MalformedMessage("it is too long"));
        }
        match bytes.split_first() {
            Some((&VERSION, rest)) => match postcard::take_from_bytes(rest) {
                Ok((envelope, [])) => Ok(envelope),
                Ok(_) => Err(MalformedMessage("there is something behind its end")),
                Err(_) => Err(MalformedMessage("it cannot be read")),
            },
            Some(_) => Err(MalformedMessage("it is of another version")),
            None => Err(MalformedMessage("it is empty")),
        }
    }
}
