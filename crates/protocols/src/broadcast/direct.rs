//! One to all: the source sends a copy to every other process (Raymond 1989,
//! Bouillaguet-Arantes-Sens 2008).
//!
//! Cost: n-1 messages, one delay, no state and no waiting between broadcasts.

use alloc::boxed::Box;

use kgate_core::{Message, NodeId, Stamp, To};
use serde::{Deserialize, Serialize};

use super::{Broadcast, Place, Sink};

/// REQUEST, from its source. Answered by the mutex with REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DirectMessage {
    /// The clock of the request.
    pub clock: u64,
}

impl Message for DirectMessage {
    const KINDS: usize = 1;
    fn kind(&self) -> usize {
        0
    }
    fn kind_name(_kind: usize) -> &'static str {
        "request"
    }
}

/// The broadcast without state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Direct;

impl Broadcast for Direct {
    type Message = DirectMessage;
    const RELAYS: bool = false;

    fn ready(&self, _me: NodeId) -> bool {
        true
    }

    fn broadcast(&mut self, at: Place<'_>, clock: u64, send: &mut Sink<'_, DirectMessage>) {
        let to = if at.members.all_alive() {
            To::All
        } else {
            let others = (0..at.members.nodes()).map(NodeId).filter(|&node| node != at.me);
            To::Many(others.filter(|&node| at.members.contains(node)).collect::<Box<[_]>>())
        };
        send(to, DirectMessage { clock });
    }

    fn source(_message: &DirectMessage) -> Option<NodeId> {
        None
    }

    fn clock(message: &DirectMessage) -> u64 {
        message.clock
    }

    fn accept(&mut self, _at: Place<'_>, from: NodeId, message: &DirectMessage) -> Option<Stamp> {
        // Copies may overtake each other; the mutex answers an old one too, and its source ignores
        // the answer.
        Some(Stamp { clock: message.clock, node: from })
    }

    fn relay(
        &mut self,
        _at: Place<'_>,
        _from: NodeId,
        _message: DirectMessage,
        _fresh: bool,
        _send: &mut Sink<'_, DirectMessage>,
    ) {
    }

    fn crashed(&mut self, _at: Place<'_>, _node: NodeId, _send: &mut Sink<'_, DirectMessage>) {}
}
