//! One gate at one node: its protocol, and the local clients that wait for it or hold something of
//! it.
//!
//! A protocol with numbered slots knows all clients that wait here, in their order, and may ask for
//! several at once. A protocol of the papers serves one client at a time: the others wait here
//! until it is free.

mod deciding;
mod withdraw;

pub(super) use deciding::Deciding;
pub use deciding::Hold;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use kgate_core::{
    Effect, Fence, GrantId, Incarnation, Input, NodeId, Notice, Phase, Span, Time, To, ViewId,
};

use super::definition::Definition;
use super::suspend::{SuspendedGate, SuspendedHolder};
use super::view::{ClientView, GateView, Process, age};
use super::{RequestKey, SessionId};
use crate::driver::{Drive, DriverEffect, DriverInput, Encoded, InputRejected, TimerKey};

/// What the node does for a gate, in this order.
#[derive(Debug)]
pub(super) enum GateEffect {
    /// A request holds a permit.
    Granted { key: RequestKey, slots: Vec<u32>, fence: Option<Fence> },
    /// The log must hold this grant before its client learns of it.
    Decided(GrantId),
    /// The holder must stop: its permit is lost.
    Lost(RequestKey),
    /// The request takes more slots than the gate has since k was lowered.
    TooLarge { key: RequestKey, weight: u32, most: u32 },
    /// Send a message of the protocol.
    Send { to: To, message: Encoded },
    /// Start or restart a timer; it fires between `least` and `most` from now.
    Arm { timer: TimerKey, least: Span, most: Span },
    /// Stop a timer.
    Disarm(TimerKey),
    /// Store the protocol's durable state before any later message leaves.
    Persist(Vec<u8>),
}

/// Who waits here.
#[derive(Debug)]
struct Waiter {
    /// None if nobody waits any more, and the protocol could not be told: what it grants is given
    /// back.
    key: Option<RequestKey>,
    weight: u32,
    since: Time,
    process: Process,
    /// The log is to hold its permit.
    hold: Option<Hold>,
}

/// Who holds something here.
#[derive(Debug)]
struct Holder {
    key: RequestKey,
    weight: u32,
    since: Time,
    process: Process,
    slots: Vec<u32>,
    fence: Option<Fence>,
}

/// What has happened at a gate since this node started.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Permits granted here.
    pub grants: u64,
    /// Permits lost here.
    pub losses: u64,
    /// The longest that anybody waited who got in, in nanoseconds.
    pub longest_wait: u64,
    /// Messages sent, by kind.
    pub sent: BTreeMap<&'static str, u64>,
    /// Messages of peers that the protocol rejected.
    pub rejected: u64,
}

/// One gate at this node.
pub(super) struct Gate {
    pub(super) definition: Definition,
    driver: Box<dyn Drive>,
    /// How many other nodes a message to all reaches.
    others: u64,
    /// Whether the protocol knows all who wait; else it serves one client at a time.
    numbered: bool,
    waiting: VecDeque<Waiter>,
    /// So many of the first of those the protocol knows of.
    handed: usize,
    /// So many of those wait no more, and the protocol could not be told.
    abandoned: usize,
    holding: BTreeMap<GrantId, Holder>,
    /// What the log is to hold and does not yet.
    deciding: BTreeMap<GrantId, Deciding>,
    pub(super) counters: Counters,
}

impl Gate {
    pub(super) fn new(
        definition: Definition,
        driver: Box<dyn Drive>,
        nodes: u32,
        numbered: bool,
    ) -> Self {
        Self {
            definition,
            driver,
            others: u64::from(nodes) - 1,
            numbered,
            waiting: VecDeque::new(),
            handed: 0,
            abandoned: 0,
            holding: BTreeMap::new(),
            deciding: BTreeMap::new(),
            counters: Counters::default(),
        }
    }

    /// How many wait here.
    pub(super) fn waiters(&self) -> usize {
        self.waiting.len() - self.abandoned
    }

    /// The log may hold what it grants.
    pub(super) fn policy(&mut self, policy: kgate_control::state::Policy) {
        self.definition.policy = policy;
    }

    /// How many hold something here.
    pub(super) fn holders(&self) -> usize {
        self.holding.len()
    }

    /// How long the first of those who wait here has waited, in nanoseconds.
    pub(super) fn longest_waiting(&self, now: Time) -> u64 {
        self.waiting
            .iter()
            .find(|waiter| waiter.key.is_some())
            .map_or(0, |waiter| age(now, waiter.since))
    }

    /// The most that can be asked for at once.
    pub(super) fn widest(&self) -> u32 {
        if self.numbered { self.definition.k.div_ceil(self.definition.lanes.max(1)) } else { 1 }
    }

    /// A client asks. Its weight was looked at.
    pub(super) fn acquire(
        &mut self,
        now: Time,
        key: RequestKey,
        weight: u32,
        (process, hold): (Process, Option<Hold>),
        out: &mut Vec<GateEffect>,
    ) -> Result<(), InputRejected> {
        self.waiting.push_back(Waiter { key: Some(key), weight, since: now, process, hold });
        self.hand_over(now, out).inspect_err(|_| drop(self.waiting.pop_back()))
    }

    /// Tells the protocol of those who wait, as many as it can tolerate to know.
    fn hand_over(&mut self, now: Time, out: &mut Vec<GateEffect>) -> Result<(), InputRejected> {
        while let Some(weight) = self.waiting.get(self.handed).map(|waiter| waiter.weight) {
            if !self.numbered && (self.handed > 0 || !self.holding.is_empty()) {
                return Ok(());
            }
            // First, since it may be granted at once.
            self.handed += 1;
            self.drive(now, Input::Acquire { weight }, out).inspect_err(|_| self.handed -= 1)?;
        }
        Ok(())
    }

    /// A client gives back what it was granted, after whatever it did is over; false if it holds
    /// nothing.
    pub(super) fn release(
        &mut self,
        now: Time,
        key: RequestKey,
        out: &mut Vec<GateEffect>,
    ) -> bool {
        let Some((&grant, _)) = self.holding.iter().find(|(_, holder)| holder.key == key) else {
            return false;
        };
        self.holding.remove(&grant);
        self.give_back(now, grant, out);
        true
    }

    fn give_back(&mut self, now: Time, grant: GrantId, out: &mut Vec<GateEffect>) {
        self.drive(now, Input::Release { grant }, out)
            .expect("it was granted, and is given back once");
        self.go_on(now, out);
    }

    /// The protocol may be free for the next client.
    fn go_on(&mut self, now: Time, out: &mut Vec<GateEffect>) {
        self.hand_over(now, out).expect("what waits was looked at when it came");
    }

    /// Hands the protocol one input and carries out its effects.
    fn drive(
        &mut self,
        now: Time,
        input: DriverInput,
        out: &mut Vec<GateEffect>,
    ) -> Result<(), InputRejected> {
        let mut effects = Vec::new();
        self.driver.handle(now, input, &mut effects)?;
        self.carry_out(now, effects, out);
        Ok(())
    }

    /// What the protocol wanted done when it started. If it remembers a client of an earlier
    /// incarnation that waited, that one is gone; and if it has a permit for it at once, that is
    /// given back.
    pub(super) fn started(
        &mut self,
        now: Time,
        effects: Vec<DriverEffect>,
        out: &mut Vec<GateEffect>,
    ) {
        let granted = |effect: &DriverEffect| matches!(effect, Effect::Notify(notice) if matches!(**notice, Notice::Granted { .. }));
        if self.driver.observe().phase == Phase::Waiting || effects.iter().any(granted) {
            let process = Process::default();
            self.waiting.push_back(Waiter {
                key: None,
                weight: 1,
                since: now,
                process,
                hold: None,
            });
            (self.handed, self.abandoned) = (1, 1);
        }
        self.carry_out(now, effects, out);
    }

    /// A node becomes a member, and thereby begins this view.
    pub(super) fn joined(
        &mut self,
        now: Time,
        node: NodeId,
        view: ViewId,
        out: &mut Vec<GateEffect>,
    ) {
        self.drive(now, Input::Joined { node, incarnation: view.incarnation(), view }, out)
            .expect("a protocol with slots has incarnations");
    }

    /// What a request holds.
    pub(super) fn slots_of(&self, key: RequestKey) -> Option<&[u32]> {
        self.holding.values().find(|holder| holder.key == key).map(|holder| holder.slots.as_slice())
    }

    /// Nobody knows the fences under which those who hold now were granted their slots.
    pub(super) fn forget_fences(&mut self) {
        self.holding.values_mut().for_each(|holder| holder.fence = None);
    }

    /// That incarnation of that node is over.
    pub(super) fn crashed(
        &mut self,
        now: Time,
        node: NodeId,
        incarnation: Incarnation,
        out: &mut Vec<GateEffect>,
    ) {
        // A protocol that needs no such news says so, and nothing has changed.
        let _ = self.drive(now, Input::Crashed { node, incarnation }, out);
        self.go_on(now, out);
    }

    /// Whether this node may grant (rule N5).
    pub(super) fn lease(&mut self, now: Time, valid: bool, out: &mut Vec<GateEffect>) {
        self.drive(now, Input::Lease(valid), out).expect("a protocol with slots knows leases");
    }

    /// It has so many units from now on; those that are in use beyond come back by and by.
    pub(super) fn resize(&mut self, now: Time, k: u32, author: String, out: &mut Vec<GateEffect>) {
        (self.definition.k, self.definition.author) = (k, author);
        // A gate that is to end has none; its protocol has one, which nobody may ask for.
        self.drive(now, Input::Resize(k.max(1)), out)
            .expect("a protocol with slots can be resized");
        self.go_on(now, out);
    }

    /// All that is known of it here, at a clean stop; nobody waits any more.
    pub(super) fn suspend(&self, id: u32) -> Option<SuspendedGate> {
        let holders = self.holding.iter().map(|(grant, holder)| SuspendedHolder {
            grant: *grant,
            session: holder.key.session.0,
            number: holder.key.number,
            weight: holder.weight,
            since: holder.since,
            process: holder.process.clone(),
            slots: holder.slots.clone(),
            fence: holder.fence,
        });
        let deciding =
            self.deciding.iter().map(|(grant, it)| (*grant, Deciding { key: None, ..it.clone() }));
        let (holders, deciding) = (holders.collect(), deciding.collect());
        Some(SuspendedGate { id, protocol: self.driver.suspend()?, holders, deciding })
    }

    /// These held something when it stopped, and still do.
    pub(super) fn resume(&mut self, holders: Vec<SuspendedHolder>) {
        for SuspendedHolder { grant, session, number, weight, since, process, slots, fence } in
            holders
        {
            let key = RequestKey { session: SessionId(session), number };
            self.holding.insert(grant, Holder { key, weight, since, process, slots, fence });
        }
    }

    /// A message to all reaches so many others.
    pub(super) fn reaches(&mut self, others: usize) {
        self.others = others as u64;
    }

    /// A message has come for the protocol. What it refuses is counted, and told to whoever keeps
    /// the logs.
    pub(super) fn deliver(
        &mut self,
        now: Time,
        from: NodeId,
        message: Bytes,
        out: &mut Vec<GateEffect>,
    ) -> Result<(), InputRejected> {
        self.drive(now, Input::Deliver { from, message }, out)
            .inspect_err(|_| self.counters.rejected += 1)?;
        self.go_on(now, out);
        Ok(())
    }

    /// A timer has run out.
    pub(super) fn expire(&mut self, now: Time, timer: TimerKey, out: &mut Vec<GateEffect>) {
        self.drive(now, Input::Expire(timer), out).expect("the protocol armed this timer");
        self.go_on(now, out);
    }

    fn carry_out(&mut self, now: Time, effects: Vec<DriverEffect>, out: &mut Vec<GateEffect>) {
        for effect in effects {
            match effect {
                Effect::Persist(bytes) => out.push(GateEffect::Persist(bytes)),
                Effect::Send { to, message } => {
                    let copies = match &to {
                        To::One(_) => 1,
                        To::Many(nodes) => nodes.len() as u64,
                        To::All => self.others,
                    };
                    *self.counters.sent.entry(message.kind).or_default() += copies;
                    out.push(GateEffect::Send { to, message });
                }
                Effect::Arm { timer, least, most } => {
                    out.push(GateEffect::Arm { timer, least, most });
                }
                Effect::Disarm(timer) => out.push(GateEffect::Disarm(timer)),
                Effect::Notify(notice) => self.on_notice(now, *notice, out),
            }
        }
    }

    fn on_notice(&mut self, now: Time, notice: Notice, out: &mut Vec<GateEffect>) {
        match notice {
            Notice::Granted { grant, slots, fence } => {
                let slots = slots.map_or_else(Vec::new, Vec::from);
                self.on_granted(now, grant, slots, fence, out);
            }
            Notice::Lost { grant } => {
                if let Some(holder) = self.holding.remove(&grant) {
                    self.counters.losses += 1;
                    out.push(GateEffect::Lost(holder.key));
                } else if let Some(deciding) = self.deciding.remove(&grant) {
                    // Its client was told nothing. An entry for it that comes later is void.
                    self.wait_again(now, deciding, out);
                }
            }
            Notice::TooLarge { weight, most } => {
                if let Some(Waiter { key: Some(key), .. }) = self.take_first(weight) {
                    out.push(GateEffect::TooLarge { key, weight, most });
                }
            }
            // A detector's; and that the request is out, which nobody here has to know.
            Notice::Asked | Notice::Suspected { .. } => {}
        }
    }

    /// The first of those whom the protocol knows of that wants as much waits no more.
    fn take_first(&mut self, weight: u32) -> Option<Waiter> {
        let at =
            self.waiting.iter().take(self.handed).position(|waiter| waiter.weight == weight)?;
        self.take_handed(at)
    }

    fn take_handed(&mut self, at: usize) -> Option<Waiter> {
        let waiter = self.waiting.remove(at)?;
        self.handed -= 1;
        self.abandoned -= usize::from(waiter.key.is_none());
        Some(waiter)
    }

    /// It is for the first of those who wait for as much: with several queues at a gate they are
    /// not served in their order.
    fn on_granted(
        &mut self,
        now: Time,
        grant: GrantId,
        slots: Vec<u32>,
        fence: Option<Fence>,
        out: &mut Vec<GateEffect>,
    ) {
        let units = if self.numbered { slots.len() } else { 1 };
        let first = self.take_first(u32::try_from(units).expect("at most k"));
        let waiter = first.expect("somebody asked for that");
        let Some(key) = waiter.key else { return self.give_back(now, grant, out) };
        if let (Some(hold), Some(fence)) = (waiter.hold, fence) {
            return self.decide(grant, (waiter, hold), slots, fence, out);
        }
        let Waiter { weight, since, process, .. } = waiter;
        self.counters.grants += 1;
        self.counters.longest_wait = self.counters.longest_wait.max(age(now, since));
        let holder = Holder { key, weight, since: now, process, slots: slots.clone(), fence };
        self.holding.insert(grant, holder);
        out.push(GateEffect::Granted { key, slots, fence });
    }

    /// What people may see.
    pub(super) fn view(
        &self,
        now: Time,
        me: NodeId,
        is_cut_off: impl Fn(RequestKey) -> bool,
    ) -> GateView {
        let seen = self.driver.observe();
        let holders = self.holding.values().map(|holder| ClientView {
            node: me,
            process: holder.process.clone(),
            weight: holder.weight,
            since: age(now, holder.since),
            slots: holder.slots.clone(),
            fence: holder.fence.map(|fence| format!("{:032x}", fence.0)),
            stamp: None,
            cut_off: is_cut_off(holder.key),
        });
        let stamp = seen.stamp.map(|stamp| (stamp.clock, stamp.node.0));
        let waiting = self.waiting.iter().enumerate().filter(|(_, waiter)| waiter.key.is_some());
        let waiting = waiting.map(|(at, waiter)| ClientView {
            node: me,
            process: waiter.process.clone(),
            weight: waiter.weight,
            since: age(now, waiter.since),
            slots: Vec::new(),
            fence: None,
            stamp: stamp.filter(|_| at < self.handed),
            cut_off: false,
        });
        GateView {
            name: self.definition.name.clone(),
            k: self.definition.k,
            protocol: self.definition.protocol.clone(),
            author: self.definition.author.clone(),
            version: 0,
            held: Vec::new(),
            policy: self.definition.policy,
            holders: holders.collect(),
            waiting: waiting.collect(),
            lacking: seen.lacking,
        }
    }
}
