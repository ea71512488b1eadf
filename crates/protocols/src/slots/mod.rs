//! `slots`: numbered, fenced slots in the order of requests; kgate's own protocol.
//! `docs/internals/slots.md` has proofs, costs and pictures.
//!
//! k slots, numbered 0 .. k-1. A process stamps its request with its logical clock and sends it to
//! every other process. Each answers with a **snapshot**: the slots that it holds by older
//! requests, and whether it is *ahead*, that is, waits with an older request itself. A process that
//! has reported an obstacle (a slot held, or a request ahead) owes the requester every change of
//! it. A process decides its own request once every other process has answered and none is ahead:
//! it takes the lowest slots that no process holds, as soon as there are enough for its client's
//! weight.
//!
//! Invariant: after p has received a request, p's clock has passed it, so every later request of p
//! is ordered behind it. Hence p's last report contains every slot that p holds or will hold before
//! that request ends; an empty report is final; and **requests are decided in the order of their
//! stamps**. So a slot has at most one holder, its fence (the stamp of the request, then a count of
//! re-uses) always grows, and a request with a large weight is never overtaken.
//!
//! Cost: 2(n-1) messages and two delays when no other process requests, one delay after a release,
//! none to re-use a cached slot. On the tree of the virtual hypercube the answers are combined on
//! their way back: log2 n messages reach the requester, after 2 log2 n delays. An idle process
//! keeps its clock and a few words.
//!
//! - `request.rs`: clients, the request, the decision, and the slots that are returned;
//! - `response.rs`: requests of others, debts, relays of the tree;
//! - `membership.rs`: incarnations and views, from the log; `join.rs`: without one;
//! - `reserved.rs`: slots that the agreed log holds;
//! - `suspend.rs`: a clean stop, and resuming after it;
//! - `lanes.rs`: several independent queues.
//!
//! Deviations from the design (`docs/internals/slots.md`): no process remembers the last request of
//! every other one; a debt is replaced only by a newer one, which is all that the proof needs. A
//! process that is ahead, and was reported as ahead before, does not report its other changes: the
//! requester has to wait for it anyway. A request for several clients is granted part by part.
//! Answers of a higher view are processed at once, only requests of a higher view are queued.

mod debts;
pub mod defects;
mod fleet;
mod grants;
mod join;
mod lanes;
mod membership;
mod message;
mod pending;
mod ranges;
mod relay;
mod request;
mod reserved;
mod response;
mod slot_set;
mod stamp;
mod suspend;

pub use lanes::{Lanes, LanesMessage, LanesTimer};
pub use message::{About, Answers, Head, Report, Scope, SlotsMessage};
pub use ranges::Ranges;
pub use slot_set::SlotSet;
pub use stamp::{Clock, Stamp};
pub use suspend::{Suspended, SuspendedLane};

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use kgate_core::{
    Defects, Dissemination, Explorable, Fence, Incarnation, Input, InputOf, Mechanism,
    MembershipSource, NodeId, Observation, Outbox, Phase, Protocol, Refusal, Setup, SlotOptions,
    Suspend, Time,
};

use crate::collections::NodeList;
use crate::topology::dimension;
use debts::Debts;
use defects::{S2, S4};
use fleet::Fleet;
use grants::Grants;
use join::Joining;
use lanes::Lane;
use pending::Pending;
use relay::Relays;

/// Up to this number of processes a request goes straight to each: measured in
/// `docs/internals/slots.md`.
pub const FLAT_UP_TO: u32 = 128;

/// `slots` at one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slots {
    me: NodeId,
    /// The lane of this instance.
    lane: Lane,
    /// k, as far as this process knows.
    k: u32,
    defects: Defects,
    options: SlotOptions,
    /// The number of times that the log still has to add this process before it becomes a member; 0
    /// from the first start on.
    returns: u32,
    /// The incarnation in which the process is a member; `None` while it is not.
    incarnation: Option<Incarnation>,
    fleet: Fleet,
    clock: Clock,
    /// Version of the state that other processes may have to know; grows with each change.
    version: u64,
    /// Number of grants in this incarnation.
    granted: u64,
    /// Whether the process may decide and hand over (its lease is valid).
    lease: bool,
    /// The weights of the clients whose request has not been sent, in order.
    waiting: VecDeque<u32>,
    pending: Option<Box<Pending>>,
    grants: Grants,
    /// The slots that the agreed log holds, as far as it has been applied here.
    reserved: SlotSet,
    debts: Debts,
    relays: Relays,
    /// The number of slots that others held when this process last decided: an estimate of the
    /// contention. It influences speed only, never safety.
    contention: u32,
    /// Requests of a view that is not installed here yet.
    queued: Vec<(NodeId, SlotsMessage)>,
    joining: Option<Box<Joining>>,
    /// Without a log: processes whose new incarnation was noticed by a message, that have not sent
    /// JOIN here, and that have not been sent a request since.
    noticed: NodeList,
}

/// Timers run only where messages may be lost ([`SlotOptions::ask_again`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotsTimer {
    /// Fires while a request or a JOIN is out, and repeats it to the processes that have not
    /// answered. Stops by itself when nothing is out.
    AskAgain,
    /// Fires while answers are combined; at the second expiry the answers so far are forwarded.
    /// Stops by itself when nothing is relayed.
    PassOn,
}

type Out = Outbox<Slots>;

impl Slots {
    fn flat(&self) -> bool {
        match self.options.dissemination {
            Dissemination::Flat => true,
            Dissemination::Tree => false,
            Dissemination::Auto => self.fleet.nodes <= FLAT_UP_TO,
        }
    }

    fn membership(&self) -> MembershipSource {
        if self.defects.has(S4) { MembershipSource::Join } else { self.options.membership }
    }

    fn head(&self) -> Head {
        Head { incarnation: self.incarnation.unwrap_or_default(), view: self.fleet.view }
    }

    /// Whether the process is a full member: it may request.
    fn is_member(&self) -> bool {
        self.incarnation.is_some() && self.joining.is_none()
    }

    /// The bound of the ids in a message: a sender that has installed a view that is not installed
    /// here may know of more processes.
    fn ids_below(&self, message: &SlotsMessage) -> u32 {
        let head = match message {
            SlotsMessage::Request { head, .. }
            | SlotsMessage::Agg { head, .. }
            | SlotsMessage::Update { head, .. } => head,
            SlotsMessage::Join { .. } | SlotsMessage::Welcome { .. } => return self.fleet.nodes,
        };
        let is_later = self.membership() == MembershipSource::Log && head.view > self.fleet.view;
        if is_later { Fence::NODES } else { self.fleet.nodes }
    }

    /// Checks bytes from the network: every content is either possible or refused.
    fn check(&self, from: NodeId, message: &SlotsMessage) -> Result<(), Refusal> {
        let nodes = self.ids_below(message);
        if from == self.me || from.0 >= nodes {
            return Err(Refusal::UnknownNode(from));
        }
        let (head, about) = match message {
            SlotsMessage::Join { round, .. } => {
                return sound((1..=2).contains(round), "no such round");
            }
            SlotsMessage::Welcome { clock, round, .. } => {
                sound((1..=2).contains(round), "no such round")?;
                sound(
                    clock.view <= self.fleet.view,
                    "a clock of a view that there is not without a log",
                )?;
                return sound(clock.ticks <= Clock::LAST_TICK, "a clock out of reach");
            }
            SlotsMessage::Request { head, about, .. }
            | SlotsMessage::Agg { head, about, .. }
            | SlotsMessage::Update { head, about, .. } => (head, about),
        };
        let root = about.stamp.node;
        if root.0 >= nodes {
            return Err(Refusal::UnknownNode(root));
        }
        let clock = about.stamp.clock;
        sound(clock.ticks <= Clock::LAST_TICK, "a clock out of reach")?;
        match message {
            SlotsMessage::Request { scope, .. } => {
                sound(root != self.me, "my own request")?;
                sound(
                    clock.view <= head.view,
                    "a stamp of a view that its sender has not installed",
                )?;
                let height = match scope {
                    Scope::Yourself => 0,
                    Scope::Clusters(height) => *height,
                };
                sound(u32::from(height) <= dimension(nodes), "more clusters than there are")
            }
            SlotsMessage::Agg { answers, .. } => {
                sound(answers.empty.is_sound(nodes), "ranges out of order")?;
                sound(answers.reports.len() <= nodes as usize, "more reports than processes")?;
                answers.reports.iter().try_for_each(|report| check_report(report, nodes))
            }
            SlotsMessage::Update { report, .. } => {
                sound(root == self.me, "an update about another's request")?;
                sound(report.node == from, "an update about another process")?;
                check_report(report, nodes)
            }
            SlotsMessage::Join { .. } | SlotsMessage::Welcome { .. } => Ok(()),
        }
    }

    fn on_deliver(
        &mut self,
        from: NodeId,
        message: SlotsMessage,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        self.check(from, &message)?;
        match message {
            SlotsMessage::Join { incarnation, round } => {
                self.on_join(from, incarnation, round, out)
            }
            SlotsMessage::Welcome { head, incarnation, round, clock } => {
                self.on_welcome(from, head, incarnation, round, clock, out)
            }
            SlotsMessage::Request { head, .. } if head.view > self.fleet.view => {
                self.queue_for_later(from, message, out)
            }
            SlotsMessage::Request { head, about, weight, scope } => {
                if self.accepts(from, head, about, out) {
                    self.on_request(from, about, weight, scope, out);
                }
            }
            SlotsMessage::Agg { head, about, answers } => {
                if self.accepts(from, head, about, out) {
                    self.on_agg(from, about, *answers, out);
                }
            }
            SlotsMessage::Update { head, about, report } => {
                if self.accepts(from, head, about, out) {
                    self.on_update(about, *report, out);
                }
            }
        }
        Ok(())
    }

    fn on_expire(&mut self, timer: SlotsTimer, out: &mut Out) {
        match timer {
            SlotsTimer::AskAgain => self.ask_again(out),
            SlotsTimer::PassOn => self.pass_on(out),
        }
    }
}

fn check_report(report: &Report, nodes: u32) -> Result<(), Refusal> {
    if report.node.0 >= nodes {
        return Err(Refusal::UnknownNode(report.node));
    }
    sound(report.holds.is_sound(), "slots out of order")
}

fn sound(it_is: bool, why: &'static str) -> Result<(), Refusal> {
    if it_is { Ok(()) } else { Err(Refusal::Malformed(why)) }
}

impl Protocol for Slots {
    const NAME: &'static str = "slots";
    const MECHANISM: Mechanism = Mechanism::Slots;
    type Message = SlotsMessage;
    type Timer = SlotsTimer;
    type Durable = Box<SuspendedLane>;

    fn start(setup: &Setup, restored: Option<Box<SuspendedLane>>, out: &mut Out) -> Self {
        assert!(setup.nodes <= Fence::NODES, "at most 2^24 processes have room in a fence");
        let mut slots = Self {
            me: setup.me,
            lane: Lane::ONLY,
            k: setup.k,
            defects: setup.defects,
            options: setup.slots,
            returns: if setup.defects.has(S2) { 0 } else { setup.incarnation.0 },
            incarnation: Some(Incarnation::default()),
            fleet: Fleet::new(setup.nodes),
            clock: Clock::default(),
            version: 0,
            granted: 0,
            lease: true,
            waiting: VecDeque::new(),
            pending: None,
            grants: Grants::default(),
            reserved: SlotSet::default(),
            debts: Debts::default(),
            relays: Relays::default(),
            contention: 0,
            queued: Vec::new(),
            joining: None,
            noticed: NodeList::default(),
        };
        if let Some(suspended) = restored {
            slots.resume_from(*suspended, setup, out);
        } else if let Some(initial_members) = &setup.initial_members {
            slots.begin_with_members(initial_members);
        } else if slots.returns > 0 {
            slots.begin_return(setup.incarnation, out);
        }
        slots
    }

    fn handle(&mut self, _now: Time, input: InputOf<Self>, out: &mut Out) -> Result<(), Refusal> {
        let unsupported = |what| Err(Refusal::Unsupported { protocol: Self::NAME, what });
        match input {
            Input::Acquire { weight } => return self.on_acquire(weight, out),
            Input::Withdraw => return self.on_withdraw(out),
            Input::Release { grant } => return self.on_release(grant, out),
            Input::Deliver { from, message } => return self.on_deliver(from, message, out),
            Input::Crashed { node, incarnation } => return self.on_crashed(node, incarnation, out),
            Input::Joined { node, incarnation, view } => {
                return self.on_joined(node, incarnation, view, out);
            }
            Input::Reserved(slots) => return self.on_reserved(slots, out),
            Input::Applied(_) => return unsupported("snapshots of a log"),
            Input::Lapse { .. } => {
                return unsupported("clients that leave without a release");
            }
            Input::Adopt(_) | Input::Confirm { .. } => return unsupported("adoptions"),
            Input::Resize(k) => self.on_resize(k, out),
            Input::Lease(valid) => self.on_lease(valid, out),
            Input::Expire(timer) => self.on_expire(timer, out),
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        let pending = self.pending.as_ref();
        let waits = pending.is_some() || !self.waiting.is_empty();
        let in_use = self.grants.iter().filter_map(|grant| grant.id).next();
        let here = self.grants.iter().flat_map(|grant| {
            grant.slots.as_slice().iter().map(move |slot| (self.lane.global(*slot), grant.fence()))
        });
        Observation {
            phase: match (waits, in_use) {
                (true, _) => Phase::Waiting,
                (false, Some(_)) => Phase::Holding,
                (false, None) => Phase::Idle,
            },
            stamp: pending.map(|pending| pending.stamp.shown()),
            grant: in_use,
            lacking: pending
                .map(|pending| pending.unsettled(&self.fleet).collect())
                .unwrap_or_default(),
            owing: self.debts.whom().collect(),
            crashed: self.fleet.absent().filter(|&node| node != self.me).collect(),
            tokens: Vec::new(),
            slots: here.collect(),
            relaying: self.relays.roots().collect(),
            ..Observation::default()
        }
    }
}

impl Suspend for Slots {
    fn suspend(&self) -> Option<Box<SuspendedLane>> {
        self.to_suspended().map(Box::new)
    }
}

impl Explorable for Slots {
    /// Outdated: an answer to a request of this process that is not out, because no stamp is ever
    /// used twice. Without a log any message may announce a new incarnation.
    fn is_outdated(&self, _from: NodeId, message: &SlotsMessage) -> bool {
        let about = match message {
            SlotsMessage::Agg { about, .. } | SlotsMessage::Update { about, .. } => about,
            SlotsMessage::Request { .. }
            | SlotsMessage::Join { .. }
            | SlotsMessage::Welcome { .. } => {
                return false;
            }
        };
        let is_out = |pending: &Pending| pending.stamp == about.stamp;
        self.membership() == MembershipSource::Log
            && self.defects == Defects::NONE
            && about.stamp.node == self.me
            && !self.pending.as_deref().is_some_and(is_out)
    }
}

#[cfg(test)]
mod tests;
