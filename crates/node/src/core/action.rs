//! What a node wants done: the actions of its core.

use bytes::Bytes;
use kgate_control::state::{Command, Rejected};
use kgate_core::NodeId;

use super::calls::{CallReply, GateSetting};
use super::definition::Definition;
use super::messages::{Refusal, ServerMessage};
use super::once::StoredMark;
use super::peers::PeerError;
use super::status::StatusReport;
use super::{CannotStart, ClientId, GateId, SessionId, Suspended};

/// One thing to do. The shell carries actions out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a frame to a peer.
    Send(NodeId, Bytes),
    /// Send a message to a client.
    Reply(ClientId, ServerMessage),
    /// Store the durable state of a gate's protocol before any later message leaves.
    Store(GateId, Vec<u8>),
    /// Remember what an operator set of a gate, before any later action.
    StoreGateSetting(GateSetting),
    /// Use a key in the store of this node, for a request of this number of a client. The result
    /// comes back as [`Input::Marked`](super::Input::Marked).
    MarkOnce(ClientId, u64, StoredMark),
    /// Answer the call of this number.
    Answer(u64, Result<CallReply, Refusal>),
    /// Answer the status query of this number.
    StatusReport(u64, StatusReport),
    /// The peer is declared dead: exclude it permanently.
    Ban(NodeId),
    /// A stream ended whose session does not expire. Find out when no process uses these slots any
    /// more, and report it by [`Input::SlotsFree`](super::Input::SlotsFree).
    Probe {
        /// The session.
        session: SessionId,
        /// The stream on which its client has offered its processes, if it has.
        tree: Option<ClientId>,
        /// The number of the request.
        number: u64,
        /// The name of the gate.
        gate: String,
        /// The slots of the request.
        slots: Vec<u32>,
    },
    /// The deadline of a session has passed: end its processes, which its client has offered on
    /// this stream ([`Input::TreeOffered`](super::Input::TreeOffered)), and report their end by
    /// [`Input::TreeEnded`](super::Input::TreeEnded).
    EndTree {
        /// The session.
        session: SessionId,
        /// The stream on which the client has offered its processes.
        tree: ClientId,
    },
    /// No session needs the processes of this stream any more.
    ForgetTree(ClientId),
    /// A gate was opened, or its k changed.
    Opened(Definition),
    /// Something visible to status queries changed, here or at another node.
    Changed,
    /// Stop this node. All its clients have been notified.
    Stop(StopReason),
    /// Propose a command to the log. The result comes back as
    /// [`Input::Proposed`](super::Input::Proposed) with this number, unless the number is 0.
    Propose(u64, Command),
    /// Ask a quorum how far the log goes. The answer comes back as
    /// [`Input::ReadIndex`](super::Input::ReadIndex) with this number.
    ReadIndex(u64),
    /// The cluster's directory lists this peer at this address: connect to it.
    Connect(NodeId, String),
    /// The directory does not list the peer any more: disconnect from it.
    Disconnect(NodeId),
    /// This incarnation has ended. Store the number of the next one, then begin it by
    /// [`Input::BeginIncarnation`](super::Input::BeginIncarnation).
    NewIncarnation,
    /// Store the state of this node for a clean restart (rule R1), after all actions before.
    Suspend(Box<Suspended>),
    /// Write to the node's log.
    Log(LogEvent),
}

/// What the operator of a node reads in its log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogEvent {
    /// The node holds a lease again.
    #[error("this node can grant")]
    CanGrant,
    /// The node lost its lease.
    #[error("this node grants nothing now: {0}")]
    CannotGrant(String),
    /// The node lost its quorum for so long that it refuses requests instead of queueing them.
    #[error("requests are refused: {0}")]
    RefusesRequests(String),
    /// A peer sent a message that no correct peer sends. It was dropped.
    #[error("message of peer {} rejected: {error}", .peer.0)]
    PeerRejected {
        /// The peer.
        peer: NodeId,
        /// The reason for the rejection.
        error: PeerError,
    },
}

/// Why a node stops.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// Another node declared this one dead and has gone on without it.
    #[error(
        "node {} has declared this node, {}, dead and has gone on without it: it was silent for \
         too long. It can take part again when the whole cluster is restarted",
        .by.0, .me.0
    )]
    DeclaredDead {
        /// This node.
        me: NodeId,
        /// The other node.
        by: NodeId,
    },
    /// An operator removed this node from the cluster.
    #[error("this node was removed from the cluster by {author}")]
    Removed {
        /// The operator.
        author: String,
    },
    /// The cluster does not admit this node.
    #[error(transparent)]
    NotAdmitted(Rejected),
    /// The log defines a gate that this version cannot serve.
    #[error(
        "{0}: this node cannot serve what the cluster has agreed on; install the cluster's version"
    )]
    UnsupportedGate(CannotStart),
    /// The node is shut down.
    #[error("its node stops")]
    Shutdown,
}
