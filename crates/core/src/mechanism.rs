//! By what an algorithm excludes.

/// By what an algorithm excludes, so that checkers know what to hold it to beside who is inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// By something that only it knows.
    #[default]
    Other,
    /// Requests are stamped; who goes in has been permitted by all but k-1 of the others that live.
    /// Its messages tell what they permit ([`Message::cargo`](crate::Message::cargo)), and its
    /// [`Observation`](crate::Observation) the stamp.
    Permissions,
    /// Who goes in holds a numbered token. Its messages tell which token they carry, and its
    /// observation which it holds.
    Tokens,
    /// Requests are stamped and decided in the order of their stamps; who goes in holds numbered
    /// slots. Its observation shows the stamp of the request that waits, and the slots that are
    /// here.
    Slots,
}
