//! The message between neighbours: the sender's state, with the clock that it had then.

use kgate_core::{Message, Rules};
use serde::{Deserialize, Serialize};

/// A process's state at one of its clocks. There is no answer; a receiver that advances by it sends
/// its own state to all its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RefinedMessage<S> {
    /// The sender's clock.
    pub clock: u64,
    /// The sender's state.
    pub state: S,
}

/// The messages of the rules `R`.
pub type MessageOf<R> = RefinedMessage<<R as Rules>::State>;

impl<S> Message for RefinedMessage<S>
where
    S: Copy + core::fmt::Debug + Eq + core::hash::Hash + Send + Sync + 'static,
    S: Serialize + serde::de::DeserializeOwned,
{
    const KINDS: usize = 1;
    fn kind(&self) -> usize {
        0
    }
    fn kind_name(_kind: usize) -> &'static str {
        "state"
    }
}
