//! How long the network takes.

use std::fmt;
use std::str::FromStr;

use kgate_core::Span;

use crate::rng::Rng;

/// The time a message spends in the network (the papers' t_t).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Always the same; messages that leave in turn arrive in turn.
    Constant(Span),
    /// Evenly between two bounds; messages overtake each other.
    Uniform(Span, Span),
    /// Exponential with that mean: most are short, a few very long, none is the longest.
    Exponential(Span),
}

impl Latency {
    /// The longest that can be drawn; none if there is no bound.
    pub fn most(&self) -> Option<Span> {
        match *self {
            Self::Constant(span) | Self::Uniform(_, span) => Some(span),
            Self::Exponential(_) => None,
        }
    }

    /// A span that few draws exceed.
    pub fn typical(&self) -> Span {
        match *self {
            Self::Constant(span) | Self::Uniform(_, span) => span,
            Self::Exponential(mean) => mean.times(8),
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub(crate) fn draw(&self, rng: &mut Rng) -> Span {
        match *self {
            Self::Constant(span) => span,
            Self::Uniform(least, most) => Span(rng.within(least.0, most.0)),
            // Rounded to a whole nanosecond; the tail ends at 37 times the mean, where the dice have no finer steps.
            Self::Exponential(mean) => Span((-rng.unit().ln() * mean.0 as f64) as u64),
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(span) => write!(f, "constant={span}"),
            Self::Uniform(least, most) => write!(f, "uniform={least}..{most}"),
            Self::Exponential(mean) => write!(f, "exponential={mean}"),
        }
    }
}

/// Why a text is not a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a latency: write constant=0.8, uniform=0.5..1.5 or exponential=0.8")]
pub struct NotALatency;

impl FromStr for Latency {
    type Err = NotALatency;
    fn from_str(text: &str) -> Result<Self, NotALatency> {
        let (shape, value) = text.split_once('=').ok_or(NotALatency)?;
        let span = |text: &str| text.parse::<Span>().map_err(|_| NotALatency);
        match shape {
            "constant" => Ok(Self::Constant(span(value)?)),
            "exponential" => Ok(Self::Exponential(span(value)?)),
            "uniform" => {
                let (least, most) = value.split_once("..").ok_or(NotALatency)?;
                let (least, most) = (span(least)?, span(most)?);
                if least <= most { Ok(Self::Uniform(least, most)) } else { Err(NotALatency) }
            }
            _ => Err(NotALatency),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is printed can be typed, and what cannot be meant is refused.
    #[test]
    fn text_and_back() {
        for text in ["constant=0.8", "uniform=0.5..1.5", "exponential=2"] {
            assert_eq!(text.parse::<Latency>().unwrap().to_string(), text);
        }
        for text in ["", "0.8", "constant", "constant=x", "uniform=1", "uniform=2..1", "normal=1"] {
            assert_eq!(text.parse::<Latency>(), Err(NotALatency), "{text:?}");
        }
    }

    /// The mean of an exponential latency is the one asked for.
    #[test]
    fn exponential_has_its_mean() {
        let mut rng = Rng::fork(7, "latency");
        let mean = Latency::Exponential(Span::UNIT);
        let total: u64 = (0..100_000).map(|_| mean.draw(&mut rng).0).sum();
        let measured = Span(total / 100_000).units();
        assert!((measured - 1.0).abs() < 0.02, "{measured}");
    }
}
