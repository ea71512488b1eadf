//! The messages, by the names of the paper.

use kgate_core::{Carried, Message};
use serde::{Deserialize, Serialize};

use crate::collections::NodeList;

/// The messages of [`TimerFree`](super::TimerFree).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimerFreeMessage {
    /// A request. Every process answers at once; one that does not permit it answers again when it
    /// does.
    Request {
        /// The sender's clock at the request.
        clock: u64,
        /// The processes that the sender considers crashed.
        crashed: NodeList,
    },
    /// A test of liveness. Every process answers at once, without permission, and defers to no
    /// process. Not in the paper (T8).
    Query {
        /// The sender's clock.
        clock: u64,
        /// The processes that the sender considers crashed.
        crashed: NodeList,
    },
    /// An answer. It has no answer itself.
    Reply {
        /// The clock of the receiver's message that this answers.
        clock: u64,
        /// Whether the sender permits the receiver to enter (PERM or NOPERM).
        permission: bool,
        /// The processes that have not answered the sender's own last round (`not_rec_from`).
        not_received: NodeList,
    },
}

/// PERM and NOPERM are two kinds, because the cost of an entry is the number of each.
impl Message for TimerFreeMessage {
    const KINDS: usize = 4;

    fn kind(&self) -> usize {
        match self {
            Self::Request { .. } => 0,
            Self::Query { .. } => 1,
            Self::Reply { permission: true, .. } => 2,
            Self::Reply { permission: false, .. } => 3,
        }
    }

    fn kind_name(kind: usize) -> &'static str {
        ["request", "query", "perm", "noperm"][kind]
    }

    fn carried(&self) -> Option<Carried> {
        match self {
            Self::Reply { clock, permission: true, .. } => {
                Some(Carried::Permission { clock: *clock })
            }
            Self::Request { .. } | Self::Query { .. } | Self::Reply { permission: false, .. } => {
                None
            }
        }
    }
}
