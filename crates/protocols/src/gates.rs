//! Many gates at one process, as at a node: a process has state only of the gates that it uses or
//! is home of.
//!
//! [`Gates`] is a protocol made of processes of another one that follows the agreed log, one per
//! gate, each made when it is first needed, with what this process knows of the log by then. To its
//! driver it looks like one gate with the slots of all: slot s of gate g is the slot s·G + g of G
//! gates. Each request is for a gate of its own, spread evenly.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use kgate_core::{
    Carried, Defects, Effect, GrantId, Incarnation, Input, InputOf, LogView, Mechanism, Message,
    NodeId, Notice, Observation, Outbox, Phase, Protocol, Refusal, Setup, SlotOptions, Time,
    TransientFaults, split_mix64,
};
use serde::{Deserialize, Serialize};

/// The processes of all gates at one process. The number of gates is the `gate` of the log's
/// snapshots ([`LogView::gate`]), 1 at least.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gates<M> {
    me: NodeId,
    nodes: u32,
    incarnation: Incarnation,
    defects: Defects,
    slots: SlotOptions,
    log: Arc<LogView>,
    lease: bool,
    /// The number of requests so far.
    asked: u32,
    used: Option<Box<Used<M>>>,
}

/// What exists only while this process has used a gate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Used<M> {
    gates: BTreeMap<u32, Box<M>>,
    /// The gates of the waiting requests, in order.
    waiting: Vec<u32>,
}

/// A message about one gate.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GateMessage<T> {
    gate: u32,
    message: T,
}

/// A timer of one gate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GateTimer<T> {
    gate: u32,
    timer: T,
}

impl<T: Message> Message for GateMessage<T> {
    const KINDS: usize = T::KINDS;
    fn kind(&self) -> usize {
        self.message.kind()
    }
    fn kind_name(kind: usize) -> &'static str {
        T::kind_name(kind)
    }
    fn carried(&self) -> Option<Carried> {
        self.message.carried()
    }
}

/// The message; of another gate than the first, with the number of the gate.
impl<T: fmt::Debug> fmt::Debug for GateMessage<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.gate > 0 {
            write!(f, "gate {}: ", self.gate)?;
        }
        self.message.fmt(f)
    }
}

impl<M: Protocol> Gates<M> {
    fn count(&self) -> u32 {
        u32::try_from(self.log.gate.max(1)).unwrap_or(u32::MAX)
    }

    /// The snapshot of the log for one gate.
    fn view(&self, gate: u32) -> Arc<LogView> {
        let count = self.count();
        if count == 1 && self.log.gate == 0 {
            return self.log.clone();
        }
        let reserved = self.log.reserved.iter().filter(|slot| **slot % count == gate);
        let reserved = reserved.map(|slot| slot / count).collect();
        Arc::new(LogView { gate: u64::from(gate), reserved, ..LogView::clone(&self.log) })
    }

    /// The gate of the next request.
    fn next_gate(&mut self) -> u32 {
        self.asked = self.asked.wrapping_add(1);
        let mut state = u64::from(self.me.0) << 32 | u64::from(self.asked);
        let drawn = split_mix64(&mut state) % u64::from(self.count());
        u32::try_from(drawn).expect("below the number of gates")
    }

    fn used(&mut self) -> &mut Used<M> {
        let none = || Box::new(Used { gates: BTreeMap::new(), waiting: Vec::new() });
        self.used.get_or_insert_with(none)
    }

    /// Hands an input to the process of a gate, which is made if there is none.
    fn pass(
        &mut self,
        now: Time,
        gate: u32,
        input: InputOf<M>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if gate >= self.count() {
            return Err(Refusal::Malformed("no such gate"));
        }
        let mut inner = Outbox::new();
        if !self.used().gates.contains_key(&gate) {
            let setup = Setup {
                me: self.me,
                incarnation: self.incarnation,
                defects: self.defects,
                slots: self.slots,
                log: Some(self.view(gate)),
                ..Setup::new(self.nodes, self.log.k)
            };
            let mut process = M::start(&setup, None, &mut inner);
            if !self.lease {
                process.handle(now, Input::Lease(false), &mut inner)?;
            }
            self.used().gates.insert(gate, Box::new(process));
        }
        let process = self.used().gates.get_mut(&gate).expect("it was just made");
        let done = process.handle(now, input, &mut inner);
        self.relay(gate, inner, out);
        done
    }

    /// The effects of one gate as those of this process.
    fn relay(&mut self, gate: u32, mut inner: Outbox<M>, out: &mut Outbox<Self>) {
        while let Some(effect) = inner.pop() {
            match effect {
                Effect::Persist(durable) => out.persist(durable),
                Effect::Send { to, message } => out.send_to(to, GateMessage { gate, message }),
                Effect::Arm { timer, least, most } => {
                    out.arm_within(GateTimer { gate, timer }, least, most);
                }
                Effect::Disarm(timer) => out.disarm(GateTimer { gate, timer }),
                Effect::Notify(notice) => self.tell(gate, *notice, out),
            }
        }
    }

    fn tell(&mut self, gate: u32, mut notice: Notice, out: &mut Outbox<Self>) {
        let count = self.count();
        match &mut notice {
            Notice::Granted { grant, slots, .. } => {
                *grant = outer_grant(*grant, gate, count);
                for slot in slots.iter_mut().flatten() {
                    *slot = *slot * count + gate;
                }
                self.no_longer_waits(gate);
            }
            Notice::TooLarge { .. } => self.no_longer_waits(gate),
            Notice::Lost { grant } | Notice::Adopted { grant, .. } => {
                *grant = outer_grant(*grant, gate, count);
            }
            Notice::Asked | Notice::AdoptionRefused { .. } | Notice::Suspected { .. } => {}
        }
        out.notify(notice);
    }

    fn no_longer_waits(&mut self, gate: u32) {
        let waiting = &mut self.used().waiting;
        if let Some(place) = waiting.iter().position(|other| *other == gate) {
            waiting.remove(place);
        }
    }

    /// The gate of a grant, and its name there.
    fn inner_grant(&self, grant: GrantId) -> (u32, GrantId) {
        let count = u64::from(self.count());
        (
            u32::try_from(grant.0 % count).expect("below the number of gates"),
            GrantId(grant.0 / count),
        )
    }

    /// An input for every gate that this process uses.
    fn pass_all(
        &mut self,
        now: Time,
        out: &mut Outbox<Self>,
        input: impl Fn(&Self, u32) -> InputOf<M>,
    ) -> Result<(), Refusal> {
        let gates = self.used.iter().flat_map(|used| used.gates.keys());
        for gate in gates.copied().collect::<Vec<_>>() {
            let input = input(self, gate);
            self.pass(now, gate, input, out)?;
        }
        Ok(())
    }
}

fn outer_grant(grant: GrantId, gate: u32, count: u32) -> GrantId {
    let scaled = grant.0.checked_mul(u64::from(count)).expect("fewer grants and incarnations");
    GrantId(scaled + u64::from(gate))
}

impl<M: Protocol> Protocol for Gates<M> {
    const NAME: &'static str = M::NAME;
    const MECHANISM: Mechanism = M::MECHANISM;
    type Message = GateMessage<M::Message>;
    type Timer = GateTimer<M::Timer>;
    type Durable = M::Durable;

    fn start(setup: &Setup, _restored: Option<M::Durable>, _out: &mut Outbox<Self>) -> Self {
        let log = setup.log.clone();
        Self {
            me: setup.me,
            nodes: setup.nodes,
            incarnation: setup.incarnation,
            defects: setup.defects,
            slots: setup.slots,
            log: log.unwrap_or_else(|| Arc::new(LogView::initial(setup.nodes, setup.k))),
            lease: true,
            asked: 0,
            used: None,
        }
    }

    fn handle(
        &mut self,
        now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        match input {
            Input::Acquire { weight } => {
                let gate = self.next_gate();
                self.used().waiting.push(gate);
                let done = self.pass(now, gate, Input::Acquire { weight }, out);
                if done.is_err() {
                    self.used().waiting.pop();
                }
                done
            }
            Input::Withdraw => {
                let gate = self.used().waiting.pop().ok_or(Refusal::NoSuchRequest)?;
                self.pass(now, gate, Input::Withdraw, out)
            }
            Input::Release { grant } => {
                let (gate, grant) = self.inner_grant(grant);
                self.pass(now, gate, Input::Release { grant }, out)
            }
            Input::Lapse { grant } => {
                let (gate, grant) = self.inner_grant(grant);
                self.pass(now, gate, Input::Lapse { grant }, out)
            }
            Input::Confirm { grant } => {
                let (gate, grant) = self.inner_grant(grant);
                self.pass(now, gate, Input::Confirm { grant }, out)
            }
            Input::Adopt(mut adoption) => {
                let count = self.count();
                let first = adoption.slots.first().copied();
                let gate = first.ok_or(Refusal::Malformed("no slots"))? % count;
                adoption.slots.iter_mut().for_each(|slot| *slot /= count);
                self.pass(now, gate, Input::Adopt(adoption), out)
            }
            Input::Deliver { from, message: GateMessage { gate, message } } => {
                self.pass(now, gate, Input::Deliver { from, message }, out)
            }
            Input::Expire(GateTimer { gate, timer }) => {
                self.pass(now, gate, Input::Expire(timer), out)
            }
            Input::Applied(log) => {
                self.log = log;
                self.pass_all(now, out, |this, gate| Input::Applied(this.view(gate)))
            }
            Input::Lease(valid) => {
                self.lease = valid;
                self.pass_all(now, out, |_, _| Input::Lease(valid))
            }
            Input::Resize(_)
            | Input::Reserved(_)
            | Input::Crashed { .. }
            | Input::Joined { .. } => Err(Refusal::Unsupported {
                protocol: Self::NAME,
                what: "inputs outside of the log",
            }),
        }
    }

    fn observe(&self) -> Observation {
        let count = self.count();
        let gates = self.used.iter().flat_map(|used| &used.gates);
        let mut all = Observation::default();
        for (gate, process) in gates {
            let shown = process.observe();
            if all.phase != Phase::Waiting && shown.phase != Phase::Idle {
                (all.phase, all.stamp) = (shown.phase, shown.stamp);
                all.grant = shown.grant.map(|grant| outer_grant(grant, *gate, count));
            }
            all.lacking.extend(shown.lacking);
            all.owing.extend(shown.owing);
            all.relaying.extend(shown.relaying);
            all.queue.extend(shown.queue);
            all.decided += shown.decided;
            all.slots
                .extend(shown.slots.into_iter().map(|(slot, fence)| (slot * count + gate, fence)));
        }
        all
    }
}

impl<M: Protocol> TransientFaults for Gates<M> {}
impl<M: Protocol> kgate_core::Explorable for Gates<M> {}
impl<M: Protocol> kgate_core::Suspend for Gates<M> {}
