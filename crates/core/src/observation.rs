//! What checkers and screens may see of a protocol's state.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{Fence, GrantId, NodeId, Stamp, Token};

/// Where a process stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Neither asks nor holds.
    #[default]
    Idle,
    /// Has asked and waits for its permit.
    Waiting,
    /// Holds a permit.
    Holding,
}

/// A read-only projection of a protocol's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observation {
    /// Where the process stands.
    pub phase: Phase,
    /// The stamp of its present request, where the protocol stamps requests.
    pub stamp: Option<Stamp>,
    /// The grant it holds.
    pub grant: Option<GrantId>,
    /// Whose answer it still lacks, while it waits.
    pub lacking: Vec<NodeId>,
    /// To whom it owes an answer.
    pub owing: Vec<NodeId>,
    /// Whom it holds for crashed.
    pub crashed: Vec<NodeId>,
    /// Which tokens are here, in use or not, where the protocol has tokens.
    pub tokens: Vec<Token>,
    /// Which numbered slots are here under which fences, in use or kept, where the protocol has
    /// slots.
    pub slots: Vec<(u32, Fence)>,
    /// For whose requests it puts answers together.
    pub relaying: Vec<NodeId>,
}
