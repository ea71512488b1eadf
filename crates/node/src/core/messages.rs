//! Messages between a client's stream and the core, free of the wire format.

/// Why a request or a stream was refused: the code of the API itself, so that nothing translates
/// it.
pub use kgate_api::v1::ErrorCode;
use kgate_control::state::{PermitId, Policy, Slots};
use kgate_core::{Fence, Span};

use super::note::Note;
use super::once::MarkOnce;
use super::reentry::ReentryKey;
use super::view::Process;
use super::{Secret, SessionId};

/// Why something was refused: for programs, and for people.
pub type Refusal = (ErrorCode, String);

/// A message from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// Opens a session, or resumes one. It is the first message of a stream, and the only one of
    /// its kind. Answered by [`ServerMessage::Welcome`].
    Hello {
        /// The process behind the stream.
        process: Process,
        /// The session to resume, and its secret.
        resume: Option<(SessionId, Secret)>,
        /// The secret of a new session. The server draws it; a client never chooses it.
        secret: Secret,
    },
    /// Requests slots of a gate. Answered by [`ServerMessage::Granted`] or
    /// [`ServerMessage::Refused`].
    Acquire {
        /// The client's own number for this request.
        number: u64,
        /// The request itself.
        request: Box<AcquireRequest>,
    },
    /// Renews or releases a durable permit, whichever session acquired it.
    Permit {
        /// The client's own number for this message.
        number: u64,
        /// The permit.
        permit: PermitId,
        /// The secret of the permit.
        secret: Secret,
        /// What to do with it.
        command: PermitCommand,
    },
    /// Uses a key of a gate, under a permit of this session. Answered by
    /// [`ServerMessage::OnceMarked`].
    MarkOnce {
        /// The client's own number for this message.
        number: u64,
        /// The key, and the permit.
        mark: MarkOnce,
    },
    /// Withdraws a waiting request. Answered by [`ServerMessage::Withdrawn`], or by nothing if the
    /// request does not wait any more.
    Withdraw {
        /// The number of the request.
        number: u64,
    },
    /// Releases a permit: the client has stopped using it. Answered by
    /// [`ServerMessage::Released`].
    Release {
        /// The number of the request.
        number: u64,
    },
    /// Renews the session. Answered by [`ServerMessage::Renewed`].
    Renew {
        /// Repeated in the answer.
        sequence: u64,
    },
    /// Ends the session: the client has stopped using whatever it held.
    Bye,
}

/// A request for slots of a gate. It is the same value from the stream to the gate's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireRequest {
    /// The name of the gate.
    pub gate: String,
    /// How many slots it takes at once.
    pub weight: u32,
    /// The slots that the gate must have; any, if none.
    pub k: Option<Slots>,
    /// Whether it waits in the queue, or is refused where the gate is busy.
    pub wait: bool,
    /// The process that will use the permit, if it is another than the one of
    /// [`ClientMessage::Hello`].
    pub process: Option<Process>,
    /// What the client says of the request.
    pub note: Note,
    /// Whether the permit outlives its node.
    pub durable: DurableOptions,
}

impl AcquireRequest {
    /// A request for one slot of a gate that waits in the queue.
    pub fn new(gate: impl Into<String>) -> Self {
        Self {
            gate: gate.into(),
            weight: 1,
            k: None,
            wait: true,
            process: None,
            note: Note::default(),
            durable: DurableOptions::default(),
        }
    }

    /// The slots that a new gate gets.
    pub(super) fn new_slots(&self) -> Slots {
        self.k.clone().unwrap_or_else(|| 1.into())
    }
}

/// Whether a permit outlives its node, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurableOptions {
    /// The policy that the gate must have; any policy, if none.
    pub policy: Option<Policy>,
    /// The time to live: the permit is durable, and expires unless it is renewed within this span.
    pub ttl: Option<Span>,
    /// The secret that its holder will show: hard to guess, and the same when the client retries at
    /// another node.
    pub secret: Secret,
}

/// What a holder does with a durable permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitCommand {
    /// Renews it, and subscribes this stream to its loss.
    Renew,
    /// Releases it: the holder has stopped using it.
    Release,
}

/// A durable permit: the agreed log holds it, and no session keeps it alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableGrant {
    /// Its id, the same at all nodes.
    pub permit: PermitId,
    /// Its time to live since the last renewal; none if it does not expire.
    pub ttl: Option<Span>,
}

/// A message to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMessage {
    /// Answers [`ClientMessage::Hello`].
    Welcome {
        /// The session.
        session: SessionId,
        /// Its secret.
        secret: Secret,
        /// How long the session is valid, counted from when the client sent its request; for ever,
        /// if none.
        valid_for: Option<Span>,
        /// The numbers of the requests that hold a permit: none in a new session.
        holds: Vec<u64>,
    },
    /// The request holds a permit now.
    Granted {
        /// The number of the request.
        number: u64,
        /// The name of the gate.
        gate: String,
        /// Its slots, where slots are numbered.
        slots: Vec<u32>,
        /// Its fencing token, where the protocol has one.
        fence: Option<Fence>,
        /// The k of the gate.
        k: u32,
        /// The names of its slots, where slots have names.
        slot_names: Vec<String>,
        /// Set if the permit is durable.
        durable: Option<DurableGrant>,
        /// The files that the holder locks, one per slot, where permits are bound to processes. The
        /// core leaves them to the shell.
        lock_files: Vec<String>,
        /// What proves that a process runs under the permit; none for a durable one.
        reentry_key: Option<ReentryKey>,
    },
    /// Answers [`PermitCommand::Renew`].
    PermitRenewed {
        /// The number of the message.
        number: u64,
        /// The permit.
        durable: DurableGrant,
    },
    /// Answers [`ClientMessage::MarkOnce`].
    OnceMarked {
        /// The number of the message.
        number: u64,
        /// The client that uses the key, for people; none if it is this one.
        used_by: Option<String>,
    },
    /// The request got no permit, and has ended.
    Refused {
        /// The number of the request.
        number: u64,
        /// The reason, for programs.
        code: ErrorCode,
        /// The reason, for people.
        message: String,
    },
    /// The permit is lost: its holder must stop.
    Lost {
        /// The number of the request.
        number: u64,
        /// The reason, for people.
        message: String,
    },
    /// Answers [`ClientMessage::Withdraw`].
    Withdrawn {
        /// The number of the request.
        number: u64,
    },
    /// Answers [`ClientMessage::Release`] and [`PermitCommand::Release`].
    Released {
        /// The number of the request.
        number: u64,
        /// Whether a durable permit had ended before. Release is idempotent.
        was_gone: bool,
    },
    /// Answers [`ClientMessage::Renew`].
    Renewed {
        /// The sequence number of the renewal.
        sequence: u64,
        /// How long the session is valid, counted from when the client sent its renewal; for ever,
        /// if none.
        valid_for: Option<Span>,
    },
    /// The server ends the stream.
    Closed {
        /// The reason, for programs.
        code: ErrorCode,
        /// The reason, for people.
        message: String,
    },
}
