//! A channel to one peer that may lose messages and never fails. No I/O, no clock.
//!
//! `slots` sends snapshots with versions and asks again; the agreed log and the leases ask again
//! too (LEASES 11). To them a lost message is a late one. Nothing is therefore numbered across
//! connections and nothing is kept until it is acknowledged, so there is nothing that a peer could
//! contradict: a new connection, a new incarnation, and the same incarnation after a clean stop
//! are all alike. The queue of messages to write is bounded; beyond the bound the **oldest** is
//! dropped, since a newer snapshot says more.

use std::collections::VecDeque;

use bytes::Bytes;
use kgate_core::Incarnation;

use crate::channel::{ChannelError, Handshake, Window};
use crate::link::Buffer;
use crate::wire;

/// Both directions between this node and a peer.
#[derive(Debug)]
pub(crate) struct LossyChannel {
    mine: Incarnation,
    theirs: Option<Incarnation>,
    window: Window,
    /// Messages that are not written yet.
    queue: VecDeque<Bytes>,
    queue_bytes: usize,
    /// Last number written on this connection.
    written: u64,
    /// Last number that arrived on this connection.
    received: u64,
    /// Number of messages dropped for want of room.
    dropped: u64,
}

impl LossyChannel {
    pub(crate) fn new(mine: Incarnation, window: Window) -> Self {
        Self {
            mine,
            theirs: None,
            window,
            queue: VecDeque::new(),
            queue_bytes: 0,
            written: 0,
            received: 0,
            dropped: 0,
        }
    }
}

impl Buffer for LossyChannel {
    fn theirs(&self) -> Option<Incarnation> {
        self.theirs
    }

    /// The oldest messages make room for a new one.
    fn push(&mut self, bytes: Bytes) -> Result<(), ChannelError> {
        self.queue_bytes += bytes.len();
        self.queue.push_back(bytes);
        while self.queue.len() > self.window.frames || self.queue_bytes > self.window.bytes {
            let Some(oldest) = self.queue.pop_front() else { break };
            self.queue_bytes -= oldest.len();
            self.dropped += 1;
        }
        Ok(())
    }

    fn handshake(&self, to: Option<Incarnation>) -> Handshake {
        Handshake { incarnation: self.mine, known: to.or(self.theirs), received: 0 }
    }

    /// Messages for another incarnation than this are dropped. The owner need not know of it.
    fn resume(&mut self, peer: Handshake) -> Result<Option<Incarnation>, ChannelError> {
        if self.theirs.is_some_and(|known| known != peer.incarnation) {
            self.queue.clear();
            self.queue_bytes = 0;
        }
        (self.theirs, self.written, self.received) = (Some(peer.incarnation), 0, 0);
        Ok(None)
    }

    /// Messages that are written are dropped.
    fn write(&mut self, room: usize, out: &mut Vec<u8>) {
        let end = out.len() + room;
        while out.len() < end {
            let Some(bytes) = self.queue.pop_front() else { break };
            self.queue_bytes -= bytes.len();
            self.written += 1;
            wire::write_data(self.written, self.received, &bytes, out);
        }
    }

    /// The number has no meaning here: the acknowledgement is a keep-alive.
    fn write_ack(&mut self, out: &mut Vec<u8>) {
        wire::write_ack(self.received, out);
    }

    /// A peer that numbers its messages wrongly only loses them.
    fn arrived(&mut self, number: u64, _ack: u64) -> Result<bool, ChannelError> {
        let is_new = number > self.received;
        self.received = self.received.max(number);
        Ok(is_new)
    }

    fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Decoder, Frame};

    fn channel() -> LossyChannel {
        LossyChannel::new(Incarnation(1), Window { frames: 3, bytes: 10 })
    }

    fn resume(channel: &mut LossyChannel, theirs: u32) {
        let peer = Handshake { incarnation: Incarnation(theirs), known: None, received: 0 };
        assert_eq!(channel.resume(peer), Ok(None));
    }

    /// The written messages, as (number, message).
    fn written(channel: &mut LossyChannel) -> Vec<(u64, Vec<u8>)> {
        let mut out = Vec::new();
        channel.write(usize::MAX - 1000, &mut out);
        let mut decoder = Decoder::new(1000);
        decoder.feed(&out);
        let mut frames = Vec::new();
        while let Some(frame) = decoder.next().unwrap() {
            let Frame::Data { number, bytes, .. } = frame else { panic!("{frame:?}") };
            frames.push((number, bytes.to_vec()));
        }
        frames
    }

    /// LEASES 11: beyond its bound, of messages or of bytes, the oldest is dropped and counted.
    #[test]
    fn the_oldest_makes_room() {
        let mut many = channel();
        (0..5).for_each(|value: u8| many.push(vec![value].into()).unwrap());
        assert_eq!(written(&mut many), [(1, vec![2]), (2, vec![3]), (3, vec![4])]);
        assert_eq!(many.dropped(), 2);
        let mut long = channel();
        long.push(vec![0; 6].into()).unwrap();
        long.push(vec![1; 6].into()).unwrap();
        assert_eq!(written(&mut long), [(1, vec![1; 6])]);
        long.push(vec![2; 11].into()).unwrap();
        assert_eq!(
            (written(&mut long), long.queue_bytes),
            (vec![], 0),
            "a message that never fits"
        );
    }

    /// Each connection numbers from 1. The same incarnation still gets the queued messages, another
    /// one does not.
    #[test]
    fn queued_messages_are_for_one_incarnation() {
        let mut channel = channel();
        channel.push(vec![0].into()).unwrap();
        resume(&mut channel, 1);
        channel.push(vec![1].into()).unwrap();
        assert_eq!(
            written(&mut channel),
            [(1, vec![0]), (2, vec![1])],
            "kept for the first incarnation that connects"
        );
        channel.push(vec![2].into()).unwrap();
        resume(&mut channel, 1);
        assert_eq!(written(&mut channel), [(1, vec![2])]);
        channel.push(vec![3].into()).unwrap();
        resume(&mut channel, 2);
        assert_eq!(written(&mut channel), []);
        assert_eq!((channel.theirs(), channel.queue_bytes), (Some(Incarnation(2)), 0));
    }

    /// A number that arrived before is not delivered again; a gap is no error.
    #[test]
    fn gaps_are_no_error() {
        let mut channel = channel();
        resume(&mut channel, 1);
        assert_eq!(
            [1, 2, 2, 7, 5].map(|number| channel.arrived(number, 0).unwrap()),
            [true, true, false, true, false]
        );
        resume(&mut channel, 1);
        assert!(channel.arrived(1, 0).unwrap(), "another connection");
    }
}
