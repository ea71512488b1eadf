//! What is under way, and what could happen next.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;
use kgate_core::{Message, NodeId, Span, Time, TransientFaults};
use kgate_spec::{Fate, Step};

use super::super::Simulation;
use super::super::event::{Event, EventOf};
use super::super::incarnations::Happened;
use super::{Silent, Waiting, Why};
use crate::faults::Down;
use crate::queue::EventQueue;

/// An event queue without time: everything waits, in the order in which it came, until it is
/// picked.
pub(super) struct UnderWay<E> {
    events: Vec<E>,
}

impl<E> EventQueue<E> for UnderWay<E> {
    const RECORDS: bool = false;

    fn new(_spread: Span) -> Self {
        Self { events: Vec::new() }
    }

    fn push(&mut self, _at: Time, event: E) {
        self.events.push(event);
    }

    /// Nothing happens by itself.
    fn pop(&mut self, _until: Time) -> Option<(Time, E)> {
        None
    }

    fn len(&self) -> usize {
        self.events.len()
    }
}

impl<E> UnderWay<E> {
    pub(super) fn events(&self) -> &[E] {
        &self.events
    }

    pub(super) fn remove(&mut self, place: usize) -> E {
        self.events.remove(place)
    }

    pub(super) fn insert(&mut self, place: usize, event: E) {
        self.events.insert(place, event);
    }

    /// Takes out all that fit, in their order.
    pub(super) fn remove_where(&mut self, mut fits: impl FnMut(&E) -> bool) -> Vec<E> {
        let (out, rest) =
            std::mem::take(&mut self.events).into_iter().partition(|event| fits(event));
        self.events = rest;
        out
    }
}

impl<M: TransientFaults> Simulation<'_, M, Silent, Waiting<M>> {
    pub(super) fn check_exists(&self, node: NodeId) -> Result<(), Why> {
        let nodes = self.config.nodes;
        if node.0 < nodes {
            Ok(())
        } else {
            Err(format!("there is no {node}, only p0 .. p{}", nodes - 1))
        }
    }

    pub(super) fn check_up(&self, node: NodeId) -> Result<(), Why> {
        self.check_exists(node)?;
        if self.alive.contains(node.index()) { Ok(()) } else { Err(format!("{node} is down")) }
    }

    /// The places of the messages from one process to another, the oldest first.
    pub(super) fn channel(&self, from: NodeId, to: NodeId) -> Vec<usize> {
        let in_channel = |event: &EventOf<M, Silent>| matches!(event, Event::Deliver { from: a, to: b, .. } if (*a, *b) == (from, to));
        (0..)
            .zip(self.queue.events())
            .filter(|(_, event)| in_channel(event))
            .map(|(place, _)| place)
            .collect()
    }

    /// The kind of the message at that place.
    pub(super) fn kind_at(&self, place: usize) -> Option<&'static str> {
        let Event::Deliver { message, .. } = &self.queue.events()[place] else { return None };
        Some(M::Message::kind_name(message.kind()))
    }

    /// The timers that run, with their places and names.
    pub(super) fn timers(&self) -> Vec<(usize, NodeId, String)> {
        let timer = |(place, event): (usize, &EventOf<M, Silent>)| {
            let Event::Timer { node, timer, .. } = event else { return None };
            self.is_live(event).then(|| (place, *node, format!("{timer:?}")))
        };
        self.queue.events().iter().enumerate().filter_map(timer).collect()
    }

    /// Of whose loss `node` will be told, in order, with the places of the news.
    pub(super) fn news_to(&self, node: NodeId) -> Vec<(usize, NodeId)> {
        let news = |(place, event): (usize, &EventOf<M, Silent>)| {
            let Event::News { node: to, crashed, .. } = event else { return None };
            (*to == node && self.is_live(event)).then_some((place, *crashed))
        };
        self.queue.events().iter().enumerate().filter_map(news).collect()
    }

    /// What `node` will hear of crashes and returns, in order, as steps, with the places of the
    /// news.
    pub(super) fn hears_of(&self, node: NodeId) -> Vec<(usize, Step)> {
        let news = |(at, event): (usize, &EventOf<M, Silent>)| {
            let Event::Hear { node: to, place, .. } = event else { return None };
            let record = self.returns.record(*place);
            let step = match record.what {
                Happened::Fell | Happened::Lost => Step::Tell { node, of: record.of },
                Happened::Returned => Step::Welcome { node, of: record.of },
            };
            (*to == node && self.is_live(event)).then_some((at, step))
        };
        self.queue.events().iter().enumerate().filter_map(news).collect()
    }

    /// Who is inside, each once.
    pub(super) fn who_is_inside(&self) -> Vec<NodeId> {
        let mut who: Vec<NodeId> = self.held.keys().map(|(node, _)| *node).collect();
        who.dedup();
        who
    }

    /// Whether an event is still to happen: a timer may have been disarmed, a client gone, a
    /// process be down.
    pub(super) fn is_live(&self, event: &EventOf<M, Silent>) -> bool {
        match event {
            Event::Timer { node, ticket, timer } => {
                self.alive.contains(node.index())
                    && self.mutex_timers.get(&(*node, timer.clone())) == Some(ticket)
            }
            Event::Release { node, grant } => self.held.contains_key(&(*node, *grant)),
            Event::News { node, incarnation, .. }
            | Event::Hear { node, incarnation, .. }
            | Event::Resized { node, incarnation, .. } => {
                self.alive.contains(node.index()) && self.incarnation_of(*node) == *incarnation
            }
            Event::Deliver { .. }
            | Event::DeliverAll { .. }
            | Event::Arrive(_)
            | Event::Probe { .. }
            | Event::ProbeAll { .. }
            | Event::ProbeTimer { .. }
            | Event::Acquire { .. }
            | Event::GiveUp { .. }
            | Event::Received(_) => true,
        }
    }

    /// Nothing is under way but timers of those who want nothing.
    pub(super) fn is_quiet(&self) -> bool {
        let is_timer = |event: &EventOf<M, Silent>| matches!(event, Event::Timer { .. });
        let matters =
            |event| self.is_live(event) && (self.checkers.waiting() > 0 || !is_timer(event));
        !self.queue.events().iter().any(matters)
    }

    /// Nothing is under way, but somebody may be inside.
    pub(super) fn is_still(&self) -> bool {
        let comes_out = |event: &EventOf<M, Silent>| matches!(event, Event::Release { .. });
        !self.queue.events().iter().any(|event| self.is_live(event) && !comes_out(event))
    }

    /// What could happen next, crashes and losses of messages aside.
    pub(super) fn possible(&self, fifo: bool) -> Vec<String> {
        let mut steps = self.of_messages(fifo);
        let up: Vec<NodeId> = ids(&self.alive).collect();
        for &node in &up {
            let news = self.news_to(node);
            steps.extend(news.iter().map(|&(_, of)| Step::Tell { node, of }));
            let most = if self.returns.in_one_order() { 1 } else { usize::MAX };
            steps.extend(self.hears_of(node).into_iter().map(|(_, step)| step).take(most));
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
                steps.push(Step::Ask { node, weight: 1 });
            }
        }
        steps.extend(self.absent.keys().map(|&node| Step::Restart(node)));
        steps.iter().map(Step::to_string).collect()
    }

    fn of_messages(&self, fifo: bool) -> Vec<Step> {
        let channels: BTreeSet<(NodeId, NodeId)> =
            self.queue.events().iter().filter_map(way).collect();
        let mut steps = Vec::new();
        for (from, to) in channels {
            if self.config.down == Down::Kept && self.absent.contains_key(&to) {
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

fn way<M, T, DM, DT>(event: &Event<M, T, DM, DT>) -> Option<(NodeId, NodeId)> {
    let Event::Deliver { from, to, .. } = event else { return None };
    Some((*from, *to))
}

fn ids(set: &FixedBitSet) -> impl Iterator<Item = NodeId> {
    set.ones().map(|at| NodeId(u32::try_from(at).expect("a node's index")))
}
