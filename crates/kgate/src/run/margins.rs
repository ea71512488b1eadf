//! When a process tree is asked to end and when it is made to: TERM at D - K - G, KILL at D - K,
//! dead by D (LEASES S3).
//!
//! D is the instant up to which the permit surely counts, G the grace between TERM and KILL, K what
//! it takes from KILL until the last process is surely gone. Both processes of `kgate run` checker
//! by the same function.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lease_clock::LeaseInstant;

/// G and K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Margins {
    pub(crate) grace: Duration,
    pub(crate) kill: Duration,
}

impl Margins {
    /// G, where nobody wishes for another and the lease admits it.
    pub(crate) const GRACE: Duration = Duration::from_secs(1);
    /// K, where the node does not say its own.
    pub(crate) const KILL: Duration = Duration::from_millis(250);

    /// What fits where G + K may be `most`: the grace that was wished for, or else as much of the
    /// usual one as there is room for. None if it does not fit.
    pub(crate) fn fitting(
        wished: Option<Duration>,
        kill: Duration,
        most: Option<Duration>,
    ) -> Option<Self> {
        let room = most.map_or(Some(Duration::MAX), |most| most.checked_sub(kill))?;
        let grace = wished.unwrap_or(Self::GRACE.min(room));
        (grace <= room).then_some(Self { grace, kill })
    }

    pub(crate) fn term_at(self, until: LeaseInstant) -> LeaseInstant {
        until - self.kill - self.grace
    }

    pub(crate) fn kill_at(self, until: LeaseInstant) -> LeaseInstant {
        until - self.kill
    }

    /// What the clock says of a permit that counts until then.
    pub(crate) fn check(self, until: LeaseInstant, now: LeaseInstant) -> Verdict {
        if now >= self.kill_at(until) {
            Verdict::Kill
        } else if now >= self.term_at(until) {
            Verdict::Term
        } else {
            Verdict::Fine
        }
    }
}

impl Default for Margins {
    fn default() -> Self {
        Self { grace: Self::GRACE, kill: Self::KILL }
    }
}

/// What must be done at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    Term,
    Kill,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LEASES S3: TERM at D - K - G, KILL at D - K, each at that very instant and not before.
    #[test]
    fn the_margins_are_kept_to_the_nanosecond() {
        let margins = Margins { grace: Duration::from_nanos(100), kill: Duration::from_nanos(10) };
        let until = LeaseInstant(1000);
        let table =
            [(0, Verdict::Fine), (889, Verdict::Fine), (890, Verdict::Term), (989, Verdict::Term)];
        for (now, expected) in table {
            assert_eq!(margins.check(until, LeaseInstant(now)), expected, "at {now}");
        }
        for now in [990, 1000, 5000] {
            assert_eq!(margins.check(until, LeaseInstant(now)), Verdict::Kill, "at {now}");
        }
    }

    /// LEASES section 1: a wish is kept or refused, to the millisecond; without one the usual grace
    /// shrinks to what there is room for.
    #[test]
    fn the_grace_fits_or_shrinks() {
        let ms = Duration::from_millis;
        let grace = |wished: Option<u64>, kill, most: Option<u64>| {
            Margins::fitting(wished.map(ms), ms(kill), most.map(ms)).map(|margins| margins.grace)
        };
        assert_eq!(grace(None, 250, None), Some(ms(1000)));
        assert_eq!(grace(None, 250, Some(1600)), Some(ms(1000)));
        assert_eq!(grace(None, 80, Some(300)), Some(ms(220)));
        assert_eq!(grace(None, 80, Some(80)), Some(ms(0)));
        assert_eq!(grace(None, 80, Some(79)), None);
        assert_eq!(grace(Some(220), 80, Some(300)), Some(ms(220)));
        assert_eq!(grace(Some(221), 80, Some(300)), None);
        assert_eq!(grace(Some(3_600_000), 80, None), Some(ms(3_600_000)));
    }

    /// A permit that knows no time is never checked by it; one that never counted is over at once.
    #[test]
    fn for_ever_and_never() {
        let margins = Margins { grace: Duration::from_secs(1), kill: Margins::KILL };
        assert_eq!(
            margins.check(LeaseInstant::FOR_EVER, LeaseInstant(u64::MAX - 1)),
            Verdict::Fine
        );
        assert_eq!(margins.check(LeaseInstant::NEVER, LeaseInstant(1)), Verdict::Kill);
    }
}
