//! A reliable, ordered channel to one peer, over connections that come and go. No I/O, no clock.
//!
//! The papers count replies, so a message that is lost or comes twice breaks them; a TCP connection
//! that breaks leaves it open how much of what was written has come. So messages are numbered 1, 2,
//! 3 .. and kept until the peer has acknowledged them. A new connection begins with both sides
//! saying how many they have had, and what is missing is sent again. What came already is dropped
//! by its number.
//!
//! A channel is between two incarnations. When the peer's [`Incarnation`] is a new one, both
//! directions begin anew at 1 and what was kept is dropped: it was meant for the old incarnation.
//!
//! **Invariant.** What the peer hands to its owner is a prefix of what was pushed here, in order,
//! each once; and `acked <= received by the peer <= high`, so that whatever lies outside proves a
//! lost memory or a second process under one name, and breaks the channel. What is kept is bounded;
//! a peer that is behind by more breaks it too, loudly, because a message dropped in silence would
//! be worse.

use std::collections::VecDeque;

use bytes::Bytes;
use kgate_core::Incarnation;

use crate::wire;

/// How much may be kept for a peer that has not acknowledged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// So many messages.
    pub frames: usize,
    /// So many bytes of messages.
    pub bytes: usize,
}

/// What each side says of itself when they meet again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The speaker's incarnation.
    pub incarnation: Incarnation,
    /// The incarnation of the other that it knows.
    pub of: Option<Incarnation>,
    /// So many messages of that incarnation it has had.
    pub received: u64,
}

/// Why a channel is at its end, for as long as both live.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The window is full.
    #[error(
        "{frames} messages of {bytes} bytes wait for its acknowledgement and the window holds no more: it is too slow, \
         or out of reach for too long"
    )]
    Overrun {
        /// So many messages are kept.
        frames: usize,
        /// So many bytes of messages are kept.
        bytes: usize,
    },
    /// The peer knows less than it has acknowledged.
    #[error(
        "it has acknowledged {acked} messages of this incarnation and now says that it has had {received}: it has lost its memory, \
         so it must start as a new incarnation"
    )]
    Forgotten {
        /// What it has acknowledged.
        acked: u64,
        /// What it says now.
        received: u64,
    },
    /// The peer knows more than was ever sent.
    #[error(
        "it says that it has had {received} messages, and this incarnation has sent only {sent}: two processes run as one node, \
         or one was started again without a new incarnation"
    )]
    Unsent {
        /// What it says.
        received: u64,
        /// What was written, ever.
        sent: u64,
    },
    /// A message is missing before this one, which an ordered connection cannot do.
    #[error("message {number} came where {expected} was next")]
    Gap {
        /// Its number.
        number: u64,
        /// The number that was next.
        expected: u64,
    },
    /// The owner has said so.
    #[error("{0}")]
    GivenUp(String),
}

/// Both directions between an incarnation of this node and an incarnation of a peer.
#[derive(Debug)]
pub struct Channel {
    mine: Incarnation,
    theirs: Option<Incarnation>,
    window: Window,
    /// Not acknowledged; the first one has the number `acked + 1`.
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
    acked: u64,
    /// The last one that was written on this connection.
    written: u64,
    /// The last one that was ever written.
    high: u64,
    /// The last one that came, with all before it.
    received: u64,
    /// The last one whose coming was acknowledged on this connection.
    told: u64,
    #[cfg(test)]
    takes_duplicates: bool,
}

impl Channel {
    /// A channel of this incarnation to a peer that was never met. What is pushed is kept for the
    /// first incarnation that is.
    pub fn new(mine: Incarnation, window: Window) -> Self {
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
            told: 0,
            #[cfg(test)]
            takes_duplicates: false,
        }
    }

    /// The peer's incarnation, if it was ever met.
    pub fn theirs(&self) -> Option<Incarnation> {
        self.theirs
    }

    /// A message for the peer. One that does not fit into the window is not taken.
    pub fn push(&mut self, bytes: Bytes) -> Result<(), Broken> {
        let fits = self.kept.len() < self.window.frames
            && self.kept_bytes + bytes.len() <= self.window.bytes;
        if !fits {
            return Err(Broken::Overrun { frames: self.kept.len(), bytes: self.kept_bytes });
        }
        self.kept_bytes += bytes.len();
        self.kept.push_back(bytes);
        Ok(())
    }

    /// Drops what is kept: nobody will ever have it.
    pub fn drop_kept(&mut self) {
        self.kept = VecDeque::new();
        self.kept_bytes = 0;
        self.acked = self.written;
    }

    /// What to say to a peer: to the one that was met, or to the incarnation that has just said who
    /// it is.
    pub fn greeting(&self, to: Option<Incarnation>) -> Greeting {
        let of = to.or(self.theirs);
        let received = if of == self.theirs { self.received } else { 0 };
        Greeting { incarnation: self.mine, of, received }
    }

    /// Whether a connection to a peer that says this can go on from here. Changes nothing.
    pub fn check(&self, peer: Greeting) -> Result<(), Broken> {
        let had = self.had(peer);
        match self.theirs {
            None if had > self.high => Err(Broken::Unsent { received: had, sent: self.high }),
            None => Ok(()),
            Some(known) if known != peer.incarnation && had > 0 => {
                Err(Broken::Unsent { received: had, sent: 0 })
            }
            Some(known) if known != peer.incarnation => Ok(()),
            Some(_) if had > self.high => Err(Broken::Unsent { received: had, sent: self.high }),
            Some(_) if had < self.acked || peer.of != Some(self.mine) => {
                Err(Broken::Forgotten { acked: self.acked, received: had })
            }
            Some(_) => Ok(()),
        }
    }

    /// A new connection begins, and this is what the peer says. Returns the peer's earlier
    /// incarnation, if this is another.
    pub fn resume(&mut self, peer: Greeting) -> Result<Option<Incarnation>, Broken> {
        self.check(peer)?;
        let was = self.theirs.filter(|known| *known != peer.incarnation);
        if was.is_some() {
            self.begin_anew();
        }
        let had = self.had(peer);
        self.acknowledged(had)?;
        self.theirs = Some(peer.incarnation);
        self.written = had;
        self.told = self.received;
        Ok(was)
    }

    /// How much of what this incarnation has sent the peer has had.
    fn had(&self, peer: Greeting) -> u64 {
        if peer.of == Some(self.mine) { peer.received } else { 0 }
    }

    /// The peer is this incarnation from now on, though no connection to it will be.
    pub fn adopt(&mut self, theirs: Incarnation) {
        self.theirs = Some(theirs);
    }

    fn begin_anew(&mut self) {
        self.kept.clear();
        self.kept_bytes = 0;
        (self.acked, self.written, self.high, self.received, self.told) = (0, 0, 0, 0, 0);
    }

    /// Writes messages that this connection has not carried yet, until `room` bytes are filled or
    /// none is left.
    pub fn write(&mut self, room: usize, out: &mut Vec<u8>) {
        let end = out.len() + room;
        while out.len() < end {
            let ahead = usize::try_from(self.written - self.acked).expect("no more than are kept");
            let Some(bytes) = self.kept.get(ahead) else { break };
            self.written += 1;
            wire::write_data(self.written, self.received, bytes, out);
            self.told = self.received;
        }
        self.high = self.high.max(self.written);
    }

    /// Writes an acknowledgement alone.
    pub fn write_ack(&mut self, out: &mut Vec<u8>) {
        wire::write_ack(self.received, out);
        self.told = self.received;
    }

    /// So many messages have come whose coming was not acknowledged yet.
    pub fn owed(&self) -> u64 {
        self.received - self.told
    }

    /// A message has come; whether it is a new one.
    pub fn arrived(&mut self, number: u64, ack: u64) -> Result<bool, Broken> {
        self.acknowledged(ack)?;
        if number <= self.received {
            #[cfg(test)]
            return Ok(self.takes_duplicates);
            #[cfg(not(test))]
            return Ok(false);
        }
        let expected = self.received + 1;
        if number != expected {
            return Err(Broken::Gap { number, expected });
        }
        self.received = number;
        Ok(true)
    }

    /// The peer has had all messages up to this number. An old acknowledgement is nothing.
    pub fn acknowledged(&mut self, ack: u64) -> Result<(), Broken> {
        if ack > self.high {
            return Err(Broken::Unsent { received: ack, sent: self.high });
        }
        while self.acked < ack {
            self.acked += 1;
            self.kept_bytes -= self.kept.pop_front().map_or(0, |bytes| bytes.len());
        }
        // It may have come on an older connection and be acknowledged on this one, which has not
        // carried it.
        self.written = self.written.max(self.acked);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
