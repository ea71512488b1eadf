//! What the model checker may use to visit fewer states.

use alloc::vec::Vec;

use crate::{NodeId, Protocol};

/// Facts about a protocol that let the model checker count several states as one. Every default is
/// correct for every protocol; an empty `impl` costs states, never soundness.
pub trait Explorable: Protocol {
    /// Whether `message` from `from` has no effect on this process any more: delivered now or at
    /// any later time, it changes no state and causes no effect. The model checker then does not
    /// distinguish when it arrives. `false` is always sound; `true` must hold in every future of
    /// this process.
    fn is_outdated(&self, _from: NodeId, _message: &Self::Message) -> bool {
        false
    }

    /// Forgets what affects only the length of timers, which a model without time ignores.
    fn forget_times(&mut self) {}

    /// What this process has written down for grants, where one process decides for all: what it
    /// keeps when every request has ended.
    fn inventory(&self) -> Inventory {
        Inventory::default()
    }

    /// This process after a permutation of the names: its state if every process p were called
    /// `names[p]`. `None` if the algorithm compares names, because a permutation is then a
    /// different run.
    fn renamed(&self, _names: &[NodeId]) -> Option<Self> {
        None
    }

    /// Stored state after the same permutation as in [`renamed`](Self::renamed).
    fn stored_renamed(_stored: &Self::Durable, _names: &[NodeId]) -> Option<Self::Durable> {
        None
    }

    /// A message after the same permutation as in [`renamed`](Self::renamed).
    fn message_renamed(_message: &Self::Message, _names: &[NodeId]) -> Option<Self::Message> {
        None
    }
}

/// What a process has written down for grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The slots that this process, as the one that decides, counts as taken.
    pub assigned: Vec<Assigned>,
    /// The slots that this process keeps for later requests of its own.
    pub cached: Vec<u32>,
    /// The number of grants in the use of clients of this process, of adoptions without a
    /// confirmation, and of adoption requests without an answer.
    pub pending: usize,
}

/// A slot that the process that decides counts as taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The slot.
    pub slot: u32,
    /// The process that has it.
    pub node: NodeId,
    /// The request that it was granted to, if known.
    pub ticket: Option<u64>,
}
