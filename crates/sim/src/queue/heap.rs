//! The oracle: a binary heap ordered by (time, sequence of insertion).
//!
//! It is simple enough to be correct by inspection. An operation moves O(log n) whole entries, and
//! an entry carries its full time and its sequence number.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use kgate_core::{Span, Time};

use super::EventQueue;

/// The simple queue.
#[derive(Clone, Debug)]
pub struct HeapQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    /// The sequence number of the next insertion.
    next: u64,
    /// The time of the last event that came out.
    last: Time,
}

/// Compared by its key alone: the order must not depend on the event.
#[derive(Clone, Debug)]
struct Entry<E> {
    key: (Time, u64),
    event: E,
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> EventQueue<E> for HeapQueue<E> {
    const RECORDS: bool = false;

    fn new(_spread: Span) -> Self {
        Self { heap: BinaryHeap::new(), next: 0, last: Time::ZERO }
    }

    fn push(&mut self, at: Time, event: E) {
        assert!(
            at >= self.last,
            "an event at {at} is inserted after one at {} came out",
            self.last
        );
        self.heap.push(Reverse(Entry { key: (at, self.next), event }));
        self.next += 1;
    }

    fn pop(&mut self, until: Time) -> Option<(Time, E)> {
        let first = self.heap.peek_mut()?;
        if first.0.key.0 > until {
            return None;
        }
        let Reverse(entry) = PeekMut::pop(first);
        self.last = entry.key.0;
        Some((entry.key.0, entry.event))
    }

    fn len(&self) -> usize {
        self.heap.len()
    }
}
