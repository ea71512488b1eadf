//! The timers of a node.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{NodeId, Span, Time, split_mix64};

use super::peer_message::GateId;
use super::{RequestKey, SessionId};
use crate::driver::TimerKey;

/// What to do when a timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Deadline {
    /// A timer of a gate's protocol.
    Gate(GateId, TimerKey),
    /// A timer of the detector.
    Detector(TimerKey),
    /// A request without waiting is refused, unless it was granted.
    Patience(RequestKey),
    /// A status query is answered without the nodes that are still silent.
    StatusQuery(u64),
    /// The clients of a crashed node have certainly stopped.
    ConfirmDead(NodeId),
    /// Watchers are notified of changes.
    NotifyWatchers,
    /// The node has had no lease for long: requests are refused without a quorum.
    NoQuorum,
    /// A client that was notified of a loss has certainly stopped.
    Reclaim(RequestKey),
    /// The processes of a session must end.
    EndTree(SessionId),
    /// A durable permit was not renewed within its time to live, by this node's clock.
    Expire(u64),
    /// The key that this entry marked has been used for its time to live, by this node's clock.
    ExpireOnce(u64),
    /// Asks again how far the log goes, so that permits may lapse (rule H13).
    Barrier,
    /// Proposes again whatever is missing in the log.
    Reconcile,
}

/// The running timers. Each key runs at most once; arming it again restarts it.
#[derive(Debug)]
pub(super) struct Timers {
    rng: u64,
    queue: BTreeSet<(Time, Deadline)>,
    when: BTreeMap<Deadline, Time>,
}

impl Timers {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: seed, queue: BTreeSet::new(), when: BTreeMap::new() }
    }

    /// Arms a timer to fire between `least` and `most` from now. Protocols ask for a range so that
    /// not all nodes act at once.
    pub(super) fn arm(&mut self, now: Time, due: Deadline, least: Span, most: Span) {
        self.disarm(&due);
        let width = most.0.saturating_sub(least.0);
        let drawn =
            if width == 0 { 0 } else { split_mix64(&mut self.rng) % width.saturating_add(1) };
        let at = now + least + Span(drawn);
        self.queue.insert((at, due));
        self.when.insert(due, at);
    }

    pub(super) fn runs(&self, due: &Deadline) -> bool {
        self.when.contains_key(due)
    }

    pub(super) fn disarm(&mut self, due: &Deadline) {
        if let Some(at) = self.when.remove(due) {
            self.queue.remove(&(at, *due));
        }
    }

    /// Removes and returns the next timer that is due by now.
    pub(super) fn pop(&mut self, now: Time) -> Option<Deadline> {
        let &(at, due) = self.queue.first().filter(|first| first.0 <= now)?;
        self.queue.remove(&(at, due));
        self.when.remove(&due);
        Some(due)
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.queue.first().map(|first| first.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Timers fire in the order of time. Arming restarts a timer, and its range is kept.
    #[test]
    fn each_runs_once() {
        let mut timers = Timers::new(1);
        timers.arm(Time(0), Deadline::StatusQuery(1), Span(10), Span(10));
        timers.arm(Time(0), Deadline::StatusQuery(2), Span(5), Span(8));
        timers.arm(Time(0), Deadline::StatusQuery(3), Span(1), Span(1));
        timers.disarm(&Deadline::StatusQuery(3));
        timers.arm(Time(2), Deadline::StatusQuery(1), Span(1), Span(1));
        assert_eq!((timers.next(), timers.pop(Time(2))), (Some(Time(3)), None));
        assert_eq!(timers.pop(Time(20)), Some(Deadline::StatusQuery(1)));
        assert!((Time(5)..=Time(8)).contains(&timers.next().unwrap()));
        assert_eq!(
            (timers.pop(Time(20)), timers.pop(Time(20))),
            (Some(Deadline::StatusQuery(2)), None)
        );
    }
}
