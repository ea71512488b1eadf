//! Times as coordinates.

use kgate_core::{Span, Time};

use super::label::width;
use super::svg::SIZE;
use super::timeline::Timeline;

/// The left end of the lines, right of the names of the processes.
pub(super) const LEFT: f64 = 64.0;

/// How times become coordinates.
pub(super) enum Scale {
    /// Each time has a column of width `wide`.
    Columns { times: Vec<Time>, wide: f64 },
    /// A linear scale of width `wide`.
    Even { from: Time, until: Time, wide: f64 },
}

impl Scale {
    pub(super) fn columns(timeline: &Timeline) -> Self {
        let longest =
            timeline.messages.iter().map(|message| width(&message.label, SIZE)).fold(0.0, f64::max);
        let wide = if timeline.moves { 128.0 } else { (longest * 0.75).clamp(48.0, 84.0) };
        Self::Columns { times: timeline.times.clone(), wide }
    }

    /// A linear scale; more events make it wider.
    #[allow(clippy::cast_precision_loss)] // Signs are few.
    pub(super) fn even(timeline: &Timeline) -> Self {
        let wide = (timeline.moments as f64 * 14.0).clamp(900.0, 3600.0);
        Self::Even { from: timeline.from, until: timeline.until, wide }
    }

    pub(super) fn is_even(&self) -> bool {
        matches!(self, Self::Even { .. })
    }

    /// Times outside the diagram have coordinates outside.
    #[allow(clippy::cast_precision_loss)] // Far finer than a pen.
    pub(super) fn x(&self, time: Time) -> f64 {
        match self {
            Self::Columns { times, wide } => {
                LEFT + 40.0 + wide * times.partition_point(|other| *other < time) as f64
            }
            Self::Even { from, until, wide } => {
                let whole = until.since(*from).0.max(1) as f64;
                LEFT + 12.0
                    + wide * (time.since(*from).0 as f64 - from.since(time).0 as f64) / whole
            }
        }
    }

    /// The right end of the lines.
    #[allow(clippy::cast_precision_loss)] // Columns are few.
    pub(super) fn right(&self) -> f64 {
        match self {
            Self::Columns { times, wide } => {
                LEFT + 40.0 + wide * times.len().saturating_sub(1) as f64 + 56.0
            }
            Self::Even { wide, .. } => LEFT + 12.0 + wide + 12.0,
        }
    }

    /// The first and the last coordinate of the time axis.
    pub(super) fn edges(&self) -> (f64, f64) {
        match self {
            Self::Columns { .. } => (LEFT, self.right()),
            Self::Even { from, until, .. } => (self.x(*from), self.x(*until)),
        }
    }

    /// The labelled times: each column, or round times with enough distance.
    pub(super) fn ticks(&self) -> Vec<Time> {
        let (from, until, wide) = match self {
            Self::Columns { times, .. } => return times.clone(),
            Self::Even { from, until, wide } => (*from, *until, *wide),
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A small whole number.
        let room = (wide / 80.0) as u64;
        let least = until.since(from).0 / room.max(1) + 1;
        let tens = 10u64.saturating_pow(least.ilog10());
        let step = [1, 2, 5, 10]
            .map(|times| tens.saturating_mul(times))
            .into_iter()
            .find(|step| *step >= least);
        let step = step.unwrap_or(Span::UNIT.0);
        let first = from.0.div_ceil(step);
        (first..=until.0 / step).map(|count| Time(count * step)).collect()
    }
}
