//! k-mutual exclusion by permissions: Raymond 1989, with crashes as in Bouillaguet-Arantes-Sens
//! 2008, robust-2012 (Algorithm 2) and vcube-2018 (Algorithm 7.1).
//!
//! A process that wants a slot stamps a request with its logical clock and broadcasts it. Every
//! other process answers with REPLY, the permission, at once; except a process that holds a slot,
//! or waits with an earlier stamp: it answers when it releases. The requester enters when all but k
//! of the processes that it considers alive, itself included, have given permission: at most k-1
//! others can then be inside.
//!
//! Invariant: if two processes wait or hold, the one with the later stamp has no permission from
//! the other. So of k+1 processes inside, the latest would lack k permissions and could not have
//! entered.
//!
//! Cost: the broadcast (n-1 messages, or 2(n-1) with ACKs) and n-1 REPLY per entry; obtaining takes
//! the broadcast and one delay, hand-over one delay. State of an idle process: its clock, the
//! crashed processes, the broadcast's own state.
//!
//! The algorithm is generic over its broadcast ([`Broadcast`]) and learns of crashes by
//! `Input::Crashed` alone.
//!
//! Deviations from the papers (`docs/internals/reproduction.md` describes D1 .. D9):
//! - D2: a REPLY names the request that it permits, and only those to the present request count,
//!   from its broadcast on;
//! - D3: the *set* of permissions is kept, not their number;
//! - D4: one crash handler: it removes the permission of the crashed process first, then the
//!   process itself;
//! - D6: the clock advances with every request;
//! - D9: priority goes to the earlier stamp;
//! - instead of counting deferred replies (`defer_count`), the newest request of each process is
//!   remembered: an older one has been satisfied or withdrawn, and its owner would ignore the
//!   answer.

mod counters;
mod deferred;
mod message;
mod request;

pub use message::PermissionMessage;

use alloc::boxed::Box;

use kgate_core::{
    Defects, Explorable, GrantId, Input, InputOf, Mechanism, Never, NodeId, Notice, Observation,
    Outbox, Phase, Protocol, Refusal, Setup, Stamp, Suspend, Time, TransientFaults,
};

use crate::broadcast::{Broadcast, Place, Sink};
use crate::collections::NodeList;
use crate::defects::{D2, D3, D4, D6, D9};
use crate::topology::Members;
use counters::Counters;
use request::Request;

/// The mutex at one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permission<S: Broadcast> {
    me: NodeId,
    nodes: u32,
    k: u32,
    defects: Defects,
    clock: u64,
    crashed: NodeList,
    /// The request that waits or holds; none while idle.
    request: Option<Box<Request>>,
    broadcast: S,
    /// Only for runs as printed that need them.
    counters: Option<Box<Counters>>,
}

impl<S: Broadcast> Permission<S> {
    /// Algorithm 7.1 lines 8-14.
    fn on_acquire(&mut self, weight: u32, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        if weight != 1 {
            return Err(Refusal::Weight { weight, most: 1 });
        }
        if self.request.is_some() {
            return Err(Refusal::Busy);
        }
        let clock = self.clock.checked_add(1).expect("2^32 jumps of 2^32 requests each");
        if !self.defects.has(D6) {
            self.clock = clock; // D6: as printed, the next request has the same stamp.
        }
        self.request = Some(Box::new(Request::new(clock, self.nodes, self.counters.is_some())));
        if let Some(counters) = &mut self.counters {
            counters.request();
        }
        self.ask_if_ready(out);
        Ok(())
    }

    fn on_withdraw(&mut self, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        let request =
            self.request.take_if(|request| !request.holding).ok_or(Refusal::NoSuchRequest)?;
        Self::pay(*request, out);
        Ok(())
    }

    /// Algorithm 7.1 lines 17-22.
    fn on_release(&mut self, grant: GrantId, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        let held = |request: &mut Box<Request>| request.holding && request.clock == grant.0;
        let request = self.request.take_if(held).ok_or(Refusal::NoSuchRequest)?;
        Self::pay(*request, out);
        Ok(())
    }

    /// Sends the deferred permissions.
    fn pay(request: Request, out: &mut Outbox<Self>) {
        for (node, clock) in request.deferred.pay() {
            out.send(node, PermissionMessage::Reply { clock });
        }
    }

    /// Starts the broadcast of a waiting request, once the one before has ended (Algorithm 6.1 line
    /// 5).
    fn ask_if_ready(&mut self, out: &mut Outbox<Self>) {
        let Some(request) = self.request.as_mut().filter(|request| !request.asked) else { return };
        if !self.broadcast.ready(self.me) {
            return;
        }
        request.asked = true;
        out.notify(Notice::Asked);
        let clock = request.clock;
        self.broadcast(out, |broadcast, at, send| broadcast.broadcast(at, clock, send));
        if let Some(counters) = &mut self.counters {
            let members = Members::new(self.nodes, &self.crashed);
            let me = self.me;
            let others =
                (0..self.nodes).map(NodeId).filter(|&node| node != me && members.contains(node));
            counters.broadcast(others);
        }
        self.enter_if_permitted(out);
    }

    /// Algorithm 7.1 lines 23-29.
    #[inline]
    fn on_request(&mut self, theirs: Stamp, out: &mut Outbox<Self>) {
        self.clock = self.clock.max(theirs.clock);
        if self.crashed.contains(theirs.node) {
            return;
        }
        let (me, defects) = (self.me, self.defects);
        if let Some(request) = self.request.as_mut() {
            let mine = Stamp { clock: request.clock, node: me };
            if request.holding || comes_first(mine, theirs, defects) {
                request.deferred.add(theirs);
                return;
            }
        }
        out.send(theirs.node, PermissionMessage::Reply { clock: theirs.clock });
    }

    /// Algorithm 7.1 lines 30-34.
    #[inline]
    fn on_reply(&mut self, from: NodeId, clock: u64, out: &mut Outbox<Self>) {
        if self.crashed.contains(from) {
            return;
        }
        let waiting = self.request.as_mut().filter(|request| !request.holding);
        if let Some(counters) = &mut self.counters {
            // D2: as printed, a REPLY to the last request counts while the next one waits for its
            // broadcast.
            let counting =
                waiting.as_ref().is_some_and(|request| request.asked || self.defects.has(D2));
            counters.reply(from, counting);
        } else if let Some(request) = waiting.filter(|request| request.clock == clock) {
            request.permit(from);
        }
        self.enter_if_permitted(out);
    }

    /// Algorithm 7.1 lines 35-38 and 6.1 lines 32-43.
    fn on_crashed(&mut self, node: NodeId, out: &mut Outbox<Self>) {
        if self.crashed.contains(node) {
            return;
        }
        if self.defects.has(D4) {
            // D4: as printed, the crashed process no longer counts while its permission still does.
            self.crashed.insert(node);
            self.enter_if_permitted(out);
        }
        if let Some(request) = self.request.as_mut() {
            request.deferred.remove(node);
            request.take_back(node);
        }
        if let Some(counters) = &mut self.counters {
            // D3: as printed, a permission is taken back that was never counted, while its request
            // waits for its broadcast.
            let waiting = self.request.as_ref().filter(|request| !request.holding);
            let counting = waiting.is_some_and(|request| request.asked || self.defects.has(D3));
            counters.crashed(node, counting);
        }
        self.crashed.insert(node);
        self.broadcast(out, |broadcast, at, send| broadcast.crashed(at, node, send));
        self.ask_if_ready(out);
        self.enter_if_permitted(out);
    }

    #[inline]
    fn on_spread(
        &mut self,
        from: NodeId,
        message: S::Message,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if let Some(source) = S::source(&message).filter(|source| source.0 >= self.nodes) {
            return Err(Refusal::UnknownNode(source));
        }
        if S::clock(&message).saturating_sub(self.clock) > FARTHEST_JUMP {
            return Err(Refusal::Malformed("a clock far ahead of all that were heard of"));
        }
        let at = Place {
            me: self.me,
            members: Members::new(self.nodes, &self.crashed),
            defects: self.defects,
        };
        let fresh = self.broadcast.accept(at, from, &message);
        if let Some(theirs) = fresh {
            self.on_request(theirs, out);
        }
        if S::RELAYS {
            self.broadcast(out, |broadcast, at, send| {
                broadcast.relay(at, from, message, fresh.is_some(), send)
            });
            self.ask_if_ready(out);
        }
        Ok(())
    }

    /// Lines 15-16: enters when all but k of the live processes, this one included, have given
    /// permission.
    #[inline]
    fn enter_if_permitted(&mut self, out: &mut Outbox<Self>) {
        let Some(request) =
            self.request.as_mut().filter(|request| request.asked && !request.holding)
        else {
            return;
        };
        let alive = self.nodes - self.crashed.len();
        let needed = alive.saturating_sub(self.k);
        let permitted = match &self.counters {
            None => request.permissions() >= needed,
            Some(counters) => counters.permitted(needed),
        };
        if permitted {
            request.enter();
            out.notify(Notice::Granted { grant: GrantId(request.clock), slots: None, fence: None });
        }
    }

    /// Calls the broadcast with its environment and a way to send.
    fn broadcast(
        &mut self,
        out: &mut Outbox<Self>,
        call: impl FnOnce(&mut S, Place<'_>, &mut Sink<'_, S::Message>),
    ) {
        let at = Place {
            me: self.me,
            members: Members::new(self.nodes, &self.crashed),
            defects: self.defects,
        };
        call(&mut self.broadcast, at, &mut |to, message| {
            out.send_to(to, PermissionMessage::Broadcast(message))
        });
    }
}

/// A peer's clock is adopted, so one that is too far ahead is malformed: this process's clock must
/// be able to advance, and be accepted when it does.
const FARTHEST_JUMP: u64 = 1 << 32;

/// Whether `mine` has priority over `theirs`.
fn comes_first(mine: Stamp, theirs: Stamp, defects: Defects) -> bool {
    if defects.has(D9) {
        // D9: the prose of robust-2012 gives permission to the later clock, and to the smaller id
        // on a tie.
        return !(theirs.clock > mine.clock
            || theirs.clock == mine.clock && theirs.node < mine.node);
    }
    mine < theirs
}

impl<S: Broadcast> Protocol for Permission<S> {
    const NAME: &'static str = "permission";
    const MECHANISM: Mechanism = Mechanism::Permissions;
    type Message = PermissionMessage<S::Message>;
    type Timer = Never;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        Self {
            me: setup.me,
            nodes: setup.nodes,
            k: setup.k,
            defects: setup.defects,
            clock: 0,
            crashed: NodeList::default(),
            request: None,
            broadcast: S::default(),
            counters: Counters::wanted(setup.defects).then(Box::default),
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
            Input::Deliver { from, .. } if from == self.me || from.0 >= self.nodes => {
                Err(Refusal::UnknownNode(from))
            }
            Input::Deliver { from, message: PermissionMessage::Reply { clock } } => {
                self.on_reply(from, clock, out);
                Ok(())
            }
            Input::Deliver { from, message: PermissionMessage::Broadcast(message) } => {
                self.on_spread(from, message, out)
            }
            Input::Acquire { weight } => self.on_acquire(weight, out),
            Input::Withdraw => self.on_withdraw(out),
            Input::Release { grant } => self.on_release(grant, out),
            Input::Crashed { node, .. } if node == self.me || node.0 >= self.nodes => {
                Err(Refusal::UnknownNode(node))
            }
            Input::Crashed { node, .. } => {
                self.on_crashed(node, out);
                Ok(())
            }
            Input::Resize(_) => unsupported("a change of k"),
            Input::Reserved(_) => unsupported("slots that a log holds"),
            Input::Lease(_) => unsupported("leases"),
            Input::Applied(_) => unsupported("snapshots of a log"),
            Input::Lapse { .. } => unsupported("clients that leave without a release"),
            Input::Adopt(_) | Input::Confirm { .. } => unsupported("adoptions"),
            Input::Joined { .. } => unsupported("processes that come back: a crash is permanent"),
            Input::Expire(never) => match never {},
        }
    }

    fn observe(&self) -> Observation {
        let request = self.request.as_deref();
        let phase = match request {
            None => Phase::Idle,
            Some(request) if request.holding => Phase::Holding,
            Some(_) => Phase::Waiting,
        };
        let others = (0..self.nodes).map(NodeId).filter(|&node| node != self.me);
        Observation {
            phase,
            stamp: request.map(|request| Stamp { clock: request.clock, node: self.me }),
            grant: request.filter(|request| request.holding).map(|request| GrantId(request.clock)),
            lacking: request
                .filter(|request| !request.holding)
                .map(|request| {
                    others
                        .filter(|&node| !self.crashed.contains(node) && !request.has(node))
                        .collect()
                })
                .unwrap_or_default(),
            owing: request
                .map(|request| request.deferred.iter().map(|entry| entry.0).collect())
                .unwrap_or_default(),
            crashed: self.crashed.iter().collect(),
            ..Observation::default()
        }
    }
}

impl<S: Broadcast> Explorable for Permission<S> {}
impl<S: Broadcast> TransientFaults for Permission<S> {}
impl<S: Broadcast> Suspend for Permission<S> {}

#[cfg(test)]
mod tests;
