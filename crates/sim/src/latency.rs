//! The latency of the network.

use std::fmt;
use std::str::FromStr;

use kgate_core::{NodeId, Span};

use crate::rng::{self, Rng};

/// The time a message spends in the network (the papers' t_t).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Constant; messages arrive in the order in which they leave.
    Constant(Span),
    /// Uniform between two bounds; messages overtake each other.
    Uniform(Span, Span),
    /// Exponential with this mean: mostly short, sometimes very long, without a bound.
    Exponential(Span),
    /// Clusters with short latencies inside and long ones between them (timer-free-2009 section 5);
    /// fixed per pair.
    Grid(Grid),
}

/// Clusters of equal size. The first cluster holds p0 and its successors, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The number of clusters.
    pub clusters: u32,
    /// The number of processes in each cluster.
    pub size: u32,
    /// The bounds of the latency within a cluster.
    pub intra: (Span, Span),
    /// The bounds of the latency between clusters.
    pub inter: (Span, Span),
}

impl Grid {
    /// The number of processes; none on overflow.
    pub fn nodes(&self) -> Option<u32> {
        self.clusters.checked_mul(self.size)
    }

    /// The latency of one pair: the same in both directions and for the whole run.
    fn between(&self, seed: u64, a: NodeId, b: NodeId) -> Span {
        let same = a.0 / self.size == b.0 / self.size;
        let (least, most) = if same { self.intra } else { self.inter };
        let pair = u64::from(a.0.min(b.0)) << 32 | u64::from(a.0.max(b.0));
        Span(rng::of_pair(seed, pair).within(least.0, most.0))
    }
}

impl Latency {
    /// The longest latency; none if there is no bound.
    pub fn most(&self) -> Option<Span> {
        match *self {
            Self::Constant(span) | Self::Uniform(_, span) => Some(span),
            Self::Grid(grid) => Some(grid.intra.1.max(grid.inter.1)),
            Self::Exponential(_) => None,
        }
    }

    /// A span that few samples exceed.
    pub fn typical(&self) -> Span {
        match *self {
            Self::Constant(span) | Self::Uniform(_, span) => span,
            Self::Grid(grid) => grid.intra.1.max(grid.inter.1),
            Self::Exponential(mean) => mean.times(8),
        }
    }

    /// Whether a message can overtake an earlier one to the same process.
    pub(crate) fn reorders(&self) -> bool {
        match self {
            Self::Constant(_) | Self::Grid(_) => false,
            Self::Uniform(..) | Self::Exponential(_) => true,
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub(crate) fn sample(&self, rng: &mut Rng, seed: u64, from: NodeId, to: NodeId) -> Span {
        match *self {
            Self::Grid(grid) => grid.between(seed, from, to),
            Self::Constant(span) => span,
            Self::Uniform(least, most) => Span(rng.within(least.0, most.0)),
            // Rounded to whole nanoseconds; the tail ends at 37 times the mean, where the generator
            // has no finer steps.
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
            Self::Grid(Grid { clusters, size, intra, inter }) => write!(
                f,
                "grid={clusters}x{size},intra={}..{},inter={}..{}",
                intra.0, intra.1, inter.0, inter.1
            ),
        }
    }
}

/// The text is not a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a latency: write constant=0.8, uniform=0.5..1.5, exponential=0.8 or \
     grid=10x10,intra=0.010..0.030,inter=0.180..0.220"
)]
pub struct ParseLatencyError;

impl FromStr for Latency {
    type Err = ParseLatencyError;
    fn from_str(text: &str) -> Result<Self, ParseLatencyError> {
        let (shape, value) = text.split_once('=').ok_or(ParseLatencyError)?;
        let span = |text: &str| text.parse::<Span>().map_err(|_| ParseLatencyError);
        match shape {
            "constant" => Ok(Self::Constant(span(value)?)),
            "exponential" => Ok(Self::Exponential(span(value)?)),
            "uniform" => range(value).map(|(least, most)| Self::Uniform(least, most)),
            "grid" => grid(value).map(Self::Grid),
            _ => Err(ParseLatencyError),
        }
    }
}

fn range(text: &str) -> Result<(Span, Span), ParseLatencyError> {
    let (least, most) = text.split_once("..").ok_or(ParseLatencyError)?;
    let span = |text: &str| text.parse::<Span>().map_err(|_| ParseLatencyError);
    let (least, most) = (span(least)?, span(most)?);
    if least <= most { Ok((least, most)) } else { Err(ParseLatencyError) }
}

/// `10x10,intra=0.010..0.030,inter=0.180..0.220`
fn grid(text: &str) -> Result<Grid, ParseLatencyError> {
    let [shape, intra, inter] = text.split(',').collect::<Vec<_>>()[..] else {
        return Err(ParseLatencyError);
    };
    let (clusters, size) = shape.split_once('x').ok_or(ParseLatencyError)?;
    let count =
        |text: &str| text.parse().ok().filter(|&count: &u32| count > 0).ok_or(ParseLatencyError);
    let named = |text: &str, name: &str| range(text.strip_prefix(name).ok_or(ParseLatencyError)?);
    Ok(Grid {
        clusters: count(clusters)?,
        size: count(size)?,
        intra: named(intra, "intra=")?,
        inter: named(inter, "inter=")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The printed form parses back, and malformed text is refused.
    #[test]
    fn text_round_trips() {
        let grid = "grid=10x10,intra=0.01..0.03,inter=0.18..0.22";
        for text in ["constant=0.8", "uniform=0.5..1.5", "exponential=2", grid] {
            assert_eq!(text.parse::<Latency>().unwrap().to_string(), text);
        }
        for text in [
            "grid=10",
            "grid=0x3,intra=1..2,inter=1..2",
            "grid=3x3,intra=2..1,inter=1..2",
            "grid=3x3",
        ] {
            assert_eq!(text.parse::<Latency>(), Err(ParseLatencyError), "{text:?}");
        }
        for text in ["", "0.8", "constant", "constant=x", "uniform=1", "uniform=2..1", "normal=1"] {
            assert_eq!(text.parse::<Latency>(), Err(ParseLatencyError), "{text:?}");
        }
    }

    /// An exponential latency has the configured mean.
    #[test]
    fn exponential_has_its_mean() {
        let mut rng = Rng::fork(7, "latency");
        let mean = Latency::Exponential(Span::UNIT);
        let total: u64 =
            (0..100_000).map(|_| mean.sample(&mut rng, 1, NodeId(0), NodeId(1)).0).sum();
        let measured = Span(total / 100_000).units();
        assert!((measured - 1.0).abs() < 0.02, "{measured}");
    }

    /// A grid is fast inside a cluster and slow between clusters, the same in both directions and
    /// every time, and differs between seeds.
    #[test]
    fn grid_latency_is_fixed_per_pair() {
        let latency: Latency = "grid=2x3,intra=0.01..0.03,inter=0.18..0.22".parse().unwrap();
        let mut rng = Rng::fork(1, "latency");
        let mut sample = |seed, a, b| latency.sample(&mut rng, seed, NodeId(a), NodeId(b)).units();
        assert!(
            (0.01..=0.03).contains(&sample(5, 0, 2)) && (0.18..=0.22).contains(&sample(5, 2, 3))
        );
        assert_eq!((sample(5, 2, 3), sample(5, 2, 3)), (sample(5, 3, 2), sample(5, 3, 2)));
        assert_ne!((sample(5, 2, 3), sample(5, 1, 4)), (sample(6, 2, 3), sample(6, 1, 4)));
    }
}
