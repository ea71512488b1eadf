//! When a process tree gets its signals: TERM at D - K - G, KILL at D - K, gone by D (LEASES S3).
//!
//! D is the deadline: the permit is certainly valid until then. G is the grace between TERM and
//! KILL. K is the time from KILL until the last process is certainly gone. Front and guard decide
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
    /// Default of G, if the lease allows it.
    pub(crate) const GRACE: Duration = Duration::from_secs(1);
    /// Default of K, if the node does not configure it.
    pub(crate) const KILL: Duration = Duration::from_millis(250);

    /// The margins with G + K at most `max`: the requested grace, or as much of the default as
    /// fits. None if the requested grace does not fit.
    pub(crate) fn fitting(
        requested: Option<Duration>,
        kill: Duration,
        max: Option<Duration>,
    ) -> Option<Self> {
        let room = max.map_or(Some(Duration::MAX), |max| max.checked_sub(kill))?;
        let grace = requested.unwrap_or(Self::GRACE.min(room));
        (grace <= room).then_some(Self { grace, kill })
    }

    pub(crate) fn term_at(self, until: LeaseInstant) -> LeaseInstant {
        until - self.kill - self.grace
    }

    pub(crate) fn kill_at(self, until: LeaseInstant) -> LeaseInstant {
        until - self.kill
    }

    /// What is due at `now` for a permit with the deadline `until`.
    pub(crate) fn check(self, until: LeaseInstant, now: LeaseInstant) -> Due {
        if now >= self.kill_at(until) {
            Due::Kill
        } else if now >= self.term_at(until) {
            Due::Term
        } else {
            Due::Nothing
        }
    }
}

impl Default for Margins {
    fn default() -> Self {
        Self { grace: Self::GRACE, kill: Self::KILL }
    }
}

/// What is due at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
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
        let table = [(0, Due::Nothing), (889, Due::Nothing), (890, Due::Term), (989, Due::Term)];
        for (now, expected) in table {
            assert_eq!(margins.check(until, LeaseInstant(now)), expected, "at {now}");
        }
        for now in [990, 1000, 5000] {
            assert_eq!(margins.check(until, LeaseInstant(now)), Due::Kill, "at {now}");
        }
    }

    /// LEASES section 1: a requested grace is kept or refused, to the millisecond; the default
    /// grace shrinks to the available time.
    #[test]
    fn the_grace_fits_or_shrinks() {
        let ms = Duration::from_millis;
        let grace = |requested: Option<u64>, kill, max: Option<u64>| {
            Margins::fitting(requested.map(ms), ms(kill), max.map(ms)).map(|margins| margins.grace)
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

    /// A permit without a deadline never expires; one that was never valid is expired at once.
    #[test]
    fn for_ever_and_never() {
        let margins = Margins { grace: Duration::from_secs(1), kill: Margins::KILL };
        assert_eq!(margins.check(LeaseInstant::FOR_EVER, LeaseInstant(u64::MAX - 1)), Due::Nothing);
        assert_eq!(margins.check(LeaseInstant::NEVER, LeaseInstant(1)), Due::Kill);
    }
}
