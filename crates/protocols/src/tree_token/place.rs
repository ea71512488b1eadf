//! The place of one token, as far as one process knows: Raymond's HOLDER, with a revision.
//!
//! A process knows of a token that it is here, or the neighbour on the path to it. The revision
//! distinguishes new knowledge from old, and the token from stale copies of it: it grows whenever
//! the token crosses an edge, is granted, or is regenerated.

use kgate_core::{Fence, NodeId, Token};
use serde::{Deserialize, Serialize};

/// The age of a token. Later is greater: first by epoch, then by version.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Revision {
    /// 0 for the initial token; greater each time that it was lost with a process and regenerated.
    pub epoch: u32,
    /// The number of edges it has crossed and grants it has given in this epoch.
    pub version: u64,
}

impl Revision {
    /// No process counts this far: a greater version is malformed, and one more can always be
    /// added.
    pub(super) const VERSION_MAX: u64 = 1 << 62;

    /// The revision after one more hop or grant.
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
    /// The process itself if the token is here, else the neighbour on the path to it (the paper's
    /// `holder`). A neighbour that is lost permanently, while it is open whether the token was lost
    /// with it.
    pub towards: NodeId,
    /// The age of that knowledge.
    pub revision: Revision,
}
