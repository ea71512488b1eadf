//! The messages of a link: delivered exactly once in order, or as far as there is room.

use bytes::Bytes;
use kgate_core::Incarnation;

use crate::channel::{Channel, ChannelError, Handshake};
use crate::links::{LinkConfig, WhenFull};
use crate::lossy_channel::LossyChannel;
use crate::wire;

#[derive(Debug)]
pub(super) enum Buffer {
    /// [`WhenFull::Break`].
    Reliable(Channel),
    /// [`WhenFull::Drop`].
    Lossy(LossyChannel, Incarnation),
}

impl Buffer {
    pub(super) fn new(config: &LinkConfig) -> Self {
        let (mine, window) = (config.incarnation, config.limits.window);
        match config.when_full {
            WhenFull::Break => Self::Reliable(Channel::new(mine, window)),
            WhenFull::Drop => Self::Lossy(LossyChannel::new(window), mine),
        }
    }

    pub(super) fn theirs(&self) -> Option<Incarnation> {
        match self {
            Self::Reliable(channel) => channel.theirs(),
            Self::Lossy(lossy, _) => lossy.theirs(),
        }
    }

    pub(super) fn push(&mut self, bytes: Bytes) -> Result<(), ChannelError> {
        match self {
            Self::Reliable(channel) => channel.push(bytes),
            Self::Lossy(lossy, _) => {
                lossy.push(bytes);
                Ok(())
            }
        }
    }

    /// Checks whether a connection with this handshake can continue.
    pub(super) fn check(&self, theirs: Handshake) -> Result<(), ChannelError> {
        match self {
            Self::Reliable(channel) => channel.check(theirs),
            Self::Lossy(..) => Ok(()),
        }
    }

    /// This side's handshake: for the incarnation that has just sent its own, or for the known one.
    pub(super) fn handshake(&self, to: Option<Incarnation>) -> Handshake {
        match self {
            Self::Reliable(channel) => channel.handshake(to),
            Self::Lossy(lossy, mine) => {
                Handshake { incarnation: *mine, known: to.or(lossy.theirs()), received: 0 }
            }
        }
    }

    /// Starts a new connection. Returns the peer's earlier incarnation, if this is another and the
    /// owner must know.
    pub(super) fn resume(
        &mut self,
        theirs: Handshake,
    ) -> Result<Option<Incarnation>, ChannelError> {
        match self {
            Self::Reliable(channel) => channel.resume(theirs),
            Self::Lossy(lossy, _) => {
                lossy.resume(theirs.incarnation);
                Ok(None)
            }
        }
    }

    pub(super) fn write(&mut self, room: usize, out: &mut Vec<u8>) {
        match self {
            Self::Reliable(channel) => channel.write(room, out),
            Self::Lossy(lossy, _) => lossy.write(room, out),
        }
    }

    pub(super) fn write_ack(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Reliable(channel) => channel.write_ack(out),
            // The number has no meaning here: the acknowledgement is a keep-alive.
            Self::Lossy(lossy, _) => wire::write_ack(lossy.received(), out),
        }
    }

    /// Number of messages that have arrived and must still be acknowledged.
    pub(super) fn unacknowledged(&self) -> u64 {
        match self {
            Self::Reliable(channel) => channel.unacknowledged(),
            Self::Lossy(..) => 0,
        }
    }

    /// Takes note of a message that arrived. Returns whether it is new.
    pub(super) fn arrived(&mut self, number: u64, ack: u64) -> Result<bool, ChannelError> {
        match self {
            Self::Reliable(channel) => channel.arrived(number, ack),
            Self::Lossy(lossy, _) => Ok(lossy.arrived(number)),
        }
    }

    pub(super) fn acknowledged(&mut self, ack: u64) -> Result<(), ChannelError> {
        match self {
            Self::Reliable(channel) => channel.acknowledged(ack),
            Self::Lossy(..) => Ok(()),
        }
    }

    pub(super) fn dropped(&self) -> u64 {
        match self {
            Self::Reliable(_) => 0,
            Self::Lossy(lossy, _) => lossy.dropped(),
        }
    }
}
