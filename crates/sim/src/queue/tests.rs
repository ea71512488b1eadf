//! Both queues keep the same order, and the fast one keeps its memory small.

use kgate_core::{Span, Time};
use proptest::prelude::*;

use super::{BucketQueue, EventQueue, HeapQueue};

/// Both queues in lockstep. Events are numbered in the order of insertion.
struct Both {
    bucket: BucketQueue<u32>,
    heap: HeapQueue<u32>,
    inserted: u32,
}

impl Both {
    fn new(spread: u64) -> Self {
        Self {
            bucket: BucketQueue::new(Span(spread)),
            heap: HeapQueue::new(Span(spread)),
            inserted: 0,
        }
    }

    fn push(&mut self, at: u64) {
        self.bucket.push(Time(at), self.inserted);
        self.heap.push(Time(at), self.inserted);
        self.inserted += 1;
    }

    /// Pops from both queues and checks that they agree.
    fn pop(&mut self, until: u64) -> Option<(u64, u32)> {
        let expected = self.heap.pop(Time(until));
        assert_eq!(self.bucket.pop(Time(until)), expected);
        assert_eq!(self.bucket.len(), self.heap.len());
        assert_eq!(self.bucket.is_empty(), self.heap.is_empty());
        expected.map(|(at, event)| (at.0, event))
    }

    /// Pops everything; the times of what was left.
    fn drain(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.pop(u64::MAX)).map(|(at, _)| at).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Inserts `count` events, from `delay` to `delay + more` after the last event that came out,
    /// at multiples of `grid` (so that insertions at different times meet in one instant).
    Push { count: u64, delay: u64, more: u64, grid: u64 },
    /// Pops up to `count` events, as long as they are at most `within` after the last event that
    /// came out.
    Pop { count: usize, within: u64 },
}

/// Lengths of time on every scale of a queue of this spread: zero, within a bucket, within the
/// ring, far, absurd.
fn lengths(spread: u64) -> impl Strategy<Value = u64> {
    let bucket = spread / 2048 + 2;
    prop_oneof![
        3 => Just(0),
        3 => 0..4u64,
        3 => 0..bucket,
        2 => 0..bucket.saturating_mul(70),
        5 => 0..spread.max(2),
        2 => Just(spread),
        2 => 0..spread.saturating_mul(3).max(2),
        1 => 0..spread.saturating_mul(1000).max(2),
        1 => (0..64u32).prop_map(|bits| 1 << bits),
    ]
}

fn runs() -> impl Strategy<Value = (u64, Vec<Step>)> {
    let spreads =
        prop_oneof![Just(0), 1..10_000u64, Just(1_000_000), Just(Span::UNIT.0), Just(u64::MAX / 2)];
    spreads.prop_flat_map(|spread| {
        let grids = prop_oneof![2 => Just(1), 1 => 1..spread.max(2)];
        let push = (
            prop_oneof![1..4u64, 1..300u64],
            lengths(spread),
            prop_oneof![Just(0), lengths(spread)],
            grids,
        )
            .prop_map(|(count, delay, more, grid)| Step::Push { count, delay, more, grid });
        let pop = (prop_oneof![1..4usize, 1..300usize], lengths(spread))
            .prop_map(|(count, within)| Step::Pop { count, within });
        (Just(spread), proptest::collection::vec(prop_oneof![push, pop], 1..60))
    })
}

proptest! {
    /// For all insertions and pops, the fast queue does what the simple one does.
    #[test]
    fn bucket_queue_is_a_heap_queue((spread, steps) in runs()) {
        let mut both = Both::new(spread);
        let mut now = 0u64;
        for step in steps {
            match step {
                Step::Push { count, delay, more, grid } => for i in 0..count {
                    // Up and down, so that a bucket is rarely in order.
                    let at = now.saturating_add(delay).saturating_add(more / 10 * (i * 7 % 10));
                    both.push(at.checked_next_multiple_of(grid).unwrap_or(at));
                },
                Step::Pop { count, within } => for _ in 0..count {
                    let Some((at, _)) = both.pop(now.saturating_add(within)) else { break };
                    now = at;
                },
            }
        }
        both.drain();
    }
}

/// With a constant latency everything happens at one instant: many chunks, and nothing is sorted.
#[test]
fn one_instant_keeps_the_order_of_insertion() {
    let mut both = Both::new(1000);
    (0..10_000).for_each(|_| both.push(700));
    for event in 0..10_000 {
        assert_eq!(both.pop(700), Some((700, event)));
        both.push(1400);
    }
    assert!(both.bucket.room() <= 10_000 + 2 * 64, "a sort would have gathered them");
    assert_eq!(both.pop(1399), None);
    assert_eq!(both.pop(1400), Some((1400, 10_000)));
}

/// An event inserted at the present comes out at the present, after the events already due then.
#[test]
fn insertions_at_the_present_come_next() {
    let mut both = Both::new(Span::UNIT.0);
    [0, 5, 5, 6].into_iter().for_each(|at| both.push(at));
    assert_eq!(both.pop(u64::MAX), Some((0, 0)));
    assert_eq!(both.pop(u64::MAX), Some((5, 1)));
    both.push(5);
    both.push(5);
    assert_eq!(both.pop(u64::MAX), Some((5, 2)));
    assert_eq!(both.pop(u64::MAX), Some((5, 4)));
    assert_eq!(both.pop(u64::MAX), Some((5, 5)));
    both.push(5);
    assert_eq!(both.pop(u64::MAX), Some((5, 6)));
    assert_eq!(both.pop(u64::MAX), Some((6, 3)));
    assert_eq!(both.pop(u64::MAX), None);
    both.push(6);
    assert_eq!(both.pop(6), Some((6, 7)));
}

/// A pop that stops at its `until` changes nothing: any time from the last event on can still be
/// inserted, whether the next event is in the same bucket, another bucket, another page, or far.
#[test]
fn an_unsuccessful_pop_changes_nothing() {
    for next in [8, 1 << 10, 1 << 20, 1 << 29, 1 << 36, 1 << 60] {
        let mut both = Both::new(Span::UNIT.0);
        both.push(1);
        both.push(next);
        assert_eq!(both.pop(1), Some((1, 0)));
        for until in [1, next / 2, next - 1] {
            assert_eq!(both.pop(until), None);
        }
        let between = [next - 1, next / 2, next, 1, next / 2 + 1, 2];
        between.into_iter().for_each(|at| both.push(at));
        assert_eq!(both.drain(), [1, 2, next / 2, next / 2 + 1, next - 1, next, next]);
    }
}

/// Extreme times and huge gaps neither overflow nor take a step per bucket.
#[test]
fn the_far_future_is_reached_at_once() {
    for spread in [0, 1, Span::UNIT.0, u64::MAX / 2, u64::MAX] {
        let mut both = Both::new(spread);
        let times = [0, 1, 1 << 20, 1 << 40, 1 << 63, u64::MAX - 5000, u64::MAX - 1, u64::MAX];
        times.into_iter().rev().for_each(|at| both.push(at));
        for _ in 1..times.len() {
            let (at, _) = both.pop(u64::MAX).expect("one for each time is left");
            // The next event is far away; so is the one inserted now, whether it fits into the ring
            // or not.
            both.push(at + (u64::MAX - at) / 2);
            both.push(u64::MAX);
        }
        both.drain();
    }
}

/// As time passes, an instant turns from far to near to present: its events keep their order.
#[test]
fn far_events_come_before_near_ones_of_the_same_instant() {
    for spread in [0, 4000, Span::UNIT.0] {
        let mut both = Both::new(spread);
        let step = spread / 200 + 10;
        let instants = [spread * 2 + 777, spread * 3, spread * 3 + 1];
        both.push(0);
        for _ in 0..1000 {
            let (now, _) = both.pop(u64::MAX).expect("there is always a next step");
            both.push(now + step);
            instants.into_iter().filter(|&at| at >= now).for_each(|at| both.push(at));
        }
        both.drain();
    }
}

/// Insertions anywhere in a large open bucket, sorted or not, come out in order.
#[test]
fn a_large_open_bucket_takes_insertions_anywhere() {
    for stride in [1, 7919] {
        let mut both = Both::new(1 << 40);
        both.push(0);
        (0..20_000).for_each(|i| both.push((1 << 30) + i * stride % 20_000 * 10));
        assert_eq!(both.pop(u64::MAX), Some((0, 0)));
        assert_eq!(both.pop(u64::MAX), Some((1 << 30, 1)));
        (0..20_000).for_each(|i| both.push((1 << 30) + i * 104_729 % 200_000));
        assert_eq!(both.drain().len(), 39_999);
    }
}

/// An event before the last one that came out is a defect of the simulator: the queue panics.
#[test]
#[should_panic(expected = "inserted after one at")]
fn an_event_in_the_past_panics() {
    let mut queue = BucketQueue::new(Span::UNIT);
    queue.push(Time(10), ());
    queue.pop(Time::NEVER);
    queue.push(Time(9), ());
}

/// The oracle panics as well.
#[test]
#[should_panic(expected = "inserted after one at")]
fn an_event_in_the_past_panics_in_the_oracle() {
    let mut queue = HeapQueue::new(Span::UNIT);
    queue.push(Time(10), ());
    queue.pop(Time::NEVER);
    queue.push(Time(9), ());
}

/// Memory follows the events in flight: however many buckets a million events pass through, in any
/// order, the room for entries stays that of the peak (a chunk is at most 64 entries, a ring 4096
/// buckets).
#[test]
fn memory_follows_the_events_in_flight() {
    const EVENTS: u64 = 1 << 20;
    let mut queue = BucketQueue::new(Span::UNIT);
    let mut now = Time::ZERO;
    for round in 0..12 {
        for i in 0..EVENTS {
            let delay = match round % 4 {
                0 => Span::UNIT.0,                                 // At one instant.
                1 => i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 35,  // All over the ring.
                2 => Span::UNIT.0 - i * 31 % 4096,                 // In one bucket, unsorted.
                _ => 50 * Span::UNIT.0 + i * 7919 % EVENTS * 1000, // Far.
            };
            queue.push(now + Span(delay), i);
        }
        assert!(queue.room() as u64 <= EVENTS + 64 * 4096, "round {round}: {}", queue.room());
        while let Some((at, _)) = queue.pop(Time::NEVER) {
            now = at;
        }
        assert!(queue.room() as u64 <= EVENTS + 64 * 4096, "round {round}: {}", queue.room());
    }
}

/// A few events in many buckets take little room.
#[test]
fn lone_events_take_small_chunks() {
    let mut queue = BucketQueue::new(Span::UNIT);
    for i in 0..100_000u64 {
        queue.push(Time(i * 300_000), i);
        if i >= 1000 {
            queue.pop(Time::NEVER);
        }
    }
    assert!(queue.room() <= 1002 * 4, "{}", queue.room());
}

/// Chunks halved by insertions into the open bucket come from the pool and return to it.
#[test]
fn short_delays_do_not_accumulate_chunks() {
    let mut queue = BucketQueue::new(Span(1 << 40));
    (0..2000u64).for_each(|i| queue.push(Time(i), i));
    for i in 0..200_000u64 {
        let (at, event) = queue.pop(Time::NEVER).expect("each event is put back");
        queue.push(at + Span(i * 7919 % 2000), event);
        if i % 1000 == 0 {
            // Nothing is due in the next bucket's time, so the open one runs dry.
            let again: Vec<_> = std::iter::from_fn(|| queue.pop(Time::NEVER)).collect();
            assert_eq!(queue.pop(Time::NEVER), None);
            let now = again[again.len() - 1].0;
            again
                .into_iter()
                .rev()
                .for_each(|(at, event)| queue.push(now + Span(at.0 % 500), event));
        }
    }
    assert!(queue.room() <= 3 * 2000, "{}", queue.room());
}
