//! What neighbours say to each other: their present state, with the clock that they had when they
//! said it.

use kgate_core::{Message, Rules};
use serde::{Deserialize, Serialize};

/// A process's state at one of its clocks. Nobody answers; whoever moves on by it tells so to all
/// its neighbours.
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
