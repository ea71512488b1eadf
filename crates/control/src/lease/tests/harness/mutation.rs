//! Mutations: each leaves out or breaks one rule, and the checker must find it. All of them are
//! made from outside, by what the harness passes to the nodes: the tested code has no switch. Two
//! more rules (the voters in EVICT, and the silence of a voter that is behind its own voters)
//! matter only in rarer orders of events: see `scenarios.rs`, and the exhaustive model in
//! `tests/lease_model.rs`.

/// One rule left out or broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lease::tests) enum Mutation {
    /// N1: the lease counts from the answer's arrival (nearly: from the newest ping).
    LeaseFromArrival,
    /// Section 1: W = L (1 + eps), as if only one clock erred.
    OneClockErrs,
    /// E2: every voter counts as having promised when the suspicion is committed.
    WaitFromCommit,
    /// E2: a voter promises what it has only appended.
    AppendedForApplied,
    /// E4: EVICT is applied whatever has happened since.
    EvictBlindly,
    /// N3: a restarted voter has forgotten the suspicion.
    ForgetSuspicion,
    /// S1: a session lasts L, whatever is left of its node's lease.
    SessionNotCut,
    /// S1: a session counts from the answer's arrival.
    SessionFromArrival,
    /// S2: a GRANT extends the deadline.
    GrantTrusted,
    /// Section 1: clocks stop in suspend.
    ClockStops,
    /// Section 5: only the front kills.
    NoGuard,
    /// N4: p counts by the voters in its own log.
    OwnVoters,
    /// N4: an answer is given although the log has newer voters than are applied, and shows the
    /// applied ones.
    AppliedShown,
    /// S4: the end of a client's stream frees its slot.
    StreamEndFrees,
    /// E2: a restarted voter assumes that it never answered before.
    AgeForgotten,
    /// E5: UNSUSPECT works after EVICT.
    Resurrection,
    /// N2: p answers itself although it is suspected.
    SelfAnswer,
    /// E3: the wait counts although it began before the voters in force were applied.
    WaitBeforeVoters,
}

impl Mutation {
    pub(in crate::lease::tests) const ALL: [Mutation; 18] = [
        Mutation::LeaseFromArrival,
        Mutation::OneClockErrs,
        Mutation::WaitFromCommit,
        Mutation::AppendedForApplied,
        Mutation::EvictBlindly,
        Mutation::ForgetSuspicion,
        Mutation::SessionNotCut,
        Mutation::SessionFromArrival,
        Mutation::GrantTrusted,
        Mutation::ClockStops,
        Mutation::NoGuard,
        Mutation::OwnVoters,
        Mutation::AppliedShown,
        Mutation::StreamEndFrees,
        Mutation::AgeForgotten,
        Mutation::Resurrection,
        Mutation::SelfAnswer,
        Mutation::WaitBeforeVoters,
    ];
}
