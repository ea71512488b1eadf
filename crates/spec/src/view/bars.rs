//! The intervals in which each process waits and holds slots.
//!
//! A process may have several clients: it waits as long as one of them waits, and holds as long as
//! one of them holds. In the state model an enabled process is shown as waiting.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Time};

use crate::trace::reader::{Event, Record};

/// An interval in which the clients of a process wait or hold slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) node: NodeId,
    pub(crate) from: Time,
    /// The end; the last time seen if the interval is open.
    pub(crate) until: Time,
    pub(crate) inside: bool,
    /// Whether the interval has not ended.
    pub(crate) open: bool,
}

/// Makes bars of events.
#[derive(Default)]
pub(crate) struct Bars {
    waiting: BTreeMap<NodeId, Time>,
    inside: BTreeMap<NodeId, Time>,
    /// Numbers of waiting clients and of grants, by process.
    counts: BTreeMap<NodeId, (u32, u32)>,
    ended: Vec<Bar>,
}

impl Bars {
    /// Processes an event, and returns the bars that end with it.
    pub(crate) fn see(&mut self, record: &Record) -> std::vec::Drain<'_, Bar> {
        let (node, now) = (record.node, record.t);
        match &record.event {
            Event::Acquire { .. } => {
                self.counts.entry(node).or_default().0 += 1;
                self.waiting.entry(node).or_insert(now);
            }
            Event::Granted { grant, .. } => {
                self.waits_no_longer(node, now);
                if self.goes_in(node) || grant.is_none() {
                    self.end_bar(node, true, now);
                    self.inside.insert(node, now);
                }
            }
            Event::Release { grant } => {
                if self.comes_out(node) || grant.is_none() {
                    self.end_bar(node, true, now);
                }
            }
            Event::Withdraw | Event::TooLarge { .. } => self.waits_no_longer(node, now),
            Event::Crash => {
                self.counts.entry(node).or_default().1 = 0;
                self.end_bar(node, true, now);
                self.end_bar(node, false, now);
            }
            Event::Restart { incarnation } => self.comes_back(node, incarnation.is_some(), now),
            Event::Enabled { actions, inside } => {
                self.end_bar(node, true, now);
                self.end_bar(node, false, now);
                if *inside {
                    self.inside.insert(node, now);
                } else if !actions.is_empty() {
                    self.waiting.insert(node, now);
                }
            }
            Event::Requested
            | Event::Resize { .. }
            | Event::Send { .. }
            | Event::Deliver { .. }
            | Event::Lost { .. }
            | Event::Duplicated { .. }
            | Event::Fault
            | Event::Recovered
            | Event::Pause
            | Event::Resume
            | Event::Suspected { .. }
            | Event::Joined { .. }
            | Event::Moved { .. }
            | Event::Violated { .. }
            | Event::Other => {}
        }
        self.ended.drain(..)
    }

    /// The bars that are still open.
    pub(crate) fn rest(self, until: Time) -> impl Iterator<Item = Bar> {
        let open = |inside| move |(node, from)| Bar { node, from, until, inside, open: true };
        self.waiting.into_iter().map(open(false)).chain(self.inside.into_iter().map(open(true)))
    }

    /// One client of a process stops waiting; the bar ends with the last one.
    fn waits_no_longer(&mut self, node: NodeId, now: Time) {
        let waiting = &mut self.counts.entry(node).or_default().0;
        *waiting = waiting.saturating_sub(1);
        if *waiting == 0 {
            self.end_bar(node, false, now);
        }
    }

    /// A client is granted; returns whether it is the only holder of its process.
    fn goes_in(&mut self, node: NodeId) -> bool {
        let inside = &mut self.counts.entry(node).or_default().1;
        *inside += 1;
        *inside == 1
    }

    /// A client releases; returns whether it was the last holder of its process.
    fn comes_out(&mut self, node: NodeId) -> bool {
        let inside = &mut self.counts.entry(node).or_default().1;
        *inside = inside.saturating_sub(1);
        *inside == 0
    }

    /// Waiting clients still wait after a recovery, but not in a new incarnation.
    fn comes_back(&mut self, node: NodeId, new: bool, now: Time) {
        let waiting = &mut self.counts.entry(node).or_default().0;
        if new {
            *waiting = 0;
        } else if *waiting > 0 {
            self.waiting.insert(node, now);
        }
    }

    fn end_bar(&mut self, node: NodeId, inside: bool, now: Time) {
        let begun = if inside { self.inside.remove(&node) } else { self.waiting.remove(&node) };
        if let Some(from) = begun {
            self.ended.push(Bar { node, from, until: now, inside, open: false });
        }
    }
}
