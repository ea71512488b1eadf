//! Why a link was refused, by this side or by the other.

use std::fmt;

use crate::wire::RefuseCode;

/// Why a link was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason for programs.
    pub code: RefuseCode,
    /// The peer has refused this node; otherwise this node has refused the peer.
    pub by_peer: bool,
    /// Reason for people: what was wrong and what to do.
    pub message: String,
}

impl Refusal {
    /// This node refuses.
    pub(crate) fn local(code: RefuseCode, message: impl Into<String>) -> Self {
        Self { code, by_peer: false, message: message.into() }
    }

    /// The peer refuses.
    pub(crate) fn by_peer(code: RefuseCode, message: impl Into<String>) -> Self {
        Self { code, by_peer: true, message: message.into() }
    }

    /// Whether the peer refuses this incarnation of this node for good, so that further attempts
    /// are useless.
    pub fn is_final(&self) -> bool {
        let is_final = match self.code {
            RefuseCode::RestartNotAccepted | RefuseCode::LinkFailed | RefuseCode::DeclaredDead => {
                true
            }
            RefuseCode::Protocol
            | RefuseCode::Version
            | RefuseCode::Certificate
            | RefuseCode::Cluster
            | RefuseCode::WrongNode
            | RefuseCode::UnknownNode
            | RefuseCode::RemovedNode
            | RefuseCode::WrongDialer
            | RefuseCode::Membership
            | RefuseCode::StaleIncarnation
            | RefuseCode::StateMismatch
            | RefuseCode::Unknown(_) => false,
        };
        self.by_peer && is_final
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
