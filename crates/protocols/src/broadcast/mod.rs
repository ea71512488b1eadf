//! Broadcasts: how a request reaches everybody.
//!
//! A broadcast carries one thing, the clock of its source's request; (source, clock) names it. A
//! [`Broadcast`] is a state machine that the mutex owns and calls: it says when the next broadcast may
//! start, which incoming message brings a request that is new, and what to pass on. It hears of
//! crashes from the mutex, which has removed the dead from the members before.

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

/// Where a broadcast runs: at which process, among whom.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// This process.
    pub me: NodeId,
    /// Whom it holds for alive.
    pub members: Members<'a>,
    /// Defects to run as printed.
    pub defects: Defects,
}

/// How one message is handed to the network.
pub type Sink<'a, M> = dyn FnMut(To, M) + 'a;

/// A broadcast algorithm at one process.
pub trait Broadcast: Clone + Debug + Default + Eq + Hash + Send + Sync + 'static {
    /// Its messages.
    type Message: Message + Copy;

    /// Whether messages are passed on or acknowledged at all, so that an incoming one may end a
    /// broadcast from here.
    const RELAYS: bool = true;

    /// Whether the last broadcast from here has ended, so that the next may start.
    fn ready(&self, me: NodeId) -> bool;

    /// Starts a broadcast from here.
    fn broadcast(&mut self, at: Place<'_>, clock: u64, send: &mut Sink<'_, Self::Message>);

    /// The source that a message names, where that need not be its sender; the mutex checks it
    /// before it hands it on.
    fn source(message: &Self::Message) -> Option<NodeId>;

    /// The clock that a message carries; likewise.
    fn clock(message: &Self::Message) -> u64;

    /// A message came: is it a request that is new here? Called before [`relay`](Self::relay), so
    /// that the mutex answers a request before it is passed on.
    fn accept(&mut self, at: Place<'_>, from: NodeId, message: &Self::Message) -> Option<Stamp>;

    /// Passes a message on, and acknowledges it; `fresh` is whether `accept` found it new.
    fn relay(
        &mut self,
        at: Place<'_>,
        from: NodeId,
        message: Self::Message,
        fresh: bool,
        send: &mut Sink<'_, Self::Message>,
    );

    /// `node` has crashed, and is no longer among the members.
    fn crashed(&mut self, at: Place<'_>, node: NodeId, send: &mut Sink<'_, Self::Message>);
}

#[cfg(test)]
mod tests;
