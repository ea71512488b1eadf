//! A network under manual control, for tests: the test decides which message arrives next, which
//! process crashes and which ones learn of it.
//!
//! Messages stay in flight until the test delivers them, or lets virtual time pass
//! ([`Net::run_until`], for detectors).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use kgate_core::{
    Defects, Effect, Incarnation, Input, InputOf, Message, NodeId, Notice, Outbox, Phase, Protocol,
    Refusal, Setup, Span, Suspend, Time, To, ViewId,
};

/// Detectors test once per time unit, and have time to wait for 63 crashed processes in between.
pub(crate) const INTERVAL: Span = Span::UNIT;
pub(crate) const TIMEOUT: Span = Span(INTERVAL.0 / 64);

/// The setup of every process; `me` is filled in for each.
pub(crate) fn setup(nodes: u32, k: u32, defects: Defects) -> Setup {
    let (detect_interval, detect_timeout, tolerate) = (INTERVAL, TIMEOUT, k - 1);
    Setup { detect_interval, detect_timeout, defects, tolerate, ..Setup::new(nodes, k) }
}

/// The time of an event, and its place among those of the same time.
type Due = (Time, u64);

/// A copy of a message, with its sender and receiver.
pub(crate) struct Copy<M> {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) message: M,
}

/// Processes of one protocol, and the network between them.
pub(crate) struct Net<P: Protocol> {
    pub(crate) nodes: Vec<P>,
    crashed: Vec<NodeId>,
    pub(crate) now: Time,
    /// The delay of the next message; zero unless a test sets another.
    pub(crate) delay: Box<dyn FnMut() -> Span>,
    /// Messages that have been sent and have not arrived.
    pub(crate) flights: BTreeMap<Due, Copy<P::Message>>,
    pub(crate) timers: BTreeMap<(NodeId, P::Timer), Due>,
    /// The links that are cut, each from a sender to a receiver: what is sent there is lost.
    pub(crate) cuts: BTreeSet<(u32, u32)>,
    scheduled: u64,
    /// Every copy that was ever sent.
    pub(crate) sent: Vec<Copy<P::Message>>,
    /// Every notice of every process.
    pub(crate) notices: Vec<(Time, NodeId, Notice)>,
    /// The stable storage of each process.
    pub(crate) stored: BTreeMap<NodeId, P::Durable>,
    /// What every process starts with, but for its id and incarnation.
    pub(crate) setup: Setup,
}

impl<P: Suspend> Net<P> {
    /// A clean stop: stores the state of a process, which then sends and receives nothing until it
    /// resumes. False if the protocol cannot be suspended.
    pub(crate) fn suspend(&mut self, node: u32, change: impl FnOnce(&mut P::Durable)) -> bool {
        let Some(mut suspended) = self.nodes[node as usize].suspend() else { return false };
        change(&mut suspended);
        self.stored.insert(NodeId(node), suspended);
        self.crash(node);
        true
    }
}

impl<P: Protocol> Net<P> {
    pub(crate) fn new(nodes: u32, k: u32, defects: Defects) -> Self {
        Self::with(setup(nodes, k, defects))
    }

    /// A network with any setup; its `me` is ignored.
    pub(crate) fn with(setup: Setup) -> Self {
        let mut net = Self {
            nodes: Vec::new(),
            crashed: Vec::new(),
            now: Time::ZERO,
            delay: Box::new(|| Span::ZERO),
            flights: BTreeMap::new(),
            timers: BTreeMap::new(),
            cuts: BTreeSet::new(),
            scheduled: 0,
            sent: Vec::new(),
            notices: Vec::new(),
            stored: BTreeMap::new(),
            setup,
        };
        for me in (0..net.setup.nodes).map(NodeId) {
            let mut out = Outbox::new();
            net.nodes.push(P::start(&Setup { me, ..net.setup.clone() }, None, &mut out));
            net.carry_out(me, out);
        }
        net
    }

    /// A crashed process restarts with what it had stored.
    #[allow(dead_code)] // Only protocols that recover from a crash use this.
    pub(crate) fn restart(&mut self, node: u32) {
        let me = NodeId(node);
        assert!(self.crashed.contains(&me), "{me} has not crashed");
        self.crashed.retain(|&crashed| crashed != me);
        let mut out = Outbox::new();
        let setup = Setup { me, ..self.setup.clone() };
        self.nodes[me.index()] = P::start(&setup, self.stored.get(&me).cloned(), &mut out);
        self.carry_out(me, out);
    }

    /// A crashed process starts again without state, in this incarnation.
    pub(crate) fn return_in(&mut self, node: u32, incarnation: u32) {
        let me = NodeId(node);
        assert!(self.crashed.contains(&me), "{me} has not crashed");
        self.crashed.retain(|&crashed| crashed != me);
        let mut out = Outbox::new();
        let setup = Setup { me, incarnation: Incarnation(incarnation), ..self.setup.clone() };
        self.nodes[me.index()] = P::start(&setup, None, &mut out);
        self.carry_out(me, out);
    }

    /// Resumes a suspended process; its stored state is erased before it sends.
    pub(crate) fn resume(&mut self, node: u32) {
        self.restart(node);
        self.stored.remove(&NodeId(node));
    }

    pub(crate) fn is_up(&self, node: u32) -> bool {
        !self.crashed.contains(&NodeId(node))
    }

    /// Applies one input at one process, with all its effects.
    pub(crate) fn input(&mut self, at: u32, input: InputOf<P>) -> Result<(), Refusal> {
        assert!(!self.crashed.contains(&NodeId(at)), "p{at} has crashed");
        let mut out = Outbox::new();
        let done = self.nodes[at as usize].handle(self.now, input, &mut out);
        self.carry_out(NodeId(at), out);
        done
    }

    /// Applies an input that must be refused. Law 4: a refusal leaves the state and the outbox as
    /// they were.
    pub(crate) fn refusal(&self, at: u32, input: InputOf<P>) -> Refusal {
        let (mut node, mut out) = (self.nodes[at as usize].clone(), Outbox::new());
        let refusal = node.handle(self.now, input.clone(), &mut out);
        assert_eq!(node, self.nodes[at as usize], "{input:?} at p{at}: {refusal:?}");
        assert!(out.is_empty(), "{input:?} at p{at}: {refusal:?} but {out:?}");
        refusal.expect_err("to be refused")
    }

    pub(crate) fn acquire(&mut self, at: u32) {
        self.input(at, Input::Acquire { weight: 1 }).unwrap();
    }

    pub(crate) fn release(&mut self, at: u32) {
        let grant = self.nodes[at as usize].observe().grant.expect("it holds a grant");
        self.input(at, Input::Release { grant }).unwrap();
    }

    /// Crashes the process. What it has sent still arrives; what is sent to it is lost.
    pub(crate) fn crash(&mut self, node: u32) {
        self.crashed.push(NodeId(node));
        self.timers.retain(|(at, _), _| at.0 != node);
    }

    /// Loses the last of the messages that `node` has in flight: only the first `left` of them were
    /// really sent.
    pub(crate) fn keep_sent(&mut self, node: u32, left: impl FnOnce(usize) -> usize) {
        let sent = self.flights.iter().filter(|(_, copy)| copy.from.0 == node);
        let sent: Vec<_> = sent.map(|(due, _)| *due).collect();
        for due in &sent[left(sent.len())..] {
            self.flights.remove(due);
        }
    }

    /// The detectors of these processes report that `of` has crashed.
    pub(crate) fn notify_crashed(&mut self, at: impl IntoIterator<Item = u32>, of: u32) {
        self.notify_gone(at, of, 0);
    }

    /// These processes learn that `of` is a member in that incarnation.
    pub(crate) fn notify_joined(
        &mut self,
        at: impl IntoIterator<Item = u32>,
        of: u32,
        incarnation: u32,
    ) {
        for at in at {
            self.input(
                at,
                Input::Joined {
                    node: NodeId(of),
                    incarnation: Incarnation(incarnation),
                    view: ViewId(incarnation),
                },
            )
            .unwrap();
        }
    }

    /// These processes learn that that incarnation of `of` has ended.
    pub(crate) fn notify_gone(
        &mut self,
        at: impl IntoIterator<Item = u32>,
        of: u32,
        incarnation: u32,
    ) {
        for at in at {
            self.input(
                at,
                Input::Crashed { node: NodeId(of), incarnation: Incarnation(incarnation) },
            )
            .unwrap();
        }
    }

    /// Delivers the oldest message of that kind in one channel, whatever was sent before it.
    pub(crate) fn deliver_kind(&mut self, from: u32, to: u32, kind: &str) {
        let ours = |copy: &Copy<P::Message>| {
            (copy.from.0, copy.to.0) == (from, to)
                && P::Message::kind_name(copy.message.kind()) == kind
        };
        let place = self.flights.values().position(ours);
        self.deliver_nth(
            place.unwrap_or_else(|| panic!("no {kind} is in flight from p{from} to p{to}")),
        );
    }

    /// Loses the oldest message of one channel.
    pub(crate) fn lose(&mut self, from: u32, to: u32) {
        self.lose_nth(self.oldest(from, to));
    }

    /// Loses the n-th oldest message in flight.
    pub(crate) fn lose_nth(&mut self, place: usize) {
        let due = *self.flights.keys().nth(place).expect("that many are in flight");
        self.flights.remove(&due);
    }

    /// Duplicates the n-th oldest message in flight.
    pub(crate) fn double_nth(&mut self, place: usize) {
        let Copy { from, to, message } =
            self.flights.values().nth(place).expect("that many are in flight");
        let copy = Copy { from: *from, to: *to, message: message.clone() };
        let due = self.due_in(Span::ZERO);
        self.flights.insert(due, copy);
    }

    /// Fires an armed timer.
    pub(crate) fn expire(&mut self, at: u32, timer: P::Timer) {
        let armed = self.timers.remove(&(NodeId(at), timer.clone()));
        assert!(armed.is_some(), "{timer:?} of p{at} is not armed");
        self.input(at, Input::Expire(timer)).unwrap();
    }

    /// Delivers the oldest message of one channel.
    pub(crate) fn deliver(&mut self, from: u32, to: u32) {
        self.deliver_nth(self.oldest(from, to));
    }

    /// The place of the oldest message of one channel among all messages in flight.
    fn oldest(&self, from: u32, to: u32) -> usize {
        let place = self.flights.values().position(|copy| (copy.from.0, copy.to.0) == (from, to));
        place.unwrap_or_else(|| panic!("nothing is in flight from p{from} to p{to}"))
    }

    /// Delivers the n-th oldest message in flight.
    pub(crate) fn deliver_nth(&mut self, place: usize) {
        let due = *self.flights.keys().nth(place).expect("that many are in flight");
        let Copy { from, to, message } = self.flights.remove(&due).expect("found above");
        if !self.crashed.contains(&to) {
            self.input(to.0, Input::Deliver { from, message }).unwrap();
        }
    }

    /// Delivers everything, oldest first, until nothing is in flight.
    pub(crate) fn deliver_all(&mut self) {
        while !self.flights.is_empty() {
            self.deliver_nth(0);
        }
    }

    /// Virtual time passes; due events happen.
    pub(crate) fn run_until(&mut self, end: Time) {
        while self.step(end).is_some() {}
        self.now = end;
    }

    /// Performs the next event that is due by `end` and returns its process.
    pub(crate) fn step(&mut self, end: Time) -> Option<NodeId> {
        let (due, (at, timer)) = self.timers.iter().map(|(key, due)| (*due, key.clone())).min()?;
        let arrival = self.flights.first_key_value().filter(|(arrival, _)| **arrival < due);
        let (next, at_whom) = arrival.map_or((due, at), |(arrival, copy)| (*arrival, copy.to));
        if next.0 > end {
            return None;
        }
        self.now = next.0;
        if next == due {
            self.timers.remove(&(at, timer.clone()));
            self.input(at.0, Input::Expire(timer)).unwrap();
        } else {
            self.deliver_nth(0);
        }
        Some(at_whom)
    }

    pub(crate) fn live(&self) -> Vec<u32> {
        (0u32..)
            .take(self.nodes.len())
            .filter(|&node| !self.crashed.contains(&NodeId(node)))
            .collect()
    }

    /// The live processes that hold a slot.
    pub(crate) fn inside(&self) -> Vec<u32> {
        let holds = |&node: &u32| self.nodes[node as usize].observe().phase == Phase::Holding;
        self.live().into_iter().filter(holds).collect()
    }

    /// The sender and receiver of every message of that kind, sorted.
    pub(crate) fn sent(&self, kind: &str) -> Vec<(u32, u32)> {
        let ours =
            self.sent.iter().filter(|copy| P::Message::kind_name(copy.message.kind()) == kind);
        let mut pairs: Vec<_> = ours.map(|copy| (copy.from.0, copy.to.0)).collect();
        pairs.sort();
        pairs
    }

    fn carry_out(&mut self, from: NodeId, mut out: Outbox<P>) {
        while let Some(effect) = out.pop() {
            match effect {
                Effect::Send { to: To::One(to), message } => self.send(from, to, message),
                Effect::Send { to: To::Many(list), message } => {
                    list.iter().for_each(|&to| self.send(from, to, message.clone()));
                }
                Effect::Send { to: To::All, message } => {
                    let others = (0..self.setup.nodes).map(NodeId).filter(|&to| to != from);
                    others.for_each(|to| self.send(from, to, message.clone()));
                }
                Effect::Arm { timer, least, .. } => {
                    let due = self.due_in(least);
                    self.timers.insert((from, timer), due);
                }
                Effect::Disarm(timer) => drop(self.timers.remove(&(from, timer))),
                Effect::Notify(notice) => self.notices.push((self.now, from, *notice)),
                Effect::Persist(durable) => drop(self.stored.insert(from, durable)),
            }
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: P::Message) {
        let delay = (self.delay)();
        let due = self.due_in(delay);
        if !self.cuts.contains(&(from.0, to.0)) {
            self.flights.insert(due, Copy { from, to, message: message.clone() });
        }
        self.sent.push(Copy { from, to, message });
    }

    fn due_in(&mut self, span: Span) -> Due {
        self.scheduled += 1;
        (self.now + span, self.scheduled)
    }
}
