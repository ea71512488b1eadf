//! `home`: numbered, fenced slots that one node per gate gives away; any node can be that one, and
//! none needs a lease for it. `docs/internals/home.md` has the rules H1 to H22 and the reasons why
//! they suffice.
//!
//! The agreed log says which member is **home** of a gate, and since when: a **term**
//! ([`kgate_core::Directory`]). In its term the home alone decides, from a table of slots and a
//! queue. Two messages exist, both versioned snapshots of everything that one side has to say to
//! the other: a *report* of a member to the home (what waits here, what is held here, what is asked
//! for here), and an *assignment* of the home to a member (what is written down for it, whether
//! others wait). A lost, late or repeated message does no harm: the newest says everything.
//!
//! A member that has applied the entry that begins a term takes no assignment of an older term, so
//! its first report in the new term is a **final account** of what it has. A new home is *sure* of
//! a slot when nobody can have it but by what is written down: because it granted the slot itself,
//! because the home of the term before was sure of it and says so, because a client has returned it
//! in this term, or because every founder of the term (a member since its beginning) has reported
//! or was evicted. It grants only slots that it is sure are free.
//!
//! Invariant: let a client believe in a slot by a node. Then that node lists the slot, or is dead
//! and not evicted; so the home either has the slot written down under that grant, or is not sure
//! of it. Hence a slot has one holder. Its fence is the term, the number of the grant in its term,
//! and a count of re-uses, so it always grows. A home that was deposed can only send assignments of
//! its own term, and a member that takes one is still in that term and will account for it: no
//! lease of the home is needed.
//!
//! Cost, whatever the number of members: 3 messages per entry (request, grant, return) and 2
//! delays from request to entry; 2 messages per entry when the same member asks again; none at all
//! to re-use a cached slot, or at the home itself; 4 messages and 4 delays if the slot is cached
//! elsewhere. After a planned change of home 1 message from the old home, and 1 from each member
//! that holds or waits.
//!
//! Two extensions are options ([`kgate_core::SlotOptions`]), off by default. With `pass` a holder
//! hands over directly at k = 1: 1 delay instead of 2, for 1 message more per entry under
//! contention. With `witness` free slots survive the death of the home, for 2 messages and 2 delays
//! when the home itself uses a slot for the first time.
//!
//! - `member.rs`: clients, what they hold, reports; `adoption.rs`: permits that go on elsewhere;
//! - `coordinator.rs`: the home in its term, with its `table.rs`; `closing.rs`: what it leaves;
//! - `pass.rs`: hand-over from holder to holder; `witness.rs`: what survives the home; `relay.rs`:
//!   messages between members that do not reach each other;
//! - `suspend.rs`: a clean stop, and resuming after it;
//! - `grant.rs`, `message.rs`: names and messages;
//! - `explore.rs`: what the model checker may know;
//! - `defects.rs`: what goes wrong without each rule (H1 to H17, H19 to H21, cited at the code);
//!   `omissions.rs`: the same by name, for the laboratory.
//!
//! Citation: the design is kgate's own. Homes of resources are those of VMS, GFS2 and OCFS2 lock
//! managers and of directory-based cache coherence.
//!
//! Deviations from the design: requests in the queue of a new home are ordered by Lamport clocks,
//! which assignments carry. What was adopted is never handed over or cached, so attempts begin with
//! 0 for every client that is let in by a grant. A promise of a slot (H20) is taken back when k
//! grows or the slot is adopted; of a slot that the log holds, the promised member says whether it
//! has it. What the home has not told itself (H21) needs no withdrawal at a change of term. A relay
//! (H19) is forgotten when it was not used for a while, and not after a direct probe and its echo:
//! so nothing is sent while there is nothing to say, and the state of links is one map per process
//! instead of one per report and assignment. The driver keeps three rules of time: a client's
//! lapse is passed on only after all that the log had decided at its deadline (H13), a durable
//! permit's grant is released only after the log holds it (H14), and an adoption request
//! is passed on only under a lease that outlasts the client's (H18).

mod adoption;
mod closing;
mod coordinator;
pub mod defects;
mod explore;
mod grant;
mod member;
mod message;
pub mod omissions;
mod pass;
mod relay;
mod suspend;
mod table;
mod witness;

pub use closing::{Closing, Last};
pub use grant::Grant;
pub use message::{
    AdoptionRequest, Assignment, Head, Held, HomeMessage, Line, Note, Noted, Pass, Report, Wait,
};
pub use pass::Next;
pub use relay::Path;
pub use suspend::Suspended;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use kgate_core::{
    Defects, Fence, GrantId, Incarnation, Input, InputOf, LogView, Mechanism, NodeId, Observation,
    Outbox, Phase, Placement, Protocol, Refusal, Setup, Span, Stamp, Suspend, Term, Time,
    TransientFaults, ViewId,
};

use coordinator::Coordinator;
use defects::{H2, H3, H19_INCARNATION};
use member::{Hold, Member, Usage};
use relay::Links;
use witness::{Former, Known};

/// The greatest number of messages put aside for later log entries. Further ones are dropped as if
/// the network had lost them.
const ASIDE: usize = 1 << 16;
/// The time until something is repeated grows to at most 2 to this power times the first.
const MOST_DOUBLINGS: u8 = 4;
/// The bits of a grant's id that count the grants of one incarnation.
const INCARNATION_AT: u32 = 40;

/// `home` at one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Home {
    me: NodeId,
    defects: Defects,
    options: Options,
    /// What the log says, as far as it has been applied here.
    log: Arc<LogView>,
    /// The home of the gate, by that.
    home: Option<Placement>,
    /// Its witness, if that option is on (H21).
    witness: Option<Placement>,
    /// What the home has told this process as its witness.
    known: Option<Box<Known>>,
    /// The incarnation of this process, or the least one as which the log will add it.
    incarnation: Incarnation,
    is_member: bool,
    lease: bool,
    /// Number of grants to clients here.
    granted: u64,
    member: Member,
    /// The table and the queue, while this process is home.
    coordinator: Option<Box<Coordinator>>,
    /// Messages that count only after later log entries, with the neighbour that each has come
    /// from: the newest of each origin and kind.
    aside: Vec<(NodeId, HomeMessage)>,
    /// The links that do not work, or may not.
    links: Links,
    /// How often the timer has fired since all was acknowledged; `None` while it does not run.
    repeats: Option<u8>,
    /// Whether [`HomeTimer::Forget`] runs.
    may_forget: bool,
}

/// The options that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Options {
    keep: bool,
    cohort: u16,
    pass: bool,
    witness: bool,
    ask_again: Option<Span>,
}

/// The timer runs only where messages may be lost
/// ([`SlotOptions::ask_again`](kgate_core::SlotOptions)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HomeTimer {
    /// Fires while a report or an assignment is not acknowledged, and repeats it. Stops by itself.
    Repeat,
    /// Fires while messages take a relay, at long intervals: forgets relays that were not used
    /// since it fired last (H19). Stops by itself.
    Forget,
}

type Out = Outbox<Home>;

impl Home {
    /// Finds out whether this process is a member, and makes it leave or enter.
    fn follow_membership(&mut self, out: &mut Out) {
        let present = self.log.directory.incarnation(self.me);
        if self.is_member && present != Some(self.incarnation) {
            self.is_member = false;
            self.incarnation.0 += 1;
            self.coordinator = None;
            self.lose_everything(out);
        }
        if let Some(present) = present.filter(|present| *present >= self.incarnation) {
            (self.is_member, self.incarnation) = (true, present);
        }
    }

    /// A term begins, or this process enters it.
    fn begin_term(&mut self, successive: bool, former: Option<Former>) {
        let closing = self.coordinator.take().filter(|_| successive).map(|former| former.close());
        self.member.begin_term(closing, self.defects);
        let Some(home) = self.home.filter(|_| self.is_member) else { return };
        if (home.node, home.incarnation) == (self.me, self.incarnation) {
            let rules = (self.options, self.defects);
            let term = home.term;
            let new = Coordinator::new(self.me, self.incarnation, term, &self.log, former, rules);
            self.coordinator = Some(Box::new(new));
        }
        if self.coordinator.is_some() || self.member.has_news(self.lease) {
            self.member.report();
        }
    }

    fn on_applied(&mut self, log: Arc<LogView>, out: &mut Out) -> Result<(), Refusal> {
        let in_order = log.reserved.is_sorted_by(|a, b| a < b);
        if !in_order {
            return Err(Refusal::Malformed("slots out of order"));
        }
        if log.index <= self.log.index {
            return Ok(()); // Applied already: the log may be delivered twice.
        }
        let former = core::mem::replace(&mut self.log, log);
        self.follow_log(former.directory.changes(), out);
        for (neighbour, message) in core::mem::take(&mut self.aside) {
            // It was checked on arrival, but not against what is known now.
            let _ = self.on_deliver(neighbour, message, out);
        }
        Ok(())
    }

    /// More of the log has been applied: until now the directory had seen so many changes.
    fn follow_log(&mut self, changes: Term, out: &mut Out) {
        let term = |home: Option<Placement>| home.map(|home| home.term);
        let (was_member, was, was_home) = (self.is_member, self.incarnation, self.home);
        self.follow_membership(out);
        let was_witness = self.witness;
        self.home = self.log.home();
        self.witness = self.log.witness().filter(|_| self.options.witness);
        let entered = self.is_member && (!was_member || was != self.incarnation);
        if entered || term(was_home) != term(self.home) {
            // H8: with a term in between, this process does not know what its home has decided.
            let successive = self.log.directory.changes().0 - changes.0 <= 1;
            let former = self.take_note(was_home, was_witness, successive);
            self.begin_term(successive, former);
        } else if let Some(coordinator) = &mut self.coordinator {
            coordinator.on_log(&self.log);
        }
        self.fail_too_large(out);
        self.drop_unusable(out);
        if self.has_ripe_ask() {
            self.member.report();
        }
    }

    fn on_lease(&mut self, valid: bool, out: &mut Out) {
        if self.lease != valid {
            self.lease = valid;
            self.drop_unusable(out);
            if self.member.waits().next().is_some() {
                self.member.report();
            }
        }
    }

    /// A message has come from a neighbour: its origin, or a relay.
    fn on_deliver(
        &mut self,
        neighbour: NodeId,
        message: HomeMessage,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let (head, from) = (message.head(), message.origin(neighbour));
        for node in [neighbour, from] {
            if node == self.me || node.0 >= Fence::NODES {
                return Err(Refusal::UnknownNode(node));
            }
        }
        message.check()?;
        if let Some(path) = head.path.filter(|path| path.to != self.me) {
            return self.relay(neighbour, path, message, out);
        }
        let of_any =
            self.defects.has(H3) || head.path.is_some() && self.defects.has(H19_INCARNATION);
        if head.to < self.incarnation && !of_any {
            return Ok(()); // H3. Put aside, it could take the place of one to this incarnation.
        }
        let is_early = match &message {
            HomeMessage::Report(_) => head.index > self.log.index && !self.defects.has(H2),
            HomeMessage::Note(note) => note.period > self.log.directory.changes(),
            HomeMessage::Assignment(_) | HomeMessage::Pass(_) | HomeMessage::Noted(_) => false,
        };
        if is_early || self.home.is_none_or(|home| head.term > home.term) {
            self.put_aside(neighbour, message); // H2
            return Ok(());
        }
        let has = |node: NodeId| self.log.directory.incarnation(node).is_some();
        if neighbour != from && !has(neighbour) {
            return Ok(()); // H19: only a member speaks for another.
        }
        let present = self.log.directory.incarnation(from) == Some(head.from);
        let is_mine = self.is_member && head.to == self.incarnation;
        if !(present && is_mine || of_any && self.is_member) {
            return Ok(()); // H3
        }
        self.take_in(from, neighbour, message, out)
    }

    /// H19: a message for another goes on to it, once, whatever is known here of its content.
    fn relay(
        &self,
        neighbour: NodeId,
        path: Path,
        message: HomeMessage,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        if path.from != neighbour {
            return Err(Refusal::Malformed("a message that was relayed before"));
        }
        if self.log.directory.incarnation(path.to).is_some() {
            out.send(path.to, message);
        }
        Ok(())
    }

    /// A message of a present incarnation to this one, after the log entries that it supposes.
    fn take_in(
        &mut self,
        from: NodeId,
        neighbour: NodeId,
        message: HomeMessage,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let term = message.head().term;
        let is_present_term = self.home.is_some_and(|home| home.term == term);
        let is_outdated = self.is_outdated_here(from, &message);
        let coordinator = self.coordinator.as_mut().filter(|_| is_present_term);
        if let (HomeMessage::Report(report), Some(home)) = (&message, &coordinator)
            && report.seen > home.version_to(from)
            && !self.defects.has(H3.with(H19_INCARNATION))
        {
            return Err(Refusal::Malformed("an assignment seen that was never sent"));
        }
        if !is_outdated {
            self.links.on_message(from, neighbour, self.defects);
        }
        match (message, coordinator) {
            (HomeMessage::Assignment(assignment), _) => {
                if !self.is_outdated(term, from) {
                    self.on_assignment(*assignment, out);
                }
            }
            (HomeMessage::Pass(pass), _) => self.on_pass(&pass, out),
            (HomeMessage::Note(note), _) => self.on_note(from, *note, out),
            (HomeMessage::Noted(noted), Some(home)) => home.on_noted(from, &noted),
            // H1. Only the home of this term is sent a report of it.
            (HomeMessage::Report(report), Some(home)) => home.on_report(from, *report, &self.log),
            (HomeMessage::Noted(_) | HomeMessage::Report(_), None) => {}
        }
        Ok(())
    }

    /// Puts a message aside until more of the log has been applied.
    fn put_aside(&mut self, neighbour: NodeId, message: HomeMessage) {
        let kind = kgate_core::Message::kind(&message);
        let same = |(other, kept): &(NodeId, HomeMessage)| {
            kept.origin(*other) == message.origin(neighbour)
                && kgate_core::Message::kind(kept) == kind
        };
        if let Some(place) = self.aside.iter().position(same) {
            if self.aside[place].1.age() < message.age() {
                self.aside[place] = (neighbour, message);
            }
        } else if self.aside.len() < ASIDE {
            self.aside.push((neighbour, message));
        }
    }

    /// Sends what is to be said, until nothing is. What this process says to itself is no message.
    fn settle(&mut self, out: &mut Out) {
        let Some(home) = self.home.filter(|_| self.is_member) else { return };
        loop {
            if self.member.due {
                let report = self.make_report(home.incarnation, home.term);
                match &mut self.coordinator {
                    Some(coordinator) => coordinator.on_report(self.me, report, &self.log),
                    None => {
                        let report = HomeMessage::Report(Box::new(report));
                        self.links.send(self.me, home.node, report, out);
                    }
                }
                continue;
            }
            let Some(coordinator) = &mut self.coordinator else { break };
            coordinator.follow_own(self.witness, &self.member);
            if let Some((witness, note)) = coordinator.next_note(&self.log) {
                let note = HomeMessage::Note(Box::new(note));
                self.links.send(self.me, witness, note, out);
            }
            let Some((to, assignment)) = coordinator.next_assignment(&self.log) else { break };
            if to == self.me {
                self.on_assignment(assignment, out);
            } else {
                let assignment = HomeMessage::Assignment(Box::new(assignment));
                self.links.send(self.me, to, assignment, out);
            }
        }
        if self.repeats.is_none() && self.is_unacknowledged() {
            self.arm(0, out);
        }
        if !self.may_forget && self.links.take_relays() {
            self.arm_forget(out);
        }
    }

    /// The processes that may lack something that was said to them, each once: what is repeated to
    /// one of them takes one turn of the ways (H19), however much it is.
    fn unacknowledged(&self) -> Vec<NodeId> {
        match (&self.coordinator, self.home) {
            (Some(coordinator), _) => {
                coordinator.unacknowledged().collect::<BTreeSet<_>>().into_iter().collect()
            }
            (None, Some(home)) if self.member.version > self.member.acked => [home.node].into(),
            (None, Some(_) | None) => Vec::new(),
        }
    }

    fn is_unacknowledged(&self) -> bool {
        !self.unacknowledged().is_empty()
    }

    fn arm(&mut self, repeats: u8, out: &mut Out) {
        if let Some(after) = self.options.ask_again {
            self.repeats = Some(repeats);
            out.arm_within(HomeTimer::Repeat, after.times(1 << repeats), after.times(2 << repeats));
        }
    }

    /// Repeats what is not acknowledged.
    fn on_repeat(&mut self, out: &mut Out) {
        let repeats = self.repeats.take().unwrap_or_default();
        if !self.is_member {
            self.links.forget();
            return;
        }
        let silent = self.unacknowledged();
        let members = self.log.directory.members().map(|(node, _)| node);
        let relays: Vec<NodeId> = members.filter(|node| *node != self.me).collect();
        self.links.repeat(&silent, &relays, self.defects);
        if silent.is_empty() {
            return;
        }
        self.member.due |= self.member.version > self.member.acked && self.coordinator.is_none();
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.repeat();
        }
        self.arm((repeats + 1).min(MOST_DOUBLINGS), out);
    }

    fn arm_forget(&mut self, out: &mut Out) {
        if let Some(after) = self.options.ask_again {
            self.may_forget = true;
            let least = after.times(2 << MOST_DOUBLINGS);
            out.arm_within(HomeTimer::Forget, least, least.times(2));
        }
    }

    /// Forgets relays that were not used for a while. [`Self::settle`] arms the timer again if some
    /// are left.
    fn on_forget(&mut self) {
        self.may_forget = false;
        let silent = self.unacknowledged();
        self.links.forget_unused(&silent);
    }

    /// The processes that a waiting request needs a message of: the home, and at the home the
    /// founders that have not given their account.
    fn lacking(&self) -> Vec<NodeId> {
        match (&self.coordinator, self.home) {
            (Some(coordinator), _) => coordinator.lacking(&self.log),
            (None, Some(home)) if self.member.waits().next().is_some() => [home.node].into(),
            (None, Some(_) | None) => Vec::new(),
        }
    }

    fn next_grant(&mut self) -> GrantId {
        self.granted += 1;
        GrantId((u64::from(self.incarnation.0) << INCARNATION_AT).wrapping_add(self.granted))
    }

    fn handle_input(&mut self, input: InputOf<Self>, out: &mut Out) -> Result<(), Refusal> {
        let unsupported = |what| Err(Refusal::Unsupported { protocol: Self::NAME, what });
        match input {
            Input::Acquire { weight } => return self.on_acquire(weight, out),
            Input::Withdraw => return self.on_withdraw(),
            Input::Release { grant } => return self.on_release(grant, out),
            Input::Lapse { grant } => return self.on_lapse(grant, out),
            Input::Adopt(adoption) => return self.on_adopt(*adoption, out),
            Input::Confirm { grant } => return self.on_confirm(grant),
            Input::Deliver { from, message } => return self.on_deliver(from, message, out),
            Input::Applied(log) => return self.on_applied(log, out),
            Input::Lease(valid) => self.on_lease(valid, out),
            Input::Expire(HomeTimer::Repeat) => self.on_repeat(out),
            Input::Expire(HomeTimer::Forget) => self.on_forget(),
            Input::Resize(_) => return unsupported("a change of k outside of the log"),
            Input::Reserved(_) => return unsupported("reserved slots outside of the log"),
            Input::Crashed { .. } | Input::Joined { .. } => {
                return unsupported("members outside of the log");
            }
        }
        Ok(())
    }
}

impl Protocol for Home {
    const NAME: &'static str = "home";
    const MECHANISM: Mechanism = Mechanism::Other;
    type Message = HomeMessage;
    type Timer = HomeTimer;
    type Durable = Box<Suspended>;

    fn start(setup: &Setup, restored: Option<Box<Suspended>>, out: &mut Out) -> Self {
        assert!(setup.nodes <= Fence::NODES, "at most 2^24 processes have room in a fence");
        let log = setup.log.clone();
        let log = log.unwrap_or_else(|| Arc::new(LogView::initial(setup.nodes, setup.k)));
        let mut process = Self {
            me: setup.me,
            defects: setup.defects,
            options: Options {
                keep: setup.slots.keep,
                cohort: setup.slots.cohort,
                pass: setup.slots.pass,
                witness: setup.slots.witness,
                ask_again: setup.slots.ask_again,
            },
            home: log.home(),
            witness: log.witness().filter(|_| setup.slots.witness),
            known: None,
            log,
            incarnation: setup.incarnation,
            is_member: false,
            lease: true,
            granted: 0,
            member: Member::default(),
            coordinator: None,
            aside: Vec::new(),
            links: Links::default(),
            repeats: None,
            may_forget: false,
        };
        if let Some(suspended) = restored {
            process.resume_from(*suspended, out);
        } else {
            process.follow_membership(out);
            process.begin_term(false, None);
        }
        process.settle(out);
        process
    }

    fn handle(&mut self, _now: Time, input: InputOf<Self>, out: &mut Out) -> Result<(), Refusal> {
        self.handle_input(input, out)?;
        self.settle(out);
        Ok(())
    }

    fn observe(&self) -> Observation {
        let in_use = self.member.holds.iter().find_map(|hold| match hold.usage {
            Usage::Client(id) => Some(id),
            Usage::Cached | Usage::Unconfirmed(_) => None,
        });
        let first = self.member.waits().next();
        let lines = |hold: &Hold| {
            let fence = hold.grant.fence(hold.count, self.defects);
            hold.slots.as_slice().iter().map(|slot| (*slot, fence)).collect::<Vec<_>>()
        };
        Observation {
            phase: match (first, in_use) {
                (Some(_), _) => Phase::Waiting,
                (None, Some(_)) => Phase::Holding,
                (None, None) => Phase::Idle,
            },
            stamp: first.map(|wait| Stamp::in_view(ViewId(wait.term.0), wait.clock, self.me)),
            grant: in_use,
            lacking: self.lacking(),
            slots: self.member.holds.iter().flat_map(lines).collect(),
            queue: self.coordinator.iter().flat_map(|home| home.queued()).collect(),
            decided: self.coordinator.as_ref().map_or(0, |home| home.decided()),
            ..Observation::default()
        }
    }
}

impl Suspend for Home {
    fn suspend(&self) -> Option<Box<Suspended>> {
        self.to_suspended().map(Box::new)
    }
}
impl TransientFaults for Home {}

#[cfg(test)]
mod tests;
