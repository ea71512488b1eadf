//! Mutual exclusion itself: the next entry to serve, and the number and directions of requests.
//!
//! [`TreeToken::progress`] is Raymond's ASSIGN_PRIVILEGE followed by MAKE_REQUEST, and runs after
//! every input.

use kgate_core::{GrantId, NodeId, Notice, Outbox, Refusal};
use smallvec::SmallVec;

use super::defects::{R1, R2, R3, R4, R5, R6, R7, R10};
use super::printed::NOBODY;
use super::{Held, Incarnations, Revision, TreeToken, TreeTokenMessage};
use crate::collections::NodeList;

/// A direction in which there are tokens: the link, and their number.
struct Way {
    at: usize,
    tokens: u64,
}

impl TreeToken {
    /// The paper's UEnterCS.
    pub(super) fn on_acquire(
        &mut self,
        weight: u32,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if weight != 1 {
            return Err(Refusal::Weight { weight, most: 1 });
        }
        if self.requesting {
            return Err(Refusal::Busy);
        }
        out.notify(Notice::Asked);
        self.requesting = true;
        if !(self.defects.has(R2) && self.queue.contains(&self.me)) {
            self.queue.push_back(self.me);
        }
        self.store(out);
        if self.defects.has(R4) && self.queue.front() == Some(&self.me) {
            self.enter_twice(out);
        }
        self.progress(out);
        Ok(())
    }

    /// A requested token may still arrive; a token that no entry wants stays where it is.
    pub(super) fn on_withdraw(&mut self, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        if !self.requesting {
            return Err(Refusal::NoSuchRequest);
        }
        self.requesting = false;
        let me = self.me;
        self.queue.retain(|&entry| entry != me);
        self.store(out);
        self.progress(out); // An entry behind it may be served by a token that was kept for it.
        Ok(())
    }

    /// The paper's ExitCriticalSection.
    pub(super) fn on_release(
        &mut self,
        grant: GrantId,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if self.as_printed.as_mut().is_some_and(|defects| defects.leave(grant)) {
            return Ok(());
        }
        let held = self.held.take_if(|held| held.grant == grant).ok_or(Refusal::NoSuchRequest)?;
        if self.defects.has(R3) && self.queue.is_empty() {
            // R3: Algorithm 3 line 2 pops the empty queue, and no process is the holder.
            self.places[held.slot as usize].towards = NOBODY;
            self.store(out);
        }
        if self.defects.has(R5)
            && self.queue.front() == Some(&self.me)
            && let Some(defects) = &mut self.as_printed
        {
            // R5: Algorithm 3 line 1 stops at the own entry, and nothing else checks it.
            defects.blocked = true;
        }
        self.progress(out);
        Ok(())
    }

    /// A neighbour requests tokens.
    pub(super) fn on_request(
        &mut self,
        from: NodeId,
        incarnations: Incarnations,
        asks: u64,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        self.check_incarnations(incarnations)?;
        if let Some((asks_in, _)) = self.counts(from, incarnations) {
            self.check_count(asks, asks_in)?;
            self.check_waits(from, incarnations, asks)?;
        }
        let new = self.session(from, incarnations).map(|link| link.hear_asks(asks));
        let new = new.or_else(|| self.hear_again(from)).unwrap_or(0);
        self.queue.extend((0..new).map(|_| from));
        self.progress(out);
        Ok(())
    }

    /// R10: as printed, a request stashed while recovering is queued beside the one that ADVISE
    /// rebuilt.
    fn hear_again(&mut self, from: NodeId) -> Option<u32> {
        let link = self.defects.has(R10).then(|| self.link_mut(from))??;
        link.waits += 1;
        Some(1)
    }

    /// A token arrives.
    #[allow(clippy::too_many_arguments)] // They are the message.
    pub(super) fn on_token(
        &mut self,
        from: NodeId,
        slot: u32,
        revision: Revision,
        incarnations: Incarnations,
        served: u64,
        lost: &NodeList,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if slot >= self.k() {
            return Err(Refusal::Malformed("a token that does not exist"));
        }
        self.check_lost(from, lost)?;
        self.check_revision(revision, lost)?;
        self.check_incarnations(incarnations)?;
        if let Some((_, asks_out)) = self.counts(from, incarnations) {
            self.check_count(served, asks_out)?;
        }
        if lost.contains(self.me) {
            return Ok(());
        }
        self.learn(lost, out);
        if self.link(from).is_none() {
            return Ok(());
        }
        if let Some(link) = self.session(from, incarnations) {
            link.hear_served(served);
        }
        let place = &mut self.places[slot as usize];
        if revision > place.revision || self.defects.has(R7) {
            place.towards = self.me;
            place.revision = place.revision.max(revision);
            self.store(out);
        }
        self.progress(out);
        Ok(())
    }

    /// Serves the entries that can be served, and requests the missing tokens.
    pub(super) fn progress(&mut self, out: &mut Outbox<Self>) {
        if !self.initialized
            || self.as_printed.as_ref().is_some_and(|defects| defects.rebuild.is_some())
        {
            return;
        }
        let mut passed = false;
        while let Some(slot) = self.idle() {
            match self.first() {
                None => break,
                Some(at) if self.queue[at] == self.me => self.grant(slot, at, out),
                Some(at) => {
                    self.pass(slot, at, out);
                    passed = true;
                }
            }
        }
        self.ask(passed, out);
    }

    /// The lowest token that is here and not in use.
    fn idle(&self) -> Option<usize> {
        // R1: as printed, `using` is never set.
        let used =
            self.held.as_ref().map(|held| held.slot as usize).filter(|_| !self.defects.has(R1));
        (0..self.places.len())
            .find(|&slot| self.places[slot].towards == self.me && used != Some(slot))
    }

    /// The next entry to serve: the first of the queue, but not the own client while it is inside.
    fn first(&self) -> Option<usize> {
        let own = *self.queue.front()? == self.me;
        if own && self.held.is_some() {
            return (self.queue.len() > 1).then_some(1);
        }
        // Only as printed is the own entry in the queue and may not be served.
        let stuck =
            !self.requesting || self.as_printed.as_ref().is_some_and(|defects| defects.blocked);
        (!(own && stuck)).then_some(0)
    }

    /// The own client enters.
    fn grant(&mut self, slot: usize, at: usize, out: &mut Outbox<Self>) {
        if !self.defects.has(R2) {
            self.queue.remove(at); // R2: as printed, the own entry stays.
        }
        assert!(
            self.requesting && self.places[slot].towards == self.me,
            "{} grants what it has",
            self.me
        );
        self.places[slot].revision = self.places[slot].revision.next();
        self.requesting = false;
        self.store(out);
        let grant = GrantId(self.grants);
        self.grants += 1;
        let slot = u32::try_from(slot).expect("k has 32 bits");
        self.held = Some(Held { grant, slot });
        let fence = Some(self.places[slot as usize].revision.fence());
        out.notify(Notice::Granted { grant, slots: Some([slot].into()), fence });
    }

    /// R4: as printed, Algorithm 2 grants an own request if the process holds the token, though its
    /// client is inside.
    fn enter_twice(&mut self, out: &mut Outbox<Self>) {
        let Some(held) = self.held.take() else { return };
        if let Some(defects) = &mut self.as_printed {
            defects.beside.push(held.grant);
        }
        self.grant(held.slot as usize, 0, out);
    }

    /// Sends a token to a neighbour. It is no longer here once that is stored, and leaves after.
    fn pass(&mut self, slot: usize, at: usize, out: &mut Outbox<Self>) {
        let to = self.queue.remove(at).expect("its turn");
        let place = &mut self.places[slot];
        place.towards = to;
        place.revision = place.revision.next();
        self.store(out);
        let link = self.link_mut(to).expect("entries are neighbours'");
        link.waits -= 1;
        link.served_out += 1;
        self.send_token(slot, out);
    }

    /// Sends a token that is no longer here to the neighbour that it went to.
    pub(super) fn send_token(&self, slot: usize, out: &mut Outbox<Self>) {
        let place = self.places[slot];
        let link = self.link(place.towards).expect("tokens go to neighbours");
        let token = TreeTokenMessage::Token {
            slot: u32::try_from(slot).expect("k has 32 bits"),
            revision: place.revision,
            incarnations: self.incarnations(link),
            served: link.served_out,
            lost: self.lost.clone(),
        };
        out.send(place.towards, token);
    }

    /// Requests as many tokens as entries wait, where there are some; see the head of the module.
    fn ask(&mut self, passed: bool, out: &mut Outbox<Self>) {
        let own = u64::from(self.held.is_some() && self.requesting);
        let waiting = self.queue.len() as u64 - own;
        if waiting == 0 {
            return;
        }
        let ways = self.ways();
        let before: SmallVec<[u64; 4]> =
            ways.iter().map(|way| self.links[way.at].asks_out).collect();
        while let Some(at) = self.way_to_ask(&ways, waiting) {
            self.links[at].asks_out += 1;
        }
        for (way, before) in ways.iter().zip(before) {
            let link = &mut self.links[way.at];
            let asks = link.asks_out;
            if asks == before {
                continue;
            }
            if passed && self.defects.has(R6) {
                link.asks_out = before; // R6: Algorithm 4 does not set `asked`.
            }
            let link = &self.links[way.at];
            out.send(
                link.node,
                TreeTokenMessage::Request { incarnations: self.incarnations(link), asks },
            );
        }
    }

    /// The directions in which there are tokens; at most k, in the order of ids.
    fn ways(&self) -> SmallVec<[Way; 4]> {
        let mut ways: SmallVec<[Way; 4]> = SmallVec::new();
        for place in self.places.iter().filter(|place| place.towards != self.me) {
            let Some(at) = self.link_at(place.towards).filter(|&at| self.links[at].is_known())
            else {
                continue;
            };
            match ways.iter_mut().find(|way| way.at == at) {
                Some(way) => way.tokens += 1,
                None => ways.push(Way { at, tokens: 1 }),
            }
        }
        ways.sort_unstable_by_key(|way| way.at);
        ways
    }

    /// The direction of one more request. A request is useful to the entries of others than its
    /// receiver; only if that leaves an entry without one, tokens are requested back from where the
    /// entry came.
    fn way_to_ask(&self, ways: &[Way], waiting: u64) -> Option<usize> {
        let asked = |way: &Way| self.links[way.at].outstanding().min(way.tokens);
        let of_others = |way: &Way| waiting - u64::from(self.links[way.at].waits);
        let useful: u64 = ways.iter().map(|way| asked(way).min(of_others(way))).sum();
        let all: u64 = ways.iter().map(asked).sum();
        let most_left = |fits: &dyn Fn(&Way) -> bool| {
            let left = |way: &&Way| way.tokens.saturating_sub(self.links[way.at].outstanding());
            let free = ways.iter().rev().filter(|way| left(way) > 0 && fits(way));
            free.max_by_key(left).map(|way| way.at) // Of equals the last: the lowest id.
        };
        let good = || most_left(&|way| asked(way) < of_others(way));
        (useful < waiting)
            .then(good)
            .flatten()
            .or_else(|| (all < waiting).then(|| most_left(&|_| true)).flatten())
    }
}
