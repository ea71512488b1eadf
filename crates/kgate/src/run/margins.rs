//! When a process tree is asked to end and when it is made to: TERM at D - K - G, KILL at D - K, dead by D (LEASES S3).
//!
//! D is the instant up to which the permit surely counts, G the grace between TERM and KILL, K what it takes from KILL until
//! the last process is surely gone. Both processes of `kgate run` judge by the same function.

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
    pub(crate) const KILL: Duration = Duration::from_millis(250);

    pub(crate) fn term_at(self, until: LeaseInstant) -> LeaseInstant {
        until - self.kill - self.grace
    }

    pub(crate) fn kill_at(self, until: LeaseInstant) -> LeaseInstant {
        until - self.kill
    }

    /// What the clock says of a permit that counts until then.
    pub(crate) fn judge(self, until: LeaseInstant, now: LeaseInstant) -> Verdict {
        if now >= self.kill_at(until) {
            Verdict::Kill
        } else if now >= self.term_at(until) {
            Verdict::Term
        } else {
            Verdict::Fine
        }
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
        let table = [(0, Verdict::Fine), (889, Verdict::Fine), (890, Verdict::Term), (989, Verdict::Term)];
        for (now, expected) in table {
            assert_eq!(margins.judge(until, LeaseInstant(now)), expected, "at {now}");
        }
        for now in [990, 1000, 5000] {
            assert_eq!(margins.judge(until, LeaseInstant(now)), Verdict::Kill, "at {now}");
        }
    }

    /// A permit that knows no time is never judged by it; one that never counted is over at once.
    #[test]
    fn for_ever_and_never() {
        let margins = Margins { grace: Duration::from_secs(1), kill: Margins::KILL };
        assert_eq!(margins.judge(LeaseInstant::FOR_EVER, LeaseInstant(u64::MAX - 1)), Verdict::Fine);
        assert_eq!(margins.judge(LeaseInstant::NEVER, LeaseInstant(1)), Verdict::Kill);
    }
}
