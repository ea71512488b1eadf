//! What is due when.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{NodeId, Span, Time, split_mix64};

use super::RequestKey;
use super::peer_message::GateId;
use crate::driver::TimerKey;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Deadline {
    /// A timer of a gate's protocol.
    Gate(GateId, TimerKey),
    /// A timer of the detector.
    Detector(TimerKey),
    /// A client that does not want to wait has waited.
    Patience(RequestKey),
    /// Whoever was asked what it sees has had the time to answer.
    StatusQuery(u64),
    /// The clients of a node that has crashed are surely gone.
    ConfirmDead(NodeId),
    /// What has changed is told.
    NotifyWatchers,
    /// The lease has been over for long.
    NoQuorum,
    /// Whoever was told that its permit no longer counts has surely ended.
    Reclaim(RequestKey),
    /// A permit of the log was not renewed in time, as this node counts it.
    Expire(u64),
    /// This node takes part as it should, or something is proposed again.
    Reconcile,
}

/// All timers that run. Each runs once at most; armed again, it starts anew.
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

    /// Due between `least` and `most` from now: where protocols ask for a range, so that not all
    /// act at once.
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

    /// The next that is due by now.
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

    /// In the order of time; armed again it starts anew; disarmed it is gone; a range is kept.
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
