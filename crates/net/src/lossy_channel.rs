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

use crate::channel::Window;
use crate::wire;

/// Both directions between this node and a peer.
#[derive(Debug)]
pub(crate) struct LossyChannel {
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
    pub(crate) fn new(window: Window) -> Self {
        let queue = VecDeque::new();
        Self { theirs: None, window, queue, queue_bytes: 0, written: 0, received: 0, dropped: 0 }
    }

    /// The peer's incarnation, if it ever connected.
    pub(crate) fn theirs(&self) -> Option<Incarnation> {
        self.theirs
    }

    /// Number of messages dropped for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Last number that arrived on this connection.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Adds a message for the peer. The oldest ones make room for it.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.queue_bytes += bytes.len();
        self.queue.push_back(bytes);
        while self.queue.len() > self.window.frames || self.queue_bytes > self.window.bytes {
            let Some(oldest) = self.queue.pop_front() else { break };
            self.queue_bytes -= oldest.len();
            self.dropped += 1;
        }
    }

    /// Starts a new connection. Messages for another incarnation than this are dropped.
    pub(crate) fn resume(&mut self, theirs: Incarnation) {
        if self.theirs.is_some_and(|known| known != theirs) {
            self.queue.clear();
            self.queue_bytes = 0;
        }
        (self.theirs, self.written, self.received) = (Some(theirs), 0, 0);
    }

    /// Writes messages until `room` bytes are full or no message is left, and drops them.
    pub(crate) fn write(&mut self, room: usize, out: &mut Vec<u8>) {
        let end = out.len() + room;
        while out.len() < end {
            let Some(bytes) = self.queue.pop_front() else { break };
            self.queue_bytes -= bytes.len();
            self.written += 1;
            wire::write_data(self.written, self.received, &bytes, out);
        }
    }

    /// Takes note of a message that arrived. Returns whether it is new. A peer that numbers its
    /// messages wrongly only loses them.
    pub(crate) fn arrived(&mut self, number: u64) -> bool {
        let is_new = number > self.received;
        self.received = self.received.max(number);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Decoder, Frame};

    fn channel() -> LossyChannel {
        LossyChannel::new(Window { frames: 3, bytes: 10 })
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
        (0..5).for_each(|value: u8| many.push(vec![value].into()));
        assert_eq!(written(&mut many), [(1, vec![2]), (2, vec![3]), (3, vec![4])]);
        assert_eq!(many.dropped(), 2);
        let mut long = channel();
        long.push(vec![0; 6].into());
        long.push(vec![1; 6].into());
        assert_eq!(written(&mut long), [(1, vec![1; 6])]);
        long.push(vec![2; 11].into());
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
        channel.push(vec![0].into());
        channel.resume(Incarnation(1));
        channel.push(vec![1].into());
        assert_eq!(
            written(&mut channel),
            [(1, vec![0]), (2, vec![1])],
            "kept for the first incarnation that connects"
        );
        channel.push(vec![2].into());
        channel.resume(Incarnation(1));
        assert_eq!(written(&mut channel), [(1, vec![2])]);
        channel.push(vec![3].into());
        channel.resume(Incarnation(2));
        assert_eq!(written(&mut channel), []);
        assert_eq!((channel.theirs(), channel.queue_bytes), (Some(Incarnation(2)), 0));
    }

    /// A number that arrived before is not delivered again; a gap is no error.
    #[test]
    fn gaps_are_no_error() {
        let mut channel = channel();
        channel.resume(Incarnation(1));
        assert_eq!(
            [1, 2, 2, 7, 5].map(|number| channel.arrived(number)),
            [true, true, false, true, false]
        );
        channel.resume(Incarnation(1));
        assert!(channel.arrived(1), "another connection");
    }
}
