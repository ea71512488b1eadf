//! A channel to one peer that may lose messages and never breaks. No I/O, no clock.
//!
//! `slots` sends snapshots with versions and asks again; the agreed log and the leases ask again
//! too (LEASES 11): to them a lost message is a later one. So nothing is numbered across
//! connections, nothing is kept until it is acknowledged, and there is nothing that a peer could
//! contradict: a connection that comes back, a new incarnation, and the old incarnation after a
//! clean stop are all alike. What waits to be written is bounded; beyond that the **oldest** goes,
//! since a newer snapshot says more.

use std::collections::VecDeque;

use bytes::Bytes;
use kgate_core::Incarnation;

use crate::channel::Window;
use crate::wire;

/// Both directions between this node and a peer.
#[derive(Debug)]
pub(crate) struct Lossy {
    theirs: Option<Incarnation>,
    window: Window,
    /// Not written yet.
    waits: VecDeque<Bytes>,
    waits_bytes: usize,
    /// The last number that was written on this connection.
    written: u64,
    /// The last number that came on this connection.
    received: u64,
    /// So many were dropped because they did not fit.
    dropped: u64,
}

impl Lossy {
    pub(crate) fn new(window: Window) -> Self {
        let waits = VecDeque::new();
        Self { theirs: None, window, waits, waits_bytes: 0, written: 0, received: 0, dropped: 0 }
    }

    /// The peer's incarnation, if it was ever met.
    pub(crate) fn theirs(&self) -> Option<Incarnation> {
        self.theirs
    }

    /// So many messages were dropped because they did not fit.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// So many messages were received on this connection.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// A message for the peer. The oldest make room for it.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.waits_bytes += bytes.len();
        self.waits.push_back(bytes);
        while self.waits.len() > self.window.frames || self.waits_bytes > self.window.bytes {
            let Some(oldest) = self.waits.pop_front() else { break };
            self.waits_bytes -= oldest.len();
            self.dropped += 1;
        }
    }

    /// A new connection begins. What waits for another incarnation than this goes: it was meant for
    /// that one.
    pub(crate) fn resume(&mut self, theirs: Incarnation) {
        if self.theirs.is_some_and(|known| known != theirs) {
            self.waits.clear();
            self.waits_bytes = 0;
        }
        (self.theirs, self.written, self.received) = (Some(theirs), 0, 0);
    }

    /// Writes what waits, until `room` bytes are filled or nothing is left. What is written is
    /// forgotten.
    pub(crate) fn write(&mut self, room: usize, out: &mut Vec<u8>) {
        let end = out.len() + room;
        while out.len() < end {
            let Some(bytes) = self.waits.pop_front() else { break };
            self.waits_bytes -= bytes.len();
            self.written += 1;
            wire::write_data(self.written, self.received, &bytes, out);
        }
    }

    /// A message has come; whether it is a new one. A peer that numbers them wrongly only loses
    /// them.
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

    fn lossy() -> Lossy {
        Lossy::new(Window { frames: 3, bytes: 10 })
    }

    /// What is written, as (number, message).
    fn written(lossy: &mut Lossy) -> Vec<(u64, Vec<u8>)> {
        let mut out = Vec::new();
        lossy.write(usize::MAX - 1000, &mut out);
        let mut decoder = Decoder::new(1000);
        decoder.feed(&out);
        let mut frames = Vec::new();
        while let Some(frame) = decoder.next().unwrap() {
            let Frame::Data { number, bytes, .. } = frame else { panic!("{frame:?}") };
            frames.push((number, bytes.to_vec()));
        }
        frames
    }

    /// LEASES 11: beyond its bound, of messages or of bytes, the oldest goes, and that is counted.
    #[test]
    fn the_oldest_makes_room() {
        let mut many = lossy();
        (0..5).for_each(|value: u8| many.push(vec![value].into()));
        assert_eq!(written(&mut many), [(1, vec![2]), (2, vec![3]), (3, vec![4])]);
        assert_eq!(many.dropped(), 2);
        let mut long = lossy();
        long.push(vec![0; 6].into());
        long.push(vec![1; 6].into());
        assert_eq!(written(&mut long), [(1, vec![1; 6])]);
        long.push(vec![2; 11].into());
        assert_eq!((written(&mut long), long.waits_bytes), (vec![], 0), "one that never fits");
    }

    /// A connection begins its numbers anew; the same incarnation still gets what waits, another
    /// one does not.
    #[test]
    fn what_waits_is_for_one_incarnation() {
        let mut lossy = lossy();
        lossy.push(vec![0].into());
        lossy.resume(Incarnation(1));
        lossy.push(vec![1].into());
        assert_eq!(
            written(&mut lossy),
            [(1, vec![0]), (2, vec![1])],
            "kept for the first incarnation that is met"
        );
        lossy.push(vec![2].into());
        lossy.resume(Incarnation(1));
        assert_eq!(written(&mut lossy), [(1, vec![2])]);
        lossy.push(vec![3].into());
        lossy.resume(Incarnation(2));
        assert_eq!(written(&mut lossy), []);
        assert_eq!((lossy.theirs(), lossy.waits_bytes), (Some(Incarnation(2)), 0));
    }

    /// A number that came already is not told again; a gap is no fault here.
    #[test]
    fn gaps_are_no_fault() {
        let mut lossy = lossy();
        lossy.resume(Incarnation(1));
        assert_eq!(
            [1, 2, 2, 7, 5].map(|number| lossy.arrived(number)),
            [true, true, false, true, false]
        );
        lossy.resume(Incarnation(1));
        assert!(lossy.arrived(1), "another connection");
    }
}
