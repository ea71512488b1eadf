//! Where one token is, as far as one process knows: Raymond's HOLDER, with a revision.
//!
//! A process knows of a token that it is here, or which neighbour is on the way to it. The revision
//! tells new knowledge from old, and the token from old copies of it: it grows whenever the token
//! crosses an edge, is granted, or is made anew.

use kgate_core::{Fence, NodeId, Token};
use serde::{Deserialize, Serialize};

/// How far a token has come. Later is greater: first by epoch, then by version.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Revision {
    /// 0 for the token of the start; greater each time that it was lost with a process and made
    /// anew.
    pub epoch: u32,
    /// How many edges it has crossed and grants it has given in this epoch.
    pub version: u64,
}

impl Revision {
    /// Nobody counts so far: a greater version is junk, and one more can always be added.
    pub(super) const VERSION_MAX: u64 = 1 << 62;

    /// After one more crossing or grant.
    pub(super) fn next(self) -> Self {
        Self { version: self.version + 1, ..self }
    }

    /// The token of that slot, in this revision.
    pub(super) fn of(self, slot: u32) -> Token {
        Token { id: slot, epoch: self.epoch, version: self.version }
    }

    /// The fence of a grant of this revision.
    pub(super) fn fence(self) -> Fence {
        Fence(u128::from(self.epoch) << 64 | u128::from(self.version))
    }
}

/// Where a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The process itself if the token is here, else the neighbour on the way to it (the paper's
    /// `holder`). A neighbour that is lost for good, if nobody knows yet whether the token was lost
    /// with it.
    pub towards: NodeId,
    /// How old that knowledge is.
    pub revision: Revision,
}
