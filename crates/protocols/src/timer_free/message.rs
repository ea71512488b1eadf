//! What processes say to each other, by the names of the paper.

use kgate_core::{Carried, Message};
use serde::{Deserialize, Serialize};

use crate::collections::NodeList;

/// The messages of [`TimerFree`](super::TimerFree).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimerFreeMessage {
    /// May I enter? Everybody answers at once; who does not permit it answers again when that has
    /// changed.
    Request {
        /// The sender's clock when it asked.
        clock: u64,
        /// Whom the sender holds for crashed.
        crashed: NodeList,
    },
    /// Who is there? Everybody answers at once, without permission, and defers to nobody. Not in
    /// the paper (T8).
    Query {
        /// The sender's clock when it asked.
        clock: u64,
        /// Whom the sender holds for crashed.
        crashed: NodeList,
    },
    /// I am here. Nobody answers.
    Reply {
        /// The clock of the receiver's message that this answers.
        clock: u64,
        /// Whether it may enter, as far as the sender is concerned (PERM or NOPERM).
        permission: bool,
        /// Who has not answered the sender's own last round (`not_rec_from`).
        not_received: NodeList,
    },
}

/// PERM and NOPERM are two kinds: how many of each an entry costs is what one wants to know.
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
