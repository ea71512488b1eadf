//! Machines: their clocks run at rates of their own, and they sleep.

use kgate_core::Time;

/// Real time in nanoseconds. No simulated process can read it.
pub(super) type Real = u64;

/// A machine's clock: local = offset + real * rate.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    offset: u64,
    /// Parts per million of real time.
    rate: u64,
    /// When it last fell asleep, and when it wakes.
    pub(super) asleep_from: Real,
    pub(super) asleep_until: Real,
    /// The time that its clock has missed, if clocks stop in suspend.
    missed: u64,
}

impl Machine {
    pub(super) fn new(offset: u64, rate: u64) -> Self {
        Self { offset, rate, asleep_from: 0, asleep_until: 0, missed: 0 }
    }

    pub(super) fn local(&self, real: Real) -> Time {
        Time(self.offset + scaled(real - self.missed.min(real), self.rate, 1_000_000))
    }

    /// The first real instant at which the clock shows that.
    pub(super) fn real(&self, local: Time) -> Real {
        let part = local.0.saturating_sub(self.offset);
        let rate = u128::from(self.rate);
        let real = (u128::from(part) * 1_000_000).div_ceil(rate);
        u64::try_from(real).expect("within the run") + self.missed
    }

    pub(super) fn sleep(&mut self, from: Real, until: Real, clock_stops: bool) {
        (self.asleep_from, self.asleep_until) = (from, until);
        if clock_stops {
            self.missed += until - from;
        }
    }
}

fn scaled(value: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(by) / u128::from(of)).expect("within the run")
}
