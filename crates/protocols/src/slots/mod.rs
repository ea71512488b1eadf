//! `slots`: numbered, fenced slots in the order of requests; ours. `docs/internals/slots.md` tells it with
//! proofs, costs and pictures.
//!
//! k slots, numbered 0 .. k-1. A process stamps its request with its logical clock and asks
//! everybody. Each answers with a **snapshot**: which slots it holds by older requests, and whether
//! it is *ahead*, that is, has asked before and waits too. Whoever was told that something stands
//! in its way is owed any change. A request is decided by its own process once everybody has
//! answered and nobody is ahead: it takes the lowest slots that nobody holds, as soon as there are
//! enough for what its client wants.
//!
//! Invariant: after p has received a request, p's clock has passed it, so whatever p asks for later
//! comes behind. Hence what p holds or will hold before that request ends is within its last
//! report; an empty report is final; and **requests are decided in the order of their stamps**. So
//! a slot has one holder, its fence (the stamp of the request, then a count of re-uses) grows for
//! ever, and a request for many is never overtaken.
//!
//! Cost: 2(n-1) messages and two delays when nobody else asks, one delay after a release, none to
//! use a kept slot again. On the tree of the virtual hypercube the answers are put together on
//! their way back: log2 n messages reach the asker, after 2 log2 n delays. An idle process keeps
//! its clock and a few words.
//!
//! - `asking.rs`: clients, the request, the decision, what becomes of slots that are given back;
//! - `answering.rs`: requests of others, debts, relays of the tree;
//! - `membership.rs`: incarnations and views, from the log; `join.rs`: without one;
//! - `reserved.rs`: slots that the agreed log holds;
//! - `suspend.rs`: a clean stop, and going on after it;
//! - `lanes.rs`: several independent queues under one roof.
//!
//! Deviations from the design (`docs/internals/slots.md`): no process remembers the last request of every
//! other one; a debt is replaced only by a newer one, which is all that is needed. Who is ahead and
//! was known to be ahead does not tell what else has changed: the asker waits anyway. A request for
//! several clients is granted part by part. Answers of a higher view are taken at once, only
//! requests of one are kept.

mod answering;
mod asking;
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
mod reserved;
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

/// Up to so many processes a request goes straight to each: measured in `docs/internals/slots.md`.
pub const FLAT_UP_TO: u32 = 128;

/// `slots` at one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slots {
    me: NodeId,
    /// Which of several independent queues this is.
    lane: Lane,
    /// k, as far as it was told.
    k: u32,
    defects: Defects,
    options: SlotOptions,
    /// How many of its own returns the log still has to tell before it takes part; 0 from the first
    /// start on.
    returns: u32,
    /// In which incarnation it takes part; none while it does not.
    incarnation: Option<Incarnation>,
    fleet: Fleet,
    clock: Clock,
    /// How often what others may have to know has changed.
    version: u64,
    /// How many grants there were in this incarnation.
    granted: u64,
    /// Whether it may decide and hand over.
    lease: bool,
    /// What clients want whose request is not out yet, in their order.
    wishes: VecDeque<u32>,
    pending: Option<Box<Pending>>,
    grants: Grants,
    /// What the agreed log holds, as far as it has been applied here.
    reserved: SlotSet,
    debts: Debts,
    relays: Relays,
    /// How many slots others held when this process last decided: a guess at how crowded it is, on
    /// which nothing but speed depends.
    crowd: u32,
    /// Requests of a view that is not installed here yet.
    kept: Vec<(NodeId, SlotsMessage)>,
    joining: Option<Box<Joining>>,
    /// Without a log: whose new incarnation has shown, has not said JOIN here, and was not asked
    /// since.
    noticed: NodeList,
}

/// Timers run only where messages may be lost ([`SlotOptions::ask_again`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotsTimer {
    /// While a request or a JOIN is out: whoever has not answered is asked again. Runs on until
    /// nothing is out.
    AskAgain,
    /// While answers are put together: what has come is passed on at the second expiry. Runs on
    /// until nothing is relayed.
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

    /// Whether it takes part fully: it may ask.
    fn is_member(&self) -> bool {
        self.incarnation.is_some() && self.joining.is_none()
    }

    /// Ids are below that in a message: whoever has installed a view that is not installed here may
    /// know of more processes.
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

    /// Bytes from the network: whatever a message says is possible, or it is refused.
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
                self.keep_for_later(from, message, out)
            }
            SlotsMessage::Request { head, about, weight, scope } => {
                if self.hears(from, head, about, out) {
                    self.on_request(from, about, weight, scope, out);
                }
            }
            SlotsMessage::Agg { head, about, answers } => {
                if self.hears(from, head, about, out) {
                    self.on_agg(from, about, *answers, out);
                }
            }
            SlotsMessage::Update { head, about, report } => {
                if self.hears(from, head, about, out) {
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
            wishes: VecDeque::new(),
            pending: None,
            grants: Grants::default(),
            reserved: SlotSet::default(),
            debts: Debts::default(),
            relays: Relays::default(),
            crowd: 0,
            kept: Vec::new(),
            joining: None,
            noticed: NodeList::default(),
        };
        if let Some(suspended) = restored {
            slots.take_up(*suspended, setup, out);
        } else if let Some(initial_members) = &setup.initial_members {
            slots.begin_founded(initial_members);
        } else if slots.returns > 0 {
            slots.begin_return(setup.incarnation, out);
        }
        slots
    }

    fn handle(&mut self, _now: Time, input: InputOf<Self>, out: &mut Out) -> Result<(), Refusal> {
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
            Input::Resize(k) => self.on_resize(k, out),
            Input::Lease(valid) => self.on_lease(valid, out),
            Input::Expire(timer) => self.on_expire(timer, out),
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        let pending = self.pending.as_ref();
        let waits = pending.is_some() || !self.wishes.is_empty();
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
        }
    }
}

impl Suspend for Slots {
    fn suspend(&self) -> Option<Box<SuspendedLane>> {
        self.put_away().map(Box::new)
    }
}

impl Explorable for Slots {
    /// Answers to a request of this process that is not out: no stamp is ever used twice. Without a
    /// log any message may tell of a new incarnation.
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
