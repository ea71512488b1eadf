//! Any protocol behind one face: bytes from peers in, bytes to peers out.
//!
//! A node drives many gates, each by a protocol of its own type. [`Driver`] hides the type:
//! messages and what is to be stored are bytes (postcard), timers are numbers. Nothing else is
//! added: one input is handed over, all effects are carried out in order, then the next one.

use std::collections::BTreeMap;

use kgate_core::{
    Effect, GrantId, Incarnation, Input, InputOf, Message, NodeId, Notice, Observation, Outbox,
    Protocol, Refusal, Setup, Span, Suspend, Time, To, ViewId,
};

/// A timer of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey(pub u32);

/// What happens at this node: an input without a protocol's types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// A client wants so many units.
    Acquire(u32),
    /// The client that asked last, of those that wait, no longer wants it.
    Withdraw,
    /// A client gives back what it was granted.
    Release(GrantId),
    /// The gate has so many units from now on.
    Resize(u32),
    /// Exactly these slots are held by the agreed log, as far as it has been applied here.
    Reserved(Box<[u32]>),
    /// Whether this node may grant.
    Lease(bool),
    /// That incarnation of a node has ended.
    Crashed(NodeId, Incarnation),
    /// A node takes part, in this incarnation.
    Joined(NodeId, ViewId),
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Store this, durably, before any later message leaves.
    Store(Vec<u8>),
    /// Send this.
    Send {
        /// To whom.
        to: To,
        /// Which kind of message it is, for those who count.
        kind: &'static str,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Start a timer, or start it anew, for a time between the two.
    Arm(TimerKey, Span, Span),
    /// Stop a timer, if it runs.
    Disarm(TimerKey),
    /// Tell a fact.
    Tell(Notice),
}

/// Why something was not taken. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The protocol refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The bytes are no message of this protocol.
    #[error("junk: these bytes are no message of {0}")]
    NoMessage(&'static str),
}

/// What was stored cannot be read: it is of another version, or damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what {0} has stored cannot be read: it is of another version of kgate, or damaged")]
pub struct Unreadable(pub &'static str);

/// A protocol at one node, whatever its type.
pub trait Drive: Send {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Something happens at this node.
    fn order(&mut self, now: Time, order: Order, deeds: &mut Vec<Deed>) -> Result<(), NotTaken>;
    /// A message has come.
    fn deliver(
        &mut self,
        now: Time,
        from: NodeId,
        bytes: &[u8],
        deeds: &mut Vec<Deed>,
    ) -> Result<(), NotTaken>;
    /// A timer has run out; one that was disarmed meanwhile is nothing.
    fn expire(&mut self, now: Time, timer: TimerKey, deeds: &mut Vec<Deed>)
    -> Result<(), NotTaken>;
    /// All that it knows, to be put away at a clean stop (LEASES R1); it is to be driven no more. A
    /// driver that is [started](Driver::start) with it goes on as the same incarnation, once. None
    /// if the protocol cannot do so.
    fn suspend(&self) -> Option<Vec<u8>>;
    /// What checkers and screens may see.
    fn observe(&self) -> Observation;
    /// The names of all kinds of its messages.
    fn kinds(&self) -> Vec<&'static str>;
}

/// A protocol of type `P` at one node.
#[derive(Debug)]
pub struct Driver<P: Protocol> {
    protocol: P,
    outbox: Outbox<P>,
    /// Timers that were ever armed, with their numbers: few, and the same again and again.
    timers: BTreeMap<P::Timer, TimerKey>,
}

impl<P: Protocol> Driver<P> {
    /// The process starts, with what it had stored or [suspended](Drive::suspend) if it had.
    pub fn start(
        setup: &Setup,
        stored: Option<&[u8]>,
        deeds: &mut Vec<Deed>,
    ) -> Result<Self, Unreadable> {
        let restored = stored.map(|bytes| whole(bytes).ok_or(Unreadable(P::NAME))).transpose()?;
        let mut outbox = Outbox::new();
        let protocol = P::start(setup, restored, &mut outbox);
        let mut driver = Self { protocol, outbox, timers: BTreeMap::new() };
        driver.drain(deeds);
        Ok(driver)
    }

    fn handle(
        &mut self,
        now: Time,
        input: InputOf<P>,
        deeds: &mut Vec<Deed>,
    ) -> Result<(), NotTaken> {
        let taken = self.protocol.handle(now, input, &mut self.outbox);
        self.drain(deeds);
        Ok(taken?)
    }

    fn drain(&mut self, deeds: &mut Vec<Deed>) {
        while let Some(effect) = self.outbox.pop() {
            deeds.push(match effect {
                Effect::Persist(durable) => Deed::Store(bytes(&durable)),
                Effect::Send { to, message } => {
                    let kind = P::Message::kind_name(message.kind());
                    Deed::Send { to, kind, bytes: bytes(&message) }
                }
                Effect::Arm { timer, least, most } => Deed::Arm(self.key(timer), least, most),
                Effect::Disarm(timer) => Deed::Disarm(self.key(timer)),
                Effect::Notify(notice) => Deed::Tell(*notice),
            });
        }
    }

    fn key(&mut self, timer: P::Timer) -> TimerKey {
        let next = TimerKey(u32::try_from(self.timers.len()).expect("a protocol has few timers"));
        *self.timers.entry(timer).or_insert(next)
    }
}

impl<P: Suspend> Drive for Driver<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn order(&mut self, now: Time, order: Order, deeds: &mut Vec<Deed>) -> Result<(), NotTaken> {
        let input = match order {
            Order::Acquire(weight) => Input::Acquire { weight },
            Order::Withdraw => Input::Withdraw,
            Order::Release(grant) => Input::Release { grant },
            Order::Resize(permits) => Input::Resize(permits),
            Order::Reserved(slots) => Input::Reserved(slots),
            Order::Lease(valid) => Input::Lease(valid),
            Order::Crashed(node, incarnation) => Input::Crashed { node, incarnation },
            Order::Joined(node, view) => {
                Input::Joined { node, incarnation: view.incarnation(), view }
            }
        };
        self.handle(now, input, deeds)
    }

    fn deliver(
        &mut self,
        now: Time,
        from: NodeId,
        bytes: &[u8],
        deeds: &mut Vec<Deed>,
    ) -> Result<(), NotTaken> {
        let message = whole(bytes).ok_or(NotTaken::NoMessage(P::NAME))?;
        self.handle(now, Input::Deliver { from, message }, deeds)
    }

    fn expire(
        &mut self,
        now: Time,
        timer: TimerKey,
        deeds: &mut Vec<Deed>,
    ) -> Result<(), NotTaken> {
        let known =
            self.timers.iter().find(|(_, key)| **key == timer).map(|(timer, _)| timer.clone());
        known.map_or(Ok(()), |timer| self.handle(now, Input::Expire(timer), deeds))
    }

    fn suspend(&self) -> Option<Vec<u8>> {
        self.protocol.suspend().map(|suspended| bytes(&suspended))
    }

    fn observe(&self) -> Observation {
        self.protocol.observe()
    }

    fn kinds(&self) -> Vec<&'static str> {
        (0..P::Message::KINDS).map(P::Message::kind_name).collect()
    }
}

fn bytes(value: &impl serde::Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("values of ours can be written")
}

/// A value that fills the bytes to the last one.
fn whole<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

#[cfg(test)]
mod tests;
