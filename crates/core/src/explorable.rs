//! What the model checker may use to visit fewer states.

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
