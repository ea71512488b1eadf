//! The numbers of the leases, and the inequalities between them.
//!
//! In time, "at most k holders" depends on one chain. A node may grant for L after it sent a ping
//! that a quorum of voters has answered. Its clients have at most what is left of that. Its slots
//! must not be freed before W = L (1+eps)/(1-eps) + margin has passed on another clock. The other
//! numbers determine how often to renew, so that no client has to stop without need, and how fast a
//! dead node is noticed.

use std::fmt;

use kgate_core::Span;
use serde::{Deserialize, Serialize};

use crate::membership::LeaseTerms;

/// The numbers of the leases. [`Timing::check`] says whether they fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Timing {
    /// L: how long an answer counts, from the sending of its ping.
    pub lease: Span,
    /// I_n: the interval at which a node pings the voters.
    pub node_ping: Span,
    /// I_s: the interval at which a client renews its session.
    pub session_ping: Span,
    /// The greatest error of a clock's rate, in parts per million.
    pub clock_error: u32,
    /// The time that is waited in addition before an eviction, for the resolution of timers.
    pub margin: Span,
    /// G: the time between TERM and KILL.
    pub grace: Span,
    /// K: the time from KILL until a process is certainly dead.
    pub kill: Span,
    /// Q: how long a majority of the voters must not have heard from a node before it is suspected.
    pub suspect_after: Span,
    /// R: the longest round trip that is planned for.
    pub round_trip: Span,
}

const fn ms(count: u64) -> Span {
    Span(count * 1_000_000)
}

/// The greatest clock error that is accepted. With more, W would exceed one and a half times L.
const CLOCK_ERROR_MAX: u32 = 200_000;

impl Timing {
    /// For production: a dead node's slots are free again within 5 s.
    pub const DEFAULT: Timing = Timing {
        lease: ms(4000),
        node_ping: ms(500),
        session_ping: ms(500),
        clock_error: 10_000,
        margin: ms(50),
        grace: ms(1000),
        kill: ms(250),
        suspect_after: ms(1500),
        round_trip: ms(200),
    };

    /// For one machine room and short graces: within 1 s.
    pub const FAST: Timing = Timing {
        lease: ms(700),
        node_ping: ms(80),
        session_ping: ms(80),
        clock_error: 10_000,
        margin: ms(10),
        grace: ms(150),
        kill: ms(80),
        suspect_after: ms(300),
        round_trip: ms(40),
    };

    /// The lease terms that go into the log with each incarnation of a node.
    pub fn terms(&self) -> LeaseTerms {
        LeaseTerms { lease: self.lease, clock_error: self.clock_error, margin: self.margin }
    }

    /// W: how long a voter must not have answered a silent node, on the evictor's clock, before the
    /// node may be evicted.
    pub fn wait(&self) -> Span {
        self.terms().wait()
    }

    /// The part of a lease that is needed besides the grace, with two lost renewals of a session.
    fn used(&self) -> Span {
        self.kill
            + self.node_ping
            + self.session_ping
            + self.round_trip.times(2)
            + self.session_ping.times(2)
    }

    /// The longest grace that fits into the lease; zero if none does.
    pub fn grace_max(&self) -> Span {
        less(self.lease, self.used())
    }

    /// The time from the crash of a holder's node until its slots are granted again: W, the way of
    /// a promise, two commits and a request. Suspicion and an election run within W.
    pub fn failover(&self) -> Span {
        self.wait() + self.round_trip.times(4)
    }

    /// How long a clean restart may take so that no client has to stop (R1).
    pub fn restart_max(&self) -> Span {
        less(self.lease, self.grace + self.kill + self.session_ping + self.round_trip.times(2))
    }

    /// Whether the numbers fit together.
    pub fn check(&self) -> Result<(), BadTiming> {
        let named = [
            ("lease", self.lease),
            ("node_ping", self.node_ping),
            ("session_ping", self.session_ping),
            ("margin", self.margin),
            ("suspect_after", self.suspect_after),
            ("round_trip", self.round_trip),
        ];
        if let Some((name, _)) = named.iter().find(|(_, span)| *span == Span::ZERO) {
            return Err(BadTiming::Zero(name));
        }
        if self.clock_error > CLOCK_ERROR_MAX {
            return Err(BadTiming::ClockError(self.clock_error));
        }
        if self.planned() > self.lease {
            return Err(BadTiming::Chain(*self));
        }
        if self.suspect_after >= self.wait() {
            return Err(BadTiming::SuspectsLate(*self));
        }
        if self.suspect_after < self.suspect_after_min() {
            return Err(BadTiming::SuspectsSoon(*self));
        }
        Ok(())
    }

    /// The part of a lease that is needed: the grace, and what is needed besides.
    fn planned(&self) -> Span {
        self.grace + self.used()
    }

    fn suspect_after_min(&self) -> Span {
        self.node_ping.times(2) + self.round_trip
    }
}

impl Default for Timing {
    fn default() -> Self {
        Timing::DEFAULT
    }
}

/// Why the numbers do not fit together, and what to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTiming {
    /// A number is zero that must not be.
    #[error("{0} is zero: set it to a time above zero")]
    Zero(&'static str),
    /// The clock error is above the bound.
    #[error(
        "clock_error {0} ppm is above {CLOCK_ERROR_MAX} ppm (20 %): use a more accurate \
        clock; 10000 ppm (1 %) suits Linux"
    )]
    ClockError(u32),
    /// G + K + I_n + I_s + 2R + 2 I_s <= L does not hold.
    #[error(
        "the lease is too short: grace {} + kill {} + node_ping {} + 3 session_ping {} + 2 \
        round_trip {} = {} is above lease {}: \
         raise lease to {} or more{}",
        Shown(.0.grace), Shown(.0.kill), Shown(.0.node_ping), Shown(.0.session_ping),
        Shown(.0.round_trip), Shown(.0.planned()), Shown(.0.lease), Shown(.0.planned()),
        or_less_grace(.0.grace_max())
    )]
    Chain(Timing),
    /// Q < W does not hold.
    #[error(
        "suspect_after {} is not below W = {}, the wait before an eviction: lower suspect_after, \
        to a third of the lease for example",
        Shown(.0.suspect_after), Shown(.0.wait())
    )]
    SuspectsLate(Timing),
    /// Q >= 2 I_n + R does not hold.
    #[error(
        "suspect_after {} is below 2 node_ping + round_trip = {}: one lost ping would make a \
        healthy node suspected; raise suspect_after",
        Shown(.0.suspect_after), Shown(.0.suspect_after_min())
    )]
    SuspectsSoon(Timing),
}

fn or_less_grace(grace_max: Span) -> String {
    if grace_max == Span::ZERO {
        return String::new();
    }
    format!(", or lower grace to {} or less", Shown(grace_max))
}

fn less(from: Span, part: Span) -> Span {
    Span(from.0.saturating_sub(part.0))
}

/// A time for people, cut to thousandths: `725 ms`, `4.13 s`.
struct Shown(Span);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) =
            if self.0 < Span::UNIT { (1_000_000, "ms") } else { (1_000_000_000, "s") };
        let (whole, rest) = (self.0.0 / unit, self.0.0 % unit * 1000 / unit);
        let text = if rest == 0 {
            format!("{whole} {name}")
        } else {
            format!("{whole}.{} {name}", format!("{rest:03}").trim_end_matches('0'))
        };
        f.pad(&text)
    }
}

/// The table that `kgate explain --timing` prints.
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, span: Span, meaning: &str| {
            writeln!(f, "{name:<18}{:>10}  {meaning}", Shown(span))
        };
        row("L  lease", self.lease, "an answered ping counts for this time, from its sending")?;
        row("I_n node_ping", self.node_ping, "a node pings the voters at this interval")?;
        row("I_s session_ping", self.session_ping, "a client renews its session at this interval")?;
        row("G  grace", self.grace, "from TERM to KILL")?;
        row("K  kill", self.kill, "from KILL to certainly dead")?;
        row("Q  suspect_after", self.suspect_after, "silence before a node is suspected")?;
        row("R  round_trip", self.round_trip, "the longest round trip that is planned for")?;
        row("   margin", self.margin, "waited in addition, for the resolution of timers")?;
        writeln!(
            f,
            "{:<18}{:>6} ppm  the greatest error of a clock's rate",
            "   clock_error", self.clock_error
        )?;
        writeln!(f)?;
        let mut row = |name: &str, span: Span, meaning: &str| {
            writeln!(f, "{name:<18}{:>10}  {meaning}", Shown(span))
        };
        row(
            "W  wait",
            self.wait(),
            "L (1+eps)/(1-eps) + margin: no node is evicted sooner after its last answer",
        )?;
        row(
            "   failover",
            self.failover(),
            "W + 4 R: from a node's crash to the next grant of its slots, at most",
        )?;
        row(
            "   restart",
            self.restart_max(),
            "L - G - K - I_s - 2 R: a clean restart of up to this time stops no client",
        )?;
        row(
            "   grace_max",
            self.grace_max(),
            "L - K - I_n - 3 I_s - 2 R: the longest grace that fits",
        )?;
        let spare = less(self.lease, self.planned());
        row(
            "   spare",
            spare,
            "L - (G + K + I_n + 3 I_s + 2 R): left over even if two renewals are lost",
        )?;
        row(
            "   suspicion",
            less(self.wait(), self.suspect_after),
            "W - Q: left for suspicion and an election within W",
        )?;
        match self.check() {
            Ok(()) => write!(f, "all inequalities hold"),
            Err(bad) => write!(f, "INVALID: {bad}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/internals/leases.md section 1: W, the chain, the bounds on a fail-over, of both
    /// presets.
    #[test]
    fn the_presets() {
        let (slow, fast) = (Timing::DEFAULT, Timing::FAST);
        assert_eq!((slow.check(), fast.check()), (Ok(()), Ok(())));
        assert_eq!((slow.wait(), fast.wait()), (Span(4_130_808_081), Span(724_141_415)));
        assert_eq!((slow.grace_max(), fast.grace_max()), (ms(1350), ms(220)));
        assert_eq!(slow.restart_max(), ms(1850));
        assert!(slow.failover() < ms(5000) && fast.failover() < ms(1000));
        assert_eq!(Timing { grace: slow.grace_max(), ..slow }.check(), Ok(()));
    }

    /// Each inequality is checked to the nanosecond; the error has the numbers and says what to
    /// change.
    #[test]
    fn each_inequality_is_checked() {
        let error = |timing: Timing| timing.check().unwrap_err().to_string();
        let slow = Timing::DEFAULT;
        assert_eq!(
            error(Timing { grace: ms(1400), ..slow }),
            "the lease is too short: grace 1.4 s + kill 250 ms + node_ping 500 ms + 3 \
            session_ping 500 ms + 2 round_trip 200 ms = 4.05 s \
             is above lease 4 s: raise lease to 4.05 s or more, or lower grace to 1.35 s or less"
        );
        assert!(Timing { grace: slow.grace_max() + Span(1), ..slow }.check().is_err());
        assert!(error(Timing { kill: ms(4000), ..slow }).ends_with("raise lease to 7.4 s or more"));
        assert!(Timing { suspect_after: Span(slow.wait().0 - 1), ..slow }.check().is_ok());
        assert!(
            error(Timing { suspect_after: slow.wait(), ..slow })
                .starts_with("suspect_after 4.13 s is not below W = 4.13 s")
        );
        assert!(Timing { suspect_after: ms(1200), ..slow }.check().is_ok());
        assert!(
            error(Timing { suspect_after: ms(1199), ..slow })
                .contains("below 2 node_ping + round_trip = 1.2 s")
        );
        assert_eq!(
            error(Timing { node_ping: Span::ZERO, ..slow }),
            "node_ping is zero: set it to a time above zero"
        );
        assert!(
            error(Timing { clock_error: 200_001, ..slow })
                .contains("200001 ppm is above 200000 ppm")
        );
    }

    /// Absurd numbers saturate: they are refused and never wrap around.
    #[test]
    fn absurd_numbers_are_refused() {
        let huge = Span(u64::MAX);
        for timing in [
            Timing { grace: huge, ..Timing::DEFAULT },
            Timing { round_trip: huge, ..Timing::DEFAULT },
            Timing { suspect_after: huge, ..Timing::DEFAULT },
            Timing { node_ping: huge, ..Timing::DEFAULT },
        ] {
            assert!(timing.check().is_err());
        }
    }

    /// The table has every number, and says whether all inequalities hold.
    #[test]
    fn the_table() {
        let table = Timing::DEFAULT.to_string();
        assert!(
            table.lines().any(|line| line.starts_with("W  wait ") && line.contains(" 4.13 s ")),
            "{table}"
        );
        assert!(table.ends_with("all inequalities hold"), "{table}");
        assert!(
            Timing { grace: ms(2000), ..Timing::DEFAULT }
                .to_string()
                .contains("INVALID: the lease is too short")
        );
    }
}
