//! Clients whose permits the log holds: they go from node to node, and keep what they have through
//! everything (docs/internals/leases.md section 8).
//!
//! A keeper believes from when it is told until it says that it is done. No deadline ends that, no
//! silence, no restart. With the same secret it asks elsewhere when its node is gone; what it is
//! done with it gives back until somebody has heard it.

use kgate_control::state::PermitId;
use kgate_core::{NodeId, Span};

use super::super::super::*;
use super::{Event, MILLISECOND, SECOND, Simulation};

/// What a keeper does by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeeperStep {
    /// Opens a stream to the next node, if it has none.
    Dial,
    /// Says that its session is alive.
    Renew,
    /// Wants a permit, if it has none.
    Wish,
    /// Its work is done.
    Applied,
    /// Gives back what it is done with, until it is heard.
    Owe,
}

/// A keeper.
#[derive(Debug)]
pub(in crate::core::tests) struct Keeper {
    pub(super) node: NodeId,
    stream: Option<ClientId>,
    number: u64,
    /// What it has asked for and not got; and by which request, if one is out.
    wants: Option<Secret>,
    waits: Option<u64>,
    pub(super) held: Option<(PermitId, Secret, Vec<u32>)>,
    owes: Option<(PermitId, Secret)>,
    pub(super) ttl: Span,
    /// How long its work takes, if that is not drawn.
    pub(super) work: Option<u64>,
    /// When it was told, in real time.
    pub(super) told_at: u64,
    pub(super) served: u64,
}

/// The checker's names of keepers begin here.
const NAMES: usize = 1000;

impl Simulation {
    /// So many keepers come, too.
    pub(in crate::core::tests) fn add_keepers(&mut self, count: u32) {
        let nodes = u32::try_from(self.machines.len()).expect("few");
        for at in 0..count {
            self.keepers.push(Keeper {
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
            self.at(500 * MILLISECOND, Event::Keeper(at as usize, KeeperStep::Dial));
        }
    }

    fn keeper_says(&mut self, keeper: usize, ask: ClientMessage) {
        let Keeper { node, stream: Some(stream), .. } = self.keepers[keeper] else { return };
        let boot = self.machines[&node].boot;
        self.at(MILLISECOND, Event::ClientMessage { node, boot, stream, ask });
    }

    pub(super) fn keeper_cue(&mut self, keeper: usize, cue: KeeperStep) {
        match cue {
            KeeperStep::Dial => self.keeper_dials(keeper),
            KeeperStep::Renew => {
                if self.keepers[keeper].stream.is_some() {
                    self.keeper_says(keeper, ClientMessage::Renew { sequence: 0 });
                    self.at(self.timing.session_ping.0, Event::Keeper(keeper, KeeperStep::Renew));
                }
            }
            KeeperStep::Wish => self.keeper_wishes(keeper),
            KeeperStep::Applied => {
                if let Some((permit, secret, slots)) = self.keepers[keeper].held.take() {
                    self.checker.leaves(NAMES + keeper, &slots);
                    self.keepers[keeper].owes = Some((permit, secret));
                    self.keeper_cue(keeper, KeeperStep::Owe);
                }
            }
            KeeperStep::Owe => {
                let me = &mut self.keepers[keeper];
                let Some((permit, secret)) = me.owes else { return };
                me.number += 1;
                let (number, word) = (me.number, PermitCommand::Release);
                self.keeper_says(
                    keeper,
                    ClientMessage::Permit { number, permit, secret, command: word },
                );
                self.at(300 * MILLISECOND, Event::Keeper(keeper, KeeperStep::Owe));
            }
        }
    }

    fn keeper_dials(&mut self, keeper: usize) {
        if self.keepers[keeper].stream.is_some() {
            return;
        }
        let nodes = u32::try_from(self.machines.len()).expect("few");
        let node = NodeId((self.keepers[keeper].node.0 + 1) % nodes);
        self.keepers[keeper].node = node;
        if self.machines[&node].core.is_none() {
            return self.at(30 * MILLISECOND, Event::Keeper(keeper, KeeperStep::Dial));
        }
        self.opened += 1;
        let stream = ClientId(self.opened);
        self.keeper_streams.insert(stream, keeper);
        self.keepers[keeper].stream = Some(stream);
        let secret = Secret(u128::from(self.opened) + 1000);
        self.keeper_says(
            keeper,
            ClientMessage::Hello { process: Process::default(), resume: None, secret },
        );
        self.at(self.timing.session_ping.0, Event::Keeper(keeper, KeeperStep::Renew));
    }

    fn keeper_wishes(&mut self, keeper: usize) {
        let fresh = Secret(u128::from(self.seq) + (1 << 64));
        let me = &mut self.keepers[keeper];
        if me.stream.is_none() || me.waits.is_some() || me.held.is_some() || me.owes.is_some() {
            return;
        }
        me.number += 1;
        me.waits = Some(me.number);
        let secret = *me.wants.get_or_insert(fresh);
        let keep = DurableOptions { policy: None, ttl: Some(me.ttl), secret };
        let (number, gate) = (me.number, "gpu".into());
        let ask = ClientMessage::Acquire {
            number,
            request: AcquireRequest {
                gate,
                weight: 1,
                k: None,
                wait: true,
                process: None,
                durable: keep,
            },
        };
        self.keeper_says(keeper, ask);
    }

    pub(super) fn keeper_told(&mut self, keeper: usize, stream: ClientId, tell: ServerMessage) {
        let now = self.now;
        let me = &mut self.keepers[keeper];
        match tell {
            ServerMessage::Welcome { .. } => {
                self.at(MILLISECOND, Event::Keeper(keeper, KeeperStep::Wish));
                self.at(MILLISECOND, Event::Keeper(keeper, KeeperStep::Owe));
            }
            ServerMessage::Granted { number, slots, durable: Some(kept), .. } => {
                let asked = me.wants.take_if(|_| me.waits == Some(number));
                let Some(secret) = asked else {
                    return self
                        .checker
                        .violations
                        .push("a keeper was given what it had not asked for".into());
                };
                me.waits = None;
                me.held = Some((kept.permit, secret, slots.clone()));
                (me.served, me.told_at) = (me.served + 1, now);
                let fixed = me.work;
                self.checker.enters(now, NAMES + keeper, &slots);
                let most = if self.healed { 50 } else { 1500 };
                let drawn = self.rng.within(5 * MILLISECOND, most * MILLISECOND);
                self.at(fixed.unwrap_or(drawn), Event::Keeper(keeper, KeeperStep::Applied));
            }
            ServerMessage::Granted { .. } => {
                self.checker.violations.push("a keeper was given a lease".into())
            }
            ServerMessage::Refused { number, .. } => {
                me.waits.take_if(|waits| *waits == number);
                self.at(100 * MILLISECOND, Event::Keeper(keeper, KeeperStep::Wish));
            }
            ServerMessage::Released { .. } => {
                me.owes = None;
                let think = self.rng.below(200 * MILLISECOND);
                self.at(think, Event::Keeper(keeper, KeeperStep::Wish));
            }
            ServerMessage::Lost { message: text, .. } => {
                // Told of what it has given back by now, it means nothing.
                if let Some((_, _, slots)) = me.held.take() {
                    self.checker.lost_held.push(text);
                    self.checker.leaves(NAMES + keeper, &slots);
                }
            }
            ServerMessage::Closed { .. } => {
                self.keeper_streams.remove(&stream);
                (me.stream, me.waits) = (None, None);
                self.at(10 * MILLISECOND, Event::Keeper(keeper, KeeperStep::Dial));
            }
            ServerMessage::PermitRenewed { .. }
            | ServerMessage::Renewed { .. }
            | ServerMessage::Withdrawn { .. } => {}
        }
    }

    /// A keeper shows its secret, at whatever node it is now.
    pub(super) fn keeper_renews(&mut self, keeper: usize) {
        let me = &mut self.keepers[keeper];
        let Some((permit, secret, _)) = me.held else { return };
        me.number += 1;
        let (number, word) = (me.number, PermitCommand::Renew);
        self.keeper_says(keeper, ClientMessage::Permit { number, permit, secret, command: word });
    }

    /// The streams of keepers to a node end.
    pub(super) fn cut_keepers(&mut self, node: NodeId) {
        for keeper in 0..self.keepers.len() {
            if self.keepers[keeper].node == node {
                self.cut_keeper(keeper);
            }
        }
    }

    pub(super) fn cut_keeper(&mut self, keeper: usize) {
        let me = &mut self.keepers[keeper];
        let Some(stream) = me.stream.take() else { return };
        me.waits = None;
        let node = me.node;
        self.keeper_streams.remove(&stream);
        let boot = self.machines[&node].boot;
        self.at(2 * MILLISECOND, Event::Gone { node, boot, stream });
        self.at(20 * MILLISECOND, Event::Keeper(keeper, KeeperStep::Dial));
    }
}
