//! The simulator's event queues: which event is next.
//!
//! The order in which events come out decides a run, so that order is a law: earlier times first,
//! and among events of one time in the order of insertion. [`HeapQueue`] implements the order in
//! the most obvious way and is the oracle of the tests; [`BucketQueue`] implements it fast.

mod bucket;
mod heap;
#[cfg(test)]
mod tests;

pub use bucket::BucketQueue;
pub use heap::HeapQueue;
use kgate_core::{Span, Time};

/// A queue of events, which come out in the order of (time, sequence of insertion).
pub trait EventQueue<E> {
    /// Whether the simulator may store a broadcast as one record and expand it on delivery.
    const RECORDS: bool;

    /// An empty queue at time zero. `spread` is the typical longest delay between the insertion of
    /// an event and its time; it affects speed only.
    fn new(spread: Span) -> Self;

    /// Inserts an event.
    ///
    /// # Panics
    /// If `at` is before the time of the last event that came out.
    fn push(&mut self, at: Time, event: E);

    /// Removes the earliest event, if its time is at most `until`.
    fn pop(&mut self, until: Time) -> Option<(Time, E)>;

    /// The number of events in the queue.
    fn len(&self) -> usize;

    /// Whether the queue is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
