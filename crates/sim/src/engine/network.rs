//! What a send costs, and when its copies arrive.

use std::collections::BTreeMap;

use kgate_core::{Message, NodeId, Protocol, Span, Time, To, TransientFaults};
use kgate_spec::trace;

use super::Simulation;
use super::disturbances::NetworkFaults;
use super::event::{Event, EventOf};
use crate::config::Config;
use crate::cost::{Cost, ReceiveCost, SendCost};
use crate::latency::Latency;
use crate::queue::EventQueue;
use crate::rng::Rng;

/// How far ahead most events are scheduled: a delay, and some waiting in the send queue. The queue
/// moves events beyond that once more, so a long send queue does no harm.
pub(super) fn typical_delay(config: &Config) -> Span {
    let cost = &config.cost;
    cost.send.times(64) + cost.latency.typical() + cost.receive
}

/// The state of the network: when each process's queues are free, and the order of its channels.
pub(super) struct Network {
    /// Sending takes no time and copies never wait: their arrival depends on the latency alone.
    at_once: bool,
    /// Messages could overtake each other, and channels are FIFO.
    force_order: bool,
    /// The seed of latencies that are fixed per pair.
    seed: u64,
    rng: Rng,
    probe_rng: Rng,
    /// When each process's send queue is free; empty if sending takes no time.
    send_free: Vec<Time>,
    /// When each process's receive queue is free; empty unless receives wait for each other.
    receive_free: Vec<Time>,
    receive: Span,
    /// When the last message of each channel arrives, where FIFO order must be enforced.
    last: BTreeMap<(NodeId, NodeId), Time>,
    latest: Option<Time>,
    /// The end of the last process that crashed with messages in its send queue. Those are in no
    /// event queue.
    stuck_until: Option<Time>,
    /// The faults of the network, if it has any.
    pub(super) faults: Option<NetworkFaults>,
}

impl Network {
    pub(super) fn new(config: &Config) -> Self {
        let cost = &config.cost;
        let rows = |wanted: bool| {
            if wanted { vec![Time::ZERO; config.nodes as usize] } else { Vec::new() }
        };
        let parallel = cost.receive_cost == ReceiveCost::Parallel;
        let staggered = cost.send_cost == SendCost::Staggered && cost.send > Span::ZERO;
        let overtaking = cost.latency.reorders() || staggered;
        let force_order = cost.fifo && overtaking;
        Self {
            at_once: cost.send == Span::ZERO
                && parallel
                && !force_order
                && !config.disturbance.any(),
            force_order,
            seed: config.seed,
            rng: Rng::fork(config.seed, "latency"),
            probe_rng: Rng::fork(config.seed, "probes"),
            send_free: rows(cost.send_cost == SendCost::Queue && cost.send > Span::ZERO),
            receive_free: rows(cost.receive_cost == ReceiveCost::Queue),
            receive: cost.receive,
            last: BTreeMap::new(),
            latest: config.transient.any().then_some(Time::ZERO),
            stuck_until: None,
            faults: NetworkFaults::new(config),
        }
    }

    /// When the last message sent so far arrives; known only where transient faults are to come.
    pub(super) fn latest(&self) -> Time {
        self.latest.unwrap_or_default()
    }

    /// Whether a message is in a send queue that it will never leave.
    pub(super) fn is_stuck(&self, now: Time) -> bool {
        self.stuck_until >= Some(now)
    }

    pub(super) fn note_arrival(&mut self, at: Time) {
        if let Some(latest) = &mut self.latest {
            *latest = at.max(*latest);
        }
    }

    /// A process restarts: its queues are empty.
    pub(super) fn empty_queues(&mut self, node: NodeId, now: Time) {
        for free in [&mut self.send_free, &mut self.receive_free] {
            if let Some(free) = free.get_mut(node.index()) {
                *free = now;
            }
        }
    }

    /// When a message that has arrived at `to` is received.
    pub(super) fn receive(&mut self, to: NodeId, arrived: Time) -> Time {
        let free = &mut self.receive_free[to.index()];
        *free = arrived.max(*free) + self.receive;
        *free
    }

    /// When a copy that leaves at `departure` arrives.
    #[inline]
    fn arrival(&mut self, cost: &Cost, from: NodeId, to: NodeId, departure: Time) -> Time {
        let at = self.undisturbed_arrival(cost, from, to, departure);
        self.in_order(from, to, at)
    }

    /// The arrival in a network with faults, and whether it is late; none if the message is lost.
    pub(super) fn arrival_with_faults(
        &mut self,
        cost: &Cost,
        from: NodeId,
        to: NodeId,
        departure: Time,
    ) -> Option<(Time, bool)> {
        let planned = self.undisturbed_arrival(cost, from, to, departure);
        let at = self
            .faults
            .as_ref()
            .map_or(Some(planned), |faults| faults.after_cuts(from, to, planned))?;
        Some((self.in_order(from, to, at), at > planned))
    }

    #[inline]
    fn undisturbed_arrival(
        &mut self,
        cost: &Cost,
        from: NodeId,
        to: NodeId,
        departure: Time,
    ) -> Time {
        let mut at = departure + cost.latency.sample(&mut self.rng, self.seed, from, to);
        if cost.receive_cost == ReceiveCost::Parallel {
            at += cost.receive;
        }
        at
    }

    #[inline]
    fn in_order(&mut self, from: NodeId, to: NodeId, mut at: Time) -> Time {
        if self.force_order {
            let last = self.last.entry((from, to)).or_default();
            at = at.max(*last);
            *last = at;
        }
        at
    }
}

/// The departure times of the copies of one send.
struct Departures {
    next: Time,
    step: Span,
}

impl Departures {
    fn next(&mut self) -> Time {
        self.next += self.step;
        self.next
    }
}

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// A mutex protocol sends a message.
    #[inline(always)]
    pub(super) fn send(&mut self, from: NodeId, to: To, message: M::Message) {
        let kind = message.kind();
        if self.trace.is_on() {
            self.write_send(from, &to, M::Message::kind_name(kind), &message);
        }
        if self.network.at_once {
            self.send_at_once(from, to, kind, message);
        } else {
            self.send_in_turn(from, to, kind, message);
        }
    }

    /// The fast path, for a network in which nothing waits.
    #[inline(always)]
    fn send_at_once(&mut self, from: NodeId, to: To, kind: usize, message: M::Message) {
        match to {
            To::One(to) => self.send_now(from, to, kind, message),
            To::Many(nodes) => {
                for &to in &nodes {
                    self.send_now(from, to, kind, message.clone());
                }
            }
            To::All if Q::RECORDS && matches!(self.config.cost.latency, Latency::Constant(_)) => {
                self.count_sent(from, kind, self.config.nodes - 1, self.now);
                let at = self.arrival_now(from, from);
                self.queue.push(at, Event::DeliverAll { from, message: Box::new(message) });
            }
            To::All => {
                for to in self.others(from) {
                    self.send_now(from, to, kind, message.clone());
                }
            }
        }
    }

    #[inline(always)]
    fn send_now(&mut self, from: NodeId, to: NodeId, kind: usize, message: M::Message) {
        assert!(to.0 < self.config.nodes && to != from, "{from} sends to {to} at t={}", self.now);
        self.count_sent(from, kind, 1, self.now);
        let at = self.arrival_now(from, to);
        self.network.note_arrival(at);
        self.queue.push(at, Event::Deliver { from, to, message });
    }

    #[inline]
    fn arrival_now(&mut self, from: NodeId, to: NodeId) -> Time {
        let latency =
            self.config.cost.latency.sample(&mut self.network.rng, self.config.seed, from, to);
        self.now + latency + self.config.cost.receive
    }

    /// The general path: copies wait for each other, may be lost with their sender, and may have to
    /// keep their order.
    #[inline(never)]
    fn send_in_turn(&mut self, from: NodeId, to: To, kind: usize, message: M::Message) {
        let cost = self.config.cost;
        let mut leave = match cost.send_cost {
            SendCost::Flat => Departures { next: self.now + cost.send, step: Span::ZERO },
            SendCost::Queue if !self.network.send_free.is_empty() => Departures {
                next: self.now.max(self.network.send_free[from.index()]),
                step: cost.send,
            },
            SendCost::Queue | SendCost::Staggered => Departures { next: self.now, step: cost.send },
        };
        let end = self.plan.end_of(from, self.now);
        match to {
            To::One(to) => self.send_copy(from, to, kind, message, &mut leave, end),
            To::Many(nodes) => {
                for &to in &nodes {
                    self.send_copy(from, to, kind, message.clone(), &mut leave, end);
                }
            }
            To::All => {
                for to in self.others(from) {
                    self.send_copy(from, to, kind, message.clone(), &mut leave, end);
                }
            }
        }
        if cost.send_cost == SendCost::Queue && !self.network.send_free.is_empty() {
            self.network.send_free[from.index()] = leave.next;
        }
    }

    /// Sends one copy, unless the sender crashes before it leaves.
    #[inline]
    fn send_copy(
        &mut self,
        from: NodeId,
        to: NodeId,
        kind: usize,
        message: M::Message,
        leave: &mut Departures,
        end: Time,
    ) {
        assert!(to.0 < self.config.nodes && to != from, "{from} sends to {to} at t={}", self.now);
        let departure = leave.next();
        if departure > end {
            self.network.stuck_until = self.network.stuck_until.max(Some(end));
            return;
        }
        self.count_sent(from, kind, 1, departure);
        if self.network.faults.is_some() {
            return self.send_with_faults(from, to, kind, &message, departure);
        }
        let at = self.network.arrival(&self.config.cost, from, to, departure);
        self.network.note_arrival(at);
        let event = match self.config.cost.receive_cost {
            ReceiveCost::Parallel => Event::Deliver { from, to, message },
            ReceiveCost::Queue => Event::Arrive(Box::new((from, to, message))),
        };
        self.queue.push(at, event);
    }

    /// Counts a message when it leaves within the measured time.
    #[inline]
    fn count_sent(&mut self, from: NodeId, kind: usize, copies: u32, departure: Time) {
        if self.measured(departure) {
            self.stats.mutex_messages.add(kind, copies.into());
            self.stats.traffic[from.index()].sent += copies;
        }
    }

    /// A detector sends a message: it takes its time but never waits.
    pub(super) fn send_probe(&mut self, from: NodeId, to: To, message: D::Message) {
        let kind = message.kind();
        if self.trace.is_on() {
            self.write_send(from, &to, D::Message::kind_name(kind), &message);
        }
        let departure = self.now + self.config.cost.send;
        if departure > self.plan.end_of(from, self.now) {
            return;
        }
        match to {
            To::One(to) => self.send_probe_copy(from, to, kind, message, departure),
            To::Many(nodes) => {
                for &to in &nodes {
                    self.send_probe_copy(from, to, kind, message.clone(), departure);
                }
            }
            To::All if Q::RECORDS && matches!(self.config.cost.latency, Latency::Constant(_)) => {
                self.count_probes(kind, u64::from(self.config.nodes - 1));
                let at = self.probe_arrival(from, from, departure);
                self.push_probe(at, Event::ProbeAll { from, message: Box::new(message) });
            }
            To::All => {
                for to in self.others(from) {
                    self.send_probe_copy(from, to, kind, message.clone(), departure);
                }
            }
        }
    }

    fn send_probe_copy(
        &mut self,
        from: NodeId,
        to: NodeId,
        kind: usize,
        message: D::Message,
        departure: Time,
    ) {
        assert!(to.0 < self.config.nodes && to != from, "{from} probes {to} at t={}", self.now);
        self.count_probes(kind, 1);
        let at = self.probe_arrival(from, to, departure);
        self.push_probe(at, Event::Probe { from, to, message });
    }

    /// Counts a detector's message when it is sent.
    #[inline]
    fn count_probes(&mut self, kind: usize, copies: u64) {
        if self.warm {
            self.stats.detector_messages.add(kind, copies);
        }
    }

    fn probe_arrival(&mut self, from: NodeId, to: NodeId, departure: Time) -> Time {
        let latency = self.config.cost.latency.sample(
            &mut self.network.probe_rng,
            self.config.seed,
            from,
            to,
        );
        departure + latency + self.config.cost.receive
    }

    fn write_send(&mut self, from: NodeId, to: &To, kind: &str, message: &impl std::fmt::Debug) {
        let text = format!("{message:?}");
        let (to, to_many, copies) = match to {
            To::One(to) => (Some(*to), &[][..], 1),
            To::Many(nodes) => (None, &nodes[..], u32::try_from(nodes.len()).unwrap_or(u32::MAX)),
            To::All => (None, &[][..], self.config.nodes - 1),
        };
        let (kind, to_many, message) = (kind.into(), to_many.into(), text.into());
        self.write(from, &trace::Event::Send { kind, to, to_many, copies, message });
    }
}
