//! Clients with durable permits: they move from node to node and keep their permit through all
//! faults (docs/internals/leases.md section 8).
//!
//! Such a client believes to hold from the grant until it is done. No deadline, silence or restart
//! ends that. When its node is gone it retries at another one with the same secret. When it is done
//! it releases the permit, until a node has answered.

use kgate_control::state::PermitId;
use kgate_core::{NodeId, Span};

use super::super::super::*;
use super::{Event, MILLISECOND, SECOND, Simulation};

/// A step that such a client takes by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum DurableClientStep {
    /// Opens a stream to the next node, if it has none.
    Dial,
    /// Renews its session.
    Renew,
    /// Acquires a permit, if it has none.
    Acquire,
    /// Its work is done.
    Applied,
    /// Releases its permit, until a node answers.
    Owe,
}

/// A client with a durable permit.
#[derive(Debug)]
pub(in crate::core::tests) struct DurableClient {
    pub(super) node: NodeId,
    stream: Option<ClientId>,
    number: u64,
    /// The secret of its open request, and the number of the request, if one is sent.
    wants: Option<Secret>,
    waits: Option<u64>,
    pub(super) held: Option<(PermitId, Secret, Vec<u32>)>,
    owes: Option<(PermitId, Secret)>,
    pub(super) ttl: Span,
    /// The duration of its work, if it is not random.
    pub(super) work: Option<u64>,
    /// When it was granted the permit, in real time.
    pub(super) told_at: u64,
    pub(super) served: u64,
}

/// The checker's ids of these clients begin here.
const NAMES: usize = 1000;

impl Simulation {
    /// Adds such clients.
    pub(in crate::core::tests) fn add_durable_clients(&mut self, count: u32) {
        let nodes = u32::try_from(self.machines.len()).expect("few");
        for at in 0..count {
            self.durable_clients.push(DurableClient {
                node: NodeId(at % nodes),
                stream: None,
                number: 0,
                wants: None,
                waits: None,
                held: None,
                owes: None,
                ttl: Span(600 * SECOND),
                work: None,
                told_at: 0,
                served: 0,
            });
            self.at(500 * MILLISECOND, Event::DurableClient(at as usize, DurableClientStep::Dial));
        }
    }

    fn durable_client_sends(&mut self, durable_client: usize, ask: ClientMessage) {
        let DurableClient { node, stream: Some(stream), .. } = self.durable_clients[durable_client]
        else {
            return;
        };
        let boot = self.machines[&node].boot;
        self.at(MILLISECOND, Event::ClientMessage { node, boot, stream, ask });
    }

    pub(super) fn durable_client_step(&mut self, durable_client: usize, step: DurableClientStep) {
        match step {
            DurableClientStep::Dial => self.durable_client_dials(durable_client),
            DurableClientStep::Renew => {
                if self.durable_clients[durable_client].stream.is_some() {
                    self.durable_client_sends(durable_client, ClientMessage::Renew { sequence: 0 });
                    self.at(
                        self.timing.session_ping.0,
                        Event::DurableClient(durable_client, DurableClientStep::Renew),
                    );
                }
            }
            DurableClientStep::Acquire => self.durable_client_acquires(durable_client),
            DurableClientStep::Applied => {
                if let Some((permit, secret, slots)) =
                    self.durable_clients[durable_client].held.take()
                {
                    self.checker.leaves(NAMES + durable_client, &slots);
                    self.durable_clients[durable_client].owes = Some((permit, secret));
                    self.durable_client_step(durable_client, DurableClientStep::Owe);
                }
            }
            DurableClientStep::Owe => {
                let me = &mut self.durable_clients[durable_client];
                let Some((permit, secret)) = me.owes else { return };
                me.number += 1;
                let (number, word) = (me.number, PermitCommand::Release);
                self.durable_client_sends(
                    durable_client,
                    ClientMessage::Permit { number, permit, secret, command: word },
                );
                self.at(
                    300 * MILLISECOND,
                    Event::DurableClient(durable_client, DurableClientStep::Owe),
                );
            }
        }
    }

    fn durable_client_dials(&mut self, durable_client: usize) {
        if self.durable_clients[durable_client].stream.is_some() {
            return;
        }
        let nodes = u32::try_from(self.machines.len()).expect("few");
        let node = NodeId((self.durable_clients[durable_client].node.0 + 1) % nodes);
        self.durable_clients[durable_client].node = node;
        if self.machines[&node].core.is_none() {
            return self.at(
                30 * MILLISECOND,
                Event::DurableClient(durable_client, DurableClientStep::Dial),
            );
        }
        self.opened += 1;
        let stream = ClientId(self.opened);
        self.durable_streams.insert(stream, durable_client);
        self.durable_clients[durable_client].stream = Some(stream);
        let secret = Secret(u128::from(self.opened) + 1000);
        self.durable_client_sends(
            durable_client,
            ClientMessage::Hello { process: Process::default(), resume: None, secret },
        );
        self.at(
            self.timing.session_ping.0,
            Event::DurableClient(durable_client, DurableClientStep::Renew),
        );
    }

    fn durable_client_acquires(&mut self, durable_client: usize) {
        let fresh = Secret(u128::from(self.seq) + (1 << 64));
        let me = &mut self.durable_clients[durable_client];
        if me.stream.is_none() || me.waits.is_some() || me.held.is_some() || me.owes.is_some() {
            return;
        }
        me.number += 1;
        me.waits = Some(me.number);
        let secret = *me.wants.get_or_insert(fresh);
        let keep = DurableOptions { policy: None, ttl: Some(me.ttl), secret };
        let request = AcquireRequest { durable: keep, ..AcquireRequest::new("gpu") }.into();
        let ask = ClientMessage::Acquire { number: me.number, request };
        self.durable_client_sends(durable_client, ask);
    }

    pub(super) fn durable_client_receives(
        &mut self,
        durable_client: usize,
        stream: ClientId,
        tell: ServerMessage,
    ) {
        let now = self.now;
        let me = &mut self.durable_clients[durable_client];
        match tell {
            ServerMessage::Welcome { .. } => {
                self.at(
                    MILLISECOND,
                    Event::DurableClient(durable_client, DurableClientStep::Acquire),
                );
                self.at(MILLISECOND, Event::DurableClient(durable_client, DurableClientStep::Owe));
            }
            ServerMessage::Granted { number, slots, durable: Some(kept), .. } => {
                let asked = me.wants.take_if(|_| me.waits == Some(number));
                let Some(secret) = asked else {
                    return self.checker.violations.push(
                        "a durable client was granted a permit that it had not requested".into(),
                    );
                };
                me.waits = None;
                me.held = Some((kept.permit, secret, slots.clone()));
                (me.served, me.told_at) = (me.served + 1, now);
                let fixed = me.work;
                self.checker.enters(now, NAMES + durable_client, &slots);
                let most = if self.healed { 50 } else { 1500 };
                let drawn = self.rng.within(5 * MILLISECOND, most * MILLISECOND);
                self.at(
                    fixed.unwrap_or(drawn),
                    Event::DurableClient(durable_client, DurableClientStep::Applied),
                );
            }
            ServerMessage::Granted { .. } => self
                .checker
                .violations
                .push("a durable client was granted a permit that is not durable".into()),
            ServerMessage::Refused { number, .. } => {
                me.waits.take_if(|waits| *waits == number);
                self.at(
                    100 * MILLISECOND,
                    Event::DurableClient(durable_client, DurableClientStep::Acquire),
                );
            }
            ServerMessage::Released { .. } => {
                me.owes = None;
                let think = self.rng.below(200 * MILLISECOND);
                self.at(think, Event::DurableClient(durable_client, DurableClientStep::Acquire));
            }
            ServerMessage::Lost { message: text, .. } => {
                // A loss of a released permit means nothing.
                if let Some((_, _, slots)) = me.held.take() {
                    self.checker.durable_losses.push(text);
                    self.checker.leaves(NAMES + durable_client, &slots);
                }
            }
            ServerMessage::Closed { .. } => {
                self.durable_streams.remove(&stream);
                (me.stream, me.waits) = (None, None);
                self.at(
                    10 * MILLISECOND,
                    Event::DurableClient(durable_client, DurableClientStep::Dial),
                );
            }
            ServerMessage::PermitRenewed { .. }
            | ServerMessage::OnceMarked { .. }
            | ServerMessage::Renewed { .. }
            | ServerMessage::Withdrawn { .. } => {}
        }
    }

    /// The client renews its permit at its present node.
    pub(super) fn durable_client_renews(&mut self, durable_client: usize) {
        let me = &mut self.durable_clients[durable_client];
        let Some((permit, secret, _)) = me.held else { return };
        me.number += 1;
        let (number, word) = (me.number, PermitCommand::Renew);
        self.durable_client_sends(
            durable_client,
            ClientMessage::Permit { number, permit, secret, command: word },
        );
    }

    /// The streams of these clients to a node end.
    pub(super) fn cut_durable_clients(&mut self, node: NodeId) {
        for durable_client in 0..self.durable_clients.len() {
            if self.durable_clients[durable_client].node == node {
                self.cut_durable_client(durable_client);
            }
        }
    }

    pub(super) fn cut_durable_client(&mut self, durable_client: usize) {
        let me = &mut self.durable_clients[durable_client];
        let Some(stream) = me.stream.take() else { return };
        me.waits = None;
        let node = me.node;
        self.durable_streams.remove(&stream);
        let boot = self.machines[&node].boot;
        self.at(2 * MILLISECOND, Event::Gone { node, boot, stream });
        self.at(20 * MILLISECOND, Event::DurableClient(durable_client, DurableClientStep::Dial));
    }
}
