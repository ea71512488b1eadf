//! Parsers for option values that are more than a number or a word.

use std::collections::BTreeSet;

use kgate_core::{NodeId, Span};
use kgate_sim::{Crash, Latency, Think};

use crate::sim::options::{Detector, Requesters};

/// An option value that cannot be parsed. Each message shows the expected form.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    #[error(transparent)]
    Time(#[from] kgate_core::NotATime),
    #[error(transparent)]
    Latency(#[from] kgate_sim::latency::ParseLatencyError),
    #[error("not a seed: write a number below 2^64, for example 42 or 0x2a")]
    Seed,
    #[error(
        "not a load: write low, high, first=M with M at least 1, or only=P+P with processes, for \
         example only=4+7"
    )]
    Load,
    #[error("not a detector: write own or oracle=T")]
    Detector,
    #[error("not a pause: write a time, or gaussian=MEAN,DEVIATION, not '{0}'")]
    Think(String),
    #[error("not a ratio: write a number from 0 to 1000000, not '{0}'")]
    Ratio(String),
    #[error("the interval 0 is not possible: give a longer time")]
    ZeroInterval,
    #[error(
        "not a crash: write process@time, for example 15@5, or 15@5..7 with recovery, not '{0}'"
    )]
    Crash(String),
    #[error("not a change of k: write k@time, for example 2@300, not '{0}'")]
    Resize(String),
    #[error("not a fault: write process@time, for example 3@50, not '{0}'")]
    Fault(String),
}

pub(crate) fn span(text: &str) -> Result<Span, ValueError> {
    Ok(text.parse()?)
}

pub(crate) fn latency(text: &str) -> Result<Latency, ValueError> {
    Ok(text.parse()?)
}

pub(crate) fn seed(text: &str) -> Result<u64, ValueError> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| ValueError::Seed)
}

pub(crate) fn load(text: &str) -> Result<Requesters, ValueError> {
    let first = |count: &str| count.parse().ok().filter(|&count| count > 0);
    match (text, text.strip_prefix("first=").and_then(first)) {
        ("low", _) => Ok(Requesters::Low),
        ("high", _) => Ok(Requesters::High),
        (_, Some(count)) => Ok(Requesters::First(count)),
        _ => text
            .strip_prefix("only=")
            .and_then(processes)
            .map(Requesters::Only)
            .ok_or(ValueError::Load),
    }
}

/// `4+7`, sorted and without duplicates.
fn processes(text: &str) -> Option<Vec<NodeId>> {
    let ids: BTreeSet<u32> = text.split('+').map(|id| id.parse().ok()).collect::<Option<_>>()?;
    Some(ids.into_iter().map(NodeId).collect())
}

pub(crate) fn detector(text: &str) -> Result<Detector, ValueError> {
    match (text, text.strip_prefix("oracle=")) {
        ("own", _) => Ok(Detector::Own),
        (_, Some(within)) => Ok(Detector::Oracle(span(within)?)),
        _ => Err(ValueError::Detector),
    }
}

/// `0.1`, or `gaussian=1,0.2`.
pub(crate) fn think(text: &str) -> Result<Think, ValueError> {
    let Some(gaussian) = text.strip_prefix("gaussian=") else {
        return span(text).map(Think::Constant);
    };
    let wrong = || ValueError::Think(text.to_owned());
    let (mean, deviation) = gaussian.split_once(',').ok_or_else(wrong)?;
    let (mean, deviation) =
        (span(mean).map_err(|_| wrong())?, span(deviation).map_err(|_| wrong())?);
    Ok(Think::Gaussian { mean, deviation })
}

pub(crate) fn rho(text: &str) -> Result<f64, ValueError> {
    let rho = text.parse().ok().filter(|rho: &f64| (0.0..=1e6).contains(rho));
    rho.ok_or_else(|| ValueError::Ratio(text.to_owned()))
}

pub(crate) fn refresh(text: &str) -> Result<Span, ValueError> {
    let every = span(text)?;
    if every == Span::ZERO { Err(ValueError::ZeroInterval) } else { Ok(every) }
}

/// `15@5`: process 15 crashes permanently at time 5; `15@5..7`: it recovers at 7.
pub(crate) fn crash(text: &str) -> Result<Crash, ValueError> {
    let wrong = || ValueError::Crash(text.to_owned());
    let (node, when) = at(text).ok_or_else(wrong)?;
    let time = |text: &str| span(text).map_err(|_| wrong());
    match when.split_once("..") {
        None => Ok(Crash { node, at: time(when)?, back: None }),
        Some((at, back)) => Ok(Crash { node, at: time(at)?, back: Some(time(back)?) }),
    }
}

/// `2@300`: k is 2 from time 300 on.
pub(crate) fn resize(text: &str) -> Result<(Span, u32), ValueError> {
    let wrong = || ValueError::Resize(text.to_owned());
    let (k, when) = text.split_once('@').ok_or_else(wrong)?;
    let k = k.parse().ok().filter(|&k| k > 0).ok_or_else(wrong)?;
    Ok((span(when).map_err(|_| wrong())?, k))
}

/// `3@50`: a transient fault strikes process 3 at time 50.
pub(crate) fn strike(text: &str) -> Result<(NodeId, Span), ValueError> {
    let wrong = || ValueError::Fault(text.to_owned());
    let (node, when) = at(text).ok_or_else(wrong)?;
    Ok((node, span(when).map_err(|_| wrong())?))
}

/// `p3@..` or `3@..`.
fn at(text: &str) -> Option<(NodeId, &str)> {
    let (node, when) = text.split_once('@')?;
    let node = node.strip_prefix('p').unwrap_or(node).parse().ok()?;
    Some((NodeId(node), when))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every form is parsed; every malformed value is rejected with the error of its kind.
    #[test]
    fn values_are_parsed_or_rejected() {
        assert_eq!(seed("0x2a"), seed("42"));
        assert_eq!(load("first=7"), Ok(Requesters::First(7)));
        assert_eq!(
            crash("p3@0.5").map(|crash| (crash.node, crash.at)),
            Ok((NodeId(3), Span(500_000_000)))
        );
        assert_eq!(detector("oracle=2"), Ok(Detector::Oracle(Span::UNIT.times(2))));
        for text in ["", "first=0", "first=", "middle"] {
            assert_eq!(load(text), Err(ValueError::Load), "{text:?}");
        }
        for text in ["3", "@5", "3@", "x@5", "3@x", "-1@5", "3@5..", "3@5..x"] {
            assert_eq!(crash(text), Err(ValueError::Crash(text.to_owned())));
        }
        let back = crash("3@5..7").map(|crash| (crash.at, crash.back));
        assert_eq!(back, Ok((Span::UNIT.times(5), Some(Span::UNIT.times(7)))));
        assert_eq!(strike("p3@5"), Ok((NodeId(3), Span::UNIT.times(5))));
        let gaussian = Think::Gaussian { mean: Span::UNIT, deviation: Span::UNIT.times(2) };
        assert_eq!(
            (think("1"), think("gaussian=1,2")),
            (Ok(Think::Constant(Span::UNIT)), Ok(gaussian))
        );
        for text in ["gaussian=1", "gaussian=,1", "x"] {
            assert!(think(text).is_err(), "{text:?}");
        }
        assert!(
            rho("-1").is_err() && rho("x").is_err() && rho("nan").is_err() && rho("2.5") == Ok(2.5)
        );
        assert_eq!(resize("2@300"), Ok((Span::UNIT.times(300), 2)));
        for text in ["2", "0@5", "x@5", "2@", "2@x"] {
            assert_eq!(resize(text), Err(ValueError::Resize(text.to_owned())));
        }
        assert!(refresh("0").is_err() && strike("3").is_err());
        assert!(seed("abc").is_err() && detector("oracle").is_err() && span("1s").is_err());
    }
}
