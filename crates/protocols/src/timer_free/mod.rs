//! k-mutual exclusion that detects crashes by itself, without timers: timer-free-2009, Algorithm 1
//! (Bouillaguet, Arantes, Sens: A timer-free fault tolerant k-mutual exclusion algorithm, INRIA
//! 2009).
//!
//! As in Raymond's algorithm, a process that wants a slot stamps a request with its logical clock
//! and sends it to every process that it does not consider crashed; it enters when all but k of
//! those, itself included, have permitted it. Unlike there, every process answers at once: PERM, or
//! NOPERM from a process that holds a slot or waits with an earlier stamp, which sends PERM when it
//! releases. So a request is also a test of liveness. When all but f have answered, the missing
//! ones are the round's `not_rec_from`, and every reply carries the set of its sender's last round.
//! A process that is in the sets of all repliers and in the requester's own set of the round before
//! has crashed, or so the paper concludes; and a request carries the processes that its sender
//! considers crashed.
//!
//! Invariant: if two processes wait or hold, the one with the later stamp has no permission from
//! the other; and a process that is considered crashed counts neither as alive nor as a permission.
//! So of k+1 inside, the latest would lack k permissions.
//!
//! Properties that hold, and claims of the paper beyond them:
//! - Lemma 1 (no live process is considered crashed) holds under the responsiveness property alone:
//!   each process is among the first n-f to answer at least f+1 fixed others, always; clusters with
//!   slow links between them, of more than f processes each, have it. Safety (lemma 2) depends on
//!   it. Where it is violated, a live process is considered crashed and k+1 are inside (T6). No
//!   repair exists: a process that waits for no timer and for no more than n-f answers cannot
//!   distinguish a slow process from a crashed one.
//! - Theorem 1 (every crash is detected by every process) holds for processes that continue to
//!   request, and while all do: one that becomes idle sends the set of its last round for ever, and
//!   that clears all that crash later (T8). With `Setup::refresh` a process that does not wait
//!   sends `Query` at that interval, which runs a round and requests nothing. Off unless set.
//! - A round that the next request cuts short, before n-f answers, detects nothing. An entry needs
//!   n-k permissions only, so this happens to a process that releases and requests again faster
//!   than messages travel.
//! - Lemma 3 (liveness) needs f < k: up to f permissions never arrive before the crashes are
//!   detected. `start` asserts it (T5).
//!
//! Cost: 2(n-1) messages per entry without contention, up to 3(n-1) if all others defer it (a
//! NOPERM and, later, a PERM each), 2 delays; no message for detection. State of an idle process:
//! clock, the crashed processes, the processes that did not answer its last round; and that round
//! (n bits, and n for each suspect) while a process not known to have crashed may still answer it.
//!
//! To see it, on a grid of ten clusters as in section 5: `kgate sim --protocol timer-free -n 100 -k
//! 10 --load high --hold 2 --rho 5 --send 0 --receive 0 --latency
//! grid=10x10,intra=0.010..0.030,inter=0.180..0.220`
//!
//! Deviations from the paper ([`defects`] describes them; each T but T8 can be run as printed):
//! - T1: ties go to the smaller id; T2: a REPLY carries the clock of its request; T3: pending keeps
//!   the newest clock of each process; T4: a request is one step; T7: a release answers every
//!   pending process, considered crashed or not; T8: `Query`;
//! - the clock advances with every request, so that it names the round;
//! - permissions are a set, not a count;
//! - a round to which only crashed processes have not answered is dropped: it could detect no other
//!   crash.

pub mod defects;
mod message;
mod node_set;
mod request;
mod round;

pub use message::TimerFreeMessage;

use alloc::boxed::Box;

use kgate_core::{
    Defects, Explorable, GrantId, Incarnation, Input, InputOf, Mechanism, Never, NodeId, Notice,
    Observation, Outbox, Phase, Protocol, Refusal, Setup, Span, Stamp, Suspend, Time, To,
    TransientFaults,
};

use crate::collections::NodeList;
use defects::{T1, T2, T3, T4, T7};
use request::Request;
use round::Round;

/// The timers of [`TimerFree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerFreeTimer {
    /// Every `Setup::refresh`, if that is set: sends `Query`, unless a request is out. Never
    /// disarmed.
    Refresh,
    /// As printed (T4), some time after line 7: the rest of the request. Disarmed by a withdrawal.
    Announce,
}

/// The mutex at one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimerFree {
    me: NodeId,
    nodes: u32,
    k: u32,
    /// The number of crashes to tolerate (f).
    tolerate: u32,
    defects: Defects,
    refresh: Option<Span>,
    /// `H_i`.
    clock: u64,
    /// The clock of the last request (`last_i`); also the name of its grant.
    last: u64,
    crashed: NodeList,
    /// The processes that have not answered the last round that terminated; at most f.
    not_rec_from: NodeList,
    /// The request that waits or holds; none while idle.
    request: Option<Box<Request>>,
    /// The last round, while it can still detect a crash. For a waiting request that has been sent,
    /// it is its round.
    round: Option<Box<Round>>,
}

impl TimerFree {
    /// Line 7, and the rest at once.
    fn on_acquire(&mut self, weight: u32, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        if weight != 1 {
            return Err(Refusal::Weight { weight, most: 1 });
        }
        if self.request.is_some() {
            return Err(Refusal::Busy);
        }
        self.request = Some(Box::new(Request::new(self.nodes)));
        if self.defects.has(T4) {
            // T4: as printed, other requests come in between, and are compared with the stamp of
            // the last one.
            out.arm_within(TimerFreeTimer::Announce, Span::ZERO, Span::UNIT);
        } else {
            self.ask(out);
        }
        Ok(())
    }

    /// Lines 8-14.
    fn ask(&mut self, out: &mut Outbox<Self>) {
        let Some(request) = self.request.as_mut().filter(|request| !request.asked) else { return };
        request.asked = true;
        self.last = self.start_round();
        out.notify(Notice::Asked);
        self.broadcast(
            TimerFreeMessage::Request { clock: self.last, crashed: self.crashed.clone() },
            out,
        );
        self.enter_if_permitted(out);
    }

    /// The repair of T8. A round in progress is not cut short, or a short interval would end every
    /// round before it detects anything.
    fn on_refresh(&mut self, out: &mut Outbox<Self>) {
        let Some(interval) = self.refresh else { return };
        out.arm(TimerFreeTimer::Refresh, interval);
        let waiting = self.request.as_ref().is_some_and(|request| !request.holding);
        let under_way = self.round.as_ref().is_some_and(|round| !round.terminated(self.tolerate));
        if waiting || under_way {
            return;
        }
        let clock = self.start_round();
        self.broadcast(TimerFreeMessage::Query { clock, crashed: self.crashed.clone() }, out);
    }

    /// Lines 8-10. The clock of the new round.
    fn start_round(&mut self) -> u64 {
        self.clock = self.clock.checked_add(1).expect(CLOCK_ENDS);
        let round = Round::new(self.clock, self.me, self.nodes, &self.not_rec_from, &self.crashed);
        self.round = Some(Box::new(round));
        self.clock
    }

    /// Lines 13-14: to every process that is not considered crashed.
    fn broadcast(&self, message: TimerFreeMessage, out: &mut Outbox<Self>) {
        let to =
            if self.crashed.is_empty() { To::All } else { To::Many(self.others_alive().collect()) };
        out.send_to(to, message);
    }

    fn on_withdraw(&mut self, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        let request =
            self.request.take_if(|request| !request.holding).ok_or(Refusal::NoSuchRequest)?;
        if !request.asked {
            out.disarm(TimerFreeTimer::Announce);
        }
        self.pay(&request, out);
        Ok(())
    }

    /// Lines 17-20.
    fn on_release(&mut self, grant: GrantId, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        let last = self.last;
        let held = |request: &mut Box<Request>| request.holding && last == grant.0;
        let request = self.request.take_if(held).ok_or(Refusal::NoSuchRequest)?;
        self.pay(&request, out);
        Ok(())
    }

    /// Sends the deferred permissions, now that the request has ended.
    fn pay(&mut self, request: &Request, out: &mut Outbox<Self>) {
        for (node, clock) in request.pending.iter() {
            // T7: as printed, a process that is considered crashed gets no answer.
            if !(self.defects.has(T7) && self.crashed.contains(node)) {
                self.reply(Stamp { clock, node }, true, out);
            }
        }
        self.forget_round();
    }

    fn reply(&self, theirs: Stamp, permission: bool, out: &mut Outbox<Self>) {
        let not_received = self.not_rec_from.clone();
        out.send(
            theirs.node,
            TimerFreeMessage::Reply { clock: theirs.clock, permission, not_received },
        );
    }

    /// Lines 21-32.
    #[inline]
    fn on_request(
        &mut self,
        theirs: Stamp,
        crashed: &NodeList,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        self.hear(theirs, crashed, out)?;
        let mine = Stamp { clock: self.last, node: self.me };
        let defects = self.defects;
        let first =
            |request: &&mut Box<Request>| request.holding || comes_first(mine, theirs, defects);
        let mut before_them = self.request.as_mut().filter(first);
        if let Some(request) = &mut before_them {
            request.defer(theirs, defects.has(T3));
        }
        let permission = before_them.is_none();
        self.reply(theirs, permission, out);
        self.enter_if_permitted(out);
        Ok(())
    }

    /// Like a request, but it requests nothing: no process is deferred and none permits anything.
    fn on_query(
        &mut self,
        theirs: Stamp,
        crashed: &NodeList,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        self.hear(theirs, crashed, out)?;
        self.reply(theirs, false, out);
        self.enter_if_permitted(out);
        Ok(())
    }

    /// Lines 22-27: its clock, and the processes that it considers crashed.
    fn hear(
        &mut self,
        theirs: Stamp,
        crashed: &NodeList,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        self.check(theirs.node, crashed)?;
        if crashed.contains(self.me) {
            return Err(Refusal::Malformed("a request that declares its receiver dead"));
        }
        if theirs.clock.saturating_sub(self.clock) > FARTHEST_JUMP {
            return Err(Refusal::Malformed("a clock far ahead of all that were heard of"));
        }
        self.clock = self.clock.max(theirs.clock).checked_add(1).expect(CLOCK_ENDS);
        crashed.iter().for_each(|node| self.suspect(node, out));
        self.forget_round();
        Ok(())
    }

    /// Lines 33-41.
    #[inline]
    fn on_reply(
        &mut self,
        from: NodeId,
        (clock, permission): (u64, bool),
        not_received: &NodeList,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        self.check(from, not_received)?;
        if not_received.len() > self.tolerate {
            return Err(Refusal::Malformed("a round that terminated without so many answers"));
        }
        if clock > self.clock {
            return Err(Refusal::Malformed("a reply to a request that was never made"));
        }
        // T2: as printed, it may answer an earlier round.
        let ours = |round: &&mut Box<Round>| round.clock == clock || self.defects.has(T2);
        let Some(round) = self.round.as_mut().filter(ours) else { return Ok(()) };
        let first = round.answer(from, not_received);
        if round.terminated(self.tolerate) {
            if first {
                self.not_rec_from = round.not_received();
            }
            round.heard_by_nobody().into_iter().for_each(|node| self.suspect(node, out));
        }
        if permission
            && !self.crashed.contains(from)
            && let Some(request) = self.waiting()
        {
            request.given.insert(from);
        }
        self.enter_if_permitted(out);
        self.forget_round();
        Ok(())
    }

    /// The driver knows of a crash (lines 23-27 for one process).
    fn on_crashed(&mut self, node: NodeId, out: &mut Outbox<Self>) {
        self.mark_crashed(node);
        self.enter_if_permitted(out);
        self.forget_round();
    }

    /// Detected by a round, or reported by others; notified once.
    fn suspect(&mut self, node: NodeId, out: &mut Outbox<Self>) {
        if self.mark_crashed(node) {
            out.notify(Notice::Suspected { node, incarnation: Incarnation::default() });
        }
    }

    /// Lines 24-27: removes the permission first, then the process. False if the crash was known.
    fn mark_crashed(&mut self, node: NodeId) -> bool {
        assert_ne!(node, self.me, "we live");
        if let Some(request) = &mut self.request {
            request.given.remove(node);
        }
        self.crashed.insert(node)
    }

    /// Lines 15-16: enters when all but k of the live processes, this one included, have given
    /// permission.
    #[inline]
    fn enter_if_permitted(&mut self, out: &mut Outbox<Self>) {
        let needed = (self.nodes - self.crashed.len()).saturating_sub(self.k);
        let grant = GrantId(self.last);
        if let Some(request) = self.waiting().filter(|request| request.given.len() >= needed) {
            request.enter();
            out.notify(Notice::Granted { grant, slots: None, fence: None });
        }
    }

    /// The request that has been sent and has not entered.
    fn waiting(&mut self) -> Option<&mut Box<Request>> {
        self.request.as_mut().filter(|request| request.asked && !request.holding)
    }

    /// A round to which only crashed processes have not answered can detect nothing more; a waiting
    /// request still needs it, to identify its permissions.
    fn forget_round(&mut self) {
        let waiting = self.waiting().is_some();
        self.round.take_if(|round| !waiting && round.over(&self.crashed));
    }

    /// Checks the ids in a message before anything is changed. No process reports that it has
    /// crashed itself, or that it has not heard from itself.
    fn check(&self, from: NodeId, list: &NodeList) -> Result<(), Refusal> {
        if let Some(unknown) = list.iter().find(|node| node.0 >= self.nodes) {
            return Err(Refusal::UnknownNode(unknown));
        }
        if list.contains(from) {
            return Err(Refusal::Malformed("it says that it is not there"));
        }
        Ok(())
    }

    fn others_alive(&self) -> impl Iterator<Item = NodeId> + '_ {
        let all = (0..self.nodes).map(NodeId);
        all.filter(|&node| node != self.me && !self.crashed.contains(node))
    }
}

/// A peer's clock is adopted, so one that is too far ahead is malformed: this process's clock must
/// be able to advance, and be accepted when it does.
const FARTHEST_JUMP: u64 = 1 << 32;

const CLOCK_ENDS: &str = "2^32 jumps of 2^32 requests each";

/// Whether `mine` has priority over `theirs`.
fn comes_first(mine: Stamp, theirs: Stamp, defects: Defects) -> bool {
    if defects.has(T1) {
        // T1: the footnote's `H_i = H_j and i = j` holds for no other process.
        return mine.clock < theirs.clock;
    }
    mine < theirs
}

impl Protocol for TimerFree {
    const NAME: &'static str = "timer-free";
    const MECHANISM: Mechanism = Mechanism::Permissions;
    type Message = TimerFreeMessage;
    type Timer = TimerFreeTimer;
    type Durable = Never;

    /// Lines 1-6.
    fn start(setup: &Setup, _restored: Option<Never>, out: &mut Outbox<Self>) -> Self {
        assert!(
            setup.tolerate < setup.k,
            "f < k: otherwise dead processes can hold every slot, and requests wait forever (T5)"
        );
        if let Some(interval) = setup.refresh {
            out.arm(TimerFreeTimer::Refresh, interval);
        }
        Self {
            me: setup.me,
            nodes: setup.nodes,
            k: setup.k,
            tolerate: setup.tolerate,
            defects: setup.defects,
            refresh: setup.refresh,
            clock: 0,
            last: 0,
            crashed: NodeList::default(),
            not_rec_from: NodeList::default(),
            request: None,
            round: None,
        }
    }

    #[inline]
    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        let unsupported = |what| Err(Refusal::Unsupported { protocol: Self::NAME, what });
        match input {
            Input::Deliver { from, .. } | Input::Crashed { node: from, .. }
                if from == self.me || from.0 >= self.nodes =>
            {
                Err(Refusal::UnknownNode(from))
            }
            Input::Deliver {
                from: node,
                message: TimerFreeMessage::Request { clock, crashed },
            } => self.on_request(Stamp { clock, node }, &crashed, out),
            Input::Deliver { from: node, message: TimerFreeMessage::Query { clock, crashed } } => {
                self.on_query(Stamp { clock, node }, &crashed, out)
            }
            Input::Deliver {
                from,
                message: TimerFreeMessage::Reply { clock, permission, not_received },
            } => self.on_reply(from, (clock, permission), &not_received, out),
            Input::Acquire { weight } => self.on_acquire(weight, out),
            Input::Withdraw => self.on_withdraw(out),
            Input::Release { grant } => self.on_release(grant, out),
            Input::Crashed { node, .. } => {
                self.on_crashed(node, out);
                Ok(())
            }
            Input::Expire(TimerFreeTimer::Refresh) => {
                self.on_refresh(out);
                Ok(())
            }
            Input::Expire(TimerFreeTimer::Announce) => {
                self.ask(out);
                Ok(())
            }
            Input::Resize(_) => unsupported("a change of k"),
            Input::Reserved(_) => unsupported("slots that a log holds"),
            Input::Lease(_) => unsupported("leases"),
            Input::Applied(_) => unsupported("snapshots of a log"),
            Input::Lapse { .. } => unsupported("clients that leave without a release"),
            Input::Adopt(_) | Input::Confirm { .. } => unsupported("adoptions"),
            Input::Joined { .. } => unsupported("processes that come back: a crash is permanent"),
        }
    }

    fn observe(&self) -> Observation {
        let request = self.request.as_deref();
        let phase = match request {
            None => Phase::Idle,
            Some(request) if request.holding => Phase::Holding,
            Some(_) => Phase::Waiting,
        };
        let asked = request.filter(|request| request.asked);
        let outside = request.filter(|request| !request.holding);
        let lacking = outside.map(|request| {
            self.others_alive().filter(|&node| !request.given.contains(node)).collect()
        });
        Observation {
            phase,
            stamp: asked.map(|_| Stamp { clock: self.last, node: self.me }),
            grant: request.filter(|request| request.holding).map(|_| GrantId(self.last)),
            lacking: lacking.unwrap_or_default(),
            owing: request
                .map(|request| request.pending.iter().map(|entry| entry.0).collect())
                .unwrap_or_default(),
            crashed: self.crashed.iter().collect(),
            ..Observation::default()
        }
    }
}

impl Explorable for TimerFree {}
impl TransientFaults for TimerFree {}
impl Suspend for TimerFree {}

#[cfg(test)]
mod tests;
