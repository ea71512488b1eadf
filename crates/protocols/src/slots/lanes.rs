//! Lanes: the slots of a gate split into independent queues, for more than one decision per delay.
//!
//! In one queue with strict order, a waiting request must learn of the decision before it: at most
//! one decision per one-way delay, in the whole system. With L lanes there are L: slot x belongs to
//! lane x mod L, each lane is a `slots` of its own, and a waiting client stands in one of their
//! queues. The order is strict within a lane; between lanes it is not, and no request can have a
//! weight greater than the slots of a lane. At most k holds as before: each slot is in one lane.
//!
//! A waiting client is placed by what its process knows, without a message: in a lane with a cached
//! grant of its weight; else in the lane where the fewest clients of this process wait or hold and
//! the log holds the fewest slots; among equals, in turn. **A free lane never starves a full one
//! for good**: a client that still waits after a while (`ask_again`, or `PATIENCE`) enters the
//! queue of one more lane, finally of all; when one grants, it leaves the other queues.
//!
//! Cost: each lane that a client enters costs what `slots` costs. With one lane everything is
//! passed through.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use kgate_core::{
    Effect, Explorable, GrantId, Incarnation, Input, InputOf, Mechanism, Message, NodeId, Notice,
    Observation, Outbox, Phase, Protocol, Refusal, Setup, Span, Suspend, Time, TransientFaults,
};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::suspend::{Suspended, SuspendedQueues};
use super::{Slots, SlotsMessage, SlotsTimer};

/// The time that a client waits in its lanes before it enters one more, unless configured.
pub(super) const PATIENCE: Span = Span(10 * Span::UNIT.0);

/// The bit position of the incarnation in a grant's id. Below it there is room for 2^40 grants of
/// one incarnation, over all lanes; beyond, ids are those of the next incarnation, which does no
/// harm as long as no client of this one is left there.
const INCARNATION_AT: u32 = 40;

/// The greatest number of lanes.
const MOST: u32 = 64;

/// One of several lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    number: u8,
    of: u8,
}

impl Lane {
    /// The only lane.
    pub(super) const ONLY: Self = Self { number: 0, of: 1 };

    /// The number of a slot of this lane in the whole gate.
    pub(super) fn global(self, slot: u32) -> u32 {
        slot * u32::from(self.of) + u32::from(self.number)
    }

    /// The slots of this set that are in this lane, by their numbers within it.
    fn local(self, slots: &[u32]) -> Box<[u32]> {
        let of = u32::from(self.of);
        slots
            .iter()
            .filter(|slot| **slot % of == u32::from(self.number))
            .map(|slot| slot / of)
            .collect()
    }

    /// The number of the k slots that are in this lane.
    fn share(self, k: u32) -> u32 {
        let of = u32::from(self.of);
        k / of + u32::from(k % of > u32::from(self.number))
    }

    /// The id of a grant of this lane in that incarnation: greater for each later one. The lowest
    /// bits are the lane's number.
    pub(super) fn name(self, incarnation: Incarnation, grant: u64) -> GrantId {
        let within = grant << self.bits() | u64::from(self.number);
        GrantId((u64::from(incarnation.0) << INCARNATION_AT).wrapping_add(within))
    }

    /// The lane of a grant's id; an id that was never given may name a lane that does not exist.
    fn named(self, grant: GrantId) -> u8 {
        u8::try_from(grant.0 & ((1 << self.bits()) - 1)).expect("at most 6 bits")
    }

    /// The number of bits that distinguish lanes.
    fn bits(self) -> u32 {
        self.of.next_power_of_two().trailing_zeros()
    }
}

/// A message within a lane.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LanesMessage {
    /// The lane's number.
    pub lane: u8,
    /// The message within the lane.
    pub message: SlotsMessage,
}

/// Prints the message; the first lane, mostly the only one, is not named.
impl fmt::Debug for LanesMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.message)?;
        if self.lane > 0 { write!(f, ", lane {}", self.lane) } else { Ok(()) }
    }
}

impl Message for LanesMessage {
    const KINDS: usize = SlotsMessage::KINDS;
    fn kind(&self) -> usize {
        self.message.kind()
    }
    fn kind_name(kind: usize) -> &'static str {
        SlotsMessage::kind_name(kind)
    }
}

/// A timer of one lane, or of the waiting clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LanesTimer {
    /// A timer of a lane.
    Of(u8, SlotsTimer),
    /// Each client that has waited since the last expiry enters one more lane. Runs while a client
    /// waits that has not entered all; only with several lanes.
    Widen,
}

/// A waiting client, where there are several lanes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    weight: u32,
    /// The lanes whose queues it has entered, in order.
    pub(super) lanes: SmallVec<[u8; 4]>,
    /// Whether it waited already when the timer last fired.
    aged: bool,
}

/// `slots` in lanes, at one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lanes {
    pub(super) lanes: SmallVec<[Slots; 1]>,
    pub(super) several: Option<Box<Several>>,
}

/// The state that only several lanes need.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Several {
    k: u32,
    patience: Span,
    /// In the order of their requests. In each lane the order is the same, except for clients that
    /// entered it later.
    pub(super) waiters: VecDeque<(u64, Waiter)>,
    /// The clients that wait in each lane, in that lane's order, by number.
    pub(super) queues: Vec<VecDeque<u64>>,
    asked: u64,
    /// Whether the timer runs. It may still run after the client that it was armed for has been
    /// granted.
    timed: bool,
}

type Out = Outbox<Lanes>;

impl Lanes {
    /// Passes one input to one lane and carries out its effects.
    fn at(
        &mut self,
        lane: u8,
        now: Time,
        input: InputOf<Slots>,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let mut inner = Outbox::new();
        self.lanes[usize::from(lane)].handle(now, input, &mut inner)?;
        self.carry_out(lane, inner, out);
        Ok(())
    }

    fn all(&mut self, now: Time, input: &InputOf<Slots>, out: &mut Out) -> Result<(), Refusal> {
        (0..self.count()).try_for_each(|lane| self.at(lane, now, input.clone(), out))
    }

    #[allow(clippy::cast_possible_truncation)] // At most 64.
    fn count(&self) -> u8 {
        self.lanes.len() as u8
    }

    /// Carries out a lane's effects. The queue kept here follows the lane's own before anything
    /// else happens: only then do clients that the lane has granted leave the other queues, and
    /// clients for which it has become too small look for another one.
    fn carry_out(&mut self, lane: u8, mut inner: Outbox<Slots>, out: &mut Out) {
        let (mut served, mut outgrown) = (Vec::new(), Vec::new());
        while let Some(effect) = inner.pop() {
            match effect {
                Effect::Send { to, message } => out.send_to(to, LanesMessage { lane, message }),
                Effect::Arm { timer, least, most } => {
                    out.arm_within(LanesTimer::Of(lane, timer), least, most)
                }
                Effect::Disarm(timer) => out.disarm(LanesTimer::Of(lane, timer)),
                Effect::Persist(_) => unreachable!("a lane stores nothing by itself"),
                Effect::Notify(notice) => match (&mut self.several, *notice) {
                    (None, notice) => out.notify(notice),
                    (Some(several), notice @ Notice::Granted { .. }) => {
                        served.push(several.served(lane));
                        out.notify(notice);
                    }
                    (Some(several), Notice::TooLarge { weight, .. }) => {
                        outgrown.extend(several.outgrown(lane, weight));
                    }
                    // A client that enters one more lane is reported as asked once.
                    (Some(_), Notice::Asked) => {}
                    (
                        Some(_),
                        notice @ (Notice::Lost { .. }
                        | Notice::Suspected { .. }
                        | Notice::Adopted { .. }
                        | Notice::AdoptionRefused { .. }),
                    ) => out.notify(notice),
                },
            }
        }
        if !served.is_empty() {
            self.leave(&served, out);
        }
        outgrown.into_iter().for_each(|number| self.place_anew(number, lane, out));
    }

    fn several(&mut self) -> &mut Several {
        self.several.as_mut().expect("several lanes")
    }

    /// Clients that wait no longer leave all queues; then the lanes serve their new first clients.
    /// The effects of leaving are carried out before that: serving may lead back here, and a timer
    /// that a lane disarms now must not be disarmed after that lane has armed it again.
    fn leave(&mut self, gone: &[(u64, Waiter)], out: &mut Out) {
        let concerns = |lane: &u8| gone.iter().any(|(_, waiter)| waiter.lanes.contains(lane));
        for lane in (0..self.count()).filter(concerns) {
            let mut inner = Outbox::new();
            for (number, _) in gone {
                let queue = &mut self.several().queues[usize::from(lane)];
                if let Some(place) = queue.iter().position(|other| other == number) {
                    queue.remove(place);
                    self.lanes[usize::from(lane)].drop_client(place, &mut inner);
                }
            }
            self.carry_out(lane, inner, out);
        }
        for lane in (0..self.count()).filter(concerns) {
            let mut inner = Outbox::new();
            self.lanes[usize::from(lane)].settle(&mut inner);
            self.carry_out(lane, inner, out);
        }
    }

    /// The lane has become too small for a waiting client: it waits in others, or fails.
    fn place_anew(&mut self, number: u64, lane: u8, out: &mut Out) {
        let Some(waiter) = self.several().find(number).filter(|waiter| waiter.lanes.is_empty())
        else {
            return;
        };
        let weight = waiter.weight;
        if let Some(lane) = self.placed(weight, &[lane]) {
            self.join(number, weight, lane, out);
        } else {
            let most = self.widest();
            self.several().remove(number);
            out.notify(Notice::TooLarge { weight, most });
        }
    }

    /// The number of slots of the largest lane.
    fn widest(&self) -> u32 {
        let several = self.several.as_ref().expect("several lanes");
        self.lanes[0].lane.share(several.k)
    }

    /// The lane for a client: one with a cached grant of its weight, else the one with the fewest
    /// clients of this process, among equals in turn; none of `besides`.
    fn placed(&self, weight: u32, besides: &[u8]) -> Option<u8> {
        let several = self.several.as_ref().expect("several lanes");
        let count = u64::from(self.count());
        let rank = |lane: &u8| {
            let slots = &self.lanes[usize::from(*lane)];
            let in_turn = (several.asked + u64::from(slots.me.0) + u64::from(*lane)) % count;
            let busy = slots.waiting() + slots.in_use() + slots.held_by_log();
            (!slots.keeps(weight), busy, in_turn)
        };
        let wide_enough =
            |lane: &u8| self.lanes[usize::from(*lane)].lane.share(several.k) >= weight;
        (0..self.count())
            .filter(|lane| !besides.contains(lane) && wide_enough(lane))
            .min_by_key(rank)
    }

    /// A client enters the queue of that lane.
    fn join(&mut self, number: u64, weight: u32, lane: u8, out: &mut Out) {
        let several = self.several();
        several.waiter(number).lanes.push(lane);
        several.queues[usize::from(lane)].push_back(number);
        let asked = self.at(lane, Time::ZERO, Input::Acquire { weight }, out);
        assert_eq!(asked, Ok(()), "the lane is wide enough");
    }

    fn on_acquire(&mut self, weight: u32, out: &mut Out) -> Result<(), Refusal> {
        let refusal = Refusal::Weight { weight, most: self.widest() };
        let lane = self.placed(weight, &[]).filter(|_| weight > 0).ok_or(refusal)?;
        let several = self.several();
        several.asked += 1;
        let number = several.asked;
        several.waiters.push_back((number, Waiter { weight, lanes: SmallVec::new(), aged: false }));
        out.notify(Notice::Asked);
        self.join(number, weight, lane, out);
        self.time_those_that_wait(out);
        Ok(())
    }

    /// The timer runs while a client waits that has not entered all lanes.
    fn time_those_that_wait(&mut self, out: &mut Out) {
        let count = usize::from(self.count());
        let several = self.several();
        // Mostly it is the latest client.
        let runs = several.waiters.iter().rev().any(|(_, waiter)| waiter.lanes.len() < count);
        match (core::mem::replace(&mut several.timed, runs), runs) {
            (false, true) => out.arm_within(LanesTimer::Widen, several.patience, several.patience),
            (true, false) => out.disarm(LanesTimer::Widen),
            (false, false) | (true, true) => {}
        }
    }

    /// Each client that has waited since the last expiry enters one more lane.
    fn widen(&mut self, out: &mut Out) {
        self.several().timed = false;
        let numbers: Vec<u64> = self.several().waiters.iter().map(|(number, _)| *number).collect();
        for number in numbers {
            // It may have been granted just now, when a client before it left a queue.
            let Some(waiter) = self.several().find(number) else { continue };
            if !core::mem::replace(&mut waiter.aged, true) {
                continue;
            }
            let (weight, lanes) = (waiter.weight, waiter.lanes.clone());
            if let Some(lane) = self.placed(weight, &lanes) {
                self.join(number, weight, lane, out);
            }
        }
        self.time_those_that_wait(out);
    }

    fn on_withdraw(&mut self, out: &mut Out) -> Result<(), Refusal> {
        let last = self.several().waiters.pop_back().ok_or(Refusal::NoSuchRequest)?;
        self.leave(&[last], out);
        self.time_those_that_wait(out);
        Ok(())
    }

    fn on_resize(&mut self, k: u32, now: Time, out: &mut Out) -> Result<(), Refusal> {
        self.several().k = k;
        (0..self.count()).try_for_each(|lane| {
            let share = self.lanes[usize::from(lane)].lane.share(k);
            self.at(lane, now, Input::Resize(share), out)
        })?;
        self.time_those_that_wait(out);
        Ok(())
    }

    fn on_reserved(&mut self, slots: &[u32], now: Time, out: &mut Out) -> Result<(), Refusal> {
        if !slots.is_sorted_by(|a, b| a < b) {
            return Err(Refusal::Malformed("slots out of order"));
        }
        (0..self.count()).try_for_each(|lane| {
            let local = self.lanes[usize::from(lane)].lane.local(slots);
            self.at(lane, now, Input::Reserved(local), out)
        })?;
        self.time_those_that_wait(out);
        Ok(())
    }

    /// Resumes the suspended lanes. Their number is the suspended one: it is fixed for a gate's
    /// incarnation.
    fn resume_from(suspended: Suspended, setup: &Setup, out: &mut Out) -> Self {
        let of = u8::try_from(suspended.lanes.len()).expect("at most 64");
        assert!(of > 0 && (of > 1) == suspended.several.is_some(), "so it was put away");
        let several = suspended.several.map(|queues| Box::new(Several::resume_from(queues, setup)));
        let mut lanes = Self { lanes: SmallVec::new(), several };
        let mut k = 0;
        for (number, suspended) in (0..of).zip(suspended.lanes) {
            let lane = Lane { number, of };
            let mut inner = Outbox::new();
            k += suspended.k;
            let share = Setup { k: suspended.k, ..setup.clone() };
            let slots = Slots::start(&share, Some(Box::new(suspended)), &mut inner);
            lanes.lanes.push(Slots { lane, ..slots });
            lanes.carry_out(number, inner, out);
        }
        if k != setup.k {
            // k was changed meanwhile; a k of 0 is refused and changes nothing.
            let _ = lanes.handle(Time::ZERO, Input::Resize(setup.k), out);
        } else if lanes.several.is_some() {
            lanes.time_those_that_wait(out);
        }
        lanes
    }

    /// The lane that granted.
    fn lane_of(&self, grant: GrantId) -> Result<u8, Refusal> {
        let lane = self.lanes[0].lane.named(grant);
        if lane < self.count() { Ok(lane) } else { Err(Refusal::NoSuchRequest) }
    }
}

impl Several {
    fn to_suspended(&self) -> SuspendedQueues {
        let waiters = self.waiters.iter();
        SuspendedQueues {
            k: self.k,
            waiters: waiters.map(|(number, it)| (*number, it.weight, it.lanes.to_vec())).collect(),
            queues: self.queues.clone(),
            asked: self.asked,
        }
    }

    fn resume_from(suspended: SuspendedQueues, setup: &Setup) -> Self {
        let waiter = |weight, lanes: Vec<u8>| Waiter { weight, lanes: lanes.into(), aged: false };
        let waiters = suspended.waiters.into_iter();
        Self {
            k: suspended.k,
            patience: setup.slots.ask_again.unwrap_or(PATIENCE),
            waiters: waiters
                .map(|(number, weight, lanes)| (number, waiter(weight, lanes)))
                .collect(),
            queues: suspended.queues,
            asked: suspended.asked,
            timed: false,
        }
    }

    /// The first client that waits in that lane has been granted.
    fn served(&mut self, lane: u8) -> (u64, Waiter) {
        let number = self.queues[usize::from(lane)]
            .pop_front()
            .expect("a granted client waited in this lane");
        (number, self.remove(number))
    }

    /// The first client with that weight that waits in that lane cannot be granted there any more.
    fn outgrown(&mut self, lane: u8, weight: u32) -> Option<u64> {
        let weighs = |number: u64| {
            self.waiters.iter().any(|(other, waiter)| *other == number && waiter.weight == weight)
        };
        let place = self.queues[usize::from(lane)].iter().position(|&number| weighs(number))?;
        let number = self.queues[usize::from(lane)].remove(place)?;
        self.waiter(number).lanes.retain(|other| *other != lane);
        Some(number)
    }

    fn find(&mut self, number: u64) -> Option<&mut Waiter> {
        let place = self.waiters.binary_search_by_key(&number, |(other, _)| *other).ok()?;
        Some(&mut self.waiters[place].1)
    }

    fn waiter(&mut self, number: u64) -> &mut Waiter {
        self.find(number).expect("it waits")
    }

    fn remove(&mut self, number: u64) -> Waiter {
        let place =
            self.waiters.binary_search_by_key(&number, |(other, _)| *other).expect("it waits");
        self.waiters.remove(place).expect("just found").1
    }
}

impl Protocol for Lanes {
    const NAME: &'static str = "slots";
    const MECHANISM: Mechanism = Mechanism::Slots;
    type Message = LanesMessage;
    type Timer = LanesTimer;
    type Durable = Box<Suspended>;

    fn start(setup: &Setup, restored: Option<Box<Suspended>>, out: &mut Out) -> Self {
        if let Some(suspended) = restored {
            return Self::resume_from(*suspended, setup, out);
        }
        let of = u8::try_from(setup.slots.lanes.clamp(1, MOST)).expect("at most 64");
        let several = (of > 1).then(|| Several {
            k: setup.k,
            patience: setup.slots.ask_again.unwrap_or(PATIENCE),
            waiters: VecDeque::new(),
            queues: (0..of).map(|_| VecDeque::new()).collect(),
            asked: 0,
            timed: false,
        });
        let mut lanes = Self { lanes: SmallVec::new(), several: several.map(Into::into) };
        for number in 0..of {
            let lane = Lane { number, of };
            let mut inner = Outbox::new();
            let share = Setup { k: lane.share(setup.k), ..setup.clone() };
            let slots = Slots::start(&share, None, &mut inner);
            lanes.lanes.push(Slots { lane, ..slots });
            lanes.carry_out(number, inner, out);
        }
        lanes
    }

    fn handle(&mut self, now: Time, input: InputOf<Self>, out: &mut Out) -> Result<(), Refusal> {
        let several = self.several.is_some();
        match input {
            Input::Acquire { weight } if several => self.on_acquire(weight, out),
            Input::Withdraw if several => self.on_withdraw(out),
            Input::Resize(0) => Err(Refusal::Weight { weight: 0, most: 0 }),
            Input::Resize(k) if several => self.on_resize(k, now, out),
            Input::Acquire { weight } => self.at(0, now, Input::Acquire { weight }, out),
            Input::Withdraw => self.at(0, now, Input::Withdraw, out),
            Input::Reserved(slots) if several => self.on_reserved(&slots, now, out),
            Input::Reserved(slots) => self.at(0, now, Input::Reserved(slots), out),
            Input::Resize(k) => self.at(0, now, Input::Resize(k), out),
            Input::Release { grant } => {
                self.at(self.lane_of(grant)?, now, Input::Release { grant }, out)
            }
            Input::Deliver { from, message: LanesMessage { lane, message } } => {
                if lane >= self.count() {
                    return Err(Refusal::Malformed("no such lane"));
                }
                self.at(lane, now, Input::Deliver { from, message }, out)
            }
            Input::Expire(LanesTimer::Of(lane, timer)) => {
                self.at(lane, now, Input::Expire(timer), out)
            }
            Input::Expire(LanesTimer::Widen) => {
                self.widen(out);
                Ok(())
            }
            Input::Lease(valid) => self.all(now, &Input::Lease(valid), out),
            // A lane says that it does not support these.
            Input::Applied(log) => self.at(0, now, Input::Applied(log), out),
            Input::Lapse { grant } => self.at(0, now, Input::Lapse { grant }, out),
            Input::Adopt(adoption) => self.at(0, now, Input::Adopt(adoption), out),
            Input::Confirm { grant } => self.at(0, now, Input::Confirm { grant }, out),
            Input::Crashed { node, incarnation } => {
                self.all(now, &Input::Crashed { node, incarnation }, out)
            }
            Input::Joined { node, incarnation, view } => {
                self.all(now, &Input::Joined { node, incarnation, view }, out)
            }
        }
    }

    /// With several lanes no stamp is shown: the order is strict within a lane only.
    fn observe(&self) -> Observation {
        let mut all = self.lanes.iter().map(Slots::observe);
        let mut whole = all.next().expect("a lane");
        for lane in all {
            whole.stamp = None;
            whole.phase = match (whole.phase, lane.phase) {
                (Phase::Waiting, _) | (_, Phase::Waiting) => Phase::Waiting,
                (Phase::Holding, _) | (_, Phase::Holding) => Phase::Holding,
                (Phase::Idle, Phase::Idle) => Phase::Idle,
            };
            whole.grant = whole.grant.or(lane.grant);
            whole.lacking.extend(lane.lacking);
            whole.owing.extend(lane.owing);
            whole.slots.extend(lane.slots);
            whole.relaying.extend(lane.relaying);
        }
        whole
    }
}

impl Suspend for Lanes {
    fn suspend(&self) -> Option<Box<Suspended>> {
        let lanes = self.lanes.iter().map(Slots::to_suspended).collect::<Option<_>>()?;
        Some(Box::new(Suspended {
            lanes,
            several: self.several.as_deref().map(Several::to_suspended),
        }))
    }
}

impl Explorable for Lanes {
    fn is_outdated(&self, from: NodeId, message: &LanesMessage) -> bool {
        let lane = self.lanes.get(usize::from(message.lane));
        lane.is_some_and(|lane| lane.is_outdated(from, &message.message))
    }
}

impl TransientFaults for Lanes {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every slot is in exactly one lane, whatever k is.
    #[test]
    fn lanes_share_all_slots() {
        for k in [0, 1, 2, 3, 7, 64, u32::MAX - 1, u32::MAX] {
            for of in [1, 2, 3, 64] {
                let shares = (0..of).map(|number| u64::from(Lane { number, of }.share(k)));
                assert_eq!(shares.sum::<u64>(), u64::from(k));
            }
        }
        assert_eq!([0, 1, 2].map(|number| Lane { number, of: 3 }.share(4)), [2, 1, 1]);
    }
}
