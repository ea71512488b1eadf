//! What requesters and permitters say to each other.

use kgate_core::Message;
use serde::{Deserialize, Serialize};

/// The mutex's own REPLY, or a message of its broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PermissionMessage<M> {
    /// You may enter, as far as I am concerned. Nobody answers.
    Reply {
        /// The clock of the receiver's request that this permits.
        clock: u64,
    },
    /// A request on its way.
    Spread(M),
}

impl<M: Message> Message for PermissionMessage<M> {
    const KINDS: usize = 1 + M::KINDS;
    fn kind(&self) -> usize {
        match self {
            Self::Reply { .. } => 0,
            Self::Spread(message) => 1 + message.kind(),
        }
    }
    fn kind_name(kind: usize) -> &'static str {
        if kind == 0 { "reply" } else { M::kind_name(kind - 1) }
    }
}
