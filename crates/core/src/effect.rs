//! What a protocol wants done.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::{Fence, GrantId, Incarnation, NodeId, Protocol, Span};

/// To whom a message goes. One effect is one send of the papers' cost models, however many copies
/// it makes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// To one process.
    One(NodeId),
    /// To each of these, in this order.
    Many(Box<[NodeId]>),
    /// To every other process, in the order of their ids.
    All,
}

/// A fact that the driver passes on: to the client, or (`Suspected`) to the protocols of this node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The request has left this process: until now it was waiting for an earlier broadcast to end.
    Asked,
    /// The client may go in.
    Granted {
        /// Names this grant in `Release`.
        grant: GrantId,
        /// Which slots, where the protocol numbers them.
        slots: Option<Box<[u32]>>,
        /// The fence of the slots, where the protocol has one.
        fence: Option<Fence>,
    },
    /// The client must stop: its grant no longer counts.
    Lost {
        /// Which grant.
        grant: GrantId,
    },
    /// A request cannot be granted any more, because k has become less than it wants. It has ended.
    TooLarge {
        /// What it wants.
        weight: u32,
        /// What there is.
        most: u32,
    },
    /// The detector of this node declares an incarnation of another node crashed.
    Suspected {
        /// The node.
        node: NodeId,
        /// The incarnation that has crashed.
        incarnation: Incarnation,
    },
}

/// One thing to be done by the driver, in the order of the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect<M, T, D> {
    /// Store this, durably, before any later send leaves.
    Persist(D),
    /// Send a message.
    Send {
        /// To whom.
        to: To,
        /// What.
        message: M,
    },
    /// Start a timer, or start it anew if it runs. It ends after a time that the driver draws from
    /// the range.
    Arm {
        /// Which timer.
        timer: T,
        /// No earlier than this from now.
        least: Span,
        /// No later than this from now.
        most: Span,
    },
    /// Stop a timer, if it runs.
    Disarm(T),
    /// Tell a fact. Boxed: facts are rare and large, and a driver moves millions of effects.
    Notify(Box<Notice>),
}

/// The effects of a protocol.
pub type EffectOf<P> =
    Effect<<P as Protocol>::Message, <P as Protocol>::Timer, <P as Protocol>::Durable>;

/// Where a protocol leaves its effects. The driver keeps one and takes everything out after every
/// input.
#[derive(Clone, Debug)]
pub struct Outbox<P: Protocol> {
    effects: VecDeque<EffectOf<P>>,
}

impl<P: Protocol> Default for Outbox<P> {
    fn default() -> Self {
        Self { effects: VecDeque::new() }
    }
}

impl<P: Protocol> Outbox<P> {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends to one process.
    #[inline]
    pub fn send(&mut self, to: NodeId, message: P::Message) {
        self.effects.push_back(Effect::Send { to: To::One(to), message });
    }

    /// Sends to several processes as one multi-destination send.
    pub fn send_to(&mut self, to: To, message: P::Message) {
        self.effects.push_back(Effect::Send { to, message });
    }

    /// Arms a timer for exactly `after`.
    pub fn arm(&mut self, timer: P::Timer, after: Span) {
        self.arm_within(timer, after, after);
    }

    /// Arms a timer for no less than `least` and no more than `most`, as the driver draws.
    pub fn arm_within(&mut self, timer: P::Timer, least: Span, most: Span) {
        self.effects.push_back(Effect::Arm { timer, least, most });
    }

    /// Disarms a timer.
    pub fn disarm(&mut self, timer: P::Timer) {
        self.effects.push_back(Effect::Disarm(timer));
    }

    /// Stores durable state.
    pub fn persist(&mut self, durable: P::Durable) {
        self.effects.push_back(Effect::Persist(durable));
    }

    /// Tells a fact.
    pub fn notify(&mut self, notice: Notice) {
        self.effects.push_back(Effect::Notify(Box::new(notice)));
    }

    /// Whether nothing is left to do.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Takes the next effect out, in order.
    #[inline]
    pub fn pop(&mut self) -> Option<EffectOf<P>> {
        self.effects.pop_front()
    }
}
