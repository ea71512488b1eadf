//! The numbers of the leases, and the inequalities between them.
//!
//! Everything that keeps "at most k" true in time hangs on one chain: a node may grant for L after
//! a ping that a quorum of voters has answered; its clients have at most what is left of that;
//! nobody frees its slots before W = L (1+eps)/(1-eps) has passed on another clock. The other
//! numbers say how often to renew so that nobody has to stop without need, and how fast a dead node
//! is noticed.

use std::fmt;

use kgate_core::Span;
use serde::{Deserialize, Serialize};

use crate::membership::LeaseTerms;

/// The numbers. [`Timing::check`] says whether they fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Timing {
    /// L: so long from the sending of a ping its answer counts.
    pub lease: Span,
    /// I_n: how often a node pings the voters.
    pub node_ping: Span,
    /// I_s: how often a client renews its session.
    pub session_ping: Span,
    /// The greatest error of a clock's rate, in parts per million.
    pub clock_error: u32,
    /// What is waited on top of the stretched lease before an eviction, for the grain of timers.
    pub margin: Span,
    /// G: the time between TERM and KILL.
    pub grace: Span,
    /// K: the time from KILL until a process is surely dead.
    pub kill: Span,
    /// Q: so long a node must be unheard by a majority of voters before it is suspected.
    pub suspect_after: Span,
    /// R: the largest round trip that is planned for.
    pub round_trip: Span,
}

const fn ms(count: u64) -> Span {
    Span(count * 1_000_000)
}

/// A clock that errs by more than this is no clock: W would be more than one and a half times L.
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

    /// What goes into the log with each incarnation of a node.
    pub fn terms(&self) -> LeaseTerms {
        LeaseTerms { lease: self.lease, clock_error: self.clock_error, margin: self.margin }
    }

    /// W: what a voter's clock must count before a node that fell silent may be evicted.
    pub fn wait(&self) -> Span {
        self.terms().wait()
    }

    /// What one renewal of everything costs when all goes well and two renewals of a session are
    /// lost; without the grace.
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

    /// How long after the crash of a holder's node its slots are granted to others: W, the way of a
    /// promise, two commits and a request. Suspicion and an election run inside W.
    pub fn failover(&self) -> Span {
        self.wait() + self.round_trip.times(4)
    }

    /// How long a clean restart may take without stopping any client (R1).
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
            return Err(BadTiming::ClockError { given: self.clock_error });
        }
        let (sum, lease) = (self.grace + self.used(), self.lease);
        if sum > lease {
            return Err(BadTiming::Chain {
                grace: self.grace,
                kill: self.kill,
                node_ping: self.node_ping,
                session_ping: self.session_ping,
                round_trip: self.round_trip,
                sum,
                lease,
                grace_max: self.grace_max(),
            });
        }
        let (suspect_after, wait) = (self.suspect_after, self.wait());
        if suspect_after >= wait {
            return Err(BadTiming::SuspectsLate { suspect_after, wait });
        }
        let least = self.node_ping.times(2) + self.round_trip;
        if suspect_after < least {
            return Err(BadTiming::SuspectsSoon { suspect_after, least });
        }
        Ok(())
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
    /// A number that must not be zero is.
    #[error("{0} is zero: give it a length of time above zero")]
    Zero(&'static str),
    /// No clock is that bad.
    #[error(
        "clock_error {given} ppm is above {CLOCK_ERROR_MAX} ppm (20 %): use a clock that keeps better time; 10000 ppm (1 %) suits Linux"
    )]
    ClockError {
        /// What was given.
        given: u32,
    },
    /// G + K + I_n + I_s + 2R + 2 I_s <= L does not hold.
    #[error(
        "the lease is too short: grace {} + kill {} + node_ping {} + 3 session_ping {} + 2 round_trip {} = {} is above lease {}: \
         raise lease to {} or more{}",
        Shown(*grace), Shown(*kill), Shown(*node_ping), Shown(*session_ping), Shown(*round_trip), Shown(*sum), Shown(*lease), Shown(*sum),
        or_less_grace(*grace_max)
    )]
    Chain {
        /// G.
        grace: Span,
        /// K.
        kill: Span,
        /// I_n.
        node_ping: Span,
        /// I_s.
        session_ping: Span,
        /// R.
        round_trip: Span,
        /// All together.
        sum: Span,
        /// L.
        lease: Span,
        /// The longest grace that would fit; zero if none does.
        grace_max: Span,
    },
    /// Q < W does not hold.
    #[error(
        "suspect_after {} is not below {}, which is waited before an eviction anyway: lower suspect_after, a third of the lease is usual",
        Shown(*suspect_after), Shown(*wait)
    )]
    SuspectsLate {
        /// Q.
        suspect_after: Span,
        /// W.
        wait: Span,
    },
    /// Q >= 2 I_n + R does not hold.
    #[error(
        "suspect_after {} is below 2 node_ping + round_trip = {}: one lost ping would bring a healthy node under suspicion; raise suspect_after",
        Shown(*suspect_after), Shown(*least)
    )]
    SuspectsSoon {
        /// Q.
        suspect_after: Span,
        /// 2 I_n + R.
        least: Span,
    },
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

/// A length of time as people read it, cut to thousandths: `725 ms`, `4.13 s`.
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
        row("L  lease", self.lease, "an answered ping counts so long, from its sending")?;
        row("I_n node_ping", self.node_ping, "a node pings the voters so often")?;
        row("I_s session_ping", self.session_ping, "a client renews its session so often")?;
        row("G  grace", self.grace, "from TERM to KILL")?;
        row("K  kill", self.kill, "from KILL to surely dead")?;
        row("Q  suspect_after", self.suspect_after, "silence before a node is suspected")?;
        row("R  round_trip", self.round_trip, "the largest round trip that is planned for")?;
        row("   margin", self.margin, "waited on top, for the grain of timers")?;
        writeln!(
            f,
            "{:<18}{:>6} ppm  how far a clock's rate may be off",
            "   clock_error", self.clock_error
        )?;
        writeln!(f)?;
        let mut row = |name: &str, span: Span, meaning: &str| {
            writeln!(f, "{name:<18}{:>10}  {meaning}", Shown(span))
        };
        row(
            "W  wait",
            self.wait(),
            "L (1+eps)/(1-eps) + margin: nobody is evicted earlier after its last answer",
        )?;
        row(
            "   failover",
            self.failover(),
            "W + 4 R: from a node's crash to the next grant of its slots, at most",
        )?;
        row(
            "   restart",
            self.restart_max(),
            "L - G - K - I_s - 2 R: a clean restart up to this long stops nobody",
        )?;
        row(
            "   grace_max",
            self.grace_max(),
            "L - K - I_n - 3 I_s - 2 R: the longest grace that fits",
        )?;
        let spare = less(self.lease, self.grace + self.used());
        row(
            "   spare",
            spare,
            "L - (G + K + I_n + 3 I_s + 2 R): with two renewals lost nobody stops, and this is left",
        )?;
        row(
            "   suspicion",
            less(self.wait(), self.suspect_after),
            "W - Q: left for suspicion and an election inside W",
        )?;
        match self.check() {
            Ok(()) => write!(f, "all inequalities hold"),
            Err(bad) => write!(f, "REFUSED: {bad}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/internals/leases.md section 1: W, the chain, the bounds on a fail-over, of both presets.
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

    /// Each inequality is refused one nanosecond beyond it, with the numbers and what to change.
    #[test]
    fn each_inequality_is_named() {
        let told = |timing: Timing| timing.check().unwrap_err().to_string();
        let slow = Timing::DEFAULT;
        assert_eq!(
            told(Timing { grace: ms(1400), ..slow }),
            "the lease is too short: grace 1.4 s + kill 250 ms + node_ping 500 ms + 3 session_ping 500 ms + 2 round_trip 200 ms = 4.05 s \
             is above lease 4 s: raise lease to 4.05 s or more, or lower grace to 1.35 s or less"
        );
        assert!(Timing { grace: slow.grace_max() + Span(1), ..slow }.check().is_err());
        assert!(told(Timing { kill: ms(4000), ..slow }).ends_with("raise lease to 7.4 s or more"));
        assert!(Timing { suspect_after: Span(slow.wait().0 - 1), ..slow }.check().is_ok());
        assert!(
            told(Timing { suspect_after: slow.wait(), ..slow })
                .starts_with("suspect_after 4.13 s is not below 4.13 s")
        );
        assert!(Timing { suspect_after: ms(1200), ..slow }.check().is_ok());
        assert!(
            told(Timing { suspect_after: ms(1199), ..slow })
                .contains("below 2 node_ping + round_trip = 1.2 s")
        );
        assert_eq!(
            told(Timing { node_ping: Span::ZERO, ..slow }),
            "node_ping is zero: give it a length of time above zero"
        );
        assert!(
            told(Timing { clock_error: 200_001, ..slow })
                .contains("200001 ppm is above 200000 ppm")
        );
    }

    /// Numbers that fit nowhere saturate: junk in a configuration is refused, never wrapped around.
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

    /// The table has every number, and says whether all fits.
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
                .contains("REFUSED: the lease is too short")
        );
    }
}
