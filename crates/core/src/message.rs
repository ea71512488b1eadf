//! The interface of a protocol's messages to its driver.

use core::fmt::Debug;
use core::hash::Hash;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A message between processes. Each kind has a name, because the papers' tables count messages by
/// kind.
pub trait Message:
    Clone + Debug + Eq + Hash + Send + Sync + Serialize + DeserializeOwned + 'static
{
    /// The number of kinds.
    const KINDS: usize;
    /// The kind of this message, below [`Self::KINDS`].
    fn kind(&self) -> usize;
    /// The name of a kind, for instance `request`.
    fn kind_name(kind: usize) -> &'static str;
    /// What the message carries that checkers count; most messages carry nothing.
    fn carried(&self) -> Option<Carried> {
        None
    }
}

/// What a message carries that checkers count. It serves the observers of a run; no protocol reads
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carried {
    /// The sender permits the receiver to enter.
    Permission {
        /// The clock of the receiver's request that this permits.
        clock: u64,
    },
    /// The token itself.
    Token(Token),
}

/// A numbered token, held or in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    /// The token's number.
    pub id: u32,
    /// Greater each time that the token was lost and regenerated.
    pub epoch: u32,
    /// The number of hand-overs in this epoch: it grows with each, so that a stale copy is
    /// recognised.
    pub version: u64,
}

/// Implements [`Message`] for an enum: one kind per variant, in this order, each with its name.
/// With `, carried F` at the end, `F(&message)` returns what a message carries.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
/// enum MutexMessage {
///     Request { clock: u64 },
///     Reply,
/// }
/// kgate_core::kinds!(MutexMessage { Request => "request", Reply => "reply" });
/// # use kgate_core::Message;
/// assert_eq!(MutexMessage::KINDS, 2);
/// assert_eq!(MutexMessage::kind_name(MutexMessage::Reply.kind()), "reply");
/// ```
#[macro_export]
macro_rules! kinds {
    ($type:ty { $($variant:ident => $name:literal),+ $(,)? } $(, carried $carried:expr)?) => {
        const _: () = {
            enum Kind { $($variant),+ }
            const NAMES: &[&str] = &[$($name),+];
            impl $crate::Message for $type {
                const KINDS: usize = NAMES.len();
                fn kind(&self) -> usize {
                    match self { $(Self::$variant { .. } => Kind::$variant as usize),+ }
                }
                fn kind_name(kind: usize) -> &'static str {
                    NAMES[kind]
                }
                $(fn carried(&self) -> Option<$crate::Carried> {
                    $carried(self)
                })?
            }
        };
    };
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
