//! The home of a gate in one term: its table, its queue, and what it has told each member.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use kgate_core::{Assigned, Defects, Incarnation, LogView, NodeId, Term};
use serde::{Deserialize, Serialize};

use super::Options;
use super::closing::Closing;
use super::defects::{
    H_FIFO, H4_REPORTS, H5, H6_EARLY, H8_ADOPTED, H8_UNSURE, H9_ANY, H11_FIRST, H11_LAST, H11_PAST,
    H11_SURE, H20_CLOSING, H21_OTHERS,
};
use super::grant::Grant;
use super::message::{AdoptionRequest, Assignment, Head, Held, Line, Report, Wait};
use super::pass::{self, Promise};
use super::table::{Found, Holder, Slot, Table};
use super::witness::{self, Former, Notes};
use crate::slots::SlotSet;

/// What the home knows of a member that has spoken to it, or that it has asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Peer {
    incarnation: Incarnation,
    /// The version of its newest report; 0 if it has said nothing in this term.
    last: u64,
    /// The newest version of the assignments that it has taken in.
    seen: u64,
    /// The version of the newest assignment to it.
    version: u64,
    /// Whether it knows that others wait.
    pub(super) recalled: bool,
    /// Whether an assignment must go to it,
    due: bool,
    /// and whether that says something new.
    changed: bool,
}

impl Peer {
    /// Something changes that the member must know; returns the version of the assignment that says
    /// so.
    pub(super) fn tell(&mut self) -> u64 {
        (self.due, self.changed) = (true, true);
        self.version + 1
    }
}

/// A waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) wait: Wait,
}

impl Request {
    /// The order among requests of older terms.
    fn stamp(&self) -> (Term, u64, NodeId) {
        (self.wait.term, self.wait.clock, self.node)
    }
}

/// The home in one term.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Coordinator {
    pub(super) me: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) term: Term,
    #[serde(skip)]
    pub(super) defects: Defects,
    #[serde(skip)]
    pub(super) options: Options,
    /// The number of the last grant.
    pub(super) number: u64,
    pub(super) table: Table,
    pub(super) queue: VecDeque<Request>,
    /// H20: the grant that follows the present one.
    pub(super) promise: Option<Promise>,
    /// H21: what the witness was told, if there is one.
    pub(super) notes: Option<Notes>,
    /// The grants to clients here of which it does not know yet.
    pub(super) pending: Vec<Grant>,
    /// What the witness that this home was knows of its predecessor, until that is used.
    former: Option<Former>,
    peers: BTreeMap<NodeId, Peer>,
    /// The greatest clock that it has heard of.
    clock: u64,
    /// Whether every founder of the term has reported, so that everything is certain.
    settled: bool,
}

impl Coordinator {
    /// A home at the beginning of its term. Of a gate that was created in that term everything is
    /// certain: nobody can have a slot.
    pub(super) fn new(
        me: NodeId,
        incarnation: Incarnation,
        term: Term,
        log: &LogView,
        former: Option<Former>,
        (options, defects): (Options, Defects),
    ) -> Self {
        let settled = log.created >= term || defects.has(H5);
        Self {
            me,
            incarnation,
            term,
            defects,
            options,
            number: 0,
            table: Table::new(settled),
            queue: VecDeque::new(),
            promise: None,
            notes: None,
            pending: Vec::new(),
            former,
            peers: BTreeMap::new(),
            clock: 0,
            settled,
        }
    }

    /// The newest version of the assignments to this member: it cannot have seen a later one.
    pub(super) fn version_to(&self, node: NodeId) -> u64 {
        self.peers.get(&node).map_or(0, |peer| peer.version)
    }

    /// The members that may lack an assignment or a note, on links that lose messages.
    pub(super) fn unacknowledged(&self) -> impl Iterator<Item = NodeId> {
        let peers =
            self.peers.iter().filter(|(node, peer)| **node != self.me && peer.version > peer.seen);
        let witness = self.notes.as_ref().and_then(|notes| notes.unacknowledged());
        peers.map(|(node, _)| *node).chain(witness)
    }

    /// Goes on after a pause in which messages may have been lost.
    pub(super) fn resume(&mut self, options: Options, defects: Defects) {
        (self.options, self.defects) = (options, defects);
        self.repeat();
    }

    /// Repeats every assignment that is not acknowledged.
    pub(super) fn repeat(&mut self) {
        for peer in self.peers.values_mut() {
            peer.due |= peer.version > peer.seen;
        }
        self.repeat_note();
    }

    pub(super) fn peer(&mut self, node: NodeId, incarnation: Incarnation) -> &mut Peer {
        let peer = self.peers.entry(node).or_default();
        if peer.incarnation != incarnation {
            *peer = Peer { incarnation, ..Peer::default() };
        }
        peer
    }

    /// A report of this term by a present member, after every log entry that it knows.
    pub(super) fn on_report(&mut self, node: NodeId, report: Report, log: &LogView) {
        let incarnation = report.head.from;
        let peer = self.peer(node, incarnation);
        if report.version <= peer.last {
            peer.due |= report.version == peer.last && report.acked < report.version;
            if !self.defects.has(H4_REPORTS) {
                return; // H4: it is older than what is known.
            }
        }
        let peer = self.peer(node, incarnation);
        (peer.last, peer.seen) = (report.version, report.seen.max(peer.seen));
        self.take_passed(node, &report.holds);
        self.confirm_cancelled(node, report.seen, &report.holds);
        let returned = self.take_returns(node, &report, log);
        self.take_claims(node, incarnation, &report);
        if let Some(closing) = &report.closing {
            self.take_over(closing, log);
        }
        self.take_asks(node, incarnation, &report.asks, log);
        self.queue_requests(node, incarnation, &report.waits, &returned);
        self.go_on(log);
    }

    /// H6, H9: what the member has returned, or has not taken. Returns the tickets of these grants.
    fn take_returns(&mut self, node: NodeId, report: &Report, log: &LogView) -> Vec<u64> {
        let lists = |all: &[Held], slot: u32, is: &dyn Fn(Grant) -> bool| {
            all.iter().any(|held| held.slots.contains(slot) && is(held.grant))
        };
        let (mut ended, mut tickets) = (Vec::new(), Vec::new());
        for (slot, holder) in self.table.holders().filter(|(_, holder)| holder.node == node) {
            let on_its_way = holder.assignment > report.seen && !self.defects.has(H6_EARLY);
            if on_its_way || lists(&report.holds, slot, &|grant| grant.is_same(holder.grant)) {
                continue;
            }
            // H9: its client has returned it in this term, so no earlier home can have heard of
            // that and given the slot away.
            let freed = lists(&report.freed, slot, &|grant| grant >= holder.grant);
            ended.push((slot, freed || self.defects.has(H9_ANY)));
            tickets.extend(holder.ticket);
        }
        ended.into_iter().for_each(|(slot, certain)| self.end(slot, certain, log));
        tickets
    }

    /// H5, H9: what the member had before this term.
    fn take_claims(&mut self, node: NodeId, incarnation: Incarnation, report: &Report) {
        for held in &report.holds {
            for &slot in held.slots.as_slice() {
                let wins = if self.defects.has(H11_LAST) {
                    !self.table.is_sure(slot)
                } else if self.defects.has(H11_FIRST) {
                    !self.table.is_sure(slot) && self.table.holder(slot).is_none()
                } else {
                    self.table.yields_to(slot, held.grant)
                };
                if wins {
                    let (grant, ticket, assignment) = (held.grant, None, 0);
                    let holder = Holder {
                        node,
                        incarnation,
                        grant,
                        ticket,
                        assignment,
                        sure: false,
                        keep: false,
                    };
                    self.table.set(slot, Slot::Held(holder));
                }
            }
        }
        for freed in &report.freed {
            for &slot in freed.slots.as_slice() {
                if self.table.yields_to(slot, freed.grant) {
                    self.table.set(slot, Slot::Free { last: node });
                }
            }
        }
    }

    /// H8: the closing table of the term before.
    fn take_over(&mut self, closing: &Closing, log: &LogView) {
        let peers = &self.peers;
        let find = |node: NodeId, incarnation: Incarnation| {
            let present = log.directory.incarnation(node) == Some(incarnation);
            let spoke = peers
                .get(&node)
                .is_some_and(|peer| peer.incarnation == incarnation && peer.last > 0);
            if present && !spoke { Found::Silent } else { Found::Gone }
        };
        self.table.take_over(closing, self.me, find);
    }

    /// H11: adoptions. All slots of a grant move, or none; an assignment says which.
    fn take_asks(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        asks: &[AdoptionRequest],
        log: &LogView,
    ) {
        for ask in asks {
            self.take_passed_ask(ask.held.grant);
            let may = self.may_adopt(ask, log);
            let peer = self.peer(node, incarnation);
            (peer.due, peer.changed) = (true, true);
            if !may {
                continue;
            }
            let assignment = self.announce(node, incarnation, true);
            self.take_back_if_moved(&ask.held.slots);
            for &slot in ask.held.slots.as_slice() {
                let sure = self.table.is_sure(slot) || self.defects.has(H11_SURE);
                let (grant, ticket, keep) = (ask.held.grant, None, false);
                let holder = Holder { node, incarnation, grant, ticket, assignment, sure, keep };
                self.table.set(slot, Slot::Held(holder));
            }
        }
    }

    fn may_adopt(&self, ask: &AdoptionRequest, log: &LogView) -> bool {
        let Held { slots, grant } = &ask.held;
        let is_member = log.directory.incarnation(ask.from) == Some(ask.incarnation);
        let spoke = self
            .peers
            .get(&ask.from)
            .is_some_and(|peer| peer.incarnation == ask.incarnation && peer.last > 0);
        let may = |slot: &u32| {
            let by_rank = |holder: &Holder| {
                holder.grant.is_same(*grant) && holder.grant.attempt < grant.attempt
            };
            let is_written = self.table.holder(*slot).is_some_and(by_rank);
            let may_be = !spoke && self.table.yields_to(*slot, *grant);
            let reserved = log.reserved.binary_search(slot).is_ok();
            !reserved && (is_written || may_be)
        };
        // H11: a node that is behind the one that let the client in does not ask.
        let is_past = grant.term > self.term && !self.defects.has(H11_PAST);
        is_member && !is_past && slots.as_slice().iter().all(may)
    }

    /// Its requests that are gone leave the queue, new ones enter it.
    fn queue_requests(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        waits: &[Wait],
        returned: &[u64],
    ) {
        let waits_still = |ticket: u64| waits.binary_search_by_key(&ticket, |wait| wait.ticket);
        self.queue
            .retain(|request| request.node != node || waits_still(request.wait.ticket).is_ok());
        let granted: Vec<u64> = self
            .table
            .holders()
            .filter(|(_, holder)| holder.node == node)
            .filter_map(|(_, holder)| holder.ticket)
            .chain(self.promised_ticket(node))
            .collect();
        for &wait in waits {
            self.clock = self.clock.max(wait.clock);
            let is_queued =
                |request: &Request| (request.node, request.wait.ticket) == (node, wait.ticket);
            // Granted, and the report was made before the member saw that.
            if granted.contains(&wait.ticket) || self.queue.iter().any(is_queued) {
                continue;
            }
            let request = Request { node, incarnation, wait };
            if returned.contains(&wait.ticket) {
                // To the front, behind earlier ones of the same member: a driver takes the first
                // client of a weight for the one that is granted.
                let earlier =
                    |other: &Request| other.node == node && other.wait.ticket < wait.ticket;
                let place = self.queue.iter().rposition(earlier).map_or(0, |place| place + 1);
                self.queue.insert(place, request);
            } else if wait.term < self.term {
                let earlier = |other: &Request| {
                    other.wait.term < self.term && other.stamp() <= request.stamp()
                };
                let place = self.queue.iter().rposition(earlier).map_or(0, |place| place + 1);
                self.queue.insert(place, request);
            } else {
                self.queue.push_back(request);
            }
        }
    }

    /// The log was applied further, within this term.
    pub(super) fn on_log(&mut self, log: &LogView) {
        let present = |node, incarnation| log.directory.incarnation(node) == Some(incarnation);
        self.review_promise(log);
        let gone = self.table.holders();
        let gone = gone.filter(|(_, holder)| !present(holder.node, holder.incarnation));
        let gone: Vec<u32> = gone.map(|(slot, _)| slot).collect();
        gone.into_iter().for_each(|slot| self.end(slot, false, log));
        self.queue.retain(|request| present(request.node, request.incarnation));
        self.peers.retain(|node, peer| present(*node, peer.incarnation));
        self.table.cut(log.k);
        self.go_on(log);
    }

    /// Grants what can be granted, and asks for what is in the way.
    fn go_on(&mut self, log: &LogView) {
        if !self.settled && self.unheard(log).next().is_none() {
            self.settled = true;
            self.table.settle(&[]); // H5
        }
        let others = |former: &Former| {
            self.defects.has(H21_OTHERS) || self.unheard(log).all(|node| former.is(node))
        };
        if !self.settled && self.former.as_ref().is_some_and(others) {
            let former = self.former.take().expect("seen");
            self.table.settle(former.slots()); // H21
        }
        let mut granted = Vec::new();
        let blocked = loop {
            let fits = |request: &Request| request.wait.weight <= log.k; // H16
            if self.promise.is_some() && log.k > 1 {
                break true; // H20: the promised one is the first again, and not overtaken.
            }
            let Some(first) = self.queue.iter().position(fits) else { break false };
            let free = |request: &Request| {
                self.table.lowest_free(request.wait.weight, log.k, &log.reserved)
            };
            let place = if self.defects.has(H_FIFO) {
                self.queue.iter().position(|request| fits(request) && free(request).is_some())
            } else {
                Some(first)
            };
            let Some(slots) = place.and_then(|place| free(&self.queue[place])) else { break true };
            let request = self.queue.remove(place.expect("seen")).expect("seen");
            granted.push((request.node, request.incarnation));
            self.grant(request, slots);
        };
        for (node, incarnation) in granted {
            self.peer(node, incarnation).recalled = blocked;
        }
        if blocked {
            self.promise(log);
            self.ask_back(log);
        }
    }

    fn grant(&mut self, request: Request, slots: SlotSet) {
        let Request { node, incarnation, wait } = request;
        self.number += 1;
        let keep = self.table.was_last(node, &slots);
        let assignment = self.announce(node, incarnation, false);
        let grant = Grant { term: self.term, number: self.number, attempt: 0 };
        for &slot in slots.as_slice() {
            let (ticket, sure) = (Some(wait.ticket), true);
            let holder = Holder { node, incarnation, grant, ticket, assignment, sure, keep };
            self.table.set(slot, Slot::Held(holder));
        }
    }

    /// H10: the first request does not fit: every holder learns that others wait. H5: every member
    /// that may have something is asked.
    fn ask_back(&mut self, log: &LogView) {
        let holders = self.table.holders();
        let holders: Vec<_> =
            holders.map(|(_, holder)| (holder.node, holder.incarnation)).collect();
        for (node, incarnation) in holders {
            let peer = self.peer(node, incarnation);
            if !peer.recalled {
                peer.recalled = true;
                peer.tell();
            }
        }
        if self.table.is_unsure() {
            let unheard: Vec<_> = self.unheard(log).collect();
            for (node, incarnation) in unheard {
                let peer = self.peer(node, incarnation);
                if peer.version == 0 {
                    peer.tell();
                }
            }
        }
    }

    /// The founders of the term that are members still and have said nothing in it.
    fn unheard(&self, log: &LogView) -> impl Iterator<Item = (NodeId, Incarnation)> {
        let spoke = |&(node, incarnation): &(NodeId, Incarnation)| {
            self.peers
                .get(&node)
                .is_some_and(|peer| peer.incarnation == incarnation && peer.last > 0)
        };
        log.directory.founders(self.term).filter(move |founder| !spoke(founder))
    }

    /// The members whose accounts the first request waits for.
    pub(super) fn lacking(&self, log: &LogView) -> Vec<NodeId> {
        let blocked = !self.queue.is_empty() && self.table.is_unsure();
        self.unheard(log).filter(|_| blocked).map(|(node, _)| node).collect()
    }

    /// The next assignment that must be sent, and its receiver.
    pub(super) fn next_assignment(&mut self, log: &LogView) -> Option<(NodeId, Assignment)> {
        let (&node, peer) = self.peers.iter_mut().find(|(_, peer)| peer.due)?;
        peer.version += u64::from(peer.changed);
        (peer.due, peer.changed) = (false, false);
        let head = Head {
            term: self.term,
            from: self.incarnation,
            to: peer.incarnation,
            index: log.index,
            path: None,
        };
        let (version, acked, seen, recall) = (peer.version, peer.last, peer.seen, peer.recalled);
        let lines = self.lines(node);
        Some((
            node,
            Assignment { head, version, acked, seen, clock: self.clock, recall, k: log.k, lines },
        ))
    }

    /// Everything that is written down for this member, by grants.
    fn lines(&self, node: NodeId) -> Vec<Line> {
        let mut grants: BTreeMap<Grant, (Option<u64>, bool, Vec<u32>)> = BTreeMap::new();
        let told = |holder: &Holder| holder.node == node && !witness::is_pending(holder);
        for (slot, holder) in self.table.holders().filter(|(_, holder)| told(holder)) {
            let line = grants.entry(holder.grant);
            line.or_insert((holder.ticket, holder.keep, Vec::new())).2.push(slot);
        }
        let line = |(grant, (ticket, keep, slots)): (Grant, (_, _, Vec<u32>))| Line {
            ticket,
            next: self.next_of(&slots),
            held: Held { slots: SlotSet::new(slots.into()), grant },
            keep,
        };
        grants.into_iter().map(line).collect()
    }

    /// H8: what this home leaves to the next one.
    pub(super) fn close(&self) -> Closing {
        let taken = |holder: &Holder| {
            let peer = self.peers.get(&holder.node);
            self.defects.has(H8_ADOPTED) || peer.is_some_and(|peer| peer.seen >= holder.assignment)
        };
        let mut closing = self.table.close(taken, self.defects.has(H8_UNSURE));
        if self.promise.is_some() && !self.defects.has(H20_CLOSING) {
            closing.forget(pass::SLOT);
        }
        closing
    }

    /// The requests that wait here, in order: the member, its ticket, and the weight.
    pub(super) fn queued(&self) -> impl Iterator<Item = (NodeId, u64, u32)> {
        self.queue.iter().map(|request| (request.node, request.wait.ticket, request.wait.weight))
    }

    /// The number of grants of this term.
    pub(super) fn decided(&self) -> u64 {
        self.number
    }

    /// Who has a slot, by which grant.
    #[cfg(test)]
    pub(super) fn holders(&self) -> Vec<(u32, NodeId, Grant)> {
        self.table.holders().map(|(slot, holder)| (slot, holder.node, holder.grant)).collect()
    }

    /// The number of waiting requests.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The slots that somebody has.
    pub(super) fn assigned(&self) -> Vec<Assigned> {
        let holders = self.table.holders();
        holders
            .map(|(slot, &Holder { node, ticket, .. })| Assigned { slot, node, ticket })
            .collect()
    }

    /// The version of the newest report of this incarnation in this term; 0 if there is none.
    pub(super) fn version_from(&self, node: NodeId, incarnation: Incarnation) -> u64 {
        let peer = self.peers.get(&node).filter(|peer| peer.incarnation == incarnation);
        peer.map_or(0, |peer| peer.last)
    }
}
