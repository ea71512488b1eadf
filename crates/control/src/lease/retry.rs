//! When to say something again: soon at first, then rarer and rarer.

use kgate_core::{Span, Time};

/// How many times the first pause may double: a node that nobody tells the truth does not flood the
/// log.
const DOUBLINGS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Retry {
    next: Time,
    first: Span,
    doubled: u32,
}

impl Retry {
    /// First at that time, then after `first`, then after twice that ..
    pub(super) fn at(next: Time, first: Span) -> Self {
        Self { next, first, doubled: 0 }
    }

    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Whether it is time; if so, the next time is set.
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

    /// 1, 2, 4 .. 32 pauses, then always 32.
    #[test]
    fn rarer_and_rarer() {
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
