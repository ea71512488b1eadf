//! The messages between requesters and permitters.

use kgate_core::{Carried, Message};
use serde::{Deserialize, Serialize};

/// The mutex's own REPLY, or a message of its broadcast.
#[derive(Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PermissionMessage<M> {
    /// The sender permits the receiver to enter. There is no answer.
    Reply {
        /// The clock of the receiver's request that this permits.
        clock: u64,
    },
    /// A request, as its broadcast carries it.
    Broadcast(M),
}

/// Written by hand: the derived version for a generic type copies field by field, which costs more
/// than all the rest of a delivery.
impl<M: Copy> Clone for PermissionMessage<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Message + Copy> Message for PermissionMessage<M> {
    const KINDS: usize = 1 + M::KINDS;
    fn kind(&self) -> usize {
        match self {
            Self::Reply { .. } => 0,
            Self::Broadcast(message) => 1 + message.kind(),
        }
    }
    fn kind_name(kind: usize) -> &'static str {
        if kind == 0 { "reply" } else { M::kind_name(kind - 1) }
    }
    fn carried(&self) -> Option<Carried> {
        match self {
            Self::Reply { clock } => Some(Carried::Permission { clock: *clock }),
            Self::Broadcast(_) => None,
        }
    }
}
