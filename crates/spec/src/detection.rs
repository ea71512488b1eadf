//! Detection of crashes: complete within a bound, and accurate.
//!
//! - *Completeness*: every live process suspects a process that crashed for good, no later than a
//!   bound after the crash. The bound is the detector's claim: log2(n)^2 rounds of tests, besides
//!   the one in which the crash falls, for VCube (vcube-2018 section 4) and for Hi-ADSD
//!   (robust-2012 section 3.1); two intervals, a timeout and a delay for heartbeats; the time that
//!   an oracle was given.
//! - *Accuracy*: no live process is suspected (vcube-2018 section 3: the detector is perfect where
//!   delays have a bound).
//!
//! Both are of the class P of Chandra and Toueg 1996.
//!
//! Not checked: completeness of a crash so late that the run ends before the bound; of crashes with
//! recovery; and of algorithms that detect crashes without a bound (timer-free-2009: T8).

use kgate_core::{NodeId, Span, Time};

use crate::Violation;

/// Every crash is known to every live process within a bound.
#[derive(Clone, Copy, Debug)]
pub struct Completeness {
    bound: Span,
}

/// A permanent crash, as the checker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The process that crashed.
    pub node: NodeId,
    /// The time of the crash.
    pub at: Time,
    /// The time at which the last live process learnt of it, if all know.
    pub known_at: Option<Time>,
    /// Live processes that do not know of it.
    pub unaware: Vec<NodeId>,
}

impl Completeness {
    /// The property's name.
    pub const NAME: &'static str = "every crash is known within the bound";

    /// A checker with this bound.
    pub fn new(bound: Span) -> Self {
        Self { bound }
    }

    /// The verdict on one crash at time `now` of the run.
    pub fn verdict(&self, loss: &Loss, now: Time) -> Option<Violation> {
        let due = loss.at + self.bound;
        let unaware = !loss.unaware.is_empty() && now > due;
        let late = loss.known_at.is_some_and(|known| known > due);
        (unaware || late).then(|| {
            let how = match loss.known_at {
                Some(known) => format!("was known to all only at t={known}"),
                None => format!("is unknown to {:?} at t={now}", loss.unaware),
            };
            Violation {
                property: Self::NAME,
                at_ns: now,
                nodes: loss.unaware.iter().copied().chain([loss.node]).collect(),
                text: format!(
                    "the crash of {} at t={} {how}; the bound is {}",
                    loss.node, loss.at, self.bound
                ),
            }
        })
    }
}

/// No live process is suspected.
#[derive(Clone, Copy, Debug)]
pub struct Accuracy;

impl Accuracy {
    /// The property's name.
    pub const NAME: &'static str = "no live process is suspected";

    /// `by` suspects `whom`, which is `alive` or not.
    pub fn suspected(by: NodeId, whom: NodeId, alive: bool, now: Time) -> Option<Violation> {
        alive.then(|| Violation {
            property: Self::NAME,
            at_ns: now,
            nodes: vec![by, whom],
            text: format!("{by} suspects {whom}, which is alive"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(known_at: Option<u64>, unaware: &[u32]) -> Loss {
        let unaware = unaware.iter().copied().map(NodeId).collect();
        Loss { node: NodeId(4), at: Time(100), known_at: known_at.map(Time), unaware }
    }

    /// Planted bugs: a process does not know after the bound, or learnt of the crash too late. In
    /// time, and before the bound, there is no violation.
    #[test]
    fn catches_a_process_that_never_learns() {
        let checker = Completeness::new(Span(50));
        assert_eq!(checker.verdict(&loss(Some(150), &[]), Time(900)), None, "just in time");
        assert_eq!(checker.verdict(&loss(None, &[2]), Time(150)), None, "too soon to say");
        assert_eq!(checker.verdict(&loss(None, &[]), Time(900)), None, "no live process is left");
        let violation = checker.verdict(&loss(None, &[2]), Time(151)).expect("p2 does not know");
        assert_eq!(violation.nodes, [NodeId(2), NodeId(4)]);
        assert!(checker.verdict(&loss(Some(151), &[]), Time(900)).is_some(), "late");
    }

    /// Planted bug: a live process is suspected.
    #[test]
    fn catches_a_wrong_suspicion() {
        assert!(Accuracy::suspected(NodeId(1), NodeId(2), true, Time(3)).is_some());
        assert_eq!(Accuracy::suspected(NodeId(1), NodeId(2), false, Time(3)), None);
    }
}
