//! Formats numbers for people, with four significant digits.

use super::Mean;

/// With four significant digits: `1110`, `14.59`, `0.02857`, `1.2e9`.
pub fn shown(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        "none".into()
    } else if size >= 1e9 || (size > 0.0 && size < 1e-4) {
        format!("{number:.2e}")
    } else if number.fract() == 0.0 || size >= 1000.0 {
        format!("{number:.0}")
    } else {
        let places = match size {
            100.0.. => 1,
            10.0.. => 2,
            1.0.. => 3,
            0.1.. => 4,
            0.01.. => 5,
            _ => 6,
        };
        let text = format!("{number:.places$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A mean with its interval: `14.59 ± 0.3`.
pub fn shown_mean(mean: &Mean) -> String {
    match mean.half {
        Some(half) if half > 0.0 => format!("{} ± {}", shown(mean.mean), shown_half(half)),
        Some(_) | None => shown(mean.mean),
    }
}

/// An interval needs only two digits.
fn shown_half(half: f64) -> String {
    if half >= 10.0 {
        format!("{half:.0}")
    } else {
        shown(format!("{half:.1e}").parse().unwrap_or(half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four significant digits; whole numbers stay whole; NaN is named as such.
    #[test]
    fn numbers_are_short() {
        let cases = [
            (1110.0, "1110"),
            (14.586, "14.59"),
            (0.028_571, "0.02857"),
            (0.5, "0.5"),
            (-2.6, "-2.6"),
            (123_456.7, "123457"),
            (0.0, "0"),
            (3e-7, "3.00e-7"),
            (f64::NAN, "none"),
        ];
        for (number, text) in cases {
            assert_eq!(shown(number), text);
        }
        assert_eq!(shown_mean(&Mean { mean: 14.586, half: Some(0.3333), runs: 5 }), "14.59 ± 0.33");
        assert_eq!(shown_mean(&Mean { mean: 14.586, half: None, runs: 1 }), "14.59");
    }
}
