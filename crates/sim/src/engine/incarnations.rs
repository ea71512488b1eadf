//! Processes that restart without state, in a new incarnation, and the processes notified of it.
//!
//! With [`MembershipSource::Log`] every process is notified of every crash and every return, in one
//! order, each at a time of its own. The j-th return overall begins incarnation j; a restarted
//! process is notified of the whole log from its beginning. All processes may be down at once: the
//! log continues.
//!
//! With [`MembershipSource::Join`] no process is notified of returns: a restarted process announces
//! itself. Notifications of crashes name a process and its incarnation and reach every live
//! process, in any order. A restarted process is notified only of processes that are down at that
//! time. A detector that starts anew knows of no earlier incarnations, and a notification about one
//! would let the joiner proceed without a process that is up (`docs/internals/slots.md`).
//!
//! The clients of a process that crashes are gone with it, waiting or inside; new ones ask after
//! the restart.

use std::collections::BTreeMap;

use kgate_core::{
    Incarnation, Input, MembershipSource, NodeId, Protocol, Setup, Span, Time, TransientFaults,
    ViewId,
};
use kgate_spec::trace;

use super::event::{Event, EventOf};
use super::{Label, Simulation};
use crate::config::Config;
use crate::queue::EventQueue;

/// The crashes and returns so far.
pub(super) struct Incarnations {
    membership: MembershipSource,
    records: Vec<Record>,
    /// The current incarnation of each process, where it is not the first.
    incarnations: BTreeMap<NodeId, Incarnation>,
    /// The number of returns.
    returned: u32,
}

/// A crash or a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) of: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) what: MembershipEvent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MembershipEvent {
    /// The process crashed and will restart.
    Down,
    /// The process crashed permanently.
    Crashed,
    /// The process restarted.
    Joined,
}

impl Incarnations {
    pub(super) fn new(config: &Config) -> Self {
        let membership = config.slots.membership;
        Self { membership, records: Vec::new(), incarnations: BTreeMap::new(), returned: 0 }
    }

    pub(super) fn record(&self, place: u32) -> Record {
        self.records[place as usize]
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.membership == MembershipSource::Log
    }
}

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// A process crashes and will restart in a new incarnation.
    pub(super) fn go_down_empty(&mut self, node: NodeId) {
        self.count(node, Label::bare(9));
        self.write(node, &trace::Event::Crash);
        self.end_incarnation(node);
        self.mutex_timers.retain(|(at, _), _| *at != node);
        self.down.insert(node, false);
        self.awareness.forgets(node);
        if self.config.claims.follows_log {
            return self.silent(node);
        }
        self.record(node, MembershipEvent::Down);
    }

    /// Ends the incarnation of a process and its clients.
    pub(super) fn end_incarnation(&mut self, node: NodeId) {
        self.leave(node);
        self.stats.waiting.change(self.now, -self.checkers.waiting_of(node));
        if self.config.claims.follows_log {
            self.checkers.stopped_waiting(node);
            self.pending_requests.forget(node);
            return self.silence_permits(node);
        }
        self.checkers.crashed(node);
        self.pending_requests.forget(node);
    }

    /// A process begins a new incarnation.
    pub(super) fn restart_empty(&mut self, node: NodeId) {
        self.recoveries += 1;
        self.count(node, Label::bare(10));
        self.down.remove(&node);
        self.alive.insert(node.index());
        *self.incarnations.entry(node).or_default() += 1;
        let incarnation = self.incarnation_of(node);
        self.write(node, &trace::Event::Restart { incarnation: Some(incarnation) });
        self.last_notification.remove(&node);
        self.network.empty_queues(node, self.now);
        let setup = if self.config.claims.follows_log {
            self.rejoin(node)
        } else {
            self.checkers.resized(node, self.config.k);
            Setup { incarnation: Incarnation(incarnation), ..self.config.setup(node) }
        };
        self.mutexes[node.index()] = M::start(&setup, None, &mut self.mutex_out);
        self.carry_out_mutex(node);
        if !self.config.claims.follows_log {
            self.announce_return(node, incarnation);
        }
        if self.config.asks(node) {
            (0..self.config.load.clients).for_each(|_| self.schedule_next_request(node));
        }
    }

    /// Announces a return, and to the process what it has missed.
    fn announce_return(&mut self, node: NodeId, incarnation: u32) {
        self.membership.returned += 1;
        let number =
            if self.membership.is_ordered() { self.membership.returned } else { incarnation };
        self.membership.incarnations.insert(node, Incarnation(number));
        // The past first: the log from its beginning, with the process's own return last.
        for place in 0..self.membership.records.len() {
            if self.membership.is_ordered() || self.is_still_down(self.membership.records[place]) {
                self.schedule_membership_notice(node, place);
            }
        }
        if self.membership.is_ordered() {
            self.record(node, MembershipEvent::Joined);
        }
        self.announce_resizes(node);
    }

    /// Whether the process of that record is still down.
    fn is_still_down(&self, Record { of, incarnation, .. }: Record) -> bool {
        let present = self.membership.incarnations.get(&of).copied().unwrap_or_default();
        !self.alive.contains(of.index()) && incarnation == present
    }

    /// Records an event of `node` and schedules a notification to every live process.
    pub(super) fn record(&mut self, node: NodeId, what: MembershipEvent) {
        let incarnation = self.membership.incarnations.get(&node).copied().unwrap_or_default();
        self.membership.records.push(Record { of: node, incarnation, what });
        let place = self.membership.records.len() - 1;
        for other in self.live() {
            self.schedule_membership_notice(other, place);
        }
    }

    /// Schedules the notification of `node` about that record.
    fn schedule_membership_notice(&mut self, node: NodeId, place: usize) {
        let is_ordered = self.membership.is_ordered();
        if !is_ordered && self.membership.records[place].of == node {
            return; // A perfect detector reports other processes only.
        }
        let mut at =
            self.now + Span(self.notification_rng.within(0, self.notification_delay_max().0));
        if is_ordered {
            let last = self.last_notification.entry(node).or_insert(Time::ZERO);
            at = at.max(*last);
            *last = at;
        }
        let (incarnation, place) =
            (self.incarnation_of(node), u32::try_from(place).expect("few crashes"));
        self.queue.push(at, Event::MembershipNotice { node, incarnation, place });
    }

    /// The time within which every process is notified of a crash, a return or a change of k.
    pub(super) fn notification_delay_max(&self) -> Span {
        self.config.notification_bound().unwrap_or(self.config.detection.interval)
    }

    /// Notifies `node` of a crash or a return, unless the notification was for another incarnation
    /// of it.
    pub(super) fn on_membership_notice(&mut self, node: NodeId, incarnation: u32, place: u32) {
        if self.incarnation_of(node) != incarnation || !self.alive.contains(node.index()) {
            return;
        }
        let Record { of, incarnation, what } = self.membership.record(place);
        let number = u64::from(incarnation.0);
        if what == MembershipEvent::Joined {
            self.write(node, &trace::Event::Joined { whom: of });
            self.mutex_input(
                node,
                Label::of(15, of, number),
                Input::Joined { node: of, incarnation, view: ViewId(incarnation.0) },
            );
            return;
        }
        if what == MembershipEvent::Crashed {
            self.awareness.learn(node, of, self.now);
        }
        self.write(node, &trace::Event::Suspected { whom: of });
        self.mutex_input(node, Label::of(8, of, number), Input::Crashed { node: of, incarnation });
    }
}
