//! Two channels over connections that are cut anywhere: what arrives is a prefix of what was sent,
//! and at last all of it.

use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::wire::{Decoder, Frame};

const WIDE: Window = Window { frames: 10_000, bytes: 1 << 20 };

fn channel(incarnation: u32) -> Channel {
    Channel::new(Incarnation(incarnation), WIDE)
}

fn met() -> [Channel; 2] {
    let mut both = [channel(1), channel(1)];
    greet(&mut both, |_| {});
    both
}

/// A new connection: the first dials, the second answers. `between` happens after both have said
/// what they have had.
fn greet(both: &mut [Channel; 2], between: impl FnOnce(&mut [Channel; 2])) {
    let first = both[0].greeting(None);
    let second = both[1].greeting(Some(first.incarnation));
    between(both);
    both[0].resume(second).unwrap();
    both[1].resume(first).unwrap();
}

/// The frames that a channel writes now.
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
            let fresh = channel.arrived(number, ack).unwrap();
            fresh.then(|| u16::from_le_bytes(bytes[..].try_into().unwrap()))
        }
        Frame::Ack(ack) => {
            channel.acknowledged(ack).unwrap();
            None
        }
        Frame::Hello(_) | Frame::Refuse(_) => panic!("no channel writes that"),
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A side sends the next number.
    Send(usize),
    /// A side writes what fits into so much room.
    Write(usize, usize),
    /// A side acknowledges.
    Acknowledge(usize),
    /// The oldest frame from that side comes.
    Come(usize),
    /// The connection is cut, and there is a new one. So many frames of the old one still come from
    /// each side, after both have said what they have had: the worst that a careless owner could
    /// do.
    Cut([usize; 2]),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let side = 0..2usize;
    let step = prop_oneof![
        3 => side.clone().prop_map(Step::Send),
        3 => (side.clone(), 1..200usize).prop_map(|(side, room)| Step::Write(side, room)),
        1 => side.clone().prop_map(Step::Acknowledge),
        4 => side.prop_map(Step::Come),
        1 => [0..4usize, 0..4usize].prop_map(Step::Cut),
    ];
    prop::collection::vec(step, 0..200)
}

struct World {
    ends: [Channel; 2],
    /// On their way from each side.
    ways: [VecDeque<Frame>; 2],
    sent: [Vec<u16>; 2],
    got: [Vec<u16>; 2],
}

impl World {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Send(side) => {
                let value = u16::try_from(self.sent[side].len()).unwrap();
                push(&mut self.ends[side], value);
                self.sent[side].push(value);
            }
            Step::Write(side, room) => self.ways[side].extend(written(&mut self.ends[side], room)),
            Step::Acknowledge(side) => {
                let mut bytes = Vec::new();
                self.ends[side].write_ack(&mut bytes);
                self.ways[side].extend(frames(&bytes));
            }
            Step::Come(side) => self.come(side),
            Step::Cut(late) => {
                let first = self.ends[0].greeting(None);
                let second = self.ends[1].greeting(Some(first.incarnation));
                for (side, late) in late.into_iter().enumerate() {
                    (0..late).for_each(|_| self.come(side));
                    self.ways[side].clear();
                }
                self.ends[0].resume(second).unwrap();
                self.ends[1].resume(first).unwrap();
            }
        }
    }

    fn come(&mut self, side: usize) {
        if let Some(frame) = self.ways[side].pop_front() {
            self.got[1 - side].extend(take(&mut self.ends[1 - side], frame));
        }
    }
}

/// The property, of channels with or without the duplicate check.
fn prefix_and_at_last_all(takes_duplicates: bool) -> Result<(), String> {
    let mut runner =
        TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let property = |steps: Vec<Step>| {
        let mut world = World {
            ends: met(),
            ways: Default::default(),
            sent: Default::default(),
            got: Default::default(),
        };
        world.ends.iter_mut().for_each(|end| end.takes_duplicates = takes_duplicates);
        for step in &steps {
            world.take(step);
            for side in 0..2 {
                prop_assert!(world.sent[side].starts_with(&world.got[1 - side]));
            }
        }
        world.take(&Step::Cut([0, 0]));
        for side in 0..2 {
            world.take(&Step::Write(side, usize::MAX >> 1));
            while !world.ways[side].is_empty() {
                world.come(side);
            }
            prop_assert_eq!(&world.sent[side], &world.got[1 - side]);
        }
        for side in 0..2 {
            world.take(&Step::Acknowledge(side));
            world.come(side);
        }
        prop_assert!(world.ends.iter().all(|end| end.kept.is_empty() && end.kept_bytes == 0));
        Ok(())
    };
    runner.run(&steps(), property).map_err(|error| error.to_string())
}

/// Whatever is cut: in order, each once, and all of it in the end; and then nothing is kept.
#[test]
fn what_arrives_is_a_prefix_and_at_last_all() {
    prefix_and_at_last_all(false).unwrap();
}

/// Planted bug: a channel that takes what it has had already fails the property above.
#[test]
fn a_channel_without_the_duplicate_check_is_caught() {
    let found = prefix_and_at_last_all(true).unwrap_err();
    assert!(found.contains("starts_with"), "{found}");
}

/// What does not fit into the window breaks the channel, by number of messages and by bytes; an
/// acknowledgement makes room.
#[test]
fn the_window_is_bounded() {
    let mut few = Channel::new(Incarnation(1), Window { frames: 2, bytes: 100 });
    push(&mut few, 1);
    push(&mut few, 2);
    assert_eq!(few.push(Bytes::new()), Err(Broken::Overrun { frames: 2, bytes: 4 }));
    written(&mut few, 1000);
    few.acknowledged(1).unwrap();
    push(&mut few, 3);
    let mut small = Channel::new(Incarnation(1), Window { frames: 100, bytes: 3 });
    push(&mut small, 1);
    assert_eq!(small.push(Bytes::from_static(b"ab")), Err(Broken::Overrun { frames: 1, bytes: 2 }));
}

/// A new incarnation of the peer: what was kept is dropped, and both directions begin at 1.
#[test]
fn a_new_incarnation_begins_anew() {
    let [mut here, mut there] = met();
    push(&mut here, 1);
    push(&mut there, 2);
    for frame in written(&mut there, 1000) {
        take(&mut here, frame);
    }
    push(&mut here, 3);
    let mut both = [here, channel(5)];
    let first = both[0].greeting(None);
    assert_eq!(
        first,
        Greeting { incarnation: Incarnation(1), of: Some(Incarnation(1)), received: 1 }
    );
    let second = both[1].greeting(Some(first.incarnation));
    assert_eq!(both[0].resume(second), Ok(Some(Incarnation(1))));
    assert_eq!(both[1].resume(first), Ok(None));
    assert_eq!(written(&mut both[0], 1000), []);
    push(&mut both[0], 4);
    let frames = written(&mut both[0], 1000);
    assert_eq!(frames, [Frame::Data { number: 1, ack: 0, bytes: Bytes::from_static(&[4, 0]) }]);
}

/// What was pushed before anybody was met goes to the first incarnation that is.
#[test]
fn what_was_pushed_early_is_kept_for_the_first_incarnation() {
    let mut both = [channel(1), channel(9)];
    push(&mut both[0], 7);
    greet(&mut both, |_| {});
    let frames = written(&mut both[0], 1000);
    assert_eq!(frames.into_iter().find_map(|frame| take(&mut both[1], frame)), Some(7));
}

/// A peer of the same incarnation that knows less than it has acknowledged, or more than was sent,
/// breaks the channel.
#[test]
fn a_lost_memory_and_a_second_process_are_noticed() {
    let [mut here, _] = met();
    push(&mut here, 1);
    push(&mut here, 2);
    written(&mut here, 1000);
    here.acknowledged(1).unwrap();
    let says = |of, received| Greeting { incarnation: Incarnation(1), of, received };
    let mine = Some(Incarnation(1));
    assert_eq!(here.resume(says(mine, 0)), Err(Broken::Forgotten { acked: 1, received: 0 }));
    assert_eq!(here.resume(says(None, 0)), Err(Broken::Forgotten { acked: 1, received: 0 }));
    assert_eq!(here.resume(says(mine, 3)), Err(Broken::Unsent { received: 3, sent: 2 }));
    assert_eq!(here.arrived(2, 0), Err(Broken::Gap { number: 2, expected: 1 }));
    assert_eq!(here.acknowledged(3), Err(Broken::Unsent { received: 3, sent: 2 }));
    assert_eq!(here.resume(says(mine, 2)), Ok(None));
}

/// Acknowledgements ride on messages: after a message nothing is owed any more.
#[test]
fn a_message_carries_the_acknowledgement() {
    let [mut here, _] = met();
    assert_eq!(here.arrived(1, 0), Ok(true));
    assert_eq!(here.owed(), 1);
    push(&mut here, 1);
    assert_eq!(
        written(&mut here, 1000),
        [Frame::Data { number: 1, ack: 1, bytes: Bytes::from_static(&[1, 0]) }]
    );
    assert_eq!(here.owed(), 0);
}
