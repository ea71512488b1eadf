//! An axis: maps a value to a position between 0 and 1, and places the ticks.

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// The positions of the ticks with their labels.
    pub(super) ticks: Vec<(f64, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
}

impl Axis {
    /// For a parameter on a logarithmic axis: a tick at each of its values, as in 8, 16, .. 1024.
    pub(super) fn of_values(values: &[f64]) -> Self {
        let (low, high) = bounds(values);
        let room = (high / low).powf(0.04).max(1.02);
        let ticks =
            thinned(values, 12).into_iter().map(|value| (value, label(value, value))).collect();
        Self { scale: Scale::Log, low: low / room, high: high * room, ticks }
    }

    /// For names: one position each.
    #[allow(clippy::cast_precision_loss)] // A few names.
    pub(super) fn of_names(names: &[String]) -> Self {
        let ticks =
            names.iter().enumerate().map(|(place, name)| (place as f64, name.clone())).collect();
        Self { scale: Scale::Linear, low: -0.5, high: names.len() as f64 - 0.5, ticks }
    }

    /// Logarithmic, with ticks at 1, 2 and 5 times powers of ten; if there are too many, only at
    /// the powers.
    pub(super) fn log(values: &[f64]) -> Self {
        let (low, high) = bounds(values);
        let mut axis =
            Self { scale: Scale::Log, low: low / 1.3, high: high * 1.3, ticks: Vec::new() };
        let between = |factors: &[f64], every: usize| {
            let mut ticks = Vec::new();
            for power in (-18..=18i32).step_by(every) {
                for factor in factors {
                    let value = factor * 10f64.powi(power);
                    if (axis.low..=axis.high).contains(&value) {
                        ticks.push((value, label(value, value)));
                    }
                }
            }
            ticks
        };
        let choices = [between(&[1.0, 2.0, 5.0], 1), between(&[1.0], 1), between(&[1.0], 3)];
        let fits = choices.iter().position(|ticks| ticks.len() <= 9).unwrap_or(2);
        axis.ticks = choices.into_iter().nth(fits).expect("one of the three");
        axis
    }

    /// Linear. It starts at 0 unless all values are far from 0, so that heights can be compared.
    pub(super) fn linear(values: &[f64]) -> Self {
        let (mut low, mut high) = bounds(values);
        if low > 0.0 && low < 0.7 * high {
            low = 0.0;
        }
        if high <= low {
            (low, high) = if low == 0.0 {
                (0.0, 1.0)
            } else {
                (low - low.abs() * 0.1, high + high.abs() * 0.1)
            };
        }
        let step = nice_step((high - low) / 6.0);
        let (first, last) = ((low / step).floor(), (high / step - 1e-9).ceil());
        let mut ticks = Vec::new();
        let mut place = first;
        while place <= last + 0.5 {
            ticks.push((place * step, label(place * step, step)));
            place += 1.0;
        }
        // A margin above, so that no marker touches the frame.
        let air = if last * step - high < 0.02 * (high - low) { 0.3 * step } else { 0.0 };
        Self { scale: Scale::Linear, low: first * step, high: last * step + air, ticks }
    }

    /// A time axis, given the midpoints of its windows: linear from zero to the end of the last
    /// window.
    pub(super) fn time(values: &[f64]) -> Self {
        let (low, high) = bounds(values);
        let high = low + high;
        let mut axis = Self::linear(&[0.0, high]);
        axis.high = high;
        axis.ticks.retain(|(value, _)| *value <= high * 1.0001);
        axis
    }

    /// The position between 0 and 1, if the value is on the axis.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let (low, high, value) = match self.scale {
            Scale::Linear => (self.low, self.high, value),
            Scale::Log => {
                (self.low.ln(), self.high.ln(), if value > 0.0 { value.ln() } else { f64::NAN })
            }
        };
        let place = (value - low) / (high - low);
        place.is_finite().then(|| place.clamp(0.0, 1.0))
    }
}

fn bounds(values: &[f64]) -> (f64, f64) {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (low, high) =
        (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    if low > high { (1.0, 10.0) } else { (low, high) }
}

/// 1, 2 or 5 times a power of ten, at least the given step.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * 0.999)
        .unwrap_or(10.0 * power)
}

/// Every value, or every second one and so on, so that the labels do not overlap. The last one is
/// always kept.
fn thinned(values: &[f64], most: usize) -> Vec<f64> {
    let every = values.len().div_ceil(most).max(1);
    let last = values.len().saturating_sub(1);
    values
        .iter()
        .enumerate()
        .filter(|(place, _)| (last - place).is_multiple_of(every))
        .map(|(_, value)| *value)
        .collect()
}

/// The label of a tick: as many decimals as the step needs, and thousands as `20k`.
fn label(value: f64, step: f64) -> String {
    let (value, unit, step) = match step.abs().max(value.abs()) {
        1e9.. => return format!("{value:.0e}"),
        1e6.. => (value / 1e6, "M", step / 1e6),
        10_000.0.. => (value / 1e3, "k", step / 1e3),
        _ => (value, "", step),
    };
    let places =
        (0..7).find(|places| (step * 10f64.powi(*places) + 1e-9).fract() < 1e-6).unwrap_or(7);
    let places = usize::try_from(places).unwrap_or(0);
    // Avoids a negative zero.
    let value = if value.abs() < step.abs() * 1e-6 { 0.0 } else { value };
    format!("{value:.places$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    /// Each size has a tick, as in the papers' figures.
    #[test]
    fn sizes_are_ticks() {
        let axis = Axis::of_values(&[8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]);
        assert_eq!(labels(&axis), ["8", "16", "32", "64", "128", "256", "512", "1024"]);
        assert!(axis.place(8.0).unwrap() > 0.01 && axis.place(1024.0).unwrap() < 0.99);
    }

    /// A logarithmic axis has 1-2-5 ticks over a short range and powers of ten over a long one;
    /// zero has no place on it.
    #[test]
    fn logarithmic_ticks() {
        assert_eq!(labels(&Axis::log(&[3.0, 90.0])), ["5", "10", "20", "50", "100"]);
        assert_eq!(labels(&Axis::log(&[1.0, 90_000.0])), ["1", "10", "100", "1000", "10k", "100k"]);
        assert_eq!(Axis::log(&[3.0, 90.0]).place(0.0), None);
    }

    /// A linear axis has round ticks and starts at zero unless that is far away; it also works for
    /// a single value and for none.
    #[test]
    fn linear_ticks() {
        assert_eq!(
            labels(&Axis::linear(&[27.0, 1110.0])),
            ["0", "200", "400", "600", "800", "1000", "1200"]
        );
        assert_eq!(
            labels(&Axis::linear(&[0.1, 0.55])),
            ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6"]
        );
        assert_eq!(
            labels(&Axis::linear(&[0.0, 25_000.0])),
            ["0", "5000", "10k", "15k", "20k", "25k"]
        );
        for values in [&[5.0][..], &[0.0], &[], &[f64::NAN], &[-3.0, -3.0]] {
            assert!(Axis::linear(values).ticks.len() > 1, "{values:?}");
            assert!(
                values
                    .iter()
                    .all(|value| value.is_nan() || Axis::linear(values).place(*value).is_some())
            );
        }
    }
}
