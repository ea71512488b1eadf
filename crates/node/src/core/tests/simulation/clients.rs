//! Clients that keep the rules of a session (S1 to S3): renew, count from the sending, stop in
//! time, give back what comes late.
//!
//! What a client *believes* lasts from the grant until it is done, or has heard of a loss and
//! ended, or its own deadline has come, whichever is first. A client that is killed leaves a child:
//! that believes until the deadline, and nobody says so.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Time};

use super::super::super::*;
use super::{Clock, Event, MILLISECOND, Mutation, Simulation};

/// What a client does by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum ClientStep {
    /// Opens a stream, if it has none.
    Dial,
    /// Says that it is alive.
    Renew,
    /// Wants a permit, if it is idle.
    Wish,
    /// Its work with that request is done.
    Applied(u64),
    /// Its deadline may have come.
    Deadline,
    /// Whatever it did with that request has ended, after a loss.
    Ended(u64),
}

/// What it has.
#[derive(Clone, Debug)]
struct Held {
    number: u64,
    slots: Vec<u32>,
    /// It has heard that it is lost, and ends.
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
    /// D, on its own clock.
    deadline: Time,
    hello_sent: Time,
    renewals: BTreeMap<u64, Time>,
    sequence: u64,
    number: u64,
    waits: Option<u64>,
    held: Option<Held>,
    /// Times it got in, since the count was last set to zero.
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
    fn clock_of(&self, actor: usize) -> Time {
        self.actors[actor].clock.read(self.now)
    }

    fn say(&mut self, actor: usize, ask: ClientMessage) {
        let Some(stream) = self.actors[actor].stream else { return };
        let node = self.actors[actor].node;
        let boot = self.machines[&node].boot;
        self.at(MILLISECOND, Event::ClientMessage { node, boot, stream, ask });
    }

    pub(super) fn cue(&mut self, actor: usize, cue: ClientStep) {
        let now = self.clock_of(actor);
        match cue {
            ClientStep::Dial => self.dial(actor, now),
            ClientStep::Renew => {
                let me = &mut self.actors[actor];
                if me.stream.is_none() {
                    return;
                }
                me.sequence += 1;
                let sequence = me.sequence;
                me.renewals.insert(sequence, now);
                self.say(actor, ClientMessage::Renew { sequence });
                let after = self.timing.session_ping.0 + self.rng.below(5 * MILLISECOND);
                self.at(after, Event::Client(actor, ClientStep::Renew));
            }
            ClientStep::Wish if self.by_hand => {}
            ClientStep::Wish => self.wish(actor, None),
            ClientStep::Applied(number) => {
                if self.is_inside(actor, number) {
                    self.leave(actor, true);
                }
            }
            ClientStep::Ended(number) => {
                if self.is_inside(actor, number) {
                    self.checker.lost += 1;
                    self.leave(actor, true);
                }
            }
            ClientStep::Deadline => {
                let Some(held) = &self.actors[actor].held else { return };
                let (orphan, deadline) = (held.orphan, self.actors[actor].deadline);
                if now < deadline {
                    return self.watch_deadline(actor);
                }
                self.checker.lost += 1;
                self.leave(actor, !orphan);
            }
        }
    }

    fn is_inside(&self, actor: usize, number: u64) -> bool {
        self.actors[actor].held.as_ref().is_some_and(|held| held.number == number && !held.orphan)
    }

    fn watch_deadline(&mut self, actor: usize) {
        let me = &self.actors[actor];
        let at = me.clock.real(me.deadline).max(self.now);
        self.at(at - self.now, Event::Client(actor, ClientStep::Deadline));
    }

    /// It is outside: nothing of what it did goes on.
    fn leave(&mut self, actor: usize, says_so: bool) {
        let Some(held) = self.actors[actor].held.take() else { return };
        self.checker.leaves(actor, &held.slots);
        if says_so {
            self.say(actor, ClientMessage::Release { number: held.number });
        }
        let think = self.rng.below(200 * MILLISECOND);
        self.at(think, Event::Client(actor, ClientStep::Wish));
    }

    fn dial(&mut self, actor: usize, now: Time) {
        let node = self.actors[actor].node;
        if self.actors[actor].stream.is_some() {
            return;
        }
        if self.machines[&node].core.is_none() {
            return self.at(30 * MILLISECOND, Event::Client(actor, ClientStep::Dial));
        }
        self.opened += 1;
        let stream = ClientId(self.opened);
        self.streams.insert(stream, actor);
        let me = &mut self.actors[actor];
        (me.stream, me.hello_sent) = (Some(stream), now);
        me.renewals.clear();
        let orphan = me.held.as_ref().is_some_and(|held| held.orphan);
        let resume = me.session.filter(|_| me.held.is_some() && !orphan);
        let secret = Secret(u128::from(self.opened) + 1000);
        self.say(actor, ClientMessage::Hello { process: Process::default(), resume, secret });
        self.at(self.timing.session_ping.0, Event::Client(actor, ClientStep::Renew));
    }

    /// The first client of a node asks.
    pub(super) fn wish_for(&mut self, node: usize, k: Option<u32>) {
        self.wish(node, k);
    }

    /// Whether the first client of a node believes to be inside.
    pub(in crate::core::tests) fn inside(&self, node: usize) -> bool {
        self.actors[node].held.is_some()
    }

    fn wish(&mut self, actor: usize, k: Option<u32>) {
        let me = &mut self.actors[actor];
        if me.stream.is_none() || me.waits.is_some() || me.held.is_some() || me.session.is_none() {
            return;
        }
        me.number += 1;
        let number = me.number;
        me.waits = Some(number);
        let gate = "gpu".into();
        let keep = DurableOptions::default();
        self.say(
            actor,
            ClientMessage::Acquire {
                number,
                request: AcquireRequest {
                    gate,
                    weight: 1,
                    k,
                    wait: true,
                    process: None,
                    durable: keep,
                },
            },
        );
    }

    /// A node tells a client something. Its fences are looked at when it decides.
    pub(super) fn tell(&mut self, node: NodeId, stream: ClientId, mut tell: ServerMessage) {
        let told_before = matches!(&tell, ServerMessage::Granted { durable: Some(kept), .. } if !self.checker.told_permits.insert(kept.permit.0));
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

    pub(super) fn told(&mut self, stream: ClientId, tell: ServerMessage) {
        if let Some(&keeper) = self.keeper_streams.get(&stream) {
            return self.keeper_told(keeper, stream, tell);
        }
        let Some(&actor) = self.streams.get(&stream) else { return };
        let now = self.clock_of(actor);
        let me = &mut self.actors[actor];
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
                    self.lose(actor);
                }
                self.at(MILLISECOND, Event::Client(actor, ClientStep::Wish));
            }
            ServerMessage::Renewed { sequence, valid_for } => {
                if let Some(sent) = me.renewals.remove(&sequence) {
                    // The child that a killed client left has a deadline of its own.
                    if me.held.as_ref().is_none_or(|held| !held.orphan) {
                        me.deadline =
                            me.deadline.max(sent + valid_for.expect("sessions have time"));
                    }
                }
            }
            ServerMessage::Granted { number, slots, fence, .. } => {
                self.grants.insert(actor, (slots.clone(), fence.map_or(0, |fence| fence.0)));
                self.enter(actor, now, number, slots);
            }
            ServerMessage::Refused { number, code: why, message: text } => {
                self.refusals.insert(actor, (why, text));
                if me.waits == Some(number) {
                    me.waits = None;
                    self.checker.refused += 1;
                    self.at(100 * MILLISECOND, Event::Client(actor, ClientStep::Wish));
                }
            }
            ServerMessage::Lost { number, .. } => {
                if me.held.as_ref().is_some_and(|held| held.number == number) {
                    self.lose(actor);
                }
            }
            ServerMessage::Closed { .. } => {
                self.streams.remove(&stream);
                (me.stream, me.session, me.waits) = (None, None, None);
                self.lose(actor);
                self.at(10 * MILLISECOND, Event::Client(actor, ClientStep::Dial));
            }
            ServerMessage::Withdrawn { .. }
            | ServerMessage::Released { .. }
            | ServerMessage::PermitRenewed { .. } => {}
        }
    }

    fn enter(&mut self, actor: usize, now: Time, number: u64, slots: Vec<u32>) {
        let stop = self.timing.grace + self.timing.kill;
        let me = &mut self.actors[actor];
        let late = now + stop >= me.deadline;
        if me.waits != Some(number) || late || me.held.is_some() {
            // S2: a grant extends nothing, and one that comes late is given back.
            if me.waits == Some(number) {
                me.waits = None;
                self.at(50 * MILLISECOND, Event::Client(actor, ClientStep::Wish));
            }
            return self.say(actor, ClientMessage::Release { number });
        }
        me.waits = None;
        me.served += 1;
        me.held = Some(Held { number, slots: slots.clone(), ending: false, orphan: false });
        self.checker.enters(self.now, actor, &slots);
        let most = if self.healed { 50 } else { 1500 };
        let work = self.rng.within(5 * MILLISECOND, most * MILLISECOND);
        if !self.by_hand {
            self.at(work, Event::Client(actor, ClientStep::Applied(number)));
        }
        self.watch_deadline(actor);
    }

    /// S3: TERM now, KILL after the grace, dead by then; never after the deadline.
    fn lose(&mut self, actor: usize) {
        let after = self.timing.grace.0 + self.timing.kill.0;
        let Some(held) = &mut self.actors[actor].held else { return };
        if !held.orphan && !std::mem::replace(&mut held.ending, true) {
            let number = held.number;
            self.at(after, Event::Client(actor, ClientStep::Ended(number)));
        }
    }

    /// All streams to a node end.
    pub(super) fn cut_streams(&mut self, node: NodeId) {
        for actor in 0..self.actors.len() {
            if self.actors[actor].node == node {
                self.cut_stream(actor);
            }
        }
        self.cut_keepers(node);
    }

    /// A stream ends; the node finds out, and the client dials again.
    pub(super) fn cut_stream(&mut self, actor: usize) {
        let me = &mut self.actors[actor];
        let Some(stream) = me.stream.take() else { return };
        me.waits = None;
        self.streams.remove(&stream);
        let node = me.node;
        let boot = self.machines[&node].boot;
        self.at(2 * MILLISECOND, Event::Gone { node, boot, stream });
        self.at(20 * MILLISECOND, Event::Client(actor, ClientStep::Dial));
    }

    /// A client is killed: its child goes on, and another client comes in its place.
    pub(super) fn kill_client(&mut self, actor: usize) {
        self.cut_stream(actor);
        let me = &mut self.actors[actor];
        me.session = None;
        if let Some(held) = &mut me.held {
            held.orphan = true;
        }
    }

    pub(super) fn actors(&self) -> usize {
        self.actors.len()
    }

    pub(super) fn begin_count(&mut self) {
        self.actors.iter_mut().for_each(|actor| actor.served = 0);
        self.keepers.iter_mut().for_each(|keeper| keeper.served = 0);
    }

    /// Who has not been served since.
    pub(super) fn unserved(&self) -> Vec<usize> {
        let actors = (0..self.actors.len()).filter(|actor| self.actors[*actor].served == 0);
        let keepers = (0..self.keepers.len()).filter(|keeper| self.keepers[*keeper].served == 0);
        actors.chain(keepers.map(|keeper| 1000 + keeper)).collect()
    }
}
