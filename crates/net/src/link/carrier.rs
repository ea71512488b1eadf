//! What keeps the messages of a link: exactly once in order, or as far as there is room.

use bytes::Bytes;
use kgate_core::Incarnation;

use crate::channel::{Broken, Channel, Greeting};
use crate::links::{LinkConfig, WhenFull};
use crate::lossy::Lossy;
use crate::wire;

#[derive(Debug)]
pub(super) enum Carrier {
    /// [`WhenFull::Break`].
    Exact(Channel),
    /// [`WhenFull::Drop`].
    Lossy(Lossy, Incarnation),
}

impl Carrier {
    pub(super) fn new(config: &LinkConfig) -> Self {
        let (mine, window) = (config.incarnation, config.limits.window);
        match config.when_full {
            WhenFull::Break => Self::Exact(Channel::new(mine, window)),
            WhenFull::Drop => Self::Lossy(Lossy::new(window), mine),
        }
    }

    pub(super) fn theirs(&self) -> Option<Incarnation> {
        match self {
            Self::Exact(channel) => channel.theirs(),
            Self::Lossy(lossy, _) => lossy.theirs(),
        }
    }

    pub(super) fn push(&mut self, bytes: Bytes) -> Result<(), Broken> {
        match self {
            Self::Exact(channel) => channel.push(bytes),
            Self::Lossy(lossy, _) => {
                lossy.push(bytes);
                Ok(())
            }
        }
    }

    /// Whether a connection to an incarnation that says this can go on from here.
    pub(super) fn check(&self, said: Greeting) -> Result<(), Broken> {
        match self {
            Self::Exact(channel) => channel.check(said),
            Self::Lossy(..) => Ok(()),
        }
    }

    /// What to say to the peer, or to the incarnation of it that has just spoken.
    pub(super) fn greeting(&self, to: Option<Incarnation>) -> Greeting {
        match self {
            Self::Exact(channel) => channel.greeting(to),
            Self::Lossy(lossy, mine) => {
                Greeting { incarnation: *mine, of: to.or(lossy.theirs()), received: 0 }
            }
        }
    }

    /// A new connection begins. Returns the peer's earlier incarnation, if this is another and the
    /// owner has to know.
    pub(super) fn resume(&mut self, said: Greeting) -> Result<Option<Incarnation>, Broken> {
        match self {
            Self::Exact(channel) => channel.resume(said),
            Self::Lossy(lossy, _) => {
                lossy.resume(said.incarnation);
                Ok(None)
            }
        }
    }

    pub(super) fn write(&mut self, room: usize, out: &mut Vec<u8>) {
        match self {
            Self::Exact(channel) => channel.write(room, out),
            Self::Lossy(lossy, _) => lossy.write(room, out),
        }
    }

    pub(super) fn write_ack(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Exact(channel) => channel.write_ack(out),
            // Nobody waits for it: it only says that this side is there.
            Self::Lossy(lossy, _) => wire::write_ack(lossy.received(), out),
        }
    }

    /// So many messages have come whose coming must still be acknowledged.
    pub(super) fn owed(&self) -> u64 {
        match self {
            Self::Exact(channel) => channel.owed(),
            Self::Lossy(..) => 0,
        }
    }

    /// A message has come; whether it is a new one.
    pub(super) fn arrived(&mut self, number: u64, ack: u64) -> Result<bool, Broken> {
        match self {
            Self::Exact(channel) => channel.arrived(number, ack),
            Self::Lossy(lossy, _) => Ok(lossy.arrived(number)),
        }
    }

    pub(super) fn acknowledged(&mut self, ack: u64) -> Result<(), Broken> {
        match self {
            Self::Exact(channel) => channel.acknowledged(ack),
            Self::Lossy(..) => Ok(()),
        }
    }

    pub(super) fn dropped(&self) -> u64 {
        match self {
            Self::Exact(_) => 0,
            Self::Lossy(lossy, _) => lossy.dropped(),
        }
    }
}
