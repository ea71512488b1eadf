//! A number that changes over time, and its mean: in windows, for curves, and over the whole run.

use kgate_core::{Span, Time};
use serde::Serialize;

/// Into how many windows the measured time is cut.
const WINDOWS: u64 = 100;

/// Adds up a level over time.
#[derive(Clone, Debug)]
pub(crate) struct Gauge {
    level: u64,
    since: Time,
    end: Time,
    window: u64,
    /// Level times nanoseconds, for each window.
    areas: Vec<u128>,
}

/// The course of a level over the measured time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Course {
    /// The mean over the whole time.
    pub mean: f64,
    /// How long a window is, in time units.
    pub window: f64,
    /// The mean in each window.
    pub series: Vec<f64>,
}

impl Gauge {
    pub(crate) fn new(duration: Span) -> Self {
        let window = duration.0.div_ceil(WINDOWS).max(1);
        let windows = usize::try_from(duration.0.div_ceil(window)).expect("at most a hundred");
        Self { level: 0, since: Time::ZERO, end: Time::ZERO + duration, window, areas: vec![0; windows] }
    }

    /// The level changes by `step` at `now`. What happens after the measured time is not counted.
    pub(crate) fn change(&mut self, now: Time, step: i64) {
        self.advance(now.min(self.end));
        self.level = self.level.checked_add_signed(step).expect("nobody leaves who has not come");
    }

    fn advance(&mut self, now: Time) {
        while self.since < now {
            let at = self.since.0 / self.window;
            let until = Time((at + 1) * self.window).min(now);
            if self.level > 0 {
                let place = usize::try_from(at).expect("a window");
                self.areas[place] += u128::from(self.level) * u128::from(until.0 - self.since.0);
                self.since = until;
            } else {
                self.since = now;
            }
        }
    }

    #[allow(clippy::cast_precision_loss)] // Means for curves.
    pub(crate) fn course(mut self) -> Course {
        self.advance(self.end);
        let over = |area: u128, time: u64| if time == 0 { 0.0 } else { area as f64 / time as f64 };
        let last = self.end.0 % self.window;
        let width = |place: usize| {
            if place + 1 == self.areas.len() && last > 0 { last } else { self.window }
        };
        Course {
            mean: over(self.areas.iter().sum(), self.end.0),
            window: Span(self.window).units(),
            series: self.areas.iter().enumerate().map(|(at, &area)| over(area, width(at))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two inside from 10 to 30 of 100, one to the end: means by window and over all; later changes do not count.
    #[test]
    fn means_are_weighted_by_time() {
        let mut gauge = Gauge::new(Span(1000));
        gauge.change(Time(95), 2);
        gauge.change(Time(300), -1);
        gauge.change(Time(1500), 7);
        let course = gauge.course();
        assert_eq!((course.series.len(), course.series[8], course.series[9]), (100, 0.0, 1.0));
        assert_eq!((course.series[10], course.series[29], course.series[30]), (2.0, 2.0, 1.0));
        assert!((course.mean - (205.0 * 2.0 + 700.0) / 1000.0).abs() < 1e-12);
    }

    /// A time that is no multiple of the window, and one of no length.
    #[test]
    fn odd_lengths() {
        let mut gauge = Gauge::new(Span(1001));
        gauge.change(Time(0), 3);
        let course = gauge.course();
        assert!(course.series.iter().all(|mean| (mean - 3.0).abs() < 1e-12), "{course:?}");
        assert_eq!(Gauge::new(Span(0)).course().mean, 0.0);
    }
}
