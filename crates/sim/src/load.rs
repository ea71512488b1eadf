//! Who asks, and when: a closed loop, as in the papers.

use kgate_core::Span;

/// The first `requesters` processes ask, hold, pause and ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// How many processes ask: p0 .. . vcube-2018: LOW is k of them, HIGH all.
    pub requesters: u32,
    /// When each asks first.
    pub first_request: Span,
    /// How long each holds a unit (vcube-2018: e).
    pub hold: Span,
    /// How long each waits after a release before it asks again (vcube-2018: tau).
    pub think: Span,
    /// How often each asks; without a bound until the run ends.
    pub entries: Option<u32>,
}
