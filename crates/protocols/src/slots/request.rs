//! Clients of this process, its request, the decision, and the slots that are returned.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use kgate_core::{GrantId, NodeId, Notice, Refusal, To};

use super::defects::{S7, S9, S10, S11, S13, SP1, SP4};
use super::grants::Grant;
use super::lanes::Lane;
use super::message::{About, Scope, SlotsMessage};
use super::pending::Pending;
use super::slot_set::SlotSet;
use super::stamp::Stamp;
use super::{Out, Slots, SlotsTimer};
use crate::collections::NodeList;

/// The greatest batch: each part of it has a fence of its own.
const LONGEST_BATCH: u16 = 1 << 12;
/// The time until a request is repeated grows to at most 2 to this power times the first.
const MOST_DOUBLINGS: u8 = 4;

impl Slots {
    pub(super) fn on_acquire(&mut self, weight: u32, out: &mut Out) -> Result<(), Refusal> {
        if weight == 0 || weight > self.k {
            return Err(Refusal::Weight { weight, most: self.k });
        }
        self.waiting.push_back(weight);
        self.settle(out);
        Ok(())
    }

    /// Serves the waiting clients as far as possible now: the request that is out is decided, a
    /// cached grant is re-used, or a request is sent. At most one request is out at a time.
    pub(super) fn settle(&mut self, out: &mut Out) {
        loop {
            self.decide(out);
            let Some(&weight) = self.waiting.front() else { return };
            if self.pending.is_some() || !self.is_member() {
                return;
            }
            if self.lease && self.grants.kept(weight, self.k).is_some() {
                self.waiting.pop_front();
                let id = self.next_grant();
                let grant = self.grants.kept(weight, self.k).expect("just seen");
                grant.use_again(grant.count + 1, id);
                tell(grant, id, self.lane, out);
            } else {
                self.ask(out);
            }
        }
    }

    /// Sends a request: for the client that waits longest, and with it for those behind as far as
    /// the batch has room.
    fn ask(&mut self, out: &mut Out) {
        self.drop_kept(|_| true, out);
        let mut parts = VecDeque::new();
        let mut units = 0;
        while let Some(&weight) = self.waiting.front()
            && (units == 0
                || units + weight <= self.options.batch.min(self.k).min(u32::from(LONGEST_BATCH)))
        {
            units += weight;
            parts.extend(self.waiting.pop_front());
        }
        self.clock.tick();
        self.version += 1;
        self.noticed = NodeList::default(); // This request obliges every one of them to answer.
        let stamp = Stamp { clock: self.clock, node: self.me };
        let mut pending = Box::new(Pending::new(stamp, parts, &self.fleet));
        out.notify(Notice::Asked);
        let (head, about) = (self.head(), self.about(stamp));
        let weight = pending.weight();
        if self.flat() {
            let request = SlotsMessage::Request { head, about, weight, scope: Scope::Yourself };
            if self.fleet.is_full() {
                out.send_to(To::All, request);
            } else {
                out.send_to(To::Many(self.fleet.others(self.me).collect()), request);
            }
        } else {
            for (child, cluster) in self.fleet.neighbours(self.me, self.fleet.dimension()) {
                let scope = Scope::Clusters(cluster - 1);
                out.send(child, SlotsMessage::Request { head, about, weight, scope });
                pending.wait.insert(child);
            }
        }
        self.pending = Some(pending);
        self.arm(SlotsTimer::AskAgain, out);
    }

    pub(super) fn about(&self, stamp: Stamp) -> About {
        About { stamp, incarnation: self.incarnation.unwrap_or_default() }
    }

    pub(super) fn arm(&self, timer: SlotsTimer, out: &mut Out) {
        self.arm_after(timer, 1, out);
    }

    fn arm_after(&self, timer: SlotsTimer, times: u64, out: &mut Out) {
        if let Some(after) = self.options.ask_again {
            out.arm_within(timer, after.times(times), after.times(2 * times));
        }
    }

    /// The tree is complete and some processes have not answered: sends the request to them
    /// directly.
    pub(super) fn cover(&mut self, out: &mut Out) {
        if self.flat() || self.defects.has(S13) {
            return;
        }
        let Some(pending) = &mut self.pending else { return };
        if !pending.wait.is_empty() || !pending.is_lacking() {
            return;
        }
        let lacking: Box<[NodeId]> = pending.lacking(&self.fleet).collect();
        lacking.iter().for_each(|&node| {
            pending.wait.insert(node);
        });
        self.ask_directly(lacking, out);
    }

    /// Sends the request to these processes directly, for the first time or again.
    fn ask_directly(&self, whom: Box<[NodeId]>, out: &mut Out) {
        if let Some(pending) = self.pending.as_ref().filter(|_| !whom.is_empty()) {
            let (head, about, weight) = (self.head(), self.about(pending.stamp), pending.weight());
            out.send_to(
                To::Many(whom),
                SlotsMessage::Request { head, about, weight, scope: Scope::Yourself },
            );
        }
    }

    /// On links that lose messages: repeats the request to every process that has not answered or
    /// is an obstacle. The interval doubles each time, so that a cluster that is merely slow is not
    /// made slower.
    pub(super) fn ask_again(&mut self, out: &mut Out) {
        self.join_again(out);
        if let Some(pending) = &mut self.pending {
            pending.repeats = (pending.repeats + 1).min(MOST_DOUBLINGS);
            let repeats = pending.repeats;
            let unsettled: Box<[NodeId]> = pending.unsettled(&self.fleet).collect();
            self.ask_directly(unsettled, out);
            self.arm_after(SlotsTimer::AskAgain, 1 << repeats, out);
        } else if self.joining.is_some() {
            self.arm(SlotsTimer::AskAgain, out);
        }
    }

    /// Decides as far as possible: every process has answered, none is ahead, and enough slots are
    /// free for the client that waits longest. If there are not enough, other processes are asked
    /// to return the slots that they only cache.
    fn decide(&mut self, out: &mut Out) {
        let mut decided = false;
        while self.lease
            && let Some(pending) = &mut self.pending
            && pending.is_first(!self.defects.has(SP1))
            && let Some(&weight) = pending.parts.front()
        {
            let mut taken = pending.taken();
            if !self.defects.has(SP4) {
                taken.extend(&self.reserved);
            }
            let contention = taken.len().saturating_sub(self.reserved.len());
            self.grants.iter().for_each(|grant| taken.extend(&grant.slots));
            let Some(slots) = SlotSet::lowest(weight, self.k, taken.as_slice()) else {
                let keepers = pending.call();
                self.ask_directly(keepers, out);
                break;
            };
            if self.options.keep {
                self.contention = contention;
            }
            self.grant_part(slots, out);
            decided = true;
        }
        if decided {
            self.version += 1;
            self.update(out);
        }
    }

    /// Grants these slots to the client that waits longest; the request ends with its last client.
    fn grant_part(&mut self, slots: SlotSet, out: &mut Out) {
        let id = self.next_grant();
        let pending = self.pending.as_mut().expect("a request is decided");
        let (stamp, count) = (pending.stamp, pending.uses);
        pending.parts.pop_front();
        pending.uses = pending.uses.checked_add(1).expect("a batch is smaller");
        let grant = Grant { id: Some(id), stamp, slots, count, passed: 0 };
        tell(&grant, id, self.lane, out);
        self.grants.push(grant);
        if self.pending.as_ref().is_some_and(|pending| pending.parts.is_empty()) {
            self.end_request(out);
        }
    }

    fn end_request(&mut self, out: &mut Out) {
        self.pending = None;
        if self.options.ask_again.is_some() {
            out.disarm(SlotsTimer::AskAgain);
        }
    }

    fn next_grant(&mut self) -> GrantId {
        self.granted += 1;
        self.name(self.granted)
    }

    /// A grant's id is never used twice, whatever the incarnation and the lane.
    fn name(&self, grant: u64) -> GrantId {
        self.lane.name(self.incarnation.unwrap_or_default(), grant)
    }

    pub(super) fn on_release(&mut self, id: GrantId, out: &mut Out) -> Result<(), Refusal> {
        self.grants.in_use(id).ok_or(Refusal::NoSuchRequest)?;
        if self.hand_over(id, out) || self.keep(id, out) {
            return Ok(());
        }
        self.grants.remove(|grant| grant.id == Some(id));
        self.version += 1;
        self.update(out);
        self.settle(out);
        Ok(())
    }

    /// Hands the slots to the next client of this process, if it has the same weight; while other
    /// processes wait, at most `cohort` times in a row.
    fn hand_over(&mut self, id: GrantId, out: &mut Out) -> bool {
        let others_wait = !self.debts.is_empty();
        let first = self.pending.as_ref().and_then(|pending| pending.parts.front());
        let next = first.or(self.waiting.front()).copied();
        let (k, cohort) = (self.k, self.options.cohort);
        let new = self.name(self.granted + 1);
        let grant = self.grants.in_use(id).expect("seen by the caller");
        // The parts of one request all have fences with different counts.
        let uses = self
            .pending
            .as_mut()
            .filter(|pending| pending.stamp == grant.stamp)
            .map(|pending| &mut pending.uses);
        let count = uses.as_ref().map_or(grant.count, |uses| **uses - 1);
        let may = cohort > 0
            && self.lease
            && next == Some(grant.slots.len())
            && grant.is_lasting(k)
            && !grant.slots.meets(&self.reserved)
            && count < u16::MAX - 2 * LONGEST_BATCH
            && (!others_wait || grant.passed < cohort);
        if !may {
            return false;
        }
        self.granted += 1;
        grant.passed += u16::from(others_wait);
        grant.use_again(count + 1, new);
        tell(grant, new, self.lane, out);
        if let Some(uses) = uses {
            *uses += 1;
        }
        let width = next.expect("somebody waits who wants just as many");
        match &mut self.pending {
            None => drop(self.waiting.pop_front()),
            // The request stays as it is, for the next client here: no process needs to learn of
            // it, and no later request is overtaken.
            Some(pending)
                if self.waiting.front() == Some(&width)
                    && pending.parts.iter().all(|part| *part == width)
                    && self.debts.all_before(pending.stamp) =>
            {
                pending.parts.pop_front();
                pending.parts.extend(self.waiting.pop_front());
            }
            Some(pending) => {
                pending.parts.pop_front();
                if pending.parts.is_empty() {
                    self.give_up(out);
                }
                self.settle(out); // The new first client may have a smaller weight.
            }
        }
        true
    }

    /// Keeps the slots cached here as long as no process seems to need them.
    fn keep(&mut self, id: GrantId, out: &mut Out) -> bool {
        let wanted = !self.is_roomy(0) || self.pending.is_some() && !self.defects.has(S10);
        let k = self.k;
        let grant = self.grants.in_use(id).expect("seen by the caller");
        let held_by_log = grant.slots.meets(&self.reserved);
        let keeps = self.options.keep && !wanted && grant.is_lasting(k) && !held_by_log;
        if keeps {
            (grant.id, grant.passed) = (None, 0);
            if !self.debts.is_empty() {
                self.version += 1;
                self.update(out);
            }
        }
        keeps
    }

    /// Whether there seem to be enough slots for all known waiting requests, and for `more` in
    /// addition, without those here. A requester that finds too few repeats its request, and gets
    /// the cached ones.
    pub(super) fn is_roomy(&self, more: u32) -> bool {
        let held_by_log = self.reserved.count_below(self.k) as u64;
        let here = self.grants.units() + held_by_log + u64::from(self.contention) + u64::from(more);
        let alone = more == 0 && self.debts.is_empty();
        alone || self.debts.wanted().is_some_and(|wanted| here + wanted <= u64::from(self.k))
    }

    /// Returns the picked cached grants; the processes that wait for them get an update.
    pub(super) fn drop_kept(&mut self, pick: impl Fn(&Grant) -> bool, out: &mut Out) {
        if self.grants.remove(|grant| grant.id.is_none() && pick(grant)) > 0 {
            self.version += 1;
            self.update(out);
        }
    }

    /// The number of grants in use.
    pub(super) fn in_use(&self) -> usize {
        self.grants.iter().filter(|grant| grant.id.is_some()).count()
    }

    /// The number of slots that the log holds.
    pub(super) fn held_by_log(&self) -> usize {
        self.reserved.len() as usize
    }

    /// Whether a client with this weight is served at once.
    pub(super) fn keeps(&self, weight: u32) -> bool {
        self.lease && self.waiting() == 0 && self.grants.keeps(weight, self.k)
    }

    /// The number of waiting clients.
    pub(super) fn waiting(&self) -> usize {
        self.pending.as_ref().map_or(0, |pending| pending.parts.len()) + self.waiting.len()
    }

    /// Withdraws the last client that waits.
    pub(super) fn on_withdraw(&mut self, out: &mut Out) -> Result<(), Refusal> {
        let last = self.waiting().checked_sub(1).ok_or(Refusal::NoSuchRequest)?;
        self.drop_client(last, out);
        self.settle(out);
        Ok(())
    }

    /// Withdraws the waiting client at this place. The caller settles what follows.
    pub(super) fn drop_client(&mut self, place: usize, out: &mut Out) {
        let parts = self.pending.as_mut().map(|pending| &mut pending.parts);
        let out_now = parts.as_ref().map_or(0, |parts| parts.len());
        if place >= out_now {
            self.waiting.remove(place - out_now);
            return;
        }
        let parts = parts.expect("it has so many");
        parts.remove(place);
        if parts.is_empty() {
            self.give_up(out);
        }
    }

    /// The request has no clients left: it ends, and the processes that wait for it get an update.
    fn give_up(&mut self, out: &mut Out) {
        self.end_request(out);
        self.version += 1;
        if !self.defects.has(S7) {
            self.update(out);
        }
    }

    pub(super) fn on_resize(&mut self, k: u32, out: &mut Out) {
        self.k = k;
        if !self.defects.has(S9) {
            self.update(out);
        }
        self.drop_kept(|grant| !grant.slots.all_below(k), out);
        self.fail_too_large(out);
        self.settle(out);
    }

    /// Fails the clients whose weight is greater than k.
    fn fail_too_large(&mut self, out: &mut Out) {
        let most = self.k;
        let mut fails = |weight: &u32| {
            if *weight > most {
                out.notify(Notice::TooLarge { weight: *weight, most });
            }
            *weight <= most
        };
        let mut ends = false;
        if !self.defects.has(S11)
            && let Some(pending) = &mut self.pending
        {
            pending.parts.retain(&mut fails);
            ends = pending.parts.is_empty();
        }
        self.waiting.retain(&mut fails);
        if ends {
            self.give_up(out);
        }
    }

    pub(super) fn on_lease(&mut self, valid: bool, out: &mut Out) {
        self.lease = valid;
        self.settle(out);
    }

    /// This process is no longer a member: its clients must stop, and requests for the waiting ones
    /// will be sent anew.
    pub(super) fn lose_everything(&mut self, out: &mut Out) {
        let ids: Vec<GrantId> = self.grants.iter().filter_map(|grant| grant.id).collect();
        ids.into_iter().for_each(|grant| out.notify(Notice::Lost { grant }));
        self.grants.remove(|_| true);
        if let Some(pending) = self.pending.take() {
            pending.parts.iter().rev().for_each(|&weight| self.waiting.push_front(weight));
            if self.options.ask_again.is_some() {
                out.disarm(SlotsTimer::AskAgain);
            }
        }
    }
}

fn tell(grant: &Grant, id: GrantId, lane: Lane, out: &mut Out) {
    let slots = Some(grant.slots.as_slice().iter().map(|slot| lane.global(*slot)).collect());
    out.notify(Notice::Granted { grant: id, slots, fence: Some(grant.fence()) });
}
