//! The effects that a protocol leaves for its driver.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::{Fence, GrantId, Incarnation, NodeId, Protocol, Span};

/// The receivers of a message. One effect is one send in the papers' cost models, however many
/// copies it makes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// To one process.
    One(NodeId),
    /// Each of these processes, in this order.
    Many(Box<[NodeId]>),
    /// Every other process, in the order of ids.
    All,
}

/// A fact that the driver passes on: to the client, or (`Suspected`) to the protocols of this node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The request has left this process; until now it waited for an earlier broadcast to end.
    Asked,
    /// The client holds its slots from now on.
    Granted {
        /// Names this grant in `Release`.
        grant: GrantId,
        /// The granted slots, where the protocol numbers them.
        slots: Option<Box<[u32]>>,
        /// The fence of the slots, where the protocol has one.
        fence: Option<Fence>,
    },
    /// The client must stop: its grant is no longer valid.
    Lost {
        /// The grant that is lost.
        grant: GrantId,
    },
    /// The slots of an adoption are here. They become the client's when it confirms, unless it has
    /// asked again since; until then they end by `Lapse`.
    Adopted {
        /// Names the grant in `Confirm`, `Lapse` and `Release`. Another grant of the same fence at
        /// this node, if there was one, exists no more.
        grant: GrantId,
        /// The fence of the adoption.
        fence: Fence,
        /// The attempt that has succeeded.
        attempt: u32,
    },
    /// An adoption was refused: the slots are another's, or have been asked for by a later attempt.
    AdoptionRefused {
        /// The fence of the adoption.
        fence: Fence,
        /// The attempt that has failed.
        attempt: u32,
    },
    /// A request has failed: k has become less than its weight.
    TooLarge {
        /// The weight of the request.
        weight: u32,
        /// The present k.
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

/// One action for the driver, carried out in the order of the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect<M, T, D> {
    /// Store this state durably, before any later send leaves.
    Persist(D),
    /// Send a message.
    Send {
        /// The receivers.
        to: To,
        /// The message.
        message: M,
    },
    /// Start a timer, or restart it if it runs. It fires after a time that the driver draws from
    /// the range.
    Arm {
        /// The timer.
        timer: T,
        /// The earliest expiry, from now.
        least: Span,
        /// The latest expiry, from now.
        most: Span,
    },
    /// Stop a timer, if it runs.
    Disarm(T),
    /// Pass on a fact. Boxed: facts are rare and large, and a driver moves millions of effects.
    Notify(Box<Notice>),
}

/// The effects of a protocol.
pub type EffectOf<P> =
    Effect<<P as Protocol>::Message, <P as Protocol>::Timer, <P as Protocol>::Durable>;

/// The effects of one input, in order. The driver keeps one outbox and empties it after every
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

    /// Arms a timer for a time between `least` and `most` that the driver draws.
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

    /// Passes on a fact.
    pub fn notify(&mut self, notice: Notice) {
        self.effects.push_back(Effect::Notify(Box::new(notice)));
    }

    /// Whether no effect is left.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Takes the next effect out, in order.
    #[inline]
    pub fn pop(&mut self) -> Option<EffectOf<P>> {
        self.effects.pop_front()
    }
}
