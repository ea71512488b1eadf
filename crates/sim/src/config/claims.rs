//! What a protocol claims, as far as a run depends on it.

/// What a failure detector costs, as far as the size of a run depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detector {
    /// Each process probes a few others and remembers the crashed ones.
    Sparse,
    /// Each process probes all others and keeps two bits for each.
    AllToAll,
    /// No detector of its own: an agreed log reports crashes to every process, in one order.
    Log,
}

/// What a protocol claims, as far as a run depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The number of permanent crashes tolerated. Beyond it, liveness is not checked.
    pub tolerates: u32,
    /// The failure detector; none if the protocol takes no crash notifications.
    pub detector: Option<Detector>,
    /// Processes restart after a crash with what they had stored.
    pub recovers: bool,
    /// Processes restart after a crash without state, in a new incarnation.
    pub returns: bool,
    /// The protocol grants numbered slots: several at once, to several clients of a process, with a
    /// k that may change.
    pub slots: bool,
    /// The protocol follows an agreed log by snapshots, which decides the members, which of them
    /// are fit to be home, k and the reserved slots.
    pub follows_log: bool,
    /// The protocol recovers from transient faults.
    pub heals: bool,
    /// A client may ask again while it is inside.
    pub asks_inside: bool,
    /// The protocol tolerates processes that pause and messages that are late beyond any bound. A
    /// detector that relies on timeouts does not.
    pub tolerates_delay: bool,
    /// The protocol tolerates lost messages.
    pub tolerates_loss: bool,
    /// The protocol tolerates duplicated messages.
    pub tolerates_duplicates: bool,
}
