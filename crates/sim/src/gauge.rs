//! A level over time and its mean: per window, for curves, and over the whole run.

use kgate_core::{Span, Time};
use serde::Serialize;

/// The number of windows in the measured time.
const WINDOWS: u64 = 100;

/// Integrates a level over time.
#[derive(Clone, Debug)]
pub(crate) struct Gauge {
    level: u64,
    since: Time,
    begin: Time,
    end: Time,
    window: u64,
    /// Level times nanoseconds, per window.
    areas: Vec<u128>,
}

/// A level over the measured time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeSeries {
    /// The mean over the whole measured time.
    pub mean: f64,
    /// The length of a window, in time units.
    pub window: f64,
    /// The mean of each window.
    pub series: Vec<f64>,
}

impl Gauge {
    /// A gauge at level 0 that measures from `begin` to `end`.
    pub(crate) fn new(begin: Time, end: Time) -> Self {
        let measured = end.since(begin).0;
        let window = measured.div_ceil(WINDOWS).max(1);
        let windows = usize::try_from(measured.div_ceil(window)).expect("at most a hundred");
        Self { level: 0, since: begin, begin, end, window, areas: vec![0; windows] }
    }

    /// The level changes by `step` at `now`. A change before the measured time sets the level; a
    /// change after it is ignored.
    pub(crate) fn change(&mut self, now: Time, step: i64) {
        self.advance(now.min(self.end));
        self.level = self.level.checked_add_signed(step).expect("the level never falls below 0");
    }

    fn advance(&mut self, now: Time) {
        while self.since < now {
            let at = self.since.since(self.begin).0 / self.window;
            let until = (self.begin + Span((at + 1) * self.window)).min(now);
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
    pub(crate) fn time_series(mut self) -> TimeSeries {
        self.advance(self.end);
        let over = |area: u128, time: u64| if time == 0 { 0.0 } else { area as f64 / time as f64 };
        let measured = self.end.since(self.begin).0;
        let last = measured % self.window;
        let width = |place: usize| {
            if place + 1 == self.areas.len() && last > 0 { last } else { self.window }
        };
        TimeSeries {
            mean: over(self.areas.iter().sum(), measured),
            window: Span(self.window).units(),
            series: self
                .areas
                .iter()
                .enumerate()
                .map(|(at, &area)| over(area, width(at)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two inside from 10 to 30 of 100, one until the end: means per window and overall. Later
    /// changes do not count.
    #[test]
    fn means_are_weighted_by_time() {
        let mut gauge = Gauge::new(Time::ZERO, Time(1000));
        gauge.change(Time(95), 2);
        gauge.change(Time(300), -1);
        gauge.change(Time(1500), 7);
        let time_series = gauge.time_series();
        assert_eq!(
            (time_series.series.len(), time_series.series[8], time_series.series[9]),
            (100, 0.0, 1.0)
        );
        assert_eq!(
            (time_series.series[10], time_series.series[29], time_series.series[30]),
            (2.0, 2.0, 1.0)
        );
        assert!((time_series.mean - (205.0 * 2.0 + 700.0) / 1000.0).abs() < 1e-12);
    }

    /// The warm-up sets the level and counts no further: two are inside from 50 on, and 100 to 300
    /// is measured.
    #[test]
    fn the_warm_up_sets_the_level() {
        let mut gauge = Gauge::new(Time(100), Time(300));
        gauge.change(Time(50), 2);
        gauge.change(Time(200), -1);
        let time_series = gauge.time_series();
        assert_eq!(
            (
                time_series.series.len(),
                time_series.series[0],
                time_series.series[49],
                time_series.series[50]
            ),
            (100, 2.0, 2.0, 1.0)
        );
        assert!((time_series.mean - 1.5).abs() < 1e-12);
    }

    /// A measured time that is not a multiple of the window, and one of length 0.
    #[test]
    fn windows_cover_any_length() {
        let mut gauge = Gauge::new(Time::ZERO, Time(1001));
        gauge.change(Time(0), 3);
        let time_series = gauge.time_series();
        assert!(
            time_series.series.iter().all(|mean| (mean - 3.0).abs() < 1e-12),
            "{time_series:?}"
        );
        assert_eq!(Gauge::new(Time::ZERO, Time::ZERO).time_series().mean, 0.0);
    }
}
