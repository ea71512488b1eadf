//! The member's side: clients, what they hold, the reports, and what an assignment changes.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use kgate_core::{Defects, GrantId, Incarnation, NodeId, Notice, Refusal, Term};
use serde::{Deserialize, Serialize};

use super::adoption::PendingAdoption;
use super::closing::Closing;
use super::defects::{
    H_WITHDRAW, H1, H4_ASSIGNMENTS, H6_LATE, H6_SILENT, H7, H9_LAPSE, H9_STALE, H10, H12, H15, H17,
    H20_FORGET, H20_LAPSE,
};
use super::grant::Grant;
use super::message::{Assignment, Head, Held, Line, Report, Wait};
use super::pass::Next;
use super::{Home, Out};
use crate::slots::SlotSet;

/// Slots that this member has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Hold {
    pub(super) slots: SlotSet,
    pub(super) grant: Grant,
    /// The last part of its fence: greater after each re-use.
    pub(super) count: u16,
    /// How often it was handed over while others waited.
    pub(super) passed: u16,
    /// Whether it may be cached when its client is done.
    pub(super) keep: bool,
    /// What is passed on when its client is done (H20).
    pub(super) next: Option<Next>,
    pub(super) usage: Usage,
}

/// Who uses a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Usage {
    /// No client: it is cached.
    Cached,
    /// The client that knows it by this name.
    Client(GrantId),
    /// A client that asked for its adoption, and has not confirmed it.
    Unconfirmed(GrantId),
}

impl Hold {
    fn id(&self) -> Option<GrantId> {
        match self.usage {
            Usage::Cached => None,
            Usage::Client(id) | Usage::Unconfirmed(id) => Some(id),
        }
    }
}

/// What is known of a gate as a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Member {
    /// The version of the newest report of this term.
    pub(super) version: u64,
    /// The version of the newest assignment of this term.
    pub(super) seen: u64,
    /// The version of the newest report of this term that the home has.
    pub(super) acked: u64,
    /// The greatest number of a grant of this term that an assignment has listed (H6).
    pub(super) top: u64,
    /// The last ticket.
    tickets: u64,
    clock: u64,
    /// Whether others wait for what is here.
    recall: bool,
    /// Whether a report must go to the home,
    pub(super) due: bool,
    /// and whether it says something new.
    pub(super) changed: bool,
    /// The waiting requests, in order.
    waits: VecDeque<Wait>,
    pub(super) holds: Vec<Hold>,
    /// What was held by an older term and its client has returned in this one, each with the
    /// version of the first report that says so.
    freed: Vec<(u64, Held)>,
    pub(super) asks: Vec<PendingAdoption>,
    /// The closing table of the term before, until the home has it.
    closing: Option<Box<Closing>>,
}

impl Member {
    /// Something is to be reported.
    pub(super) fn report(&mut self) {
        (self.due, self.changed) = (true, true);
    }

    /// A new term begins: nothing of the old one counts.
    pub(super) fn begin_term(&mut self, closing: Option<Closing>, defects: Defects) {
        (self.version, self.seen, self.acked, self.top) = (0, 0, 0, 0);
        self.recall = false;
        if !defects.has(H9_STALE) {
            self.freed.clear();
        }
        if !defects.has(H20_FORGET) {
            self.holds.iter_mut().for_each(|hold| hold.next = None);
        }
        self.freed.iter_mut().for_each(|(since, _)| *since = 0);
        self.asks.iter_mut().for_each(|ask| ask.since = None);
        self.closing = closing.map(Box::new);
    }

    /// Whether this member has anything to say that the home does not expect.
    pub(super) fn has_news(&self, lease: bool) -> bool {
        let waits = lease && !self.waits.is_empty();
        waits || !self.holds.is_empty() || !self.asks.is_empty() || self.closing.is_some()
    }

    /// The weights of the waiting requests, in order.
    pub(super) fn waits(&self) -> impl Iterator<Item = &Wait> {
        self.waits.iter()
    }
}

impl Home {
    pub(super) fn on_acquire(&mut self, weight: u32, out: &mut Out) -> Result<(), Refusal> {
        if weight == 0 || weight > self.log.k {
            return Err(Refusal::Weight { weight, most: self.log.k });
        }
        let fits = |hold: &Hold| hold.usage == Usage::Cached && hold.slots.len() == weight;
        let cached = self.member.holds.iter().position(|hold| fits(hold) && self.is_reusable(hold));
        if let Some(place) = cached.filter(|_| self.has_lease() && self.member.waits.is_empty()) {
            self.use_again(place, out);
            return Ok(());
        }
        // It might need them itself.
        self.drop_cached(|_| true, out);
        let member = &mut self.member;
        (member.tickets, member.clock) = (member.tickets + 1, member.clock + 1);
        // Later requests of a member have later stamps, also while there is no home.
        let last = member.waits.back().map(|wait| wait.term);
        let term = self.home.map(|home| home.term).max(last).unwrap_or_default();
        let wait = Wait { ticket: member.tickets, weight, term, clock: member.clock };
        member.waits.push_back(wait);
        out.notify(Notice::Asked);
        if self.lease {
            self.member.report();
        }
        Ok(())
    }

    /// Withdraws the latest request that waits.
    pub(super) fn on_withdraw(&mut self) -> Result<(), Refusal> {
        self.member.waits.pop_back().ok_or(Refusal::NoSuchRequest)?;
        if !self.defects.has(H_WITHDRAW) {
            self.member.report();
        }
        Ok(())
    }

    /// The client is done: the next one here gets the slots, or they are cached or returned.
    pub(super) fn on_release(&mut self, id: GrantId, out: &mut Out) -> Result<(), Refusal> {
        let place = self.used(id).ok_or(Refusal::NoSuchRequest)?;
        let hold = &self.member.holds[place];
        let may = self.has_lease() && self.is_reusable(hold);
        let weight = hold.slots.len();
        let others_wait = self.member.recall;
        let is_next = self.member.waits.front().is_some_and(|wait| wait.weight == weight);
        if may && is_next && (!others_wait || hold.passed < self.options.cohort) {
            self.member.waits.pop_front();
            self.member.holds[place].passed += u16::from(others_wait);
            self.use_again(place, out);
            self.member.report();
        } else if may && hold.keep && !others_wait && self.member.waits.is_empty() {
            let hold = &mut self.member.holds[place];
            (hold.usage, hold.passed) = (Usage::Cached, 0);
        } else {
            self.give_back(place, out);
        }
        Ok(())
    }

    /// The client is gone. What becomes of its slots is not for this process to say: another may
    /// have adopted them.
    pub(super) fn on_lapse(&mut self, id: GrantId, out: &mut Out) -> Result<(), Refusal> {
        let place = self.place_of(id).ok_or(Refusal::NoSuchRequest)?;
        if self.defects.has(H12) && self.used(id).is_some() {
            return self.on_release(id, out);
        }
        if self.defects.has(H9_LAPSE) {
            self.give_back(place, out);
            return Ok(());
        }
        let hold = self.member.holds.remove(place);
        if self.defects.has(H20_LAPSE) {
            self.pass_on(&hold, out);
        }
        self.member.report();
        Ok(())
    }

    fn place_of(&self, id: GrantId) -> Option<usize> {
        self.member.holds.iter().position(|hold| hold.id() == Some(id))
    }

    /// The place of a hold in the use of its client.
    fn used(&self, id: GrantId) -> Option<usize> {
        self.member.holds.iter().position(|hold| hold.usage == Usage::Client(id))
    }

    /// Whether clients may be let in at this instant (H17).
    pub(super) fn has_lease(&self) -> bool {
        self.is_member && (self.lease || self.defects.has(H17))
    }

    /// Whether the hold may go to another client of this member. Not after an adoption: attempts
    /// begin with the client that was granted the slots.
    fn is_reusable(&self, hold: &Hold) -> bool {
        let below = hold.slots.all_below(self.log.k) || self.defects.has(H15);
        let reserved = hold.slots.as_slice().iter().any(|slot| self.is_reserved(*slot));
        below && !reserved && hold.count < u16::MAX && hold.grant.attempt == 0
    }

    pub(super) fn is_reserved(&self, slot: u32) -> bool {
        self.log.reserved.binary_search(&slot).is_ok()
    }

    /// The next client here gets the same slots under a greater fence.
    fn use_again(&mut self, place: usize, out: &mut Out) {
        let id = self.next_grant();
        let hold = &mut self.member.holds[place];
        (hold.count, hold.usage) = (hold.count + 1, Usage::Client(id));
        self.tell(place, out);
    }

    /// A client is let in.
    fn tell(&self, place: usize, out: &mut Out) {
        let hold = &self.member.holds[place];
        let Usage::Client(grant) = hold.usage else { return };
        let (slots, fence) =
            (hold.slots.as_slice().into(), hold.grant.fence(hold.count, self.defects));
        out.notify(Notice::Granted { grant, slots: Some(slots), fence: Some(fence) });
    }

    /// Its client has returned it, or it was cached: nobody here has it any more.
    fn give_back(&mut self, place: usize, out: &mut Out) {
        let hold = self.member.holds.remove(place);
        self.pass_on(&hold, out);
        let Hold { slots, grant, .. } = hold;
        if self.home.is_some_and(|home| grant.term < home.term) {
            self.member.freed.push((self.member.version + 1, Held { slots, grant }));
        }
        self.member.report();
    }

    /// Gives back the cached holds that are picked.
    pub(super) fn drop_cached(&mut self, pick: impl Fn(&Hold) -> bool, out: &mut Out) {
        let picked = |hold: &Hold| hold.usage == Usage::Cached && pick(hold);
        while let Some(place) = self.member.holds.iter().position(&picked) {
            self.give_back(place, out);
        }
    }

    /// Gives back what is cached and may not be used again.
    pub(super) fn drop_unusable(&mut self, out: &mut Out) {
        let lease = self.has_lease();
        let picked: Vec<Grant> = self
            .member
            .holds
            .iter()
            .filter(|hold| !lease || !self.is_reusable(hold))
            .map(|hold| hold.grant)
            .collect();
        self.drop_cached(|hold| picked.contains(&hold.grant), out);
    }

    /// Requests with more slots than there are end (H16).
    pub(super) fn fail_too_large(&mut self, out: &mut Out) {
        let most = self.log.k;
        let before = self.member.waits.len();
        self.member.waits.retain(|wait| {
            if wait.weight > most {
                out.notify(Notice::TooLarge { weight: wait.weight, most });
            }
            wait.weight <= most
        });
        if self.member.waits.len() < before {
            self.member.report();
        }
    }

    /// This incarnation is a member no longer: its clients must stop, and its requests will be
    /// reported by the next one.
    pub(super) fn lose_everything(&mut self, out: &mut Out) {
        for hold in core::mem::take(&mut self.member.holds) {
            if let Some(grant) = hold.id() {
                out.notify(Notice::Lost { grant });
            }
        }
        for ask in core::mem::take(&mut self.member.asks) {
            ask.refuse(out);
        }
        let Member { tickets, clock, ref mut waits, .. } = self.member;
        let waits = core::mem::take(waits);
        self.member = Member { tickets, clock, waits, ..Member::default() };
    }

    /// All that this member has to say.
    pub(super) fn make_report(&mut self, home: Incarnation, term: Term) -> Report {
        let index = self.log.index;
        let member = &mut self.member;
        member.version += u64::from(core::mem::take(&mut member.changed));
        member.due = false;
        let version = member.version;
        let asks = member.asks.iter_mut().filter(|ask| ask.may_go(index, self.defects));
        let asks = asks.map(|ask| {
            ask.since.get_or_insert(version);
            ask.message.clone()
        });
        let asks = asks.collect();
        let holds = member.holds.iter();
        Report {
            head: Head { term, from: self.incarnation, to: home, index, path: None },
            version,
            seen: member.seen,
            acked: member.acked,
            waits: member.waits.iter().filter(|_| self.lease).copied().collect(),
            holds: holds
                .map(|hold| Held { slots: hold.slots.clone(), grant: hold.grant })
                .collect(),
            freed: member.freed.iter().map(|(_, held)| held.clone()).collect(),
            asks,
            closing: member.closing.clone(),
        }
    }

    /// An assignment of the home of this term.
    pub(super) fn on_assignment(&mut self, assignment: Assignment, out: &mut Out) {
        let member = &mut self.member;
        member.acked = member.acked.max(assignment.acked.min(member.version));
        let acked = member.acked;
        if acked > 0 {
            member.closing = None;
        }
        if !self.defects.has(H9_STALE) {
            member.freed.retain(|(since, _)| *since > acked);
        }
        if assignment.version <= member.seen && !self.defects.has(H4_ASSIGNMENTS) {
            // H4: nothing new. The home may not know that it is known.
            member.due |= assignment.version == member.seen && assignment.seen < member.seen;
            return;
        }
        member.changed |= member.seen != assignment.version;
        (member.seen, member.recall) = (assignment.version, assignment.recall);
        member.clock = member.clock.max(assignment.clock);
        if member.version == 0 {
            member.report(); // It has said nothing in this term: it was asked.
        }
        // H15: the newer opinion of k counts.
        let k = if assignment.head.index > self.log.index { assignment.k } else { self.log.k };
        let mut greatest = member.top;
        for line in &assignment.lines {
            let fresh =
                line.held.grant.term == assignment.head.term && line.held.grant.attempt == 0;
            if fresh {
                greatest = greatest.max(line.held.grant.number);
            }
            let taken = if fresh { self.take(line, k, out) } else { self.adopt(&line.held, out) };
            if !taken && !self.defects.has(H6_SILENT) {
                self.member.report();
            }
            self.follow_promise(line);
        }
        self.member.top = greatest;
        self.settle_asks(&assignment.lines, acked, out);
        if self.defects.has(H7) {
            self.forget_unlisted(&assignment.lines, out);
        }
        if self.member.recall && !self.defects.has(H10) {
            self.drop_cached(|_| true, out);
        }
    }

    /// Takes a grant out of the first assignment that lists it, or never (H6). False if it is not
    /// here, which the home must know.
    pub(super) fn take(&mut self, line: &Line, k: u32, out: &mut Out) -> bool {
        let Held { slots, grant } = &line.held;
        if self.member.holds.iter().any(|hold| hold.grant.is_same(*grant)) {
            return true;
        }
        let waits = |wait: &Wait| Some(wait.ticket) == line.ticket;
        let place = self.member.waits.iter().position(waits);
        let is_first = grant.number > self.member.top || self.defects.has(H6_LATE);
        let may = is_first && self.has_lease() && slots.all_below(k);
        // A driver takes the first client of a weight for the one that is granted.
        let mut waits = self.member.waits.iter();
        let first = waits.position(|wait| wait.weight == slots.len());
        let Some(place) = place.filter(|place| may && Some(*place) == first) else { return false };
        self.member.waits.remove(place);
        let usage = Usage::Client(self.next_grant());
        let keep = line.keep && self.options.keep;
        let (slots, grant) = (slots.clone(), *grant);
        let hold = Hold { slots, grant, count: 0, passed: 0, keep, next: None, usage };
        self.member.holds.push(hold);
        self.member.changed = true;
        self.tell(self.member.holds.len() - 1, out);
        true
    }

    /// Left out, H7: what the home does not list is dropped.
    fn forget_unlisted(&mut self, lines: &[Line], out: &mut Out) {
        let listed = |hold: &Hold| lines.iter().any(|line| line.held.grant.is_same(hold.grant));
        let gone = self.member.holds.extract_if(.., |hold| !listed(hold));
        for grant in gone.filter_map(|hold| hold.id()) {
            out.notify(Notice::Lost { grant });
        }
        self.member.report();
    }

    /// Whether an assignment may be taken in, by its term (H1).
    pub(super) fn is_outdated(&self, term: Term, from: NodeId) -> bool {
        let home = self.home.filter(|home| home.term == term && home.node == from);
        home.is_none() && !self.defects.has(H1)
    }
}
