//! Integer time: nanoseconds. One time unit (t.u.) of the papers is one second.

use core::fmt;
use core::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// A point in time on the driver's clock, in nanoseconds since the driver's start.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A length of time in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(pub u64);

impl Time {
    /// The driver's start.
    pub const ZERO: Time = Time(0);
    /// Later than every event.
    pub const NEVER: Time = Time(u64::MAX);

    /// The time since `earlier`; zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// One time unit of the papers.
    pub const UNIT: Span = Span(1_000_000_000);

    /// In time units, for people and tables; no computation uses it.
    #[allow(clippy::cast_precision_loss)] // For display only.
    pub fn units(self) -> f64 {
        self.0 as f64 / Span::UNIT.0 as f64
    }

    /// `count` times as long.
    pub const fn times(self, count: u64) -> Span {
        Span(self.0.saturating_mul(count))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

/// Decimal time units without trailing zeros: `0.8`, `12`, `0.0002`.
fn write_units(f: &mut fmt::Formatter<'_>, nanos: u64) -> fmt::Result {
    let (whole, mut rest) = (nanos / Span::UNIT.0, nanos % Span::UNIT.0);
    write!(f, "{whole}")?;
    if rest > 0 {
        let mut digits = 9;
        while rest.is_multiple_of(10) {
            rest /= 10;
            digits -= 1;
        }
        write!(f, ".{rest:0digits$}")?;
    }
    Ok(())
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_units(f, self.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_units(f, self.0)
    }
}

/// Why a text is not a length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time: write decimal time units such as 0.8, 12 or 0.0002 (at most nine decimals)")]
pub struct NotATime;

impl core::str::FromStr for Span {
    type Err = NotATime;

    /// Exact: decimal digits become nanoseconds without a detour through floating point.
    fn from_str(text: &str) -> Result<Span, NotATime> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits_only = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() && fraction.is_empty()
            || fraction.len() > 9
            || !digits_only(whole)
            || !digits_only(fraction)
        {
            return Err(NotATime);
        }
        let parse = |part: &str| if part.is_empty() { Ok(0) } else { part.parse::<u64>() };
        let whole = parse(whole).map_err(|_| NotATime)?;
        let mut nanos = parse(fraction).map_err(|_| NotATime)?;
        for _ in fraction.len()..9 {
            nanos *= 10;
        }
        whole.checked_mul(Span::UNIT.0).and_then(|n| n.checked_add(nanos)).map(Span).ok_or(NotATime)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    /// Parsing and printing a time is exact, so that a command line means the same run everywhere.
    #[test]
    fn decimal_units_are_exact() {
        for text in ["0", "0.8", "0.0002", "12", "100.9", "0.000000001", "18446744073.709551615"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert_eq!("1.".parse::<Span>(), Ok(Span::UNIT));
        assert_eq!(".5".parse::<Span>(), Ok(Span(500_000_000)));
        for text in ["", ".", "-1", "1e3", "0.0000000001", "18446744073.709551616", "1.2.3", "+1"] {
            assert_eq!(text.parse::<Span>(), Err(NotATime), "{text:?}");
        }
    }
}
