//! Clients: when they ask, enter and leave. Each asks in a closed loop; of several clients at one
//! process, the first to ask is served first.

use kgate_core::{Fence, GrantId, Input, NodeId, Notice, Protocol, Span, Time, TransientFaults};
use kgate_spec::trace;

use super::event::{Event, EventOf};
use super::{Label, Simulation};
use crate::queue::EventQueue;

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// A scheduled request is due. Where processes restart without state, a request of an earlier
    /// incarnation is void.
    pub(super) fn acquire(&mut self, node: NodeId, incarnation: u32) {
        self.due.remove(node.index());
        if self.config.claims.slots && !self.take_due(node, incarnation) {
            return;
        }
        if let Some(asks) = self.down.get_mut(&node) {
            *asks = true; // It asks after the restart.
        } else if self.asking && self.alive.contains(node.index()) {
            self.check_deadlock();
            let weight = if self.config.claims.slots { self.sample_weight(node) } else { 1 };
            self.request(node, weight);
        }
    }

    pub(super) fn request(&mut self, node: NodeId, weight: u32) {
        self.stats.requests += 1;
        self.stats.waiting.change(self.now, 1);
        self.checkers.asked(node, self.now);
        self.write(node, &trace::Event::Acquire { weight });
        if self.config.claims.slots {
            self.start_waiting(node, weight);
        }
        self.mutex_input(node, Label::of(5, NodeId(weight - 1), 0), Input::Acquire { weight });
    }

    /// A client releases its grant, unless its process has crashed since.
    pub(super) fn release(&mut self, node: NodeId, grant: GrantId) {
        if self.config.claims.follows_log {
            self.finish((node, grant));
        } else if self.end_grant(node, grant) {
            self.mutex_input(node, Label::bare(6), Input::Release { grant });
            if !self.config.load.ask_inside {
                self.schedule_next_request(node);
            }
        }
    }

    /// Ends a grant; false if it was not in use.
    pub(super) fn end_grant(&mut self, node: NodeId, grant: GrantId) -> bool {
        let Some(weight) = self.held.remove(&(node, grant)) else { return false };
        self.stats.inside.change(self.now, -i64::from(weight));
        if self.config.claims.slots {
            self.checkers.released_slots(node, grant);
            self.write(node, &trace::Event::Release { grant: Some(grant.0) });
        } else {
            self.checkers.released(node);
            self.write(node, &trace::Event::Release { grant: None });
        }
        true
    }

    /// Schedules the client's next request after a pause.
    pub(super) fn schedule_next_request(&mut self, node: NodeId) {
        let load = &self.config.load;
        let asked =
            self.checkers.requests_of(node).saturating_add(self.pending_requests.due_at(node));
        let more = load.entries.is_none_or(|most| asked < most.saturating_mul(load.clients));
        if self.asking && more {
            let pause = if load.ask_inside {
                Span(load.hold.0 / 2)
            } else {
                load.think.sample(&mut self.think_rng)
            };
            self.schedule_request(self.now + pause, node);
        }
    }

    pub(super) fn schedule_request(&mut self, at: Time, node: NodeId) {
        let mut incarnation = 0;
        if self.config.claims.slots {
            incarnation = self.incarnation_of(node);
            self.pending_requests.due(node);
        }
        self.due.insert(node.index());
        self.queue.push(at, Event::Acquire { node, incarnation });
    }

    /// Handles a notice of a mutex protocol to its client.
    pub(super) fn noted(&mut self, node: NodeId, notice: &Notice) {
        match notice {
            Notice::Granted { grant, slots, fence } => {
                if self.config.claims.slots {
                    self.granted_slots(node, *grant, slots.as_deref(), *fence);
                } else {
                    self.granted(node, *grant, slots.as_deref(), *fence);
                }
                self.queue
                    .push(self.now + self.config.load.hold, Event::Release { node, grant: *grant });
            }
            Notice::Asked => {
                self.checkers.broadcast(node, self.now);
                let stamp = self.stamp_of(node);
                self.checkers.audit.asked(stamp);
                self.write(node, &trace::Event::Requested);
            }
            // The protocol detects crashes itself.
            Notice::Suspected { node: whom, .. } => {
                self.stats.suspicions += 1;
                self.suspect(node, *whom);
            }
            Notice::Lost { grant } if self.config.claims.follows_log => {
                self.lost_permit(node, *grant)
            }
            Notice::Lost { grant } => self.lost_grant(node, *grant),
            Notice::Adopted { grant, fence, attempt } => {
                self.adopted(node, *grant, *fence, *attempt)
            }
            // The client asks again of its own accord.
            Notice::AdoptionRefused { .. } => {}
            Notice::TooLarge { weight, most } => self.request_too_large(node, *weight, *most),
        }
    }

    fn granted(
        &mut self,
        node: NodeId,
        grant: GrantId,
        slots: Option<&[u32]>,
        fence: Option<Fence>,
    ) {
        self.stats.grants += 1;
        self.stats.waiting.change(self.now, -1);
        let weight = self.drop_grants(node);
        self.held.insert((node, grant), 1);
        if weight == 0 {
            self.stats.inside.change(self.now, 1);
        }
        if self.config.load.ask_inside {
            self.schedule_next_request(node);
        }
        let stamp = self.stamp_of(node);
        let times = self.checkers.granted(node, self.now, slots, fence, stamp);
        self.write_granted(
            times,
            node,
            granted_event(slots, fence, stamp.map(|stamp| stamp.clock), None),
        );
    }

    /// Records the obtaining times of a grant and writes it to the trace.
    pub(super) fn write_granted<'e>(
        &mut self,
        (from_request, from_broadcast): (Span, Span),
        node: NodeId,
        event: impl FnOnce() -> trace::Event<'e>,
    ) {
        self.stats.obtaining.push(from_request);
        self.stats.obtaining_from_broadcast.push(from_broadcast);
        if self.trace.is_on() {
            self.write(node, &event());
            self.write_violations();
        }
    }

    /// Whether a client of `node` is inside.
    pub(super) fn is_inside(&self, node: NodeId) -> bool {
        self.grants_of(node).next().is_some()
    }

    /// The grants of `node` in use, in the order of their numbers.
    pub(super) fn grants_of(&self, node: NodeId) -> impl Iterator<Item = GrantId> + '_ {
        self.held
            .range((node, GrantId(0))..=(node, GrantId(u64::MAX)))
            .map(|((_, grant), _)| *grant)
    }

    /// Drops all grants of `node`; the sum of their weights.
    pub(super) fn drop_grants(&mut self, node: NodeId) -> u32 {
        let grants: Vec<GrantId> = self.grants_of(node).collect();
        grants.iter().filter_map(|grant| self.held.remove(&(node, *grant))).sum()
    }
}

/// A grant as an event of the trace.
pub(super) fn granted_event<'e>(
    slots: Option<&'e [u32]>,
    fence: Option<Fence>,
    stamp: Option<u64>,
    grant: Option<GrantId>,
) -> impl FnOnce() -> trace::Event<'e> {
    move || trace::Event::Granted {
        slots: slots.unwrap_or_default().into(),
        fence: fence.map(|fence| format!("{:#x}", fence.0)),
        stamp,
        grant: grant.map(|grant| grant.0),
    }
}
