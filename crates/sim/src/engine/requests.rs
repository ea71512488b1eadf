//! Requests with weights, several clients per process, withdrawals and a changing k: what only
//! protocols with numbered slots support.
//!
//! Of several clients that wait at one process, the one that asked first is served first (with
//! several lanes: among those of the same weight), and the one that asked last withdraws first. So
//! clients need no names: whichever client runs out of patience, the last request goes.

use std::collections::BTreeMap;

use kgate_core::{
    Fence, GrantId, Input, Mechanism, NodeId, Observation, Protocol, Span, Time, TransientFaults,
};
use kgate_spec::trace;

use super::checkers::Numbered;
use super::clients::granted_event;
use super::event::{Event, EventOf};
use super::{Label, Simulation};
use crate::config::Config;
use crate::queue::EventQueue;
use crate::rng::Rng;

/// The waiting requests and the clients that will ask.
pub(super) struct PendingRequests {
    weight_rng: Rng,
    patience_rng: Rng,
    resize_rng: Rng,
    /// The weights of waiting requests, by process and order of asking.
    waiting: BTreeMap<(NodeId, u64), u32>,
    asked: u64,
    /// The number of clients per process with a scheduled request.
    due: BTreeMap<NodeId, u32>,
    /// The same over all processes, including earlier incarnations: the number of such events in
    /// the queue.
    due_events: usize,
}

impl PendingRequests {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            weight_rng: Rng::fork(config.seed, "weights"),
            patience_rng: Rng::fork(config.seed, "patience"),
            resize_rng: Rng::fork(config.seed, "resizes"),
            waiting: BTreeMap::new(),
            asked: 0,
            due: BTreeMap::new(),
            due_events: 0,
        }
    }

    /// A client has scheduled a request.
    pub(super) fn due(&mut self, node: NodeId) {
        *self.due.entry(node).or_default() += 1;
        self.due_events += 1;
    }

    pub(super) fn due_at(&self, node: NodeId) -> u32 {
        self.due.get(&node).copied().unwrap_or(0)
    }

    pub(super) fn due_events(&self) -> usize {
        self.due_events
    }

    /// Removes the first request of a process; of that weight, if one is given and there is any.
    /// Returns its place among the waiting ones and its weight.
    fn take(&mut self, node: NodeId, weight: Option<u32>) -> Option<(usize, u32)> {
        let fits = |(_, (_, other)): &(usize, (&(NodeId, u64), &u32))| weight == Some(**other);
        let found = self.of(node).enumerate().find(fits).or(self.of(node).enumerate().next());
        let (place, key, weight) = found.map(|(place, (key, weight))| (place, *key, *weight))?;
        self.waiting.remove(&key);
        Some((place, weight))
    }

    /// The weight of the longest waiting request of a process.
    pub(super) fn first(&self, node: NodeId) -> Option<u32> {
        self.of(node).next().map(|(_, weight)| *weight)
    }

    fn take_last(&mut self, node: NodeId) {
        let last = self.of(node).next_back().map(|(key, _)| *key);
        last.map(|key| self.waiting.remove(&key));
    }

    fn of(&self, node: NodeId) -> impl DoubleEndedIterator<Item = (&(NodeId, u64), &u32)> {
        self.waiting.range((node, 0)..=(node, u64::MAX))
    }

    /// Removes all clients of `node`.
    pub(super) fn forget(&mut self, node: NodeId) {
        while self.take(node, None).is_some() {}
        self.due.remove(&node);
    }
}

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// A client asks that was scheduled in that incarnation; false if it is gone.
    pub(super) fn take_due(&mut self, node: NodeId, incarnation: u32) -> bool {
        self.pending_requests.due_events -= 1;
        let there = self.incarnation_of(node) == incarnation && !self.down.contains_key(&node);
        if let Some(due) = self.pending_requests.due.get_mut(&node).filter(|_| there) {
            *due -= 1;
        }
        there
    }

    /// Samples the weight of a request: no more than can be granted at once.
    pub(super) fn sample_weight(&mut self, node: NodeId) -> u32 {
        let most = self.config.load.weight_max;
        let weight =
            if most == 1 { 1 } else { self.pending_requests.weight_rng.within(1, u64::from(most)) };
        u32::try_from(weight).unwrap_or(most).min(self.weight_limit(node))
    }

    /// The largest weight of a request of `node`, by the k of its last notification.
    pub(super) fn weight_limit(&self, node: NodeId) -> u32 {
        self.config.weight_limit(self.checkers.known(node).unwrap_or(self.config.k))
    }

    /// A client waits from now on; it may withdraw later.
    pub(super) fn start_waiting(&mut self, node: NodeId, weight: u32) {
        let number = self.pending_requests.asked;
        self.pending_requests.asked += 1;
        self.pending_requests.waiting.insert((node, number), weight);
        let load = &self.config.load;
        if load.withdraw.happens(&mut self.pending_requests.patience_rng) {
            let after = Span(self.pending_requests.patience_rng.within(0, load.patience.0));
            self.queue.push(self.now + after, Event::Withdraw { node, number });
        }
    }

    /// A client withdraws, if it still waits.
    pub(super) fn withdraw_if_waiting(&mut self, node: NodeId, number: u64) {
        if self.pending_requests.waiting.contains_key(&(node, number)) {
            self.withdraw(node);
            self.schedule_next_request(node);
        }
    }

    /// Withdraws the last request of `node`.
    pub(super) fn withdraw(&mut self, node: NodeId) {
        self.pending_requests.take_last(node);
        self.stats.withdrawals += 1;
        self.stats.waiting.change(self.now, -1);
        self.checkers.withdrawn(node);
        self.write(node, &trace::Event::Withdraw);
        self.mutex_input(node, Label::bare(12), Input::Withdraw);
    }

    /// A client is granted numbered slots.
    pub(super) fn granted_slots(
        &mut self,
        node: NodeId,
        grant: GrantId,
        slots: Option<&[u32]>,
        fence: Option<Fence>,
    ) {
        let by_weight = self.config.slots.lanes > 1 || self.config.claims.follows_log;
        let weight = slots.filter(|_| by_weight).and_then(|slots| u32::try_from(slots.len()).ok());
        let request = self.pending_requests.take(node, weight);
        let k = self.log.most_k(node);
        let granted = Numbered { node, grant, request, slots, fence, k };
        let weight = granted.weight();
        self.stats.grants += 1;
        self.stats.waiting.change(self.now, if request.is_some() { -1 } else { 0 });
        let before = self.held.insert((node, grant), weight).unwrap_or(0);
        self.stats.inside.change(self.now, i64::from(weight) - i64::from(before));
        if self.config.load.ask_inside {
            self.schedule_next_request(node);
        }
        let observes_inputs = M::MECHANISM == Mechanism::Slots && self.checkers.audit.is_active();
        let shown = if observes_inputs { self.observe_all() } else { Vec::new() };
        let times = self.checkers.granted_slots(self.now, &granted, &self.alive, &shown);
        self.write_granted(times, node, granted_event(slots, fence, None, Some(grant)));
        if let Some(fence) = fence.filter(|_| self.config.claims.follows_log) {
            self.let_in((node, grant), slots.unwrap_or_default(), fence);
        }
    }

    /// The observed states of all live processes.
    pub(super) fn observe_all(&self) -> Vec<(NodeId, Observation)> {
        self.live().into_iter().map(|node| (node, self.mutexes[node.index()].observe())).collect()
    }

    /// A request ends because k has become smaller than its weight.
    pub(super) fn request_too_large(&mut self, node: NodeId, weight: u32, most: u32) {
        let request = self.pending_requests.take(node, Some(weight));
        self.stats.refused += 1;
        self.stats.waiting.change(self.now, if request.is_some() { -1 } else { 0 });
        self.checkers.too_large(node, request, (weight, most), self.now);
        self.write(node, &trace::Event::TooLarge { weight, most });
        self.schedule_next_request(node);
    }

    /// A grant is lost: its client has to stop.
    pub(super) fn lost_grant(&mut self, node: NodeId, grant: GrantId) {
        if self.config.claims.slots && self.end_grant(node, grant) && !self.config.load.ask_inside {
            self.schedule_next_request(node);
        }
    }

    /// Schedules the notifications of every change of k, in order: past changes soon, later ones
    /// when they happen.
    pub(super) fn announce_resizes(&mut self, node: NodeId) {
        let (within, incarnation) = (self.notification_delay_max(), self.incarnation_of(node));
        let mut last = Time::ZERO;
        for (place, &(at, _)) in (0..).zip(&self.config.resizes) {
            let from = (Time::ZERO + at).max(self.now);
            let notified = from + Span(self.pending_requests.resize_rng.within(0, within.0));
            last = last.max(notified);
            self.queue.push(last, Event::ResizeNotice { node, incarnation, place });
        }
    }

    pub(super) fn on_resize_notice(&mut self, node: NodeId, incarnation: u32, place: u32) {
        if self.incarnation_of(node) == incarnation && self.alive.contains(node.index()) {
            let (_, k) = self.config.resizes[place as usize];
            self.resize(node, k);
        }
    }

    /// Notifies a process of a new k.
    pub(super) fn resize(&mut self, node: NodeId, k: u32) {
        self.checkers.resized(node, k);
        self.write(node, &trace::Event::Resize { k });
        self.mutex_input(node, Label::of(16, NodeId(k), 0), Input::Resize(k));
    }
}
