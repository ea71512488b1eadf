//! The mechanism by which an algorithm excludes.

/// The mechanism by which an algorithm excludes; it tells the property checkers which rules apply
/// beyond the number of holders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// A mechanism that only the algorithm knows.
    #[default]
    Other,
    /// Permissions: requests are stamped, and a process enters when all but k-1 of the other live
    /// processes have permitted it. Messages show which permission they carry
    /// ([`Message::carried`](crate::Message::carried)), the [`Observation`](crate::Observation)
    /// shows the stamp.
    Permissions,
    /// Tokens: a process that enters holds a numbered token. Messages show which token they carry,
    /// the observation shows the tokens that the process holds.
    Tokens,
    /// Slots: requests are stamped and decided in the order of their stamps, and a process that
    /// enters holds numbered slots. The observation shows the stamp of the waiting request and the
    /// slots of the process.
    Slots,
}
