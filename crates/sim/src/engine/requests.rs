//! What only numbered slots know of: requests of several units, several clients of one process,
//! clients that give up, and a k that changes.
//!
//! Of several clients that wait at one process, the one that asked first is served first (with
//! several lanes: of those that want as many), and the one that asked last is taken back first. So
//! they need no names: when one loses its patience, the one that asked last goes.

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

/// What clients wait for, and who will ask.
pub(super) struct PendingRequests {
    weight_rng: Rng,
    patience_rng: Rng,
    resize_rng: Rng,
    /// The weights of requests that wait, by process and, of one process, in the order of asking.
    waiting: BTreeMap<(NodeId, u64), u32>,
    asked: u64,
    /// How many clients of each process will ask at a time that is set.
    due: BTreeMap<NodeId, u32>,
    /// The same of all, those of earlier incarnations included: so many events of the queue are
    /// theirs.
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

    /// A client will ask.
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

    /// The first wish of a process; of that weight, if one is given and there is any. Its place
    /// among those that wait, and its weight.
    fn take(&mut self, node: NodeId, weight: Option<u32>) -> Option<(usize, u32)> {
        let fits = |(_, (_, other)): &(usize, (&(NodeId, u64), &u32))| weight == Some(**other);
        let found = self.of(node).enumerate().find(fits).or(self.of(node).enumerate().next());
        let (place, key, weight) = found.map(|(place, (key, weight))| (place, *key, *weight))?;
        self.waiting.remove(&key);
        Some((place, weight))
    }

    /// What the client of a process wants that waits longest.
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

    /// All clients of `node` are gone.
    pub(super) fn forget(&mut self, node: NodeId) {
        while self.take(node, None).is_some() {}
        self.due.remove(&node);
    }
}

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// A client that was to ask in that incarnation does so now; false if it is gone.
    pub(super) fn take_due(&mut self, node: NodeId, incarnation: u32) -> bool {
        self.pending_requests.due_events -= 1;
        let there = self.incarnation_of(node) == incarnation && !self.down.contains_key(&node);
        if let Some(due) = self.pending_requests.due.get_mut(&node).filter(|_| there) {
            *due -= 1;
        }
        there
    }

    /// How many units a client asks for: no more than its process can be granted at once.
    pub(super) fn draw_weight(&mut self, node: NodeId) -> u32 {
        let most = self.config.load.weight_max;
        let drawn =
            if most == 1 { 1 } else { self.pending_requests.weight_rng.within(1, u64::from(most)) };
        u32::try_from(drawn).unwrap_or(most).min(self.most_at_once(node))
    }

    /// How many units a client may ask for at once, by the k that its process was told last.
    pub(super) fn most_at_once(&self, node: NodeId) -> u32 {
        self.config.most_at_once(self.checkers.known(node).unwrap_or(self.config.k))
    }

    /// A client waits from now on; it may lose its patience.
    pub(super) fn start_waiting(&mut self, node: NodeId, weight: u32) {
        let number = self.pending_requests.asked;
        self.pending_requests.asked += 1;
        self.pending_requests.waiting.insert((node, number), weight);
        let load = &self.config.load;
        if load.withdraw.happens(&mut self.pending_requests.patience_rng) {
            let after = Span(self.pending_requests.patience_rng.within(0, load.patience.0));
            self.queue.push(self.now + after, Event::GiveUp { node, number });
        }
    }

    /// A client loses its patience, if it still waits.
    pub(super) fn give_up(&mut self, node: NodeId, number: u64) {
        if self.pending_requests.waiting.contains_key(&(node, number)) {
            self.withdraw(node);
            self.schedule_next_request(node);
        }
    }

    /// The client of `node` that asked last waits no longer.
    pub(super) fn withdraw(&mut self, node: NodeId) {
        self.pending_requests.take_last(node);
        self.stats.withdrawals += 1;
        self.stats.waiting.change(self.now, -1);
        self.checkers.withdrawn(node);
        self.write(node, &trace::Event::Withdraw);
        self.mutex_input(node, Label::bare(12), Input::Withdraw);
    }

    /// A client goes in.
    pub(super) fn granted_slots(
        &mut self,
        node: NodeId,
        grant: GrantId,
        slots: Option<&[u32]>,
        fence: Option<Fence>,
    ) {
        let lanes = self.config.slots.lanes > 1;
        let weight = slots.filter(|_| lanes).and_then(|slots| u32::try_from(slots.len()).ok());
        let request = self.pending_requests.take(node, weight);
        let granted = Numbered { node, grant, request, slots, fence };
        let units = granted.units();
        self.stats.grants += 1;
        self.stats.waiting.change(self.now, if request.is_some() { -1 } else { 0 });
        let before = self.held.insert((node, grant), units).unwrap_or(0);
        self.stats.inside.change(self.now, i64::from(units) - i64::from(before));
        if self.config.load.ask_inside {
            self.schedule_next_request(node);
        }
        let observes_inputs = M::MECHANISM == Mechanism::Slots && self.checkers.audit.is_active();
        let shown = if observes_inputs { self.all_shown() } else { Vec::new() };
        let times = self.checkers.granted_slots(self.now, &granted, &self.alive, &shown);
        self.write_granted(times, node, granted_event(slots, fence, None, Some(grant)));
    }

    /// What all live processes show.
    pub(super) fn all_shown(&self) -> Vec<(NodeId, Observation)> {
        let id = |at: usize| NodeId(u32::try_from(at).expect("a node's index"));
        self.alive.ones().map(|at| (id(at), self.mutexes[at].observe())).collect()
    }

    /// A request has ended: k has become less than it wants.
    pub(super) fn request_too_large(&mut self, node: NodeId, weight: u32, most: u32) {
        let request = self.pending_requests.take(node, Some(weight));
        self.stats.refused += 1;
        self.stats.waiting.change(self.now, if request.is_some() { -1 } else { 0 });
        self.checkers.too_large(node, request, (weight, most), self.now);
        self.write(node, &trace::Event::TooLarge { weight, most });
        self.schedule_next_request(node);
    }

    /// A grant no longer counts, and its client has to stop.
    pub(super) fn lost_grant(&mut self, node: NodeId, grant: GrantId) {
        if self.config.claims.slots && self.end_grant(node, grant) && !self.config.load.ask_inside {
            self.schedule_next_request(node);
        }
    }

    /// A process will be told of every change of k, in order: of those that were soon, of the
    /// others when they come.
    pub(super) fn announce_resizes(&mut self, node: NodeId) {
        let (within, incarnation) = (self.notification_delay_max(), self.incarnation_of(node));
        let mut last = Time::ZERO;
        for (place, &(at, _)) in (0..).zip(&self.config.resizes) {
            let from = (Time::ZERO + at).max(self.now);
            let heard = from + Span(self.pending_requests.resize_rng.within(0, within.0));
            last = last.max(heard);
            self.queue.push(last, Event::ResizeNotice { node, incarnation, place });
        }
    }

    pub(super) fn on_resize_notice(&mut self, node: NodeId, incarnation: u32, place: u32) {
        if self.incarnation_of(node) == incarnation && self.alive.contains(node.index()) {
            let (_, k) = self.config.resizes[place as usize];
            self.resize(node, k);
        }
    }

    /// A process learns that there are k units.
    pub(super) fn resize(&mut self, node: NodeId, k: u32) {
        self.checkers.resized(node, k);
        self.write(node, &trace::Event::Resize { k });
        self.mutex_input(node, Label::of(16, NodeId(k), 0), Input::Resize(k));
    }
}
