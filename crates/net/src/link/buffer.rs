//! The messages of a link: delivered exactly once in order, or as far as there is room.

use std::fmt::Debug;

use bytes::Bytes;
use kgate_core::Incarnation;

use crate::channel::{Channel, ChannelError, Handshake};
use crate::links::{LinkConfig, WhenFull};
use crate::lossy_channel::LossyChannel;

/// Both directions between this node and a peer. The defaults are those of messages that may be
/// lost: such a buffer acknowledges nothing and never fails.
pub(crate) trait Buffer: Debug + Send {
    /// The peer's incarnation, if it ever connected.
    fn theirs(&self) -> Option<Incarnation>;

    /// Adds a message for the peer.
    fn push(&mut self, bytes: Bytes) -> Result<(), ChannelError>;

    /// This side's handshake: for the incarnation that has just sent its own, or for the known one.
    fn handshake(&self, to: Option<Incarnation>) -> Handshake;

    /// Checks whether a connection to a peer with this handshake can continue. Changes nothing.
    fn check(&self, _peer: Handshake) -> Result<(), ChannelError> {
        Ok(())
    }

    /// Starts a new connection with the peer's handshake. Returns the peer's earlier incarnation,
    /// if this is another and the owner must know.
    fn resume(&mut self, peer: Handshake) -> Result<Option<Incarnation>, ChannelError>;

    /// Writes messages that this connection has not carried yet, until `room` bytes are full or no
    /// message is left.
    fn write(&mut self, room: usize, out: &mut Vec<u8>);

    /// Writes an acknowledgement without a message: it also keeps the connection alive.
    fn write_ack(&mut self, out: &mut Vec<u8>);

    /// Number of messages that have arrived and must still be acknowledged.
    fn unacknowledged(&self) -> u64 {
        0
    }

    /// Takes note of a message that arrived. Returns whether it is new.
    fn arrived(&mut self, number: u64, ack: u64) -> Result<bool, ChannelError>;

    /// The peer has received all messages up to this number. An old acknowledgement has no effect.
    fn acknowledged(&mut self, _ack: u64) -> Result<(), ChannelError> {
        Ok(())
    }

    /// Number of messages dropped for want of room.
    fn dropped(&self) -> u64 {
        0
    }

    /// The link to this incarnation of the peer has failed: drops the kept messages, which can
    /// never be delivered. False if a link with this buffer never fails.
    fn fail(&mut self) -> bool {
        false
    }

    /// Sets the peer's incarnation without a connection to it. Only after a failure.
    fn adopt(&mut self, _theirs: Incarnation) {}
}

/// The buffer of a new link.
pub(super) fn new(config: &LinkConfig) -> Box<dyn Buffer> {
    let (mine, window) = (config.incarnation, config.limits.window);
    match config.when_full {
        WhenFull::Break => Box::new(Channel::new(mine, window)),
        WhenFull::Drop => Box::new(LossyChannel::new(mine, window)),
    }
}
