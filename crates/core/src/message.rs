//! What a protocol's messages must tell its driver.

use core::fmt::Debug;
use core::hash::Hash;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A message between processes. Its kind has a name, so that counts by kind are the papers' tables.
pub trait Message:
    Clone + Debug + Eq + Hash + Send + Sync + Serialize + DeserializeOwned + 'static
{
    /// How many kinds there are.
    const KINDS: usize;
    /// Which kind this is, below [`Self::KINDS`].
    fn kind(&self) -> usize;
    /// The name of a kind, for instance `request`.
    fn kind_name(kind: usize) -> &'static str;
    /// What it carries that checkers count; most often nothing.
    fn carried(&self) -> Option<Carried> {
        None
    }
}

/// What a message carries that checkers count. It is there for whoever watches a run; no protocol
/// reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carried {
    /// The receiver may enter, as far as the sender is concerned.
    Permission {
        /// The clock of the receiver's request that this permits.
        clock: u64,
    },
    /// A token itself.
    Token(Token),
}

/// A numbered token, as it is held or on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token {
    /// Which one.
    pub id: u32,
    /// Greater each time that it was lost and made anew.
    pub epoch: u32,
    /// How far it has come in this epoch: greater with every hand-over, so that an old copy is
    /// known.
    pub version: u64,
}

/// Implements [`Message`] for an enum: one kind a variant, in this order, each with its name. With
/// `, carried F` at the end, `F(&message)` says what a message carries.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
/// enum Ask {
///     Request { clock: u64 },
///     Reply,
/// }
/// kgate_core::kinds!(Ask { Request => "request", Reply => "reply" });
/// # use kgate_core::Message;
/// assert_eq!((Ask::KINDS, Ask::kind_name(Ask::Reply.kind())), (2, "reply"));
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
