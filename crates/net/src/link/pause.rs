//! How long to wait before dialling again: twice as long each time, and a random half of it less.

use std::time::Duration;

use kgate_core::{NodeId, split_mix64};

use crate::links::LinkLimits;

#[derive(Debug)]
pub(super) struct Pause {
    least: Duration,
    most: Duration,
    /// None before the very first attempt, which need not wait.
    next: Option<Duration>,
    rng: u64,
}

impl Pause {
    /// Each link of each node throws its own rng.
    pub(super) fn new(limits: &LinkLimits, me: NodeId, peer: NodeId) -> Self {
        let rng = limits.seed ^ (u64::from(me.0) << 32 | u64::from(peer.0));
        Self {
            least: limits.pause_least,
            most: limits.pause_most.max(limits.pause_least),
            next: None,
            rng,
        }
    }

    /// The last attempt has led to a link.
    pub(super) fn begin_anew(&mut self) {
        self.next = Some(self.least);
    }

    /// How long to wait now.
    pub(super) fn draw(&mut self) -> Duration {
        let Some(now) = self.next else {
            self.begin_anew();
            return Duration::ZERO;
        };
        self.next = Some((now * 2).min(self.most));
        let half = now / 2;
        half + half.mul_f64(self.fraction())
    }

    /// A number from 0 up to 1.
    fn fraction(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let fraction = (split_mix64(&mut self.rng) >> 11) as f64;
        fraction / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At once first, then doubling with at least half of it kept, up to the most; a link begins it
    /// anew; the seed decides.
    #[test]
    fn pauses_double_within_their_bounds() {
        let limits = LinkLimits {
            pause_least: Duration::from_millis(10),
            pause_most: Duration::from_millis(100),
            ..LinkLimits::default()
        };
        let mut pause = Pause::new(&limits, NodeId(0), NodeId(1));
        let mut twin = Pause::new(&limits, NodeId(0), NodeId(1));
        let mut other = Pause::new(&limits, NodeId(0), NodeId(2));
        let (mut same, mut differs) = (true, false);
        for most in [0, 10, 20, 40, 80, 100, 100] {
            let drawn = pause.draw();
            same &= drawn == twin.draw();
            differs |= drawn != other.draw();
            let most = Duration::from_millis(most);
            assert!(drawn >= most / 2 && drawn <= most, "{drawn:?} of {most:?}");
        }
        assert!(same && differs);
        pause.begin_anew();
        assert!(pause.draw() <= limits.pause_least);
    }
}
