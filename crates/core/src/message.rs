//! What a protocol's messages must tell its driver.

use core::fmt::Debug;
use core::hash::Hash;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A message between processes. Its kind has a name, so that counts by kind are the papers' tables.
pub trait Message: Clone + Debug + Eq + Hash + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// How many kinds there are.
    const KINDS: usize;
    /// Which kind this is, below [`Self::KINDS`].
    fn kind(&self) -> usize;
    /// The name of a kind, for instance `request`.
    fn kind_name(kind: usize) -> &'static str;
}

/// The type without values: the messages, timers or durable state of a protocol that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Never {}

impl Message for Never {
    const KINDS: usize = 0;
    fn kind(&self) -> usize {
        match *self {}
    }
    fn kind_name(_kind: usize) -> &'static str {
        unreachable!("a message that does not exist has no kind")
    }
}
