//! The event queue of a scripted run, and the steps that are possible next.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{Message, NodeId, Span, Time, TransientFaults};
use kgate_spec::{Fate, Step};

use super::super::Simulation;
use super::super::event::{Event, EventOf};
use super::super::incarnations::MembershipEvent;
use super::{NoDetector, ScriptQueue, StepError};
use crate::faults::Down;
use crate::queue::EventQueue;

/// An event queue without time: events wait, in the order of insertion, until a step picks them.
pub(super) struct StepQueue<E> {
    events: Vec<E>,
}

impl<E> EventQueue<E> for StepQueue<E> {
    const RECORDS: bool = false;

    fn new(_spread: Span) -> Self {
        Self { events: Vec::new() }
    }

    fn push(&mut self, _at: Time, event: E) {
        self.events.push(event);
    }

    /// Nothing happens without a step.
    fn pop(&mut self, _until: Time) -> Option<(Time, E)> {
        None
    }

    fn len(&self) -> usize {
        self.events.len()
    }
}

impl<E> StepQueue<E> {
    pub(super) fn events(&self) -> &[E] {
        &self.events
    }

    pub(super) fn remove(&mut self, place: usize) -> E {
        self.events.remove(place)
    }

    pub(super) fn insert(&mut self, place: usize, event: E) {
        self.events.insert(place, event);
    }

    /// Removes all events that fit, in their order.
    pub(super) fn remove_where(&mut self, mut fits: impl FnMut(&E) -> bool) -> Vec<E> {
        let (out, rest) =
            std::mem::take(&mut self.events).into_iter().partition(|event| fits(event));
        self.events = rest;
        out
    }
}

impl<M: TransientFaults> Simulation<'_, M, NoDetector, ScriptQueue<M>> {
    pub(super) fn check_exists(&self, node: NodeId) -> Result<(), StepError> {
        let nodes = self.config.nodes;
        if node.0 < nodes { Ok(()) } else { Err(StepError::UnknownNode { node, nodes }) }
    }

    pub(super) fn check_up(&self, node: NodeId) -> Result<(), StepError> {
        self.check_exists(node)?;
        if self.alive.contains(node.index()) { Ok(()) } else { Err(StepError::IsDown(node)) }
    }

    /// The places of the messages of a channel, the oldest first.
    pub(super) fn channel(&self, from: NodeId, to: NodeId) -> Vec<usize> {
        let in_channel = |event: &EventOf<M, NoDetector>| channel_of(event) == Some((from, to));
        (0..)
            .zip(self.queue.events())
            .filter(|(_, event)| in_channel(event))
            .map(|(place, _)| place)
            .collect()
    }

    /// The kind of the message at `place`.
    pub(super) fn kind_at(&self, place: usize) -> Option<&'static str> {
        let Event::Deliver { message, .. } = &self.queue.events()[place] else { return None };
        Some(M::Message::kind_name(message.kind()))
    }

    /// The armed timers, with their places and names.
    pub(super) fn timers(&self) -> Vec<(usize, NodeId, String)> {
        let timer = |(place, event): (usize, &EventOf<M, NoDetector>)| {
            let Event::Timer { node, timer, .. } = event else { return None };
            self.is_live(event).then(|| (place, *node, format!("{timer:?}")))
        };
        self.queue.events().iter().enumerate().filter_map(timer).collect()
    }

    /// The pending crash notifications of `node`, in order, with their places.
    pub(super) fn crash_notices_for(&self, node: NodeId) -> Vec<(usize, NodeId)> {
        let notices = |(place, event): (usize, &EventOf<M, NoDetector>)| {
            let Event::CrashNotice { node: to, crashed, .. } = event else { return None };
            (*to == node && self.is_live(event)).then_some((place, *crashed))
        };
        self.queue.events().iter().enumerate().filter_map(notices).collect()
    }

    /// The pending notifications of `node` about crashes and returns, in order, as steps with their
    /// places.
    pub(super) fn membership_notices_for(&self, node: NodeId) -> Vec<(usize, Step)> {
        let notices = |(at, event): (usize, &EventOf<M, NoDetector>)| {
            let Event::MembershipNotice { node: to, place, .. } = event else { return None };
            let record = self.membership.record(*place);
            let step = match record.what {
                MembershipEvent::Down | MembershipEvent::Crashed => {
                    Step::NotifyCrash { node, of: record.of }
                }
                MembershipEvent::Joined => Step::NotifyReturn { node, of: record.of },
            };
            (*to == node && self.is_live(event)).then_some((at, step))
        };
        self.queue.events().iter().enumerate().filter_map(notices).collect()
    }

    /// The processes that are inside, each once.
    pub(super) fn inside_nodes(&self) -> Vec<NodeId> {
        let mut who: Vec<NodeId> = self.held.keys().map(|(node, _)| *node).collect();
        who.dedup();
        who
    }

    /// Whether an event can still happen: a timer may have been disarmed, a client gone, a process
    /// down.
    pub(super) fn is_live(&self, event: &EventOf<M, NoDetector>) -> bool {
        match event {
            Event::Timer { node, generation, timer } => {
                self.alive.contains(node.index())
                    && self.mutex_timers.get(&(*node, timer.clone())) == Some(generation)
            }
            Event::Release { node, grant } => self.held.contains_key(&(*node, *grant)),
            Event::CrashNotice { node, incarnation, .. }
            | Event::MembershipNotice { node, incarnation, .. }
            | Event::ResizeNotice { node, incarnation, .. } => {
                self.alive.contains(node.index()) && self.incarnation_of(*node) == *incarnation
            }
            Event::Apply { node, start, place } => self.may_apply(*node, *start, *place),
            Event::Deliver { .. }
            | Event::DeliverAll { .. }
            | Event::Arrive(_)
            | Event::Probe { .. }
            | Event::ProbeAll { .. }
            | Event::ProbeTimer { .. }
            | Event::Acquire { .. }
            | Event::Withdraw { .. }
            | Event::Decide { .. }
            | Event::Client(_)
            | Event::Confirm { .. }
            | Event::SessionEnd { .. }
            | Event::Received(_) => true,
        }
    }

    /// Whether nothing is left to happen but timers of processes that want nothing.
    pub(super) fn is_quiet(&self) -> bool {
        let is_timer = |event: &EventOf<M, NoDetector>| matches!(event, Event::Timer { .. });
        let matters =
            |event| self.is_live(event) && (self.checkers.waiting() > 0 || !is_timer(event));
        !self.queue.events().iter().any(matters)
    }

    /// Whether nothing is left to happen but releases.
    pub(super) fn is_idle(&self) -> bool {
        let is_release = |event: &EventOf<M, NoDetector>| matches!(event, Event::Release { .. });
        !self.queue.events().iter().any(|event| self.is_live(event) && !is_release(event))
    }

    /// The steps that are possible next, apart from crashes and losses of messages.
    pub(super) fn possible(&self, fifo: bool) -> Vec<String> {
        let mut steps = self.message_steps(fifo);
        let up = self.live();
        for &node in &up {
            let notices = self.crash_notices_for(node);
            steps.extend(notices.iter().map(|&(_, of)| Step::NotifyCrash { node, of }));
            let most = if self.membership.is_ordered() { 1 } else { usize::MAX };
            steps.extend(
                self.membership_notices_for(node).into_iter().map(|(_, step)| step).take(most),
            );
        }
        steps
            .extend(self.timers().into_iter().map(|(_, node, timer)| Step::Expire { node, timer }));
        for &node in &up {
            for which in 1..=self.grants_of(node).count() {
                steps.push(match which {
                    1 => Step::Release(node),
                    _ => Step::ReleaseOne { node, which },
                });
            }
            let waits = self.checkers.is_waiting(node);
            if waits {
                steps.push(Step::Withdraw(node));
            }
            if self.config.claims.slots
                || !waits && (!self.is_inside(node) || self.config.claims.asks_inside)
            {
                steps.push(Step::Acquire { node, weight: 1 });
            }
        }
        steps.extend(self.down.keys().map(|&node| Step::Restart(node)));
        steps.iter().map(Step::to_string).collect()
    }

    fn message_steps(&self, fifo: bool) -> Vec<Step> {
        let channels: BTreeSet<(NodeId, NodeId)> =
            self.queue.events().iter().filter_map(channel_of).collect();
        let mut steps = Vec::new();
        for (from, to) in channels {
            if self.config.down == Down::Kept && self.down.contains_key(&to) {
                continue;
            }
            let most = if fifo { 1 } else { usize::MAX };
            let mut count = BTreeMap::new();
            for place in self.channel(from, to).into_iter().take(most) {
                let kind = self.kind_at(place).expect("a message");
                let which = count.entry(kind).or_insert(0);
                *which += 1;
                let (which, kind) = (*which, kind.to_owned());
                steps.push(Step::Message { from, to, kind, which, fate: Fate::Arrives });
            }
        }
        steps
    }
}

fn channel_of<M, T, DM, DT>(event: &Event<M, T, DM, DT>) -> Option<(NodeId, NodeId)> {
    let Event::Deliver { from, to, .. } = event else { return None };
    Some((*from, *to))
}
