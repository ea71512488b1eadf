//! Crashes, restarts and crash notifications: by a detector, by the oracle that replaces it, or by
//! the protocol itself.

use kgate_core::{Incarnation, Input, NodeId, Phase, Protocol, Span, Time, TransientFaults};
use kgate_spec::trace;

use super::event::{Event, EventOf};
use super::incarnations::MembershipEvent;
use super::{Label, Simulation};
use crate::config::Detector;
use crate::faults::Down;
use crate::queue::EventQueue;
use crate::run_trace::described;

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// A process crashes permanently.
    pub(super) fn crash(&mut self, node: NodeId) {
        self.count(node, Label::bare(7));
        self.write(node, &trace::Event::Crash);
        self.end_incarnation(node);
        self.crashed += 1;
        let mut others = self.alive.clone();
        others.extend(self.down.keys().map(|down| down.index()));
        if self.config.claims.follows_log {
            if self.is_listed(node) {
                self.awareness.lost(node, self.now, others);
            } else {
                self.awareness.gone(node, self.now);
            }
            return self.silent(node);
        }
        self.awareness.lost(node, self.now, others);
        if self.config.claims.returns {
            return self.record(node, MembershipEvent::Crashed);
        }
        if let Some(within) = self.config.notification_bound() {
            for other in self.live() {
                self.schedule_crash_notice(other, node, within);
            }
        }
    }

    /// Schedules a crash notification from the oracle; a log notifies every process in the same
    /// order.
    fn schedule_crash_notice(&mut self, node: NodeId, crashed: NodeId, within: Span) {
        let mut at = self.now + Span(self.notification_rng.within(1.min(within.0), within.0));
        if self.config.claims.detector == Some(Detector::Log) {
            let last = self.last_notification.entry(node).or_insert(Time::ZERO);
            at = at.max(*last);
            *last = at;
        }
        let incarnation = self.incarnation_of(node);
        self.queue.push(at, Event::CrashNotice { node, crashed, incarnation });
    }

    /// A process crashes and will restart. Its client waits on if it waits, and is gone if it is
    /// inside.
    pub(super) fn go_down(&mut self, node: NodeId) {
        if self.config.claims.returns {
            return self.go_down_empty(node);
        }
        self.count(node, Label::bare(9));
        self.write(node, &trace::Event::Crash);
        let was_inside = self.leave(node);
        self.checkers.released(node);
        self.checkers.audit.crashed(node);
        self.mutex_timers.retain(|(at, _), _| *at != node);
        self.down.insert(node, was_inside && !self.checkers.is_waiting(node));
    }

    /// A process stops taking part; true if a client of it was inside.
    pub(super) fn leave(&mut self, node: NodeId) -> bool {
        self.alive.remove(node.index());
        self.deliver_deferred(node);
        if self.config.claims.follows_log {
            return false; // Its clients outlive it.
        }
        let weight = self.drop_grants(node);
        if weight > 0 {
            self.stats.inside.change(self.now, -i64::from(weight));
        }
        weight > 0
    }

    /// A process restarts with what it had stored, and receives the messages kept for it.
    pub(super) fn come_back(&mut self, node: NodeId) {
        if self.config.claims.returns {
            return self.restart_empty(node);
        }
        self.recoveries += 1;
        self.count(node, Label::bare(10));
        self.write(node, &trace::Event::Restart { incarnation: None });
        let asks = self.down.remove(&node).expect("it was down");
        self.alive.insert(node.index());
        // Messages in flight to this process or in its queues belong to the incarnation before.
        *self.incarnations.entry(node).or_default() += 1;
        self.last_notification.remove(&node);
        self.network.empty_queues(node, self.now);
        let stored = self.stored.get(&node).cloned();
        self.mutexes[node.index()] =
            M::start(&self.config.setup(node), stored, &mut self.mutex_out);
        self.carry_out_mutex(node);
        if self.checkers.audit.observes_inputs() {
            self.check_tokens(node);
        }
        for (from, message) in self.held_messages.remove(&node).unwrap_or_default() {
            self.queue.push(self.now, Event::Deliver { from, to: node, message });
        }
        if let Some(within) = self.config.notification_bound() {
            for crashed in self.awareness.unnotified_of(node) {
                self.schedule_crash_notice(node, crashed, within);
            }
        }
        let idle = self.mutexes[node.index()].observe().phase == Phase::Idle;
        if asks && idle && !self.checkers.is_waiting(node) && !self.due.contains(node.index()) {
            self.schedule_next_request(node);
        }
    }

    /// The number of restarts of `node`.
    pub(super) fn incarnation_of(&self, node: NodeId) -> u32 {
        self.incarnations.get(&node).copied().unwrap_or(0)
    }

    /// Handles a message to a process that is not alive: lost, or kept if the process will restart.
    #[cold]
    pub(super) fn keep(&mut self, from: NodeId, to: NodeId, message: M::Message) {
        if self.config.down == Down::Kept && self.down.contains_key(&to) {
            self.held_messages.entry(to).or_default().push((from, message));
        } else {
            self.write_lost(from, to, &message);
        }
    }

    /// Writes a lost message to the trace.
    pub(super) fn write_lost(&mut self, from: NodeId, to: NodeId, message: &M::Message) {
        if self.trace.is_on() {
            let (kind, text) = described(message);
            self.write(to, &trace::Event::Lost { kind: kind.into(), from, message: text.into() });
        }
    }

    /// Notifies `node` of the crash of `crashed`.
    pub(super) fn notify_crash(&mut self, node: NodeId, crashed: NodeId) {
        if self.alive.contains(node.index()) {
            self.suspect(node, crashed);
            self.mutex_input(
                node,
                Label::of(8, crashed, 0),
                Input::Crashed { node: crashed, incarnation: Incarnation::default() },
            );
        }
    }

    /// `node` suspects `crashed`; the checkers check that it has crashed.
    pub(super) fn suspect(&mut self, node: NodeId, crashed: NodeId) {
        self.checkers.audit.crash_notified(node, crashed);
        let alive = !self.awareness.learn(node, crashed, self.now);
        self.stats.false_suspicions += u64::from(alive);
        self.checkers.suspected(node, crashed, alive, self.now);
        self.write(node, &trace::Event::Suspected { whom: crashed });
    }
}
