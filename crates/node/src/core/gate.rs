//! One gate at one node: its protocol, the queue of local requests, and the local holders.
//!
//! A protocol with numbered slots knows all requests that wait here, in their order, and may
//! request several at once. A protocol of the papers serves one request at a time: the others wait
//! in the queue until it is free.

mod follow;
mod past_holds;
mod undecided;
mod withdraw;

pub(crate) use past_holds::KEPT as PAST_HOLDS_KEPT;
pub use undecided::DurableSpec;
pub(super) use undecided::UndecidedGrant;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use kgate_control::state::Slots;
use kgate_core::{
    Effect, Fence, GrantId, Incarnation, Input, NodeId, Notice, Phase, Span, Time, To, ViewId,
};
use kgate_protocols::registry::Entry;

use self::past_holds::PastHolds;
use super::bounded::Omitted;
use super::definition::Definition;
use super::suspend::{SuspendedGate, SuspendedHolder};
use super::view::{ClientView, GateView, Process, age};
use super::{RequestKey, SessionId};
use crate::driver::{Drive, DriverEffect, DriverInput, Encoded, InputRejected, TimerKey, is_grant};

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
struct Waiter {
    /// None if the request was withdrawn and the protocol could not withdraw it: its grant is
    /// released at once.
    key: Option<RequestKey>,
    weight: u32,
    since: Time,
    process: Arc<Process>,
    /// Set if its permit is durable.
    hold: Option<DurableSpec>,
}

/// A request that holds a permit here.
#[derive(Debug)]
struct Holder {
    key: RequestKey,
    weight: u32,
    since: Time,
    process: Arc<Process>,
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
    /// The protocol; none before the first use of a gate whose protocol follows the log.
    driver: Option<Box<dyn Drive>>,
    /// Whether the protocol takes what the log says by snapshots, instead of one input for each
    /// change.
    follows_log: bool,
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
    past_holds: PastHolds,
    /// Whether an operator set k at this node, which is the only one.
    pub(super) is_set: bool,
    pub(super) counters: Counters,
    /// The time of the present call.
    now: Time,
    /// What follows from the present call so far.
    effects: Vec<GateEffect>,
}

impl Gate {
    pub(super) fn new(definition: Definition, entry: &Entry, nodes: u32) -> Self {
        Self {
            definition,
            driver: None,
            follows_log: entry.follows_log,
            others: u64::from(nodes) - 1,
            numbered: entry.slots,
            waiting: VecDeque::new(),
            submitted: 0,
            abandoned: 0,
            holding: BTreeMap::new(),
            undecided: BTreeMap::new(),
            past_holds: PastHolds::default(),
            is_set: false,
            counters: Counters::default(),
            now: Time(0),
            effects: Vec::new(),
        }
    }

    /// Makes one call at `now`, and returns its result and the effects that follow, in order.
    pub(super) fn at<T>(
        &mut self,
        now: Time,
        call: impl FnOnce(&mut Self) -> T,
    ) -> (T, Vec<GateEffect>) {
        self.now = now;
        let result = call(self);
        (result, std::mem::take(&mut self.effects))
    }

    /// The number of waiting requests.
    pub(super) fn waiters(&self) -> usize {
        self.waiting.len() - self.abandoned
    }

    /// Whether nobody holds or wants a slot here.
    pub(super) fn is_unused(&self) -> bool {
        self.holding.is_empty() && self.waiters() == 0
    }

    /// Whether the protocol has numbered slots, so that k can change.
    pub(super) fn can_resize(&self) -> bool {
        self.numbered
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

    /// Queues a request, for a durable permit if `hold` is set. Its weight has been checked.
    pub(super) fn acquire(
        &mut self,
        key: RequestKey,
        weight: u32,
        process: Arc<Process>,
        hold: Option<DurableSpec>,
    ) -> Result<(), InputRejected> {
        let waiter = Waiter { key: Some(key), weight, since: self.now, process, hold };
        self.waiting.push_back(waiter);
        self.submit_waiting().inspect_err(|_| drop(self.waiting.pop_back()))
    }

    /// Submits waiting requests to the protocol, as many as it takes.
    fn submit_waiting(&mut self) -> Result<(), InputRejected> {
        while let Some(weight) = self.waiting.get(self.submitted).map(|waiter| waiter.weight) {
            if !self.numbered && (self.submitted > 0 || !self.holding.is_empty()) {
                return Ok(());
            }
            // Counted first, since it may be granted at once.
            self.submitted += 1;
            self.drive(Input::Acquire { weight }).inspect_err(|_| self.submitted -= 1)?;
        }
        Ok(())
    }

    /// Releases the permit of a request, whose client has stopped using it. Returns whether it
    /// held one.
    pub(super) fn release(&mut self, key: RequestKey) -> bool {
        let Some((&grant, holder)) = self.holding.iter().find(|(_, holder)| holder.key == key)
        else {
            return false;
        };
        self.past_holds.add(age(self.now, holder.since));
        self.holding.remove(&grant);
        self.return_grant(grant);
        true
    }

    fn return_grant(&mut self, grant: GrantId) {
        self.drive(Input::Release { grant }).expect("a grant is released once");
        self.submit_more();
    }

    /// The protocol may be free for the next request.
    fn submit_more(&mut self) {
        self.submit_waiting().expect("a waiting request was checked when it was queued");
    }

    /// Hands the protocol one input and carries out its effects.
    fn drive(&mut self, input: DriverInput) -> Result<(), InputRejected> {
        let mut effects = Vec::new();
        let driver = self.driver.as_mut().expect("a gate is started before it is used");
        driver.handle(self.now, input, &mut effects)?;
        self.carry_out(effects);
        Ok(())
    }

    /// The protocol starts. Carries out its first effects. If it restored a request of an earlier
    /// incarnation, that client is gone: a grant for it is released at once.
    pub(super) fn started(&mut self, driver: Box<dyn Drive>, effects: Vec<DriverEffect>) {
        let waits = driver.observe().phase == Phase::Waiting;
        self.driver = Some(driver);
        if waits || effects.iter().any(is_grant) {
            let process = Arc::default();
            self.waiting.push_back(Waiter {
                key: None,
                weight: 1,
                since: self.now,
                process,
                hold: None,
            });
            (self.submitted, self.abandoned) = (1, 1);
        }
        self.carry_out(effects);
    }

    /// A node becomes a member, and thereby begins this view.
    pub(super) fn joined(&mut self, node: NodeId, view: ViewId) {
        if self.follows_log {
            return;
        }
        self.drive(Input::Joined { node, incarnation: view.incarnation(), view })
            .expect("a protocol with slots has incarnations");
    }

    /// Whether a request holds a permit under this fence, as 32 hexadecimal digits.
    pub(super) fn holds_under(&self, key: RequestKey, fence: Option<&str>) -> bool {
        let held = self.holding.values().find(|holder| holder.key == key);
        held.is_some_and(|holder| hexadecimal(holder.fence).as_deref() == fence)
    }

    /// The slots and the fence of a request's permit.
    pub(super) fn grant_of(&self, key: RequestKey) -> Option<(Vec<u32>, Option<Fence>)> {
        let held = self.holding.values().find(|holder| holder.key == key)?;
        Some((held.slots.clone(), held.fence))
    }

    /// The slots of a request's permit.
    pub(super) fn slots_of(&self, key: RequestKey) -> Option<&[u32]> {
        self.holding.values().find(|holder| holder.key == key).map(|holder| holder.slots.as_slice())
    }

    /// Whether this is so of all holders here.
    pub(super) fn all_holders(&self, is_so: impl Fn(RequestKey) -> bool) -> bool {
        self.holding.values().all(|holder| is_so(holder.key))
    }

    /// The present holders are of an earlier incarnation: their fences are not known, and their
    /// processes as far as they were found, by slot.
    pub(super) fn describe_restored(&mut self, holders: &BTreeMap<u32, Process>) {
        for holder in self.holding.values_mut() {
            holder.fence = None;
            if let Some(process) = holder.slots.first().and_then(|slot| holders.get(slot)) {
                holder.process = Arc::new(process.clone());
            }
        }
    }

    /// An incarnation of a node has ended.
    pub(super) fn crashed(&mut self, node: NodeId, incarnation: Incarnation) {
        if self.follows_log {
            return;
        }
        // A protocol without this input refuses it, and nothing changes.
        let _ = self.drive(Input::Crashed { node, incarnation });
        self.submit_more();
    }

    /// Whether this node may grant (rule N5).
    pub(super) fn lease(&mut self, valid: bool) {
        if self.is_started() {
            self.drive(Input::Lease(valid)).expect("a protocol with slots knows leases");
        }
    }

    /// Changes k. Slots beyond it that are in use come back when they are released.
    pub(super) fn resize(&mut self, Slots { k, source }: Slots, author: String) {
        let definition = &mut self.definition;
        (definition.k, definition.source, definition.author) = (k, source, author);
        if self.follows_log {
            return;
        }
        // A closed gate has k = 0. Its protocol keeps one slot, which no request may take.
        self.drive(Input::Resize(k.max(1))).expect("a protocol with slots can be resized");
        self.submit_more();
    }

    /// The state of the gate at a clean stop. No request waits any more.
    pub(super) fn suspend(&self, id: u32) -> Option<SuspendedGate> {
        let holders = self.holding.iter().map(|(grant, holder)| SuspendedHolder {
            grant: *grant,
            session: holder.key.session.0,
            number: holder.key.number,
            weight: holder.weight,
            since: holder.since,
            process: Process::clone(&holder.process),
            slots: holder.slots.clone(),
            fence: holder.fence,
        });
        let undecided = self
            .undecided
            .iter()
            .map(|(grant, it)| (*grant, UndecidedGrant { key: None, ..it.clone() }));
        let (holders, undecided) = (holders.collect(), undecided.collect());
        let protocol = match &self.driver {
            Some(driver) => Some(driver.suspend()?),
            None => None,
        };
        Some(SuspendedGate { id, protocol, holders, undecided })
    }

    /// Restores the holders of a clean stop.
    pub(super) fn resume(&mut self, holders: Vec<SuspendedHolder>) {
        for SuspendedHolder { grant, session, number, weight, since, process, slots, fence } in
            holders
        {
            let key = RequestKey { session: SessionId(session), number };
            let process = Arc::new(process);
            self.holding.insert(grant, Holder { key, weight, since, process, slots, fence });
        }
    }

    /// Sets the number of nodes that a message to all reaches.
    pub(super) fn reaches(&mut self, others: usize) {
        self.others = others as u64;
    }

    /// Hands a message to the protocol. A rejected message is counted.
    pub(super) fn deliver(&mut self, from: NodeId, message: Bytes) -> Result<(), InputRejected> {
        self.drive(Input::Deliver { from, message })
            .inspect_err(|_| self.counters.rejected += 1)?;
        self.submit_more();
        Ok(())
    }

    /// A timer of the protocol fired.
    pub(super) fn expire(&mut self, timer: TimerKey) {
        self.drive(Input::Expire(timer)).expect("the protocol armed this timer");
        self.submit_more();
    }

    fn carry_out(&mut self, effects: Vec<DriverEffect>) {
        for effect in effects {
            match effect {
                Effect::Persist(bytes) => self.effects.push(GateEffect::Persist(bytes)),
                Effect::Send { to, message } => {
                    let copies = match &to {
                        To::One(_) => 1,
                        To::Many(nodes) => nodes.len() as u64,
                        To::All => self.others,
                    };
                    *self.counters.sent.entry(message.kind).or_default() += copies;
                    self.effects.push(GateEffect::Send { to, message });
                }
                Effect::Arm { timer, least, most } => {
                    self.effects.push(GateEffect::Arm { timer, least, most });
                }
                Effect::Disarm(timer) => self.effects.push(GateEffect::Disarm(timer)),
                Effect::Notify(notice) => self.on_notice(*notice),
            }
        }
    }

    fn on_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Granted { grant, slots, fence } => {
                let slots = slots.map_or_else(Vec::new, Vec::from);
                self.on_granted(grant, slots, fence);
            }
            Notice::Lost { grant } => {
                if let Some(holder) = self.holding.remove(&grant) {
                    self.counters.losses += 1;
                    self.effects.push(GateEffect::Lost(holder.key));
                } else if let Some(undecided) = self.undecided.remove(&grant) {
                    // Its client was not notified. The log rejects an entry for it that comes
                    // later.
                    self.requeue(undecided);
                }
            }
            Notice::TooLarge { weight, most } => {
                if let Some(Waiter { key: Some(key), .. }) = self.take_first(weight) {
                    self.effects.push(GateEffect::TooLarge { key, weight, most });
                }
            }
            // A gate has no use for these.
            Notice::Asked
            | Notice::Suspected { .. }
            | Notice::Adopted { .. }
            | Notice::AdoptionRefused { .. } => {}
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
    fn on_granted(&mut self, grant: GrantId, slots: Vec<u32>, fence: Option<Fence>) {
        let units = if self.numbered { slots.len() } else { 1 };
        let first = self.take_first(u32::try_from(units).expect("at most k"));
        let waiter = first.expect("a grant answers a submitted request");
        let Some(key) = waiter.key else { return self.return_grant(grant) };
        if let (Some(hold), Some(fence)) = (waiter.hold, fence) {
            let Waiter { weight, since, process, .. } = waiter;
            let (key, process) = (Some(key), Arc::unwrap_or_clone(process));
            let undecided = UndecidedGrant { key, slots, fence, process, hold, weight, since };
            return self.await_decision(grant, undecided);
        }
        let Waiter { weight, since, process, .. } = waiter;
        self.counters.grants += 1;
        self.counters.longest_wait = self.counters.longest_wait.max(age(self.now, since));
        let holder = Holder { key, weight, since: self.now, process, slots: slots.clone(), fence };
        self.holding.insert(grant, holder);
        self.effects.push(GateEffect::Granted { key, slots, fence });
    }

    /// What status queries show.
    pub(super) fn view(
        &self,
        now: Time,
        me: NodeId,
        is_cut_off: impl Fn(RequestKey) -> bool,
        is_guarded: impl Fn(RequestKey) -> bool,
    ) -> GateView {
        let seen = self.driver.as_ref().map(|driver| driver.observe()).unwrap_or_default();
        let holders = self.holding.values().map(|holder| ClientView {
            node: me,
            session: holder.key.session.0,
            number: holder.key.number,
            process: Process::clone(&holder.process),
            weight: holder.weight,
            since: age(now, holder.since),
            slots: holder.slots.clone(),
            fence: hexadecimal(holder.fence),
            stamp: None,
            cut_off: is_cut_off(holder.key),
            guarded: is_guarded(holder.key),
        });
        let stamp = seen.stamp.map(|stamp| (stamp.clock, stamp.node.0));
        let waiting = self.waiting.iter().enumerate();
        let waiting = waiting.filter_map(|(at, waiter)| Some((at, waiter, waiter.key?)));
        let waiting = waiting.map(|(at, waiter, key)| ClientView {
            node: me,
            session: key.session.0,
            number: key.number,
            process: Process::clone(&waiter.process),
            weight: waiter.weight,
            since: age(now, waiter.since),
            slots: Vec::new(),
            fence: None,
            stamp: stamp.filter(|_| at < self.submitted),
            cut_off: false,
            guarded: false,
        });
        GateView {
            name: self.definition.name.clone(),
            k: self.definition.k,
            source: self.definition.source.clone(),
            protocol: self.definition.protocol.clone(),
            author: self.definition.author.clone(),
            version: 0,
            held: Vec::new(),
            policy: self.definition.policy,
            holders: holders.collect(),
            waiting: waiting.collect(),
            // The home of a gate lacks answers for requests of other nodes too.
            lacking: if self.follows_log || self.waiters() > 0 { seen.lacking } else { Vec::new() },
            past_holds: self.past_holds.all(),
            omitted: Omitted::default(),
        }
    }
}

/// A fence for people: 32 hexadecimal digits, which sort as the fences do.
fn hexadecimal(fence: Option<Fence>) -> Option<String> {
    fence.map(|fence| format!("{:032x}", fence.0))
}
