//! Values of the command line that are more than a number or a word.

use std::collections::BTreeSet;

use kgate_core::{NodeId, Span};
use kgate_sim::{Crash, Latency, Think};

use crate::sim::options::{Asking, Detector};

pub(crate) fn span(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error: kgate_core::NotATime| error.to_string())
}

pub(crate) fn latency(text: &str) -> Result<Latency, String> {
    text.parse().map_err(|error: kgate_sim::latency::ParseLatencyError| error.to_string())
}

pub(crate) fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "not a seed: write a number below 2^64, such as 42 or 0x2a".into())
}

pub(crate) fn load(text: &str) -> Result<Asking, String> {
    let first = |count: &str| count.parse().ok().filter(|&count| count > 0);
    match (text, text.strip_prefix("first=").and_then(first)) {
        ("low", _) => Ok(Asking::Low),
        ("high", _) => Ok(Asking::High),
        (_, Some(count)) => Ok(Asking::First(count)),
        _ => text.strip_prefix("only=").and_then(processes).map(Asking::Only).ok_or_else(|| {
            "not a load: write low, high, first=M with M at least 1, or only=P+P with processes such as 4+7".into()
        }),
    }
}

/// `4+7`, in order and each once.
fn processes(text: &str) -> Option<Vec<NodeId>> {
    let ids: BTreeSet<u32> = text.split('+').map(|id| id.parse().ok()).collect::<Option<_>>()?;
    Some(ids.into_iter().map(NodeId).collect())
}

pub(crate) fn detector(text: &str) -> Result<Detector, String> {
    match (text, text.strip_prefix("oracle=")) {
        ("own", _) => Ok(Detector::Own),
        (_, Some(within)) => Ok(Detector::Oracle(span(within)?)),
        _ => Err("not a detector: write own or oracle=T".into()),
    }
}

/// `0.1`, or `gaussian=1,0.2`.
pub(crate) fn think(text: &str) -> Result<Think, String> {
    let Some(drawn) = text.strip_prefix("gaussian=") else {
        return span(text).map(Think::Constant);
    };
    let wrong = || format!("not a pause: write a time, or gaussian=MEAN,DEVIATION, not '{text}'");
    let (mean, deviation) = drawn.split_once(',').ok_or_else(wrong)?;
    let (mean, deviation) =
        (span(mean).map_err(|_| wrong())?, span(deviation).map_err(|_| wrong())?);
    Ok(Think::Gaussian { mean, deviation })
}

pub(crate) fn rho(text: &str) -> Result<f64, String> {
    let rho = text.parse().ok().filter(|rho: &f64| (0.0..=1e6).contains(rho));
    rho.ok_or_else(|| format!("not a ratio: write a number from 0 to 1000000, not '{text}'"))
}

pub(crate) fn refresh(text: &str) -> Result<Span, String> {
    let every = span(text)?;
    if every == Span::ZERO {
        Err("every 0 is all the time: give a longer time".into())
    } else {
        Ok(every)
    }
}

/// `15@5`: process 15 crashes at time 5 for good; `15@5..7`: it is back at 7.
pub(crate) fn crash(text: &str) -> Result<Crash, String> {
    let wrong = || {
        format!(
            "not a crash: write process@time such as 15@5, or 15@5..7 if it comes back, not '{text}'"
        )
    };
    let (node, when) = at(text).ok_or_else(wrong)?;
    let time = |text: &str| span(text).map_err(|_| wrong());
    match when.split_once("..") {
        None => Ok(Crash { node, at: time(when)?, back: None }),
        Some((at, back)) => Ok(Crash { node, at: time(at)?, back: Some(time(back)?) }),
    }
}

/// `2@300`: there are 2 units from time 300 on.
pub(crate) fn resize(text: &str) -> Result<(Span, u32), String> {
    let wrong = || format!("not a resize: write units@time such as 2@300, not '{text}'");
    let (units, when) = text.split_once('@').ok_or_else(wrong)?;
    let units = units.parse().ok().filter(|&units| units > 0).ok_or_else(wrong)?;
    Ok((span(when).map_err(|_| wrong())?, units))
}

/// `3@50`: a transient fault strikes process 3 at time 50.
pub(crate) fn strike(text: &str) -> Result<(NodeId, Span), String> {
    let wrong = || format!("not a fault: write process@time such as 3@50, not '{text}'");
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

    /// What cannot be meant is refused, with the form that can.
    #[test]
    fn values_and_what_is_none() {
        assert_eq!(seed("0x2a"), seed("42"));
        assert_eq!(load("first=7"), Ok(Asking::First(7)));
        assert_eq!(
            crash("p3@0.5").map(|crash| (crash.node, crash.at)),
            Ok((NodeId(3), Span(500_000_000)))
        );
        assert_eq!(detector("oracle=2"), Ok(Detector::Oracle(Span::UNIT.times(2))));
        for text in ["", "first=0", "first=", "middle"] {
            assert!(load(text).unwrap_err().contains("first=M"), "{text:?}");
        }
        for text in ["3", "@5", "3@", "x@5", "3@x", "-1@5", "3@5..", "3@5..x"] {
            assert!(crash(text).unwrap_err().contains("15@5"), "{text:?}");
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
            assert!(resize(text).unwrap_err().contains("2@300"), "{text:?}");
        }
        assert!(refresh("0").is_err() && strike("3").is_err());
        assert!(seed("abc").is_err() && detector("oracle").is_err() && span("1s").is_err());
    }
}
