//! Pass: at k = 1 the holder hands its slot over directly (H20, an option).
//!
//! Under contention a slot travels holder, home, next holder: two delays. The home knows who is
//! next long before. So it numbers the grant of the first waiting request at once and names it, in
//! the assignment that recalls the slot, as what comes **next**. When its client has returned the
//! slot, the holder sends that grant on in a *pass*, and its report to the home at the same time:
//! one delay.
//!
//! A pass is a quicker copy of the line that the home sends on that report anyway, so it may be
//! lost, late or repeated: a member takes a grant once (H6), out of whatever lists it first. From
//! the promise on the grant cannot be revoked by the home alone. Therefore
//!
//! - it is promised only for a slot that the home is sure of, and that the log does not hold;
//! - wherever the slot would become free at the home, it becomes the promised one's; only the
//!   eviction of that member ends a promise, or that the log holds the slot, which is then not
//!   passed on, or that the holder, asked to pass on no more, says that it still has the slot;
//! - a report or an adoption request that lists the grant proves that it was passed on;
//! - the holder passes on only what its client has returned, in the term of the promise;
//! - a member takes a pass only in its term; a term that ends leaves the slot unknown (H8).
//!
//! Neither the holder nor the next one is the home: from and to it one delay suffices anyway.
//! For k > 1 a later request might be served before the promised one, so if k grows, the home takes
//! the promise back: the holder is told so, and answers.

use kgate_core::{Incarnation, LogView, NodeId};
use serde::{Deserialize, Serialize};

use super::coordinator::{Coordinator, Request};
use super::defects::{
    H20_CANCEL, H20_EVICT, H20_FREE, H20_HELD, H20_PROOF, H20_RESERVED, H20_TERM, H20_TOP,
    H20_UNSURE,
};
use super::grant::Grant;
use super::member::Hold;
use super::message::{Head, Held, HomeMessage, Line, Pass};
use super::table::{Holder, Slot};
use super::{Home, Out};
use crate::slots::SlotSet;

/// The slot of a gate with k = 1.
pub(super) const SLOT: u32 = 0;

/// The grant that follows when the holder of the slot has returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Next {
    /// The member that is granted the slot,
    pub node: NodeId,
    /// in this incarnation,
    pub incarnation: Incarnation,
    /// for this request,
    pub ticket: u64,
    /// by this grant.
    pub grant: Grant,
}

/// What the home has promised.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Promise {
    request: Request,
    grant: Grant,
    /// The version of the assignment by which the holder learns that it is to pass on no more.
    cancelled: Option<u64>,
}

impl Coordinator {
    /// The first request does not fit: promises it the slot after its present holder.
    pub(super) fn promise(&mut self, log: &LogView) {
        let reserved = log.reserved.binary_search(&SLOT).is_ok();
        if !self.options.pass || log.k != 1 || self.promise.is_some() || reserved {
            return;
        }
        let Some(holder) = self.table.holder(SLOT) else { return };
        let (node, incarnation, grant) = (holder.node, holder.incarnation, holder.grant);
        let sure = holder.sure || self.defects.has(H20_UNSURE);
        // By a greater k it may have more slots.
        let alone = self.table.holders().all(|(slot, other)| slot == SLOT || other.grant != grant);
        let Some(place) = self.queue.iter().position(|request| request.wait.weight <= log.k) else {
            return;
        };
        let next = self.queue[place].node;
        if !sure || !alone || [node, next].contains(&self.me) || node == next {
            return;
        }
        self.number += 1;
        let grant = Grant { term: self.term, number: self.number, attempt: 0 };
        let request = self.queue.remove(place).expect("seen");
        self.promise = Some(Promise { request, grant, cancelled: None });
        let peer = self.peer(node, incarnation);
        peer.recalled = true;
        peer.tell();
    }

    /// What the assignment to the holder of these slots names as next.
    pub(super) fn next_of(&self, slots: &[u32]) -> Option<Next> {
        let Promise { request, grant, .. } =
            self.promise.as_ref().filter(|promise| promise.cancelled.is_none())?;
        let Request { node, incarnation, wait } = *request;
        (slots == [SLOT]).then_some(Next { node, incarnation, ticket: wait.ticket, grant: *grant })
    }

    /// The holder of this slot has it no more, for certain or not.
    pub(super) fn end(&mut self, slot: u32, certain: bool, log: &LogView) {
        self.table.end(slot, certain);
        if slot != SLOT || self.defects.has(H20_FREE) {
            return;
        }
        let reserved = log.reserved.binary_search(&SLOT).is_ok();
        if reserved && !self.defects.has(H20_RESERVED) {
            // For a client of the former holder, or of the next one if it was passed on. Without a
            // ticket the latter does not take it, but says whether it has it.
            let request = self.promise.as_ref().map(|promise| promise.request);
            self.fulfil(None, false);
            self.queue.extend(request);
            self.queue.rotate_right(usize::from(request.is_some()));
        } else {
            let ticket = self.promise.as_ref().map(|promise| promise.request.wait.ticket);
            self.fulfil(ticket, false);
        }
    }

    /// The slot is the promised one's, which must be told so, unless it has said so.
    fn fulfil(&mut self, ticket: Option<u64>, said: bool) {
        let Some(Promise { request, grant, .. }) = self.promise.take() else { return };
        let Request { node, incarnation, .. } = request;
        let assignment = if said { 0 } else { self.peer(node, incarnation).tell() };
        let (sure, keep) = (true, false);
        let holder = Holder { node, incarnation, grant, ticket, assignment, sure, keep };
        self.table.set(SLOT, Slot::Held(holder));
    }

    /// The promised grant will not be; its request is the first again.
    fn take_back(&mut self) {
        if let Some(promise) = self.promise.take() {
            self.queue.push_front(promise.request);
        }
    }

    /// A member lists these grants, so what it was promised was passed on.
    pub(super) fn take_passed(&mut self, node: NodeId, holds: &[Held]) {
        let promised = |promise: &Promise| {
            promise.request.node == node && holds.iter().any(|held| held.grant == promise.grant)
        };
        if self.promise.as_ref().is_some_and(promised) && !self.defects.has(H20_PROOF) {
            self.fulfil(None, true);
        }
    }

    /// An adoption by this grant is asked for. If it is the promised one, it was passed on.
    pub(super) fn take_passed_ask(&mut self, grant: Grant) {
        if self.promise.as_ref().is_some_and(|promise| promise.grant.is_same(grant)) {
            self.fulfil(None, false);
        }
    }

    /// The slots move by an adoption. The former holder passes nothing on, since its client will
    /// never return anything there.
    pub(super) fn take_back_if_moved(&mut self, slots: &SlotSet) {
        if slots.contains(SLOT) {
            self.take_back();
        }
    }

    /// The ticket of the grant that this member was promised.
    pub(super) fn promised_ticket(&self, node: NodeId) -> Option<u64> {
        let promise = self.promise.as_ref().filter(|promise| promise.request.node == node);
        promise.map(|promise| promise.request.wait.ticket)
    }

    /// The log was applied: a promise to a member that is evicted ends, and if k has grown, the
    /// holder is asked to pass on no more.
    pub(super) fn review_promise(&mut self, log: &LogView) {
        let Some(promise) = &self.promise else { return };
        let Request { node, incarnation, .. } = promise.request;
        if log.directory.incarnation(node) != Some(incarnation) && !self.defects.has(H20_EVICT) {
            self.promise = None;
        } else if log.k > 1 && promise.cancelled.is_none() {
            if self.defects.has(H20_CANCEL) {
                return self.take_back();
            }
            let holder = self.table.holder(SLOT).map(|holder| (holder.node, holder.incarnation));
            let version = holder.map(|(node, incarnation)| self.peer(node, incarnation).tell());
            self.promise.as_mut().expect("seen").cancelled = version;
        }
    }

    /// A report that was made after the holder had seen that it is to pass on no more lists the
    /// slot: it has not passed it on.
    pub(super) fn confirm_cancelled(&mut self, node: NodeId, seen: u64, holds: &[Held]) {
        let asked = self.promise.as_ref().and_then(|promise| promise.cancelled);
        let lists = |holder: &Holder| {
            holder.node == node && holds.iter().any(|held| held.grant.is_same(holder.grant))
        };
        let kept = self.table.holder(SLOT).is_some_and(lists);
        if asked.is_some_and(|version| version <= seen) && kept {
            self.take_back();
        }
    }
}

impl Home {
    /// The slots of this hold were returned by its client: what was promised is passed on.
    pub(super) fn pass_on(&self, hold: &Hold, out: &mut Out) {
        // Its slot goes to the log, and is free only when that says so.
        let to_log = hold.slots.as_slice().iter().any(|slot| self.is_reserved(*slot));
        let Some(next) = hold.next.filter(|_| !to_log || self.defects.has(H20_HELD)) else {
            return;
        };
        let Next { node, incarnation, ticket, grant } = next;
        let (from, index) = (self.incarnation, self.log.index);
        let head = Head { term: grant.term, from, to: incarnation, index, path: None };
        let held = Held { slots: SlotSet::new([SLOT].into()), grant };
        let line = Line { ticket: Some(ticket), held, keep: false, next: None };
        out.send(node, HomeMessage::Pass(Pass { head, line, k: self.log.k }.into()));
    }

    /// What follows a hold, by the newest assignment. That nothing is to be passed on any more is
    /// answered.
    pub(super) fn follow_promise(&mut self, line: &Line) {
        let same = |hold: &&mut Hold| hold.grant.is_same(line.held.grant);
        let Some(hold) = self.member.holds.iter_mut().find(same) else { return };
        let ended = hold.next.is_some() && line.next.is_none();
        hold.next = line.next;
        if ended {
            self.member.report();
        }
    }

    /// A slot is handed over to a client here. What is not taken is not answered: the home sends
    /// it, too.
    pub(super) fn on_pass(&mut self, pass: &Pass, out: &mut Out) {
        let present = self.home.is_some_and(|home| home.term == pass.head.term);
        if !present && !self.defects.has(H20_TERM) {
            return;
        }
        let k = if pass.head.index > self.log.index { pass.k } else { self.log.k };
        if self.defects.has(H20_TOP) {
            self.member.top = 0;
        }
        self.take(&pass.line, k, out);
    }
}
