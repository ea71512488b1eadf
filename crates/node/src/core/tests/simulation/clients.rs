//! Clients that keep the rules of a session (S1 to S3): they renew, count validity from the
//! sending, stop in time, and release a late grant.
//!
//! A client *believes* to hold from the grant until it is done, until it has stopped after a loss,
//! or until its own deadline, whichever is first. A killed client leaves a child, which believes
//! until the deadline and sends nothing.

use std::collections::BTreeMap;

use kgate_control::state::Slots;
use kgate_core::{NodeId, Time};

use super::super::super::*;
use super::{Clock, Event, MILLISECOND, Mutation, Simulation};

/// A step that a client takes by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum ClientStep {
    /// Opens a stream, if it has none.
    Dial,
    /// Renews its session.
    Renew,
    /// Acquires a permit, if it is idle.
    Acquire,
    /// Its work with that permit is done.
    Applied(u64),
    /// Its deadline may have come.
    Deadline,
    /// It has stopped after a loss.
    Ended(u64),
}

/// The permit of a client.
#[derive(Clone, Debug)]
struct Held {
    number: u64,
    slots: Vec<u32>,
    /// It was told of the loss and is stopping.
    ending: bool,
    /// The client was killed; its child goes on to the deadline.
    orphan: bool,
}

/// A client.
#[derive(Debug)]
pub(super) struct SimulatedClient {
    node: NodeId,
    clock: Clock,
    stream: Option<ClientId>,
    session: Option<(SessionId, Secret)>,
    /// The deadline D, on its own clock.
    deadline: Time,
    hello_sent: Time,
    renewals: BTreeMap<u64, Time>,
    sequence: u64,
    number: u64,
    waits: Option<u64>,
    held: Option<Held>,
    /// How often it was granted a permit since the count was reset.
    pub(super) served: u64,
}

impl SimulatedClient {
    pub(super) fn new(node: NodeId, clock: Clock) -> Self {
        Self {
            node,
            clock,
            stream: None,
            session: None,
            deadline: Time::ZERO,
            hello_sent: Time::ZERO,
            renewals: BTreeMap::new(),
            sequence: 0,
            number: 0,
            waits: None,
            held: None,
            served: 0,
        }
    }
}

impl Simulation {
    fn clock_of(&self, client: usize) -> Time {
        self.clients[client].clock.read(self.now)
    }

    fn say(&mut self, client: usize, ask: ClientMessage) {
        let Some(stream) = self.clients[client].stream else { return };
        let node = self.clients[client].node;
        let boot = self.machines[&node].boot;
        self.at(MILLISECOND, Event::ClientMessage { node, boot, stream, ask });
    }

    pub(super) fn step(&mut self, client: usize, step: ClientStep) {
        let now = self.clock_of(client);
        match step {
            ClientStep::Dial => self.dial(client, now),
            ClientStep::Renew => {
                let me = &mut self.clients[client];
                if me.stream.is_none() {
                    return;
                }
                me.sequence += 1;
                let sequence = me.sequence;
                me.renewals.insert(sequence, now);
                self.say(client, ClientMessage::Renew { sequence });
                let after = self.timing.session_ping.0 + self.rng.below(5 * MILLISECOND);
                self.at(after, Event::Client(client, ClientStep::Renew));
            }
            ClientStep::Acquire if self.by_hand => {}
            ClientStep::Acquire => self.send_acquire(client, None),
            ClientStep::Applied(number) => {
                if self.is_inside(client, number) {
                    self.leave(client, true);
                }
            }
            ClientStep::Ended(number) => {
                if self.is_inside(client, number) {
                    self.checker.lost += 1;
                    self.leave(client, true);
                }
            }
            ClientStep::Deadline => {
                let Some(held) = &self.clients[client].held else { return };
                let (orphan, deadline) = (held.orphan, self.clients[client].deadline);
                if now < deadline {
                    return self.watch_deadline(client);
                }
                self.checker.lost += 1;
                self.leave(client, !orphan);
            }
        }
    }

    fn is_inside(&self, client: usize, number: u64) -> bool {
        self.clients[client].held.as_ref().is_some_and(|held| held.number == number && !held.orphan)
    }

    fn watch_deadline(&mut self, client: usize) {
        let me = &self.clients[client];
        let at = me.clock.real(me.deadline).max(self.now);
        self.at(at - self.now, Event::Client(client, ClientStep::Deadline));
    }

    /// The client has stopped using its permit.
    pub(super) fn leave(&mut self, client: usize, says_so: bool) {
        let Some(held) = self.clients[client].held.take() else { return };
        self.checker.leaves(client, &held.slots);
        if says_so {
            self.say(client, ClientMessage::Release { number: held.number });
        }
        let think = self.rng.below(200 * MILLISECOND);
        self.at(think, Event::Client(client, ClientStep::Acquire));
    }

    fn dial(&mut self, client: usize, now: Time) {
        let node = self.clients[client].node;
        if self.clients[client].stream.is_some() {
            return;
        }
        if self.machines[&node].core.is_none() {
            return self.at(30 * MILLISECOND, Event::Client(client, ClientStep::Dial));
        }
        self.opened += 1;
        let stream = ClientId(self.opened);
        self.streams.insert(stream, client);
        let me = &mut self.clients[client];
        (me.stream, me.hello_sent) = (Some(stream), now);
        me.renewals.clear();
        let orphan = me.held.as_ref().is_some_and(|held| held.orphan);
        let resume = me.session.filter(|_| me.held.is_some() && !orphan);
        let secret = Secret(u128::from(self.opened) + 1000);
        self.say(client, ClientMessage::Hello { process: Process::default(), resume, secret });
        self.at(self.timing.session_ping.0, Event::Client(client, ClientStep::Renew));
    }

    /// The first client of a node acquires.
    pub(super) fn acquire_at(&mut self, node: usize, k: Option<u32>) {
        self.send_acquire(node, k);
    }

    /// Whether the first client of a node believes to hold a permit.
    pub(in crate::core::tests) fn inside(&self, node: usize) -> bool {
        self.clients[node].held.is_some()
    }

    fn send_acquire(&mut self, client: usize, k: Option<u32>) {
        let me = &mut self.clients[client];
        if me.stream.is_none() || me.waits.is_some() || me.held.is_some() || me.session.is_none() {
            return;
        }
        me.number += 1;
        let number = me.number;
        me.waits = Some(number);
        let request = AcquireRequest { k: k.map(Slots::from), ..AcquireRequest::new("gpu") };
        self.say(client, ClientMessage::Acquire { number, request: request.into() });
    }

    /// A node sends a message to a client. The checker sees fences at the decision.
    pub(super) fn tell(&mut self, node: NodeId, stream: ClientId, mut tell: ServerMessage) {
        let durable = match &tell {
            ServerMessage::Granted { durable, .. } => durable.map(|durable| durable.permit.0),
            ServerMessage::Welcome { .. }
            | ServerMessage::OnceMarked { .. }
            | ServerMessage::PermitRenewed { .. }
            | ServerMessage::Refused { .. }
            | ServerMessage::Lost { .. }
            | ServerMessage::Withdrawn { .. }
            | ServerMessage::Released { .. }
            | ServerMessage::Renewed { .. }
            | ServerMessage::Closed { .. } => None,
        };
        let told_before = durable.is_some_and(|permit| !self.checker.durable_grants.insert(permit));
        if let ServerMessage::Granted { slots, fence: Some(fence), .. } = &mut tell
            && !told_before
        {
            let machine = self.machine(node);
            machine.lamport += 1;
            let lamport = machine.lamport;
            if self.mutation == Some(Mutation::FenceOfDecision) {
                fence.0 = u128::from(lamport) << 16 | u128::from(node.0);
            }
            self.checker.decided(self.now, slots, fence.0);
        }
        let whole = self.timing.lease;
        if let ServerMessage::Welcome { valid_for, .. } | ServerMessage::Renewed { valid_for, .. } =
            &mut tell
            && self.mutation == Some(Mutation::AlwaysWholeLease)
        {
            *valid_for = Some(whole);
        }
        self.at(MILLISECOND, Event::Told { stream, tell });
    }

    pub(super) fn received(&mut self, stream: ClientId, tell: ServerMessage) {
        if let Some(&durable_client) = self.durable_streams.get(&stream) {
            return self.durable_client_receives(durable_client, stream, tell);
        }
        let Some(&client) = self.streams.get(&stream) else { return };
        let now = self.clock_of(client);
        let me = &mut self.clients[client];
        match tell {
            ServerMessage::Welcome { session, secret, valid_for, holds } => {
                me.session = Some((session, secret));
                if me.held.as_ref().is_none_or(|held| !held.orphan) {
                    me.deadline =
                        me.deadline.max(me.hello_sent + valid_for.expect("sessions have time"));
                }
                let lost = me
                    .held
                    .as_ref()
                    .is_some_and(|held| !held.orphan && !holds.contains(&held.number));
                if lost {
                    self.lose(client);
                }
                self.at(MILLISECOND, Event::Client(client, ClientStep::Acquire));
            }
            ServerMessage::Renewed { sequence, valid_for } => {
                if let Some(sent) = me.renewals.remove(&sequence) {
                    // The child of a killed client has a deadline of its own.
                    if me.held.as_ref().is_none_or(|held| !held.orphan) {
                        me.deadline =
                            me.deadline.max(sent + valid_for.expect("sessions have time"));
                    }
                }
            }
            ServerMessage::Granted { number, slots, fence, .. } => {
                self.grants.insert(client, (slots.clone(), fence.map_or(0, |fence| fence.0)));
                self.enter(client, now, number, slots);
            }
            ServerMessage::Refused { number, code: why, message: text } => {
                self.refusals.insert(client, (why, text));
                if me.waits == Some(number) {
                    me.waits = None;
                    self.checker.refused += 1;
                    self.at(100 * MILLISECOND, Event::Client(client, ClientStep::Acquire));
                }
            }
            ServerMessage::Lost { number, .. } => {
                if me.held.as_ref().is_some_and(|held| held.number == number) {
                    self.lose(client);
                }
            }
            ServerMessage::Closed { .. } => {
                self.streams.remove(&stream);
                (me.stream, me.session, me.waits) = (None, None, None);
                self.lose(client);
                self.at(10 * MILLISECOND, Event::Client(client, ClientStep::Dial));
            }
            ServerMessage::Withdrawn { .. }
            | ServerMessage::Released { .. }
            | ServerMessage::OnceMarked { .. }
            | ServerMessage::PermitRenewed { .. } => {}
        }
    }

    fn enter(&mut self, client: usize, now: Time, number: u64, slots: Vec<u32>) {
        let stop = self.timing.grace + self.timing.kill;
        let me = &mut self.clients[client];
        let late = now + stop >= me.deadline;
        if me.waits != Some(number) || late || me.held.is_some() {
            // S2: a grant extends no validity, and a late grant is released.
            if me.waits == Some(number) {
                me.waits = None;
                self.at(50 * MILLISECOND, Event::Client(client, ClientStep::Acquire));
            }
            return self.say(client, ClientMessage::Release { number });
        }
        me.waits = None;
        me.served += 1;
        me.held = Some(Held { number, slots: slots.clone(), ending: false, orphan: false });
        self.checker.enters(self.now, client, &slots);
        let most = if self.healed { 50 } else { 1500 };
        let work = self.rng.within(5 * MILLISECOND, most * MILLISECOND);
        if !self.by_hand {
            self.at(work, Event::Client(client, ClientStep::Applied(number)));
        }
        self.watch_deadline(client);
    }

    /// S3: SIGTERM now, SIGKILL after the grace, dead by then; never after the deadline.
    fn lose(&mut self, client: usize) {
        let after = self.timing.grace.0 + self.timing.kill.0;
        let Some(held) = &mut self.clients[client].held else { return };
        if !held.orphan && !std::mem::replace(&mut held.ending, true) {
            let number = held.number;
            self.at(after, Event::Client(client, ClientStep::Ended(number)));
        }
    }

    /// All streams to a node end.
    pub(super) fn cut_streams(&mut self, node: NodeId) {
        for client in 0..self.clients.len() {
            if self.clients[client].node == node {
                self.cut_stream(client);
            }
        }
        self.cut_durable_clients(node);
    }

    /// A stream ends. The node notices, and the client connects again.
    pub(super) fn cut_stream(&mut self, client: usize) {
        let me = &mut self.clients[client];
        let Some(stream) = me.stream.take() else { return };
        me.waits = None;
        self.streams.remove(&stream);
        let node = me.node;
        let boot = self.machines[&node].boot;
        self.at(2 * MILLISECOND, Event::Gone { node, boot, stream });
        self.at(20 * MILLISECOND, Event::Client(client, ClientStep::Dial));
    }

    /// A client is killed. Its child goes on, and another client takes its place.
    pub(super) fn kill_client(&mut self, client: usize) {
        self.cut_stream(client);
        let me = &mut self.clients[client];
        me.session = None;
        if let Some(held) = &mut me.held {
            held.orphan = true;
        }
    }

    pub(super) fn clients(&self) -> usize {
        self.clients.len()
    }

    pub(super) fn begin_count(&mut self) {
        self.clients.iter_mut().for_each(|client| client.served = 0);
        self.durable_clients.iter_mut().for_each(|durable_client| durable_client.served = 0);
    }

    /// The clients that have not been served since.
    pub(super) fn unserved(&self) -> Vec<usize> {
        let clients = (0..self.clients.len()).filter(|client| self.clients[*client].served == 0);
        let durable_clients = (0..self.durable_clients.len())
            .filter(|durable_client| self.durable_clients[*durable_client].served == 0);
        clients.chain(durable_clients.map(|durable_client| 1000 + durable_client)).collect()
    }
}
