//! A reliable, ordered channel to one peer, over connections that come and go. No I/O, no clock.
//!
//! The protocols of the papers count replies, so a lost or doubled message breaks them. A TCP
//! connection that breaks leaves it open how much of the written data has arrived. Messages are
//! therefore numbered 1, 2, 3 .. and kept until the peer has acknowledged them. At the start of a
//! new connection each side says how many messages it has received, and the other sends the rest
//! again. A message that had arrived before is dropped by its number.
//!
//! A channel connects two incarnations. When the peer has a new [`Incarnation`], both directions
//! restart at 1 and the kept messages are dropped: they were meant for the earlier incarnation.
//!
//! **Invariant.** The messages that the peer hands to its owner are a prefix of those pushed here,
//! in order, each once, and `acked <= received by the peer <= high`. A number outside that range
//! proves that a node lost its memory or that two processes run under one name, and fails the
//! channel. The kept messages are bounded. A peer that falls behind further fails the channel too,
//! with an error, because a message dropped in silence would be worse.

use std::collections::VecDeque;

use bytes::Bytes;
use kgate_core::Incarnation;

use crate::link::Buffer;
use crate::wire;

/// Limit of the messages kept for a peer until it acknowledges them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Number of messages.
    pub frames: usize,
    /// Bytes of messages.
    pub bytes: usize,
}

/// What each side says of itself at the start of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// Incarnation of the sender.
    pub(crate) incarnation: Incarnation,
    /// Incarnation of the receiver that the sender knows.
    pub(crate) known: Option<Incarnation>,
    /// Number of messages of that incarnation that the sender has received.
    pub(crate) received: u64,
}

/// Why a channel between two incarnations has failed for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The window is full.
    #[error(
        "the window is full: {frames} messages of {bytes} bytes wait for its acknowledgement; it \
         is \
         too slow, or was unreachable for too long"
    )]
    WindowFull {
        /// Number of kept messages.
        frames: usize,
        /// Bytes of the kept messages.
        bytes: usize,
    },
    /// The peer claims to have received less than it has acknowledged.
    #[error(
        "it has acknowledged {acked} messages of this incarnation and now claims to have received \
         {received}: it has lost its memory, so it must start as a new incarnation"
    )]
    StateLost {
        /// Number of messages it has acknowledged.
        acked: u64,
        /// Number it claims now.
        received: u64,
    },
    /// The peer claims to have received more than was ever sent.
    #[error(
        "it claims to have received {received} messages, and this incarnation has sent only \
         {sent}: two processes run as one node, or one restarted without a new incarnation"
    )]
    NeverSent {
        /// Number it claims.
        received: u64,
        /// Number of messages that were ever written.
        sent: u64,
    },
    /// The message before this one is missing, which is impossible on an ordered connection.
    #[error("message {number} arrived where {expected} was expected")]
    Gap {
        /// Number of the message.
        number: u64,
        /// Number that was expected.
        expected: u64,
    },
    /// The owner has declared this incarnation of the peer dead, for this reason.
    #[error("{0}")]
    DeclaredDead(String),
}

/// Both directions between an incarnation of this node and an incarnation of a peer.
#[derive(Debug)]
pub(crate) struct Channel {
    mine: Incarnation,
    theirs: Option<Incarnation>,
    window: Window,
    /// Messages without acknowledgement; the first one has the number `acked + 1`.
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
    acked: u64,
    /// Last message written on this connection.
    written: u64,
    /// Last message that was ever written.
    high: u64,
    /// Last message that arrived, with all before it.
    received: u64,
    /// Last message that this side acknowledged on this connection.
    ack_sent: u64,
    #[cfg(test)]
    accepts_duplicates: bool,
}

impl Channel {
    /// A channel of this incarnation to a peer whose incarnation is not known yet. Pushed messages
    /// are kept for the first incarnation that connects.
    pub(crate) fn new(mine: Incarnation, window: Window) -> Self {
        Self {
            mine,
            theirs: None,
            window,
            kept: VecDeque::new(),
            kept_bytes: 0,
            acked: 0,
            written: 0,
            high: 0,
            received: 0,
            ack_sent: 0,
            #[cfg(test)]
            accepts_duplicates: false,
        }
    }

    /// Number of messages of this incarnation that the peer has received.
    fn received_by(&self, peer: Handshake) -> u64 {
        if peer.known == Some(self.mine) { peer.received } else { 0 }
    }

    fn reset(&mut self) {
        self.kept.clear();
        self.kept_bytes = 0;
        (self.acked, self.written, self.high, self.received, self.ack_sent) = (0, 0, 0, 0, 0);
    }
}

impl Buffer for Channel {
    fn theirs(&self) -> Option<Incarnation> {
        self.theirs
    }

    /// Fails if the message does not fit into the window.
    fn push(&mut self, bytes: Bytes) -> Result<(), ChannelError> {
        let fits = self.kept.len() < self.window.frames
            && self.kept_bytes + bytes.len() <= self.window.bytes;
        if !fits {
            return Err(ChannelError::WindowFull {
                frames: self.kept.len(),
                bytes: self.kept_bytes,
            });
        }
        self.kept_bytes += bytes.len();
        self.kept.push_back(bytes);
        Ok(())
    }

    fn fail(&mut self) -> bool {
        self.kept = VecDeque::new();
        self.kept_bytes = 0;
        self.acked = self.written;
        true
    }

    fn handshake(&self, to: Option<Incarnation>) -> Handshake {
        let known = to.or(self.theirs);
        let received = if known == self.theirs { self.received } else { 0 };
        Handshake { incarnation: self.mine, known, received }
    }

    fn check(&self, peer: Handshake) -> Result<(), ChannelError> {
        let received = self.received_by(peer);
        match self.theirs {
            Some(known) if known != peer.incarnation => match received {
                0 => Ok(()),
                _ => Err(ChannelError::NeverSent { received, sent: 0 }),
            },
            _ if received > self.high => Err(ChannelError::NeverSent { received, sent: self.high }),
            Some(_) if received < self.acked || peer.known != Some(self.mine) => {
                Err(ChannelError::StateLost { acked: self.acked, received })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn resume(&mut self, peer: Handshake) -> Result<Option<Incarnation>, ChannelError> {
        self.check(peer)?;
        let was = self.theirs.filter(|known| *known != peer.incarnation);
        if was.is_some() {
            self.reset();
        }
        let received = self.received_by(peer);
        self.acknowledged(received)?;
        self.theirs = Some(peer.incarnation);
        self.written = received;
        self.ack_sent = self.received;
        Ok(was)
    }

    fn adopt(&mut self, theirs: Incarnation) {
        self.theirs = Some(theirs);
    }

    fn write(&mut self, room: usize, out: &mut Vec<u8>) {
        let end = out.len() + room;
        while out.len() < end {
            let ahead = usize::try_from(self.written - self.acked)
                .expect("at most the number of kept messages");
            let Some(bytes) = self.kept.get(ahead) else { break };
            self.written += 1;
            wire::write_data(self.written, self.received, bytes, out);
            self.ack_sent = self.received;
        }
        self.high = self.high.max(self.written);
    }

    fn write_ack(&mut self, out: &mut Vec<u8>) {
        wire::write_ack(self.received, out);
        self.ack_sent = self.received;
    }

    fn unacknowledged(&self) -> u64 {
        self.received - self.ack_sent
    }

    fn arrived(&mut self, number: u64, ack: u64) -> Result<bool, ChannelError> {
        self.acknowledged(ack)?;
        if number <= self.received {
            #[cfg(test)]
            return Ok(self.accepts_duplicates);
            #[cfg(not(test))]
            return Ok(false);
        }
        let expected = self.received + 1;
        if number != expected {
            return Err(ChannelError::Gap { number, expected });
        }
        self.received = number;
        Ok(true)
    }

    fn acknowledged(&mut self, ack: u64) -> Result<(), ChannelError> {
        if ack > self.high {
            return Err(ChannelError::NeverSent { received: ack, sent: self.high });
        }
        while self.acked < ack {
            self.acked += 1;
            self.kept_bytes -= self.kept.pop_front().map_or(0, |bytes| bytes.len());
        }
        // A message may have arrived on an older connection and be acknowledged on this one, which
        // has not carried it.
        self.written = self.written.max(self.acked);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
