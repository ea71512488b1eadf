//! Delay before the next dial: exponential backoff, of which up to a random half is left out.

use std::time::Duration;

use kgate_core::{NodeId, split_mix64};

use crate::links::LinkLimits;

#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    /// None before the first attempt, which has no delay.
    next: Option<Duration>,
    rng: u64,
}

impl Backoff {
    /// Each link of each node has its own generator.
    pub(super) fn new(limits: &LinkLimits, me: NodeId, peer: NodeId) -> Self {
        let rng = limits.seed ^ (u64::from(me.0) << 32 | u64::from(peer.0));
        Self {
            min: limits.backoff_min,
            max: limits.backoff_max.max(limits.backoff_min),
            next: None,
            rng,
        }
    }

    /// The last attempt has succeeded.
    pub(super) fn reset(&mut self) {
        self.next = Some(self.min);
    }

    /// The delay before the next attempt.
    pub(super) fn draw(&mut self) -> Duration {
        let Some(now) = self.next else {
            self.reset();
            return Duration::ZERO;
        };
        self.next = Some((now * 2).min(self.max));
        let half = now / 2;
        half + half.mul_f64(self.fraction())
    }

    /// A number in 0..1.
    fn fraction(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let fraction = (split_mix64(&mut self.rng) >> 11) as f64;
        fraction / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No delay first, then doubling delays of which at least half is kept, up to the maximum. A
    /// link resets the delay. The same seed gives the same delays.
    #[test]
    fn delays_double_within_their_bounds() {
        let limits = LinkLimits {
            backoff_min: Duration::from_millis(10),
            backoff_max: Duration::from_millis(100),
            ..LinkLimits::default()
        };
        let mut backoff = Backoff::new(&limits, NodeId(0), NodeId(1));
        let mut twin = Backoff::new(&limits, NodeId(0), NodeId(1));
        let mut other = Backoff::new(&limits, NodeId(0), NodeId(2));
        let (mut same, mut differs) = (true, false);
        for max in [0, 10, 20, 40, 80, 100, 100] {
            let drawn = backoff.draw();
            same &= drawn == twin.draw();
            differs |= drawn != other.draw();
            let max = Duration::from_millis(max);
            assert!(drawn >= max / 2 && drawn <= max, "{drawn:?} of {max:?}");
        }
        assert!(same && differs);
        backoff.reset();
        assert!(backoff.draw() <= limits.backoff_min);
    }
}
