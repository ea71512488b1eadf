//! The part of a protocol's state that checkers and screens may see.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{Fence, GrantId, NodeId, Stamp, Token};

/// The state of a process towards its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Neither waits nor holds.
    #[default]
    Idle,
    /// Has requested and waits for the grant.
    Waiting,
    /// Holds a grant.
    Holding,
}

/// A read-only projection of a protocol's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observation {
    /// The state towards the client.
    pub phase: Phase,
    /// The stamp of the present request, where the protocol stamps requests.
    pub stamp: Option<Stamp>,
    /// The grant that the process holds.
    pub grant: Option<GrantId>,
    /// The processes whose answers it still lacks, while it waits.
    pub lacking: Vec<NodeId>,
    /// The processes to which it owes an answer.
    pub owing: Vec<NodeId>,
    /// The processes that it considers crashed.
    pub crashed: Vec<NodeId>,
    /// The tokens at this process, in use or not, where the protocol has tokens.
    pub tokens: Vec<Token>,
    /// The numbered slots at this process with their fences, in use or cached, where the protocol
    /// has slots.
    pub slots: Vec<(u32, Fence)>,
    /// The processes for whose requests it combines answers.
    pub relaying: Vec<NodeId>,
    /// The requests that wait for the decision of this process, in the order in which it serves
    /// them: the process, the number of the request there, and its weight.
    pub queue: Vec<(NodeId, u64, u32)>,
    /// The number of requests that it has decided to grant, where it decides for others.
    pub decided: u64,
}
