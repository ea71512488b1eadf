//! One gate at one node: its protocol, the queue of local requests, and the local holders.
//!
//! A protocol with numbered slots knows all requests that wait here, in their order, and may
//! request several at once. A protocol of the papers serves one request at a time: the others wait
//! in the queue until it is free.

mod undecided;
mod withdraw;

pub use undecided::DurableSpec;
pub(super) use undecided::UndecidedGrant;

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

/// A request that waits here.
#[derive(Debug)]
pub(super) struct Waiter {
    /// None if the request was withdrawn and the protocol could not withdraw it: its grant is
    /// released at once.
    key: Option<RequestKey>,
    weight: u32,
    since: Time,
    process: Process,
    /// Set if its permit is durable.
    hold: Option<DurableSpec>,
}

impl Waiter {
    pub(super) fn new(key: RequestKey, weight: u32, since: Time, process: Process) -> Self {
        Self { key: Some(key), weight, since, process, hold: None }
    }

    /// A request for a durable permit, if `hold` is set.
    pub(super) fn durable(self, hold: Option<DurableSpec>) -> Self {
        Self { hold, ..self }
    }
}

/// A request that holds a permit here.
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
    /// The longest wait of a granted request, in nanoseconds.
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
    /// The number of nodes that a message to all reaches.
    others: u64,
    /// Whether the protocol takes all waiting requests; otherwise it serves one at a time.
    numbered: bool,
    waiting: VecDeque<Waiter>,
    /// How many requests at the front of the queue were submitted to the protocol.
    submitted: usize,
    /// How many of those were withdrawn without the protocol.
    abandoned: usize,
    holding: BTreeMap<GrantId, Holder>,
    /// Grants that wait for a decision of the log.
    undecided: BTreeMap<GrantId, UndecidedGrant>,
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
            submitted: 0,
            abandoned: 0,
            holding: BTreeMap::new(),
            undecided: BTreeMap::new(),
            counters: Counters::default(),
        }
    }

    /// The number of waiting requests.
    pub(super) fn waiters(&self) -> usize {
        self.waiting.len() - self.abandoned
    }

    /// Sets what happens to the slots of a silent holder.
    pub(super) fn policy(&mut self, policy: kgate_control::state::Policy) {
        self.definition.policy = policy;
    }

    /// The number of holders.
    pub(super) fn holders(&self) -> usize {
        self.holding.len()
    }

    /// How long the first waiting request has waited, in nanoseconds.
    pub(super) fn longest_waiting(&self, now: Time) -> u64 {
        self.waiting
            .iter()
            .find(|waiter| waiter.key.is_some())
            .map_or(0, |waiter| age(now, waiter.since))
    }

    /// The greatest weight of a request.
    pub(super) fn widest(&self) -> u32 {
        if self.numbered { self.definition.k.div_ceil(self.definition.lanes.max(1)) } else { 1 }
    }

    /// Queues a request. Its weight has been checked.
    pub(super) fn acquire(
        &mut self,
        now: Time,
        waiter: Waiter,
        out: &mut Vec<GateEffect>,
    ) -> Result<(), InputRejected> {
        self.waiting.push_back(waiter);
        self.submit_waiting(now, out).inspect_err(|_| drop(self.waiting.pop_back()))
    }

    /// Submits waiting requests to the protocol, as many as it takes.
    fn submit_waiting(
        &mut self,
        now: Time,
        out: &mut Vec<GateEffect>,
    ) -> Result<(), InputRejected> {
        while let Some(weight) = self.waiting.get(self.submitted).map(|waiter| waiter.weight) {
            if !self.numbered && (self.submitted > 0 || !self.holding.is_empty()) {
                return Ok(());
            }
            // Counted first, since it may be granted at once.
            self.submitted += 1;
            self.drive(now, Input::Acquire { weight }, out).inspect_err(|_| self.submitted -= 1)?;
        }
        Ok(())
    }

    /// Releases the permit of a request, whose client has stopped using it. Returns whether it
    /// held one.
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
        self.return_grant(now, grant, out);
        true
    }

    fn return_grant(&mut self, now: Time, grant: GrantId, out: &mut Vec<GateEffect>) {
        self.drive(now, Input::Release { grant }, out).expect("a grant is released once");
        self.submit_more(now, out);
    }

    /// The protocol may be free for the next request.
    fn submit_more(&mut self, now: Time, out: &mut Vec<GateEffect>) {
        self.submit_waiting(now, out).expect("a waiting request was checked when it was queued");
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

    /// Carries out the first effects of the protocol. If it restored a request of an earlier
    /// incarnation, that client is gone: a grant for it is released at once.
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
            (self.submitted, self.abandoned) = (1, 1);
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

    /// The slots of a request's permit.
    pub(super) fn slots_of(&self, key: RequestKey) -> Option<&[u32]> {
        self.holding.values().find(|holder| holder.key == key).map(|holder| holder.slots.as_slice())
    }

    /// Forgets the fences of the present holders: they are of an earlier incarnation.
    pub(super) fn forget_fences(&mut self) {
        self.holding.values_mut().for_each(|holder| holder.fence = None);
    }

    /// An incarnation of a node has ended.
    pub(super) fn crashed(
        &mut self,
        now: Time,
        node: NodeId,
        incarnation: Incarnation,
        out: &mut Vec<GateEffect>,
    ) {
        // A protocol without this input refuses it, and nothing changes.
        let _ = self.drive(now, Input::Crashed { node, incarnation }, out);
        self.submit_more(now, out);
    }

    /// Whether this node may grant (rule N5).
    pub(super) fn lease(&mut self, now: Time, valid: bool, out: &mut Vec<GateEffect>) {
        self.drive(now, Input::Lease(valid), out).expect("a protocol with slots knows leases");
    }

    /// Changes k. Slots beyond it that are in use come back when they are released.
    pub(super) fn resize(&mut self, now: Time, k: u32, author: String, out: &mut Vec<GateEffect>) {
        (self.definition.k, self.definition.author) = (k, author);
        // A closed gate has k = 0. Its protocol keeps one slot, which no request may take.
        self.drive(now, Input::Resize(k.max(1)), out)
            .expect("a protocol with slots can be resized");
        self.submit_more(now, out);
    }

    /// The state of the gate at a clean stop. No request waits any more.
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
        let undecided = self
            .undecided
            .iter()
            .map(|(grant, it)| (*grant, UndecidedGrant { key: None, ..it.clone() }));
        let (holders, undecided) = (holders.collect(), undecided.collect());
        Some(SuspendedGate { id, protocol: self.driver.suspend()?, holders, undecided })
    }

    /// Restores the holders of a clean stop.
    pub(super) fn resume(&mut self, holders: Vec<SuspendedHolder>) {
        for SuspendedHolder { grant, session, number, weight, since, process, slots, fence } in
            holders
        {
            let key = RequestKey { session: SessionId(session), number };
            self.holding.insert(grant, Holder { key, weight, since, process, slots, fence });
        }
    }

    /// Sets the number of nodes that a message to all reaches.
    pub(super) fn reaches(&mut self, others: usize) {
        self.others = others as u64;
    }

    /// Hands a message to the protocol. A rejected message is counted.
    pub(super) fn deliver(
        &mut self,
        now: Time,
        from: NodeId,
        message: Bytes,
        out: &mut Vec<GateEffect>,
    ) -> Result<(), InputRejected> {
        self.drive(now, Input::Deliver { from, message }, out)
            .inspect_err(|_| self.counters.rejected += 1)?;
        self.submit_more(now, out);
        Ok(())
    }

    /// A timer of the protocol fired.
    pub(super) fn expire(&mut self, now: Time, timer: TimerKey, out: &mut Vec<GateEffect>) {
        self.drive(now, Input::Expire(timer), out).expect("the protocol armed this timer");
        self.submit_more(now, out);
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
                } else if let Some(undecided) = self.undecided.remove(&grant) {
                    // Its client was told nothing. The log rejects an entry for it that comes
                    // later.
                    self.requeue(now, undecided, out);
                }
            }
            Notice::TooLarge { weight, most } => {
                if let Some(Waiter { key: Some(key), .. }) = self.take_first(weight) {
                    out.push(GateEffect::TooLarge { key, weight, most });
                }
            }
            // A gate has no use for these.
            Notice::Asked | Notice::Suspected { .. } => {}
        }
    }

    /// Removes the first submitted request of that weight.
    fn take_first(&mut self, weight: u32) -> Option<Waiter> {
        let at =
            self.waiting.iter().take(self.submitted).position(|waiter| waiter.weight == weight)?;
        self.take_handed(at)
    }

    fn take_handed(&mut self, at: usize) -> Option<Waiter> {
        let waiter = self.waiting.remove(at)?;
        self.submitted -= 1;
        self.abandoned -= usize::from(waiter.key.is_none());
        Some(waiter)
    }

    /// The grant is for the first request of its weight. A gate with several lanes does not serve
    /// requests in their order.
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
        let waiter = first.expect("a grant answers a submitted request");
        let Some(key) = waiter.key else { return self.return_grant(now, grant, out) };
        if let (Some(hold), Some(fence)) = (waiter.hold, fence) {
            let Waiter { weight, since, process, .. } = waiter;
            let key = Some(key);
            let undecided = UndecidedGrant { key, slots, fence, process, hold, weight, since };
            return self.await_decision(grant, undecided, out);
        }
        let Waiter { weight, since, process, .. } = waiter;
        self.counters.grants += 1;
        self.counters.longest_wait = self.counters.longest_wait.max(age(now, since));
        let holder = Holder { key, weight, since: now, process, slots: slots.clone(), fence };
        self.holding.insert(grant, holder);
        out.push(GateEffect::Granted { key, slots, fence });
    }

    /// What status queries show.
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
            stamp: stamp.filter(|_| at < self.submitted),
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
