//! Node leases, suspicion and eviction: what makes it safe to free the slots of a node that nobody
//! hears of.
//!
//! Each node pings the voters. A voter answers members that are not suspected; the answers of a
//! quorum are a **lease**, counted from the *sending* of the pings, and only with a lease may a
//! node grant or keep permits (N1 to N6). A node that falls silent is **suspected** in the log
//! (E1). A voter that has applied that stops answering and promises so to all voters, with the age
//! of its last answer (E2). Once a quorum's promises are so old that no lease built on their
//! answers can live, whatever the clocks' errors within the bound, any voter proposes to **evict**
//! (E3), and the log takes it only if it is exactly about this suspicion and these voters (E4).
//! Only then are the node's slots free. A node suspected by mistake asks to be cleared (E5).
//!
//! Why it is safe. Let p be evicted with the voters m. Every answer to p shows voters that the
//! answering node has applied, and it has not applied p's eviction: so none is newer than m. A
//! quorum of older voters has a member that had the next ones in its log before m was committed,
//! and such a member is silent or shows them (N4). So a lease by pings sent after the evictor
//! applied m is one by a quorum of m, which meets the evictor's ripe quorum in some v. p's last
//! ping that v answered left before v answered; since then the clocks of v and of the evictor have
//! together counted W, so that L on p's own clock is over. A lease by earlier pings is over because
//! the evictor has waited W since it applied m.
//!
//! Everything here is a state machine without clock, rng or sockets. `now` is the lease clock: one
//! that counts sleep and is not slewed. Feed it the log in its order,
//! [`Leases::membership_changed`] and [`Leases::voters_applied`] for each entry, then
//! [`Leases::applied`]; read the newest appended voters of the log before each batch of messages;
//! after each input, [`Leases::tick`] when [`Leases::next_due`] has come.

mod evictor;
mod holder;
mod known;
mod message;
mod retry;
mod silence;
mod status;
#[cfg(test)]
mod tests;
mod voter;

use kgate_core::{Incarnation, NodeId, Time};

use crate::membership::{Membership, MembershipChange, StoreId};
use crate::timing::Timing;
use crate::voters::Voters;
use evictor::Evictor;
use holder::Holder;
use known::Known;
pub use message::{LeaseEffect, LeaseMessage, Proposal, Refusal};
use retry::Retry;
use silence::Silence;
pub use status::{LeaseStatus, MissingShare};
use voter::Voter;

/// The leases as one node sees them: its own, and those in which it has a share as a voter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leases {
    known: Known,
    holder: Holder,
    voter: Voter,
    evictor: Evictor,
    silence: Silence,
    /// The own earlier incarnation, if it may still be a member (R2).
    former: Option<(Incarnation, Retry)>,
}

impl Leases {
    /// A node that knows nothing yet: give it the log's cluster_state as changes.
    ///
    /// `now` counts as its start: what an earlier process of it answered is taken to have been
    /// answered just now.
    pub fn new(
        now: Time,
        me: NodeId,
        incarnation: Incarnation,
        store: StoreId,
        timing: Timing,
    ) -> Self {
        let known = Known {
            me,
            incarnation,
            store,
            timing,
            start: now,
            membership: Membership::default(),
            applied: 0,
            committed: 0,
            leading: false,
            voters: Voters::default(),
            voters_since: now,
            appended: None,
        };
        Self {
            known,
            holder: Holder::new(now, now.0),
            voter: Voter::default(),
            evictor: Evictor::default(),
            silence: Silence::default(),
            former: None,
        }
    }

    /// Numbers pings from there on. An incarnation that goes on in a new process must not use a
    /// number twice (R1): on a clock that starts anew give it a random number; else the time of the
    /// start, which is used if nothing is said here, is good enough.
    #[must_use]
    pub fn numbered_from(mut self, seq: u64) -> Self {
        self.holder.number_from(seq);
        self
    }

    /// An entry of the log has changed the membership: applied and durably stored (N3), in the
    /// order of the log.
    pub fn membership_changed(&mut self, now: Time, change: MembershipChange) {
        self.settle(now);
        self.known.membership.apply(change);
        self.voter.membership_changed(now, change);
        let (MembershipChange::Added(node, incarnation, _)
        | MembershipChange::Suspected(node, incarnation, _)
        | MembershipChange::Unsuspected(node, incarnation)
        | MembershipChange::Gone(node, incarnation)) = change;
        if (node, incarnation) == (self.known.me, self.known.incarnation) {
            self.own_changed(now, change);
        }
        self.evictor.prune(&self.known);
        self.silence.prune(&self.known);
    }

    fn own_changed(&mut self, now: Time, change: MembershipChange) {
        match change {
            MembershipChange::Added(..) => self.holder.hurry(now),
            // E5: it needs a fresh lease before it grants again.
            MembershipChange::Unsuspected(..) => {
                self.holder.stop_clearing();
                self.holder.doubt(now);
            }
            MembershipChange::Gone(..) => self.holder.stop_clearing(),
            MembershipChange::Suspected(..) => {}
        }
    }

    /// All changes of the entries up to this index were told.
    pub fn applied(&mut self, now: Time, index: u64) {
        self.settle(now);
        self.known.applied = self.known.applied.max(index);
        self.holder.applied(index);
        self.holder.renew(&self.known);
    }

    /// An entry has changed the voters: applied and durably stored, in the order of the log.
    pub fn voters_applied(&mut self, now: Time, voters: Voters) {
        self.settle(now);
        if voters != self.known.voters {
            self.known.voters = voters;
            self.known.voters_since = now;
            self.voters_changed(now);
        }
    }

    /// The newest voters in the own log, applied or not. They may go back, when an entry that was
    /// never committed is overwritten.
    pub fn voters_appended(&mut self, now: Time, voters: Voters) {
        if self.known.appended.as_ref() != Some(&voters) {
            self.settle(now);
            self.known.appended = Some(voters);
            self.voters_changed(now);
        }
    }

    fn voters_changed(&mut self, now: Time) {
        self.evictor.prune(&self.known);
        self.holder.prune(&self.known);
        self.holder.renew(&self.known);
        self.holder.hurry(now);
    }

    /// The log is decided up to there, as this node knows (N6).
    pub fn committed(&mut self, index: u64) {
        self.known.committed = self.known.committed.max(index);
    }

    /// Whether this node leads the log: then it proposes at once what others propose later.
    pub fn set_leader(&mut self, leading: bool) {
        self.known.leading = leading;
    }

    /// A message. Junk is dropped.
    pub fn on_message(
        &mut self,
        now: Time,
        from: NodeId,
        message: LeaseMessage,
        effects: &mut Vec<LeaseEffect>,
    ) {
        self.settle(now);
        let (known, mine) = (&self.known, self.known.incarnation);
        match message {
            LeaseMessage::Ping { incarnation, seq } => {
                if known.membership.incarnation(from, incarnation).is_some() {
                    self.silence.heard(from);
                }
                let reply = self.voter.on_ping(known, now, from, incarnation, seq);
                self.send(now, from, reply, effects);
            }
            LeaseMessage::Answer { incarnation, seq, store, voters, committed } => {
                if incarnation == mine {
                    self.holder.on_answer(known, now, from, (seq, store, voters, committed));
                }
            }
            LeaseMessage::Refusal { incarnation, seq, why } => {
                if incarnation == mine {
                    self.holder.on_refusal(known, now, from, seq, why);
                }
            }
            LeaseMessage::Promise { node, incarnation, at, age } => {
                self.evictor.on_promise(known, now, from, (node, incarnation, at, age));
            }
            LeaseMessage::SilenceQuery { node, incarnation } => {
                if let Some(silence) = self.voter.silence(known, now, node, incarnation) {
                    self.send(
                        now,
                        from,
                        LeaseMessage::SilenceReply { node, incarnation, silence },
                        effects,
                    );
                }
            }
            LeaseMessage::SilenceReply { node, incarnation, silence } => {
                self.silence.on_silence_reply(known, now, from, (node, incarnation, silence));
            }
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time, effects: &mut Vec<LeaseEffect>) {
        self.settle(now);
        if let Some(seq) = self.holder.ping(&self.known, now) {
            let incarnation = self.known.incarnation;
            for to in self.holder.targets(&self.known) {
                self.send(now, to, LeaseMessage::Ping { incarnation, seq }, effects);
            }
            self.look_for_silence(now);
        }
        let mut to_voters = self.voter.promises(&self.known, now);
        to_voters.extend(self.silence.questions(now));
        for message in to_voters {
            for to in self.known.all_voters() {
                self.send(now, to, message.clone(), effects);
            }
        }
        let proposals = self.holder.clear(&self.known, now).into_iter();
        let proposals = proposals.chain(self.silence.proposals(&self.known, now));
        let proposals = proposals.chain(self.evictor.proposals(&self.known, now));
        effects.extend(proposals.chain(self.succession(now)).map(LeaseEffect::Propose));
    }

    /// E1: a voter asks about every member that it has not heard for Q.
    fn look_for_silence(&mut self, now: Time) {
        for (node, member) in self.known.membership.iter() {
            let silence = self.voter.silence(&self.known, now, node, member.incarnation);
            if silence.is_some_and(|silence| silence >= self.known.timing.suspect_after) {
                self.silence.suspect(&self.known, now, node);
            }
        }
    }

    /// R2: the own earlier incarnation is suspected, once the log shows that it is a member.
    fn succession(&mut self, now: Time) -> Option<Proposal> {
        let (node, (incarnation, retry)) = (self.known.me, self.former.as_mut()?);
        let due = self.known.membership.is_trusted(node, *incarnation) && retry.take(now);
        due.then_some(Proposal::Suspect { node, incarnation: *incarnation })
    }

    /// What a node says to itself it hears at once, by the same rules (N2).
    fn send(
        &mut self,
        now: Time,
        to: NodeId,
        message: LeaseMessage,
        effects: &mut Vec<LeaseEffect>,
    ) {
        if to == self.known.me {
            self.on_message(now, to, message, effects);
        } else {
            effects.push(LeaseEffect::Send(to, message));
        }
    }

    /// While the own vote alone is a quorum it is given all the time: here it is written down,
    /// before anything changes.
    fn settle(&mut self, now: Time) {
        if self.holder.is_alone(&self.known) {
            self.holder.renew_alone(now);
            self.voter.gave(now, self.known.me, self.known.incarnation);
        }
    }

    /// When [`Leases::tick`] has something to do: ask after each input. It may be over already.
    pub fn next_due(&self, now: Time) -> Option<Time> {
        let former = self
            .former
            .filter(|(former, _)| self.known.membership.is_trusted(self.known.me, *former));
        [
            Some(self.holder.next_due()),
            self.voter.next_due(),
            self.evictor.next_due(&self.known),
            self.silence.next_due(&self.known, now),
            former.map(|(_, retry)| retry.next()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The clock has jumped (section 1 of docs/internals/leases.md): no grant until a quorum answers a ping
    /// sent from now on.
    pub fn clock_jumped(&mut self, now: Time) {
        self.holder.doubt(now);
    }

    /// A detector or a broken link holds that node for silent: ask the voters (E1). Any node may.
    pub fn on_silence_hint(&mut self, now: Time, node: NodeId) {
        self.silence.suspect(&self.known, now, node);
    }

    /// This node is the next incarnation of itself after a crash: the former one is to be suspected
    /// while the log has it as a member (R2).
    pub fn set_predecessor(&mut self, now: Time, former: Incarnation) {
        self.former = Some((former, Retry::at(now, self.known.timing.node_ping.times(2))));
    }

    /// When the lease ends (N2): zero without one, never while the own vote is enough.
    pub fn end(&self) -> Time {
        self.holder.end(&self.known)
    }

    /// Whether what was granted may be kept (N5): read it at that very instant.
    pub fn holds(&self, now: Time) -> bool {
        now < self.end()
    }

    /// Whether anything new may be granted (N5, N6): read it at that very instant.
    pub fn may_grant(&self, now: Time) -> bool {
        let trusted = self.known.membership.is_trusted(self.known.me, self.known.incarnation);
        trusted
            && self.holds(now)
            && !self.holder.in_doubt(&self.known)
            && self.holder.behind(now).is_none()
    }

    /// How this node stands with its voters, for people.
    pub fn status(&self, now: Time) -> LeaseStatus {
        let known = &self.known;
        let lease = known.own_terms().map_or(known.timing.lease, |terms| terms.lease);
        let (mut answering, mut missing) = (Vec::new(), Vec::new());
        for (node, said) in self.holder.voters(known) {
            let own = node == known.me && voter::refusal(known, node, known.incarnation).is_none();
            match said {
                _ if own => answering.push(node),
                Some(said) if said.answered.is_some_and(|sent| now.since(sent) < lease) => {
                    answering.push(node)
                }
                Some(said) if said.foreign => missing.push((node, MissingShare::OtherStore)),
                Some(said) => match &said.refused {
                    Some((sent, why)) if now.since(*sent) < lease => {
                        missing.push((node, MissingShare::Refusal(why.clone())))
                    }
                    Some(_) | None => missing.push((node, MissingShare::Silent)),
                },
                None => missing.push((node, MissingShare::Silent)),
            }
        }
        let end = self.end();
        let left = if end == Time::NEVER { kgate_core::Span(u64::MAX) } else { end.since(now) };
        LeaseStatus {
            member: known.own().is_some(),
            suspected: known.own().and_then(|member| member.suspected),
            left: self.holds(now).then_some(left),
            doubt: self.holder.in_doubt(known),
            behind: self.holder.behind(now),
            answering,
            missing,
        }
    }

    /// The membership as this node has applied it.
    pub fn membership(&self) -> &Membership {
        &self.known.membership
    }
}
