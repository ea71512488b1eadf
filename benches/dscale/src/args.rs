//! Command line: `--name value` pairs, all optional.

use std::fmt::Display;
use std::str::FromStr;

use dscale::{Distr, Jiffies, Seed};

pub const USAGE: &str = "usage: kgate-dscale-rival [--nodes N] [--k K] [--entries E] \
    [--latency constant=T | uniform=A..B] [--hold T] [--think T] [--seed S]";

/// dscale counts time in whole jiffies; this many make one time unit.
const JIFFIES_PER_UNIT: f64 = 1_000_000.0;
/// Keeps sums of delays far from overflow.
const MAX_UNITS: f64 = 1_000_000.0;

pub struct Args {
    pub nodes: usize,
    pub k: usize,
    pub entries: usize,
    pub latency: Distr,
    pub hold: Jiffies,
    pub think: Jiffies,
    pub seed: Seed,
}

pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args {
        nodes: 1024,
        k: 3,
        entries: 1,
        latency: latency("constant=1")?,
        hold: time("0.0002")?,
        think: time("0.1")?,
        seed: 1,
    };
    while let Some(name) = words.next() {
        let mut value = || words.next().ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--nodes" => args.nodes = number(&value()?)?,
            "--k" => args.k = number(&value()?)?,
            "--entries" => args.entries = number(&value()?)?,
            "--latency" => args.latency = latency(&value()?)?,
            "--hold" => args.hold = time(&value()?)?,
            "--think" => args.think = time(&value()?)?,
            "--seed" => args.seed = number(&value()?)?,
            _ => return Err(format!("unknown argument {name}")),
        }
    }
    if args.nodes == 0 || args.k == 0 {
        return Err("--nodes and --k must be at least 1".into());
    }
    // A Lamport clock reaches at most the number of requests made.
    if args.nodes.checked_mul(args.entries).is_none_or(|all| all > u32::MAX as usize) {
        return Err("--nodes times --entries must fit 32 bits".into());
    }
    Ok(args)
}

fn number<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|why| format!("bad number {text:?}: {why}"))
}

fn time(text: &str) -> Result<Jiffies, String> {
    let units: f64 = number(text)?;
    if !(0.0..=MAX_UNITS).contains(&units) {
        return Err(format!("time {text} is not within 0..{MAX_UNITS}"));
    }
    Ok(Jiffies((units * JIFFIES_PER_UNIT).round() as usize))
}

fn latency(text: &str) -> Result<Distr, String> {
    if let Some(value) = text.strip_prefix("constant=") {
        return Ok(Distr::Constant { value: time(value)? });
    }
    let bounds = text.strip_prefix("uniform=").and_then(|b| b.split_once(".."));
    let (low, high) = bounds.ok_or(format!("bad latency {text:?}"))?;
    let (low, high) = (time(low)?, time(high)?);
    if low > high {
        return Err(format!("latency {text:?}: bounds out of order"));
    }
    Ok(Distr::Uniform { low, high }) // both ends inclusive
}
