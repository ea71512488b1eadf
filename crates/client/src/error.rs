//! The error of every operation of this crate.

use kgate_api::v1;

/// Why an operation failed: a [kind](ErrorKind) for programs, a message for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The address cannot be parsed, or the list of addresses is empty.
    InvalidAddress,
    /// A certificate, key or token cannot be read or used.
    Credentials,
    /// No node answers at the address, or the connection was lost and could not be restored.
    Unreachable,
    /// The operation did not end in time.
    TimedOut,
    /// The request is malformed or contradicts itself.
    BadRequest,
    /// All permits are in use, and the request does not wait.
    Busy,
    /// The gate has another k or policy, or a concurrent change came first.
    Conflict,
    /// The request takes more slots than the gate has.
    TooLarge,
    /// A limit of the node is reached: queue length, sessions, connections, requests per second.
    LimitExceeded,
    /// The gate does not exist, and this node does not create it.
    GateNotFound,
    /// No member has this ID or name.
    NodeNotFound,
    /// The session has expired, or has never existed.
    SessionNotFound,
    /// The durable permit has expired, been evicted or been released, or has never existed.
    PermitNotFound,
    /// The node is stopping, or is permanently excluded from its cluster.
    NodeGone,
    /// Too few voters answer: the node cannot grant permits or commit changes.
    NoQuorum,
    /// The node does not know the certificate or token of this client.
    Unauthenticated,
    /// This client is not allowed to do this.
    PermissionDenied,
    /// The node sent an unexpected reply; this client and the node may have different versions.
    Protocol,
}

impl ErrorKind {
    pub(crate) fn of(code: v1::ErrorCode) -> Self {
        match code {
            v1::ErrorCode::Unspecified => Self::Protocol,
            v1::ErrorCode::BadRequest => Self::BadRequest,
            v1::ErrorCode::Busy => Self::Busy,
            v1::ErrorCode::Conflict => Self::Conflict,
            v1::ErrorCode::TooLarge => Self::TooLarge,
            v1::ErrorCode::LimitExceeded => Self::LimitExceeded,
            v1::ErrorCode::GateNotFound => Self::GateNotFound,
            v1::ErrorCode::NodeNotFound => Self::NodeNotFound,
            v1::ErrorCode::SessionNotFound => Self::SessionNotFound,
            v1::ErrorCode::PermitNotFound => Self::PermitNotFound,
            v1::ErrorCode::NodeGone => Self::NodeGone,
            v1::ErrorCode::NoQuorum => Self::NoQuorum,
            v1::ErrorCode::Unauthenticated => Self::Unauthenticated,
            v1::ErrorCode::PermissionDenied => Self::PermissionDenied,
            v1::ErrorCode::TimedOut => Self::TimedOut,
        }
    }
}

impl Error {
    /// An error of this kind. Tests of callers use it; the crate itself returns nothing else.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// An error that a node sent.
    pub(crate) fn sent(code: i32, message: String) -> Self {
        let code = v1::ErrorCode::try_from(code).unwrap_or_default();
        Self::new(ErrorKind::of(code), message)
    }

    pub(crate) fn unreachable(place: impl std::fmt::Display, cause: &str) -> Self {
        Self::new(ErrorKind::Unreachable, format!("no kgate node at {place}: {cause}"))
    }

    pub(crate) fn unexpected(reply: &str) -> Self {
        Self::new(ErrorKind::Protocol, format!("unexpected reply from the node: {reply}"))
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
