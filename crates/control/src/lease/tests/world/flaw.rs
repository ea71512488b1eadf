//! The rules, each left out in turn: what the checker must catch. All flaws are made from outside,
//! by what the world tells the nodes: the code that is tested has no switch. Two more rules (the
//! voters in EVICT, and the silence of a voter that is behind its own voters) are needed only in
//! rarer orders of events: see `stories.rs`, and the exhaustive model in `tests/lease_model.rs`.

/// One rule left out or broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lease::tests) enum Flaw {
    /// N1: the lease counts from the answer's arrival (nearly: from the newest ping).
    LeaseFromArrival,
    /// Section 1: W = L (1 + eps), as if only one clock erred.
    OneClockErrs,
    /// E2: everybody counts as promised from the commit of the suspicion.
    WaitFromCommit,
    /// E2: a voter promises what it has only appended.
    AppendedForApplied,
    /// E4: EVICT is applied whatever has happened since.
    EvictBlindly,
    /// N3: a restarted voter has forgotten the suspicion.
    ForgetSuspicion,
    /// S1: a session lasts L whatever is left of its node's lease.
    SessionNotCut,
    /// S1: a session counts from the answer's arrival.
    SessionFromArrival,
    /// S2: a GRANT extends the deadline.
    GrantTrusted,
    /// Section 1: clocks stop in suspend.
    ClockStops,
    /// Section 5: only the front kills.
    NoGuard,
    /// N4: p counts by the voters of its own log.
    OwnVoters,
    /// N4: an answer shows the voters applied, and is given although newer ones are in the log.
    AppliedShown,
    /// S4: the end of a stream frees.
    StreamEndFrees,
    /// E2: a restarted voter takes it that it never answered.
    AgeForgotten,
    /// E5: UNSUSPECT works after EVICT.
    Resurrection,
    /// N2: p answers itself although it is suspected.
    SelfAnswer,
    /// E3: what was waited before the present voters were applied counts.
    WaitBeforeVoters,
}

impl Flaw {
    pub(in crate::lease::tests) const ALL: [Flaw; 18] = [
        Flaw::LeaseFromArrival,
        Flaw::OneClockErrs,
        Flaw::WaitFromCommit,
        Flaw::AppendedForApplied,
        Flaw::EvictBlindly,
        Flaw::ForgetSuspicion,
        Flaw::SessionNotCut,
        Flaw::SessionFromArrival,
        Flaw::GrantTrusted,
        Flaw::ClockStops,
        Flaw::NoGuard,
        Flaw::OwnVoters,
        Flaw::AppliedShown,
        Flaw::StreamEndFrees,
        Flaw::AgeForgotten,
        Flaw::Resurrection,
        Flaw::SelfAnswer,
        Flaw::WaitBeforeVoters,
    ];
}
