//! Broadcasts: dissemination of a request to every process.
//!
//! A broadcast carries the clock of its source's request; (source, clock) names it. A [`Broadcast`]
//! is a state machine that the mutex owns and calls: it decides when the next broadcast may start,
//! whether an incoming message brings a new request, and what to forward. The mutex reports crashes
//! to it, after removing the crashed process from the members.

mod direct;
mod sta;
mod tree;

pub use direct::{Direct, DirectMessage};
pub use sta::{Sta, StaMessage};
pub use tree::{Tree, TreeMessage};

use core::fmt::Debug;
use core::hash::Hash;

use kgate_core::{Defects, Message, NodeId, Stamp, To};

use crate::topology::Members;

/// The environment of a broadcast: its process and the members.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// This process.
    pub me: NodeId,
    /// The processes that this one considers alive.
    pub members: Members<'a>,
    /// Known defects to run.
    pub defects: Defects,
}

/// Sends one message on the network.
pub type Sink<'a, M> = dyn FnMut(To, M) + 'a;

/// A broadcast algorithm at one process.
pub trait Broadcast: Clone + Debug + Default + Eq + Hash + Send + Sync + 'static {
    /// Its messages.
    type Message: Message + Copy;

    /// Whether messages are forwarded or acknowledged at all, so that an incoming one may end a
    /// broadcast of this process.
    const RELAYS: bool = true;

    /// Whether the last broadcast of this process has ended, so that the next may start.
    fn ready(&self, me: NodeId) -> bool;

    /// Starts a broadcast of this process.
    fn broadcast(&mut self, at: Place<'_>, clock: u64, send: &mut Sink<'_, Self::Message>);

    /// The source that a message names, where that need not be its sender; the mutex checks it
    /// before it passes the message on.
    fn source(message: &Self::Message) -> Option<NodeId>;

    /// The clock that a message carries; likewise.
    fn clock(message: &Self::Message) -> u64;

    /// Whether an incoming message is a request that is new here. Called before
    /// [`relay`](Self::relay), so that the mutex answers a request before it is forwarded.
    fn accept(&mut self, at: Place<'_>, from: NodeId, message: &Self::Message) -> Option<Stamp>;

    /// Forwards a message and acknowledges it; `fresh` is the result of `accept`.
    fn relay(
        &mut self,
        at: Place<'_>,
        from: NodeId,
        message: Self::Message,
        fresh: bool,
        send: &mut Sink<'_, Self::Message>,
    );

    /// `node` has crashed and is no longer among the members.
    fn crashed(&mut self, at: Place<'_>, node: NodeId, send: &mut Sink<'_, Self::Message>);
}

#[cfg(test)]
mod tests;
