//! When to repeat a message or a proposal: with exponential backoff.

use kgate_core::{Span, Time};

/// The pause doubles at most so many times. The backoff keeps a node that never learns the outcome
/// from flooding the log.
const DOUBLINGS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Retry {
    next: Time,
    first: Span,
    doubled: u32,
}

impl Retry {
    /// Due at `next`, then after a pause of `first`, then of twice that, and so on.
    pub(super) fn at(next: Time, first: Span) -> Self {
        Self { next, first, doubled: 0 }
    }

    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Whether it is due. If so, this sets the next time.
    pub(super) fn take(&mut self, now: Time) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + self.first.times(1 << self.doubled);
        self.doubled = DOUBLINGS.min(self.doubled + 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses of 1, 2, 4 .. 32 times the first, then always 32.
    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut retry = Retry::at(Time(10), Span(1));
        assert!(!retry.take(Time(9)));
        let mut now = Time(10);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert!(retry.take(now) && !retry.take(now));
            pauses.push(retry.next().since(now).0);
            now = retry.next();
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32, 32]);
    }
}
