//! Two channels over connections that are cut anywhere: the received messages are a prefix of the
//! sent ones, and in the end all of them.

use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::wire::{Decoder, Frame};

const WIDE: Window = Window { frames: 10_000, bytes: 1 << 20 };

fn channel(incarnation: u32) -> Channel {
    Channel::new(Incarnation(incarnation), WIDE)
}

fn connected() -> [Channel; 2] {
    let mut both = [channel(1), channel(1)];
    connect(&mut both);
    both
}

/// A new connection: the first channel dials, the second one answers.
fn connect(both: &mut [Channel; 2]) {
    let first = both[0].handshake(None);
    let second = both[1].handshake(Some(first.incarnation));
    both[0].resume(second).unwrap();
    both[1].resume(first).unwrap();
}

/// Frames that a channel writes now.
fn written(channel: &mut Channel, room: usize) -> Vec<Frame> {
    let mut bytes = Vec::new();
    channel.write(room, &mut bytes);
    frames(&bytes)
}

fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut decoder = Decoder::new(wire::FRAME_MAX);
    decoder.feed(bytes);
    std::iter::from_fn(|| decoder.next().unwrap()).collect()
}

fn push(channel: &mut Channel, value: u16) {
    channel.push(Bytes::copy_from_slice(&value.to_le_bytes())).unwrap();
}

fn take(channel: &mut Channel, frame: Frame) -> Option<u16> {
    match frame {
        Frame::Data { number, ack, bytes } => {
            let is_new = channel.arrived(number, ack).unwrap();
            is_new.then(|| u16::from_le_bytes(bytes[..].try_into().unwrap()))
        }
        Frame::Ack(ack) => {
            channel.acknowledged(ack).unwrap();
            None
        }
        Frame::Hello(_) | Frame::Refuse { .. } => panic!("a channel writes no such frame"),
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A side sends the next number.
    Send(usize),
    /// A side writes the messages that fit into this room.
    Write(usize, usize),
    /// A side acknowledges.
    Acknowledge(usize),
    /// The oldest frame from that side arrives.
    Arrive(usize),
    /// The connection is cut and replaced. This number of frames of the old one still arrives from
    /// each side after both handshakes: the worst that a careless owner could do.
    Cut([usize; 2]),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let side = 0..2usize;
    let step = prop_oneof![
        3 => side.clone().prop_map(Step::Send),
        3 => (side.clone(), 1..200usize).prop_map(|(side, room)| Step::Write(side, room)),
        1 => side.clone().prop_map(Step::Acknowledge),
        4 => side.prop_map(Step::Arrive),
        1 => [0..4usize, 0..4usize].prop_map(Step::Cut),
    ];
    prop::collection::vec(step, 0..200)
}

struct Pair {
    ends: [Channel; 2],
    /// Frames in flight from each side.
    in_flight: [VecDeque<Frame>; 2],
    sent: [Vec<u16>; 2],
    received: [Vec<u16>; 2],
}

impl Pair {
    fn run(&mut self, step: &Step) {
        match *step {
            Step::Send(side) => {
                let value = u16::try_from(self.sent[side].len()).unwrap();
                push(&mut self.ends[side], value);
                self.sent[side].push(value);
            }
            Step::Write(side, room) => {
                self.in_flight[side].extend(written(&mut self.ends[side], room))
            }
            Step::Acknowledge(side) => {
                let mut bytes = Vec::new();
                self.ends[side].write_ack(&mut bytes);
                self.in_flight[side].extend(frames(&bytes));
            }
            Step::Arrive(side) => self.arrive(side),
            Step::Cut(late) => {
                let first = self.ends[0].handshake(None);
                let second = self.ends[1].handshake(Some(first.incarnation));
                for (side, late) in late.into_iter().enumerate() {
                    (0..late).for_each(|_| self.arrive(side));
                    self.in_flight[side].clear();
                }
                self.ends[0].resume(second).unwrap();
                self.ends[1].resume(first).unwrap();
            }
        }
    }

    fn arrive(&mut self, side: usize) {
        if let Some(frame) = self.in_flight[side].pop_front() {
            self.received[1 - side].extend(take(&mut self.ends[1 - side], frame));
        }
    }
}

/// The property, for channels with or without the check of duplicates.
fn check_delivery(accepts_duplicates: bool) -> Result<(), String> {
    let mut runner =
        TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let property = |steps: Vec<Step>| {
        let mut pair = Pair {
            ends: connected(),
            in_flight: Default::default(),
            sent: Default::default(),
            received: Default::default(),
        };
        pair.ends.iter_mut().for_each(|end| end.accepts_duplicates = accepts_duplicates);
        for step in &steps {
            pair.run(step);
            for side in 0..2 {
                prop_assert!(pair.sent[side].starts_with(&pair.received[1 - side]));
            }
        }
        pair.run(&Step::Cut([0, 0]));
        for side in 0..2 {
            pair.run(&Step::Write(side, usize::MAX >> 1));
            while !pair.in_flight[side].is_empty() {
                pair.arrive(side);
            }
            prop_assert_eq!(&pair.sent[side], &pair.received[1 - side]);
        }
        for side in 0..2 {
            pair.run(&Step::Acknowledge(side));
            pair.arrive(side);
        }
        prop_assert!(pair.ends.iter().all(|end| end.kept.is_empty() && end.kept_bytes == 0));
        Ok(())
    };
    runner.run(&steps(), property).map_err(|error| error.to_string())
}

/// Wherever connections are cut: each message arrives once, in order, and all of them in the end;
/// after that no message is kept.
#[test]
fn received_messages_are_a_prefix_and_finally_all() {
    check_delivery(false).unwrap();
}

/// Planted bug: a channel that delivers duplicates fails the property above.
#[test]
fn a_channel_without_the_duplicate_check_is_caught() {
    let found = check_delivery(true).unwrap_err();
    assert!(found.contains("starts_with"), "{found}");
}

/// A message that does not fit into the window fails the channel, by number of messages and by
/// bytes; an acknowledgement makes room.
#[test]
fn the_window_is_bounded() {
    let mut few = Channel::new(Incarnation(1), Window { frames: 2, bytes: 100 });
    push(&mut few, 1);
    push(&mut few, 2);
    assert_eq!(few.push(Bytes::new()), Err(ChannelError::WindowFull { frames: 2, bytes: 4 }));
    written(&mut few, 1000);
    few.acknowledged(1).unwrap();
    push(&mut few, 3);
    let mut small = Channel::new(Incarnation(1), Window { frames: 100, bytes: 3 });
    push(&mut small, 1);
    assert_eq!(
        small.push(Bytes::from_static(b"ab")),
        Err(ChannelError::WindowFull { frames: 1, bytes: 2 })
    );
}

/// A new incarnation of the peer: kept messages are dropped, and both directions restart at 1.
#[test]
fn a_new_incarnation_resets_the_channel() {
    let [mut here, mut there] = connected();
    push(&mut here, 1);
    push(&mut there, 2);
    for frame in written(&mut there, 1000) {
        take(&mut here, frame);
    }
    push(&mut here, 3);
    let mut both = [here, channel(5)];
    let first = both[0].handshake(None);
    assert_eq!(
        first,
        Handshake { incarnation: Incarnation(1), known: Some(Incarnation(1)), received: 1 }
    );
    let second = both[1].handshake(Some(first.incarnation));
    assert_eq!(both[0].resume(second), Ok(Some(Incarnation(1))));
    assert_eq!(both[1].resume(first), Ok(None));
    assert_eq!(written(&mut both[0], 1000), []);
    push(&mut both[0], 4);
    let frames = written(&mut both[0], 1000);
    assert_eq!(frames, [Frame::Data { number: 1, ack: 0, bytes: Bytes::from_static(&[4, 0]) }]);
}

/// Messages pushed before the first connection go to the first incarnation that connects.
#[test]
fn early_messages_are_kept_for_the_first_incarnation() {
    let mut both = [channel(1), channel(9)];
    push(&mut both[0], 7);
    connect(&mut both);
    let frames = written(&mut both[0], 1000);
    assert_eq!(frames.into_iter().find_map(|frame| take(&mut both[1], frame)), Some(7));
}

/// A peer of the same incarnation that claims fewer messages than it has acknowledged, or more than
/// were sent, fails the channel.
#[test]
fn a_lost_memory_and_a_second_process_are_detected() {
    let [mut here, _] = connected();
    push(&mut here, 1);
    push(&mut here, 2);
    written(&mut here, 1000);
    here.acknowledged(1).unwrap();
    let says = |known, received| Handshake { incarnation: Incarnation(1), known, received };
    let mine = Some(Incarnation(1));
    assert_eq!(here.resume(says(mine, 0)), Err(ChannelError::StateLost { acked: 1, received: 0 }));
    assert_eq!(here.resume(says(None, 0)), Err(ChannelError::StateLost { acked: 1, received: 0 }));
    assert_eq!(here.resume(says(mine, 3)), Err(ChannelError::NeverSent { received: 3, sent: 2 }));
    assert_eq!(here.arrived(2, 0), Err(ChannelError::Gap { number: 2, expected: 1 }));
    assert_eq!(here.acknowledged(3), Err(ChannelError::NeverSent { received: 3, sent: 2 }));
    assert_eq!(here.resume(says(mine, 2)), Ok(None));
}

/// A message carries the acknowledgement: after it nothing is unacknowledged.
#[test]
fn a_message_carries_the_acknowledgement() {
    let [mut here, _] = connected();
    assert_eq!(here.arrived(1, 0), Ok(true));
    assert_eq!(here.unacknowledged(), 1);
    push(&mut here, 1);
    assert_eq!(
        written(&mut here, 1000),
        [Frame::Data { number: 1, ack: 1, bytes: Bytes::from_static(&[1, 0]) }]
    );
    assert_eq!(here.unacknowledged(), 0);
}
