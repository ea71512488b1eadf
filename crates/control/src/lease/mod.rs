//! Node leases, suspicion and eviction: what makes it safe to free the slots of a node that has
//! fallen silent.
//!
//! Each node pings the voters. A voter answers only members that are not suspected. The answers of
//! a quorum are a **lease**, counted from the *sending* of the pings, and a node must not grant or
//! keep permits without a lease (N1 to N6). A node that falls silent is **suspected** in the log
//! (E1). A voter that has applied the suspicion stops answering the node, and promises so to all
//! voters, with the age of its last answer (E2). Once the promises of a quorum are so old that no
//! lease built on their answers can still be valid, whatever the clock errors within the bound, any
//! voter proposes to **evict** the node (E3). The log applies the eviction only if it names exactly
//! the suspicion and the voters in force (E4). Only then are the node's slots free. A node that is
//! suspected by mistake asks to be cleared (E5).
//!
//! # Why it is safe
//!
//! Let p be evicted with the voters m. Every answer to p shows voters that the answering node has
//! applied. That node has not applied p's eviction, so none of these voters are newer than m. A
//! quorum of older voters contains a node that had the next voters in its log before m was
//! committed, and such a node is silent or shows them (N4). So a lease by pings sent after the
//! evictor applied m is a lease by a quorum of m, which meets the evictor's ripe quorum in some v.
//! The last ping of p that v answered was sent before v answered it. Since then the clocks of v and
//! of the evictor have together counted W, so L on p's own clock is over. A lease by earlier pings
//! is over because the evictor has waited W since it applied m.
//!
//! # How to drive it
//!
//! Everything here is a state machine without clock, random numbers or sockets. `now` is the lease
//! clock: it counts sleep, and it is not slewed. Pass it the log in order:
//! [`Leases::membership_changed`] and [`Leases::voters_applied`] for each entry, then
//! [`Leases::applied`]. Pass it the newest appended voters before each batch of messages. After
//! each input, call [`Leases::tick`] when [`Leases::next_due`] has come.

mod context;
mod evictor;
mod holder;
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
use context::Context;
use evictor::{Evictor, Promise};
use holder::{Answer, Holder};
pub use message::{LeaseEffect, LeaseMessage, Proposal, Refusal};
use retry::Retry;
use silence::SilenceDetector;
pub use status::{LeaseStatus, MissingShare};
use voter::Voter;

/// The leases as one node sees them: its own lease, and those in which it gives shares as a voter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leases {
    context: Context,
    holder: Holder,
    voter: Voter,
    evictor: Evictor,
    silence: SilenceDetector,
    /// This node's earlier incarnation, if it may still be a member (R2).
    predecessor: Option<(Incarnation, Retry)>,
}

impl Leases {
    /// The leases of a node that knows nothing of the log yet: pass it the log's state as changes.
    ///
    /// `now` counts as the start of this process. Whatever an earlier process of the node answered
    /// counts as answered now.
    pub fn new(
        now: Time,
        me: NodeId,
        incarnation: Incarnation,
        store: StoreId,
        timing: Timing,
    ) -> Self {
        let context = Context {
            me,
            incarnation,
            store,
            timing,
            start: now,
            membership: Membership::default(),
            applied: 0,
            committed: 0,
            is_leader: false,
            voters: Voters::default(),
            voters_since: now,
            appended: None,
        };
        Self {
            context,
            holder: Holder::new(now, now.0),
            voter: Voter::default(),
            evictor: Evictor::default(),
            silence: SilenceDetector::default(),
            predecessor: None,
        }
    }

    /// Numbers pings from there on. An incarnation that continues in a new process must not use a
    /// number twice (R1). Where the lease clock may start anew, pass a random number; otherwise the
    /// default, the time of the start, is enough.
    #[must_use]
    pub fn numbered_from(mut self, seq: u64) -> Self {
        self.holder.number_from(seq);
        self
    }

    /// An entry of the log has changed the membership. It is applied and durably stored (N3).
    /// Entries come in the order of the log.
    pub fn membership_changed(&mut self, now: Time, change: MembershipChange) {
        self.settle_own_share(now);
        self.context.membership.apply(change);
        self.voter.membership_changed(now, change);
        let (MembershipChange::Added(node, incarnation, _)
        | MembershipChange::Suspected(node, incarnation, _)
        | MembershipChange::Unsuspected(node, incarnation)
        | MembershipChange::Gone(node, incarnation)) = change;
        if (node, incarnation) == (self.context.me, self.context.incarnation) {
            self.own_changed(now, change);
        }
        self.evictor.prune(&self.context);
        self.silence.prune(&self.context);
    }

    fn own_changed(&mut self, now: Time, change: MembershipChange) {
        match change {
            MembershipChange::Added(..) => self.holder.ping_soon(now),
            // E5: it needs a fresh lease before it grants again.
            MembershipChange::Unsuspected(..) => {
                self.holder.stop_clearing();
                self.holder.doubt(now);
            }
            MembershipChange::Gone(..) => self.holder.stop_clearing(),
            MembershipChange::Suspected(..) => {}
        }
    }

    /// The changes of all entries up to this index were passed.
    pub fn applied(&mut self, now: Time, index: u64) {
        self.settle_own_share(now);
        self.context.applied = self.context.applied.max(index);
        self.holder.applied(index);
        self.holder.renew(&self.context);
    }

    /// An entry has changed the voters. It is applied and durably stored. Entries come in the order
    /// of the log.
    pub fn voters_applied(&mut self, now: Time, voters: Voters) {
        self.settle_own_share(now);
        if voters != self.context.voters {
            self.context.voters = voters;
            self.context.voters_since = now;
            self.voters_changed(now);
        }
    }

    /// The newest voters in the own log, applied or not. They may become older again, when an entry
    /// that was never committed is overwritten.
    pub fn voters_appended(&mut self, now: Time, voters: Voters) {
        if self.context.appended.as_ref() != Some(&voters) {
            self.settle_own_share(now);
            self.context.appended = Some(voters);
            self.voters_changed(now);
        }
    }

    fn voters_changed(&mut self, now: Time) {
        self.evictor.prune(&self.context);
        self.holder.prune(&self.context);
        self.holder.renew(&self.context);
        self.holder.ping_soon(now);
    }

    /// This node knows that the log is committed up to that index (N6).
    pub fn committed(&mut self, index: u64) {
        self.context.committed = self.context.committed.max(index);
    }

    /// Whether this node leads the log. The leader proposes at once what other voters propose
    /// later.
    pub fn set_leader(&mut self, is_leader: bool) {
        self.context.is_leader = is_leader;
    }

    /// A message from another node. A malformed one is dropped.
    pub fn on_message(
        &mut self,
        now: Time,
        from: NodeId,
        message: LeaseMessage,
        effects: &mut Vec<LeaseEffect>,
    ) {
        self.settle_own_share(now);
        let (context, mine) = (&self.context, self.context.incarnation);
        match message {
            LeaseMessage::Ping { incarnation, seq } => {
                if context.membership.incarnation(from, incarnation).is_some() {
                    self.silence.close(from);
                }
                let reply = self.voter.on_ping(context, now, from, incarnation, seq);
                self.send(now, from, reply, effects);
            }
            LeaseMessage::Answer { incarnation, seq, store, voters, committed } => {
                if incarnation == mine {
                    let answer = Answer { seq, store, voters, committed };
                    self.holder.on_answer(context, now, from, answer);
                }
            }
            LeaseMessage::Refusal { incarnation, seq, reason } => {
                if incarnation == mine {
                    self.holder.on_refusal(context, now, from, seq, reason);
                }
            }
            LeaseMessage::Promise { node, incarnation, at, age } => {
                let promise = Promise { node, incarnation, at, age };
                self.evictor.on_promise(context, now, from, promise);
            }
            LeaseMessage::SilenceQuery { node, incarnation } => {
                if let Some(silence) = self.voter.silence(context, now, node, incarnation) {
                    self.send(
                        now,
                        from,
                        LeaseMessage::SilenceReply { node, incarnation, silence },
                        effects,
                    );
                }
            }
            LeaseMessage::SilenceReply { node, incarnation, silence } => {
                self.silence.on_silence_reply(context, now, from, node, incarnation, silence);
            }
        }
    }

    /// Does everything that is due.
    pub fn tick(&mut self, now: Time, effects: &mut Vec<LeaseEffect>) {
        self.settle_own_share(now);
        if let Some(seq) = self.holder.ping(&self.context, now) {
            let incarnation = self.context.incarnation;
            for to in self.holder.targets(&self.context) {
                self.send(now, to, LeaseMessage::Ping { incarnation, seq }, effects);
            }
            self.look_for_silent_nodes(now);
        }
        let mut to_voters = self.voter.promises(&self.context, now);
        to_voters.extend(self.silence.queries(now));
        for message in to_voters {
            for to in self.context.all_voters() {
                self.send(now, to, message.clone(), effects);
            }
        }
        let proposals = self.holder.clear(&self.context, now).into_iter();
        let proposals = proposals.chain(self.silence.proposals(&self.context, now));
        let proposals = proposals.chain(self.evictor.proposals(&self.context, now));
        effects.extend(proposals.chain(self.suspect_predecessor(now)).map(LeaseEffect::Propose));
    }

    /// E1: a voter asks the others about every member that it has not heard from for Q.
    fn look_for_silent_nodes(&mut self, now: Time) {
        for (node, member) in self.context.membership.iter() {
            let silence = self.voter.silence(&self.context, now, node, member.incarnation);
            if silence.is_some_and(|silence| silence >= self.context.timing.suspect_after) {
                self.silence.open(&self.context, now, node);
            }
        }
    }

    /// R2: the earlier incarnation of this node is suspected, once the log shows that it is a
    /// member.
    fn suspect_predecessor(&mut self, now: Time) -> Option<Proposal> {
        let (node, (incarnation, retry)) = (self.context.me, self.predecessor.as_mut()?);
        let due = self.context.membership.is_trusted(node, *incarnation) && retry.take(now);
        due.then_some(Proposal::Suspect { node, incarnation: *incarnation })
    }

    /// A message to this node itself is delivered at once: a voter answers itself by the same rules
    /// as any other node (N2).
    fn send(
        &mut self,
        now: Time,
        to: NodeId,
        message: LeaseMessage,
        effects: &mut Vec<LeaseEffect>,
    ) {
        if to == self.context.me {
            self.on_message(now, to, message, effects);
        } else {
            effects.push(LeaseEffect::Send(to, message));
        }
    }

    /// While the own vote alone is a quorum, this node gives itself a share at every instant. This
    /// records the share, before anything changes.
    fn settle_own_share(&mut self, now: Time) {
        if self.holder.is_alone(&self.context) {
            self.holder.renew_alone(now);
            self.voter.answered(now, self.context.me, self.context.incarnation);
        }
    }

    /// When [`Leases::tick`] has something to do. Changes with each input, and may be in the past.
    pub fn next_due(&self, now: Time) -> Option<Time> {
        let Context { me, membership, .. } = &self.context;
        let predecessor =
            self.predecessor.filter(|(incarnation, _)| membership.is_trusted(*me, *incarnation));
        [
            Some(self.holder.next_due()),
            self.voter.next_due(),
            self.evictor.next_due(&self.context),
            self.silence.next_due(&self.context, now),
            predecessor.map(|(_, retry)| retry.next()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The clock has jumped (section 1 of docs/internals/leases.md): nothing is granted until a
    /// quorum answers pings that are sent from now on.
    pub fn clock_jumped(&mut self, now: Time) {
        self.holder.doubt(now);
    }

    /// A failure detector or a broken link hints that a node is silent: this node asks the voters
    /// (E1). Any node may.
    pub fn on_silence_hint(&mut self, now: Time, node: NodeId) {
        self.silence.open(&self.context, now, node);
    }

    /// This node crashed as an earlier incarnation, which is to be suspected as long as the log has
    /// it as a member (R2).
    pub fn set_predecessor(&mut self, now: Time, predecessor: Incarnation) {
        self.predecessor =
            Some((predecessor, Retry::at(now, self.context.timing.node_ping.times(2))));
    }

    /// When the lease ends (N2): [`Time::ZERO`] without a lease, [`Time::NEVER`] while the own vote
    /// is a quorum.
    pub fn end(&self) -> Time {
        self.holder.end(&self.context)
    }

    /// Whether granted permits may be kept (N5). Valid only for this instant of the lease clock.
    pub fn holds(&self, now: Time) -> bool {
        self.holder.holds(&self.context, now)
    }

    /// Whether a new permit may be granted (N5, N6). Valid only for this instant of the lease
    /// clock: every grant must ask anew.
    pub fn may_grant(&self, now: Time) -> bool {
        let trusted = self.context.membership.is_trusted(self.context.me, self.context.incarnation);
        trusted
            && self.holds(now)
            && !self.holder.in_doubt(&self.context)
            && self.holder.behind(now).is_none()
    }

    /// The state of this node's lease, for people.
    pub fn status(&self, now: Time) -> LeaseStatus {
        LeaseStatus::new(&self.context, &self.holder, now)
    }

    /// The membership as this node has applied it.
    pub fn membership(&self) -> &Membership {
        &self.context.membership
    }
}
