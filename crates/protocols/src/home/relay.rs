//! Relay: a cut between two members blocks nobody (H19).
//!
//! A link between two members may fail while both reach all others. The voters hear both of them,
//! so neither is suspected, and no home moves. What one of them has to say to the other then goes
//! through a third member: the message names its origin and its destination ([`Path`]), and the
//! relay sends it on as it is.
//!
//! - A relay sends a message on once, directly to its destination, and keeps and checks nothing: no
//!   message is relayed twice, and none runs in circles. The receiver treats the message as one of
//!   its origin: H1 to H4 apply.
//! - A message takes the way by which the last message from its receiver came, but for those that
//!   change nothing (H1, H3, H4), which may be old. So the answer to a message takes the way that
//!   the message took, also where it is a bare acknowledgement, which nobody repeats.
//! - What is not acknowledged is repeated, once by the same way, and from the second time on by all
//!   ways in turn: through each other member, and directly.
//!
//! Liveness: let a third member reach both in both directions, and be up. Among the repetitions one
//! of every few takes the way through it; its receiver answers that it has the message, in the
//! same step and by the same way.
//!
//! No message tests whether a link works again. A relay is forgotten when no message has taken it
//! for a while ([`HomeTimer::Forget`](super::HomeTimer)); then the next message goes directly, and
//! if it is lost, its second repetition is relayed again. So a process without anything to say
//! falls silent, cut off or not, and a link that works has no state.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use kgate_core::{Defects, NodeId};
use serde::{Deserialize, Serialize};

use super::Out;
use super::defects::{H19, H19_ANSWER, H19_TURN};
use super::message::HomeMessage;

/// Where a relayed message comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Path {
    /// The process that has made the message.
    pub from: NodeId,
    /// The process that it is for.
    pub to: NodeId,
}

/// The links that do not work, or may not: those through which messages are relayed, or over which
/// something was repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Links(BTreeMap<NodeId, Link>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Link {
    /// The relay that messages take; `None` if they go directly.
    via: Option<NodeId>,
    /// Whether a message has taken it since [`Links::forget_unused`].
    used: bool,
    /// How often in a row something was repeated; 1 again after a turn of all ways.
    repeats: u32,
}

impl Links {
    /// Whether messages to some process take a relay.
    pub(super) fn take_relays(&self) -> bool {
        self.0.values().any(|link| link.via.is_some())
    }

    /// Forgets all links.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Forgets the relays that no message has taken since the last time. What waits for an
    /// acknowledgement of one of these processes goes on to be repeated.
    pub(super) fn forget_unused(&mut self, silent: &[NodeId]) {
        self.0.retain(|node, link| link.used || silent.contains(node));
        self.forget_use();
    }

    pub(super) fn forget_use(&mut self) {
        self.0.values_mut().for_each(|link| link.used = false);
    }

    /// Sends by the way that messages to this process take at present.
    pub(super) fn send(&mut self, me: NodeId, to: NodeId, mut message: HomeMessage, out: &mut Out) {
        let link = self.0.get_mut(&to);
        let via = link.and_then(|link| {
            link.used = true;
            link.via
        });
        message.head_mut().path = via.map(|_| Path { from: me, to });
        out.send(via.unwrap_or(to), message);
    }

    /// A message has come from this process, by this neighbour: directly if that is the same.
    pub(super) fn on_message(&mut self, from: NodeId, neighbour: NodeId, defects: Defects) {
        let via = Some(neighbour).filter(|relay| *relay != from && !defects.has(H19_ANSWER));
        if via.is_some() {
            self.0.entry(from).or_default().via = via;
        } else if let Some(link) = self.0.get_mut(&from) {
            link.via = None;
            if link.repeats == 0 {
                self.0.remove(&from);
            }
        }
    }

    /// Something is to be repeated to these processes, and to no others: chooses the way to each.
    pub(super) fn repeat(&mut self, silent: &[NodeId], relays: &[NodeId], defects: Defects) {
        if defects.has(H19) {
            return;
        }
        self.0.retain(|node, link| {
            let is_silent = silent.contains(node);
            link.repeats *= u32::from(is_silent);
            is_silent || link.via.is_some()
        });
        for &node in silent {
            let ways: Vec<_> = relays.iter().filter(|relay| **relay != node).collect();
            if ways.is_empty() {
                self.0.remove(&node);
                continue;
            }
            let link = self.0.entry(node).or_default();
            link.repeats += 1;
            let Some(turn) = link.repeats.checked_sub(2) else { continue };
            let turn = if defects.has(H19_TURN) { 0 } else { turn as usize };
            link.via = ways.get(turn).map(|relay| **relay);
            if turn >= ways.len() {
                link.repeats = 1; // The next turn begins with the first relay.
            }
        }
    }
}
