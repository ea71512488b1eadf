//! What happens to a node: the inputs of its core.

use bytes::Bytes;
use kgate_control::log::{AppliedEntry, LogStatus, ProposeError};
use kgate_control::state::Applied;
use kgate_control::voters::Voters;
use kgate_core::{Incarnation, NodeId};

use super::calls::Call;
use super::messages::ClientMessage;
use super::once::Marked;
use super::process_bound::RestoredGate;
use super::{ClientId, SessionId};

/// One thing that happens to a node.
#[derive(Debug)]
pub enum Input {
    /// A client sent a message.
    Client(ClientId, ClientMessage),
    /// The stream of a client ended. Its waiting requests are withdrawn. Its permits stay until the
    /// session expires or is resumed.
    ClientGone(ClientId),
    /// The client of a new stream offers its processes, which the shell can end. Comes before the
    /// first message of the stream.
    TreeOffered(ClientId),
    /// No process of this session is left. Answers [`Action::EndTree`](super::Action::EndTree).
    TreeEnded(SessionId),
    /// Something happened at the link to a peer.
    Peer(NodeId, PeerEvent),
    /// The log applied an entry and stored it here (rule N3). Entries come in order and without a
    /// gap.
    Applied(AppliedEntry),
    /// The log answered [`Action::Propose`](super::Action::Propose).
    Proposed {
        /// The number of the proposal.
        number: u64,
        /// Its result.
        result: Result<Applied, ProposeError>,
    },
    /// The answer to [`Action::ReadIndex`](super::Action::ReadIndex): an entry that is not before
    /// anything that was decided when the question was asked.
    ReadIndex {
        /// The number of the question.
        number: u64,
        /// The index of the entry.
        result: Result<u64, ProposeError>,
    },
    /// The status of the log at this node changed.
    LogStatus(LogStatus),
    /// The newest voters in this node's log. Answers about leases carry them (rule N4), so this
    /// input comes before each message about leases.
    VotersAppended(Voters),
    /// The wall clock and the lease clock moved apart: the machine may have been suspended without
    /// knowing it.
    ClockJumped,
    /// The next incarnation of this node begins. Its number is stored and greater than all before.
    /// Answers [`Action::NewIncarnation`](super::Action::NewIncarnation).
    BeginIncarnation {
        /// Its number.
        incarnation: Incarnation,
        /// A random name of this start.
        start: u64,
    },
    /// A query for the status of a gate, or of all gates. Answered by
    /// [`Action::StatusReport`](super::Action::StatusReport).
    StatusQuery {
        /// The number of the query.
        query: u64,
        /// The name of the gate; all gates, if none.
        gate: Option<String>,
    },
    /// The first watcher at this node arrived (`true`), or the last one left.
    Watch(bool),
    /// No process uses the slots of this request any more. Answers
    /// [`Action::Probe`](super::Action::Probe).
    SlotsFree {
        /// The session of the request.
        session: SessionId,
        /// The number of the request.
        number: u64,
    },
    /// A call that belongs to no session. Answered by [`Action::Answer`](super::Action::Answer).
    Call {
        /// The number of the call.
        number: u64,
        /// The call.
        call: Call,
    },
    /// A gate existed in an earlier incarnation of this node, which is the only node.
    RestoreGate(RestoredGate),
    /// The store has decided on [`Action::MarkOnce`](super::Action::MarkOnce).
    Marked(ClientId, u64, Marked),
    /// A deadline of [`Core::next_due`](super::Core::next_due) has passed.
    Tick,
    /// This node stops cleanly. It takes no further input.
    Stop,
}

/// What happened at the link to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// The link is up.
    Up,
    /// The link is down and will reconnect.
    Down,
    /// A frame arrived.
    Received(Bytes),
    /// The link lost messages that it must not lose. The peer counts as crashed.
    Broken,
    /// The peer declared this node dead and refuses it permanently.
    Banned,
}
