//! Any protocol behind one interface: encoded messages in, encoded messages out.
//!
//! A node runs many gates, each with a protocol of its own type. [`Driver`] hides the type behind
//! [`Drive`]: it takes the inputs and returns the effects of `kgate_core`, with messages and
//! durable state as bytes (postcard) and timers as numbers. It adds nothing else.
//!
//! A message is encoded once, into a buffer with room for the header of its frame in front
//! ([`Encoded`]). All destinations share that buffer, down to the link.

use std::collections::BTreeMap;

use bytes::Bytes;
use kgate_core::{
    Effect, Input, InputOf, Message, Notice, Observation, Outbox, Protocol, Refusal, Setup,
    Suspend, Time,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A timer of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TimerKey(pub(crate) u32);

/// An input of a driver. A message is the payload of a frame.
pub(crate) type DriverInput = Input<Bytes, TimerKey>;

/// An effect of a driver.
pub(crate) type DriverEffect = Effect<Encoded, TimerKey, Vec<u8>>;

/// Whether an effect notifies of a grant.
pub(crate) fn is_grant(effect: &DriverEffect) -> bool {
    matches!(effect, Effect::Notify(notice) if matches!(**notice, Notice::Granted { .. }))
}

/// An encoded message of a protocol, with room for the header of its frame.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// The kind of the message, for counters.
    pub(crate) kind: &'static str,
    /// [`Encoded::HEADROOM`] unused bytes, then the payload.
    buffer: Vec<u8>,
}

impl Encoded {
    /// The most bytes of a header.
    pub(crate) const HEADROOM: usize = 16;

    pub(crate) fn new(kind: &'static str, message: &impl Serialize) -> Self {
        let buffer = postcard::to_extend(message, vec![0; Self::HEADROOM]);
        Self { kind, buffer: buffer.expect("every message of a protocol can be encoded") }
    }

    /// The message alone.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.buffer[Self::HEADROOM..]
    }

    /// The frame: the header, then the message. The message is not copied.
    pub(crate) fn into_frame(mut self, header: &[u8]) -> Bytes {
        let start = Self::HEADROOM - header.len();
        self.buffer[start..Self::HEADROOM].copy_from_slice(header);
        Bytes::from(self.buffer).slice(start..)
    }
}

impl std::fmt::Debug for Encoded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({} bytes)", self.kind, self.payload().len())
    }
}

/// Why a driver rejected an input. The protocol's state has not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputRejected {
    /// The protocol refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The payload is no message of this protocol.
    #[error("malformed message: the payload is no message of protocol {0}")]
    Malformed(&'static str),
}

/// Stored state cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stored state of protocol {0} cannot be decoded: it is damaged, or of another version of \
     kgate"
)]
pub struct Unreadable(pub &'static str);

/// A protocol at one node, whatever its type.
pub(crate) trait Drive: Send {
    /// Takes one input and appends its effects, in order.
    fn handle(
        &mut self,
        now: Time,
        input: DriverInput,
        effects: &mut Vec<DriverEffect>,
    ) -> Result<(), InputRejected>;

    /// The complete state, to be stored at a clean stop (LEASES R1). The driver must not be used
    /// afterwards. A driver that is [started](Driver::start) with this state resumes the same
    /// incarnation; the state must be used at most once. `None` if the protocol cannot be
    /// suspended.
    fn suspend(&self) -> Option<Vec<u8>>;

    /// What the protocol shows to status queries and checkers.
    fn observe(&self) -> Observation;
}

/// A protocol of type `P` at one node.
#[derive(Debug)]
pub(crate) struct Driver<P: Protocol> {
    protocol: P,
    outbox: Outbox<P>,
    /// The number of each timer that was ever armed. A protocol has few timers and arms them again
    /// and again.
    timers: BTreeMap<P::Timer, TimerKey>,
}

impl<P: Protocol> Driver<P> {
    /// Starts the protocol, from stored or [suspended](Drive::suspend) state if there is any.
    pub(crate) fn start(
        setup: &Setup,
        stored: Option<&[u8]>,
        effects: &mut Vec<DriverEffect>,
    ) -> Result<Self, Unreadable> {
        let restored = stored.map(|bytes| decode(bytes).ok_or(Unreadable(P::NAME))).transpose()?;
        let mut outbox = Outbox::new();
        let protocol = P::start(setup, restored, &mut outbox);
        let mut driver = Self { protocol, outbox, timers: BTreeMap::new() };
        driver.drain(effects);
        Ok(driver)
    }

    fn drain(&mut self, effects: &mut Vec<DriverEffect>) {
        while let Some(effect) = self.outbox.pop() {
            effects.push(match effect {
                Effect::Persist(durable) => Effect::Persist(encode(&durable)),
                Effect::Send { to, message } => {
                    let kind = P::Message::kind_name(message.kind());
                    Effect::Send { to, message: Encoded::new(kind, &message) }
                }
                Effect::Arm { timer, least, most } => {
                    Effect::Arm { timer: self.key(timer), least, most }
                }
                Effect::Disarm(timer) => Effect::Disarm(self.key(timer)),
                Effect::Notify(notice) => Effect::Notify(notice),
            });
        }
    }

    fn key(&mut self, timer: P::Timer) -> TimerKey {
        let next = TimerKey(u32::try_from(self.timers.len()).expect("a protocol has few timers"));
        *self.timers.entry(timer).or_insert(next)
    }

    /// The input in the protocol's own types; none for a timer that was never armed.
    fn typed(&self, input: DriverInput) -> Result<Option<InputOf<P>>, InputRejected> {
        Ok(Some(match input {
            Input::Deliver { from, message } => {
                let message = decode(&message).ok_or(InputRejected::Malformed(P::NAME))?;
                Input::Deliver { from, message }
            }
            Input::Expire(key) => {
                let timer = self.timers.iter().find(|(_, known)| **known == key);
                return Ok(timer.map(|(timer, _)| Input::Expire(timer.clone())));
            }
            Input::Acquire { weight } => Input::Acquire { weight },
            Input::Withdraw => Input::Withdraw,
            Input::Release { grant } => Input::Release { grant },
            Input::Resize(k) => Input::Resize(k),
            Input::Reserved(slots) => Input::Reserved(slots),
            Input::Lease(valid) => Input::Lease(valid),
            Input::Applied(log) => Input::Applied(log),
            Input::Lapse { grant } => Input::Lapse { grant },
            Input::Adopt(adoption) => Input::Adopt(adoption),
            Input::Confirm { grant } => Input::Confirm { grant },
            Input::Crashed { node, incarnation } => Input::Crashed { node, incarnation },
            Input::Joined { node, incarnation, view } => Input::Joined { node, incarnation, view },
        }))
    }
}

impl<P: Suspend> Drive for Driver<P> {
    fn handle(
        &mut self,
        now: Time,
        input: DriverInput,
        effects: &mut Vec<DriverEffect>,
    ) -> Result<(), InputRejected> {
        let Some(input) = self.typed(input)? else { return Ok(()) };
        let taken = self.protocol.handle(now, input, &mut self.outbox);
        self.drain(effects);
        Ok(taken?)
    }

    fn suspend(&self) -> Option<Vec<u8>> {
        self.protocol.suspend().map(|suspended| encode(&suspended))
    }

    fn observe(&self) -> Observation {
        self.protocol.observe()
    }
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("every durable state can be encoded")
}

/// Decodes a value that fills the bytes to the last one.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

#[cfg(test)]
mod tests;
