//! The simulator's event queues: what happens next.
//!
//! A run is decided by the order in which its events come out, so that order is a law and not a
//! detail: earlier time first, and among events of one time the one that was inserted first.
//! [`HeapQueue`] follows it in the most obvious way and is the oracle of the tests; [`BucketQueue`]
//! follows it fast.

mod bucket;
mod heap;
#[cfg(test)]
mod tests;

pub use bucket::BucketQueue;
pub use heap::HeapQueue;
use kgate_core::{Span, Time};

/// Events come out in the order of (time, sequence of insertion).
pub trait EventQueue<E> {
    /// Whether a broadcast to everybody may be stored as one record that the simulator expands on
    /// delivery.
    const RECORDS: bool;

    /// An empty queue at time zero. `spread` is the typical longest delay between an insertion and
    /// its time; only speed depends on it.
    fn new(spread: Span) -> Self;

    /// Inserts an event.
    ///
    /// # Panics
    /// If `at` is before the time of the last event that came out.
    fn push(&mut self, at: Time, event: E);

    /// The earliest event, if its time is at most `until`.
    fn pop(&mut self, until: Time) -> Option<(Time, E)>;

    /// How many events are in the queue.
    fn len(&self) -> usize;

    /// Whether no event is in the queue.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
