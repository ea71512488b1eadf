//! Values of the command line that are more than a number or a word.

use kgate_core::{NodeId, Span};
use kgate_sim::{Crash, Latency};

use crate::cli::{Asking, Detector};

pub(crate) fn span(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error: kgate_core::NotATime| error.to_string())
}

pub(crate) fn latency(text: &str) -> Result<Latency, String> {
    text.parse().map_err(|error: kgate_sim::latency::NotALatency| error.to_string())
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
        _ => Err("not a load: write low, high or first=M with M at least 1".into()),
    }
}

pub(crate) fn detector(text: &str) -> Result<Detector, String> {
    match (text, text.strip_prefix("oracle=")) {
        ("own", _) => Ok(Detector::Own),
        (_, Some(within)) => Ok(Detector::Oracle(span(within)?)),
        _ => Err("not a detector: write own or oracle=T".into()),
    }
}

/// `15@5`: process 15 crashes at time 5.
pub(crate) fn crash(text: &str) -> Result<Crash, String> {
    let wrong = || format!("not a crash: write process@time such as 15@5, not '{text}'");
    let (node, at) = text.split_once('@').ok_or_else(wrong)?;
    let node = node.strip_prefix('p').unwrap_or(node).parse().map_err(|_| wrong())?;
    Ok(Crash { node: NodeId(node), at: span(at).map_err(|_| wrong())? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cannot be meant is refused, with the form that can.
    #[test]
    fn values_and_what_is_none() {
        assert_eq!(seed("0x2a"), seed("42"));
        assert_eq!(load("first=7"), Ok(Asking::First(7)));
        assert_eq!(crash("p3@0.5").map(|crash| (crash.node, crash.at)), Ok((NodeId(3), Span(500_000_000))));
        assert_eq!(detector("oracle=2"), Ok(Detector::Oracle(Span::UNIT.times(2))));
        for text in ["", "first=0", "first=", "middle"] {
            assert!(load(text).unwrap_err().contains("first=M"), "{text:?}");
        }
        for text in ["3", "@5", "3@", "x@5", "3@x", "-1@5"] {
            assert!(crash(text).unwrap_err().contains("15@5"), "{text:?}");
        }
        assert!(seed("abc").is_err() && detector("oracle").is_err() && span("1s").is_err());
    }
}
