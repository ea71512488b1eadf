//! The configuration of the nodes under test and the timing that a run has to know.

use std::path::Path;

use anyhow::{Result, bail};

use crate::network;
use crate::schedule::Plan;

/// The fault model of the nodes under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `faults = "lease"`: tolerates every kind of fault.
    Lease,
    /// `faults = "crash-stop"`: a silent node is declared dead, so only faults that silence a node
    /// briefly are drawn.
    CrashStop,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::CrashStop => "crash-stop",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let both = [Self::Lease, Self::CrashStop];
        match both.into_iter().find(|mode| mode.name() == text) {
            Some(mode) => Ok(mode),
            None => bail!("no mode is called `{text}`: choose lease or crash-stop"),
        }
    }
}

/// The timing of nodes and clients, as far as a run has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub(crate) preset: &'static str,
    /// L: the length of a lease.
    pub(crate) lease_ms: u64,
    /// G: the time from SIGTERM to SIGKILL.
    pub(crate) grace_ms: u64,
    /// Maximum error of a clock's rate.
    pub(crate) clock_error_ppm: u32,
}

impl Timing {
    const FAST: Timing =
        Timing { preset: "fast", lease_ms: 700, grace_ms: 150, clock_error_ppm: 10_000 };
    const DEFAULT: Timing =
        Timing { preset: "default", lease_ms: 4_000, grace_ms: 1_000, clock_error_ppm: 10_000 };
    /// Long enough for `kgate run` with crash-stop nodes on a busy machine.
    pub(crate) const CRASH_STOP: Timing =
        Timing { preset: "crash-stop", lease_ms: 2_600, grace_ms: 300, clock_error_ppm: 0 };

    pub(crate) fn parse(text: &str) -> Result<Self> {
        match [Self::FAST, Self::DEFAULT].into_iter().find(|timing| timing.preset == text) {
            Some(timing) => Ok(timing),
            None => bail!("no timing is called `{text}`: choose fast or default"),
        }
    }

    /// The longest time without a quorum in which a node may still grant: its lease by the slowest
    /// permitted clock, plus the time until a cut is in place everywhere.
    pub(crate) fn lease_at_most_ns(&self) -> u64 {
        let million = 1_000_000;
        let lease_ns = self.lease_ms * million;
        lease_ns * million / (million - u64::from(self.clock_error_ppm)) + 20 * million
    }
}

/// How long a node that takes silence for death waits for an answer.
const DETECT_MS: u64 = 1_500;
/// The longest silence that crash-stop nodes certainly tolerate, on a busy machine.
pub(crate) const CRASH_STOP_SILENCE_MS: u64 = 400;

/// The address of a node's API over TCP, in its namespace.
pub(crate) const API: &str = "127.0.0.1:7400";

/// The address of a node's API over a Unix socket.
pub(crate) fn socket(run: &Path, node: u32) -> String {
    format!("unix:{}/api-{node}", run.display())
}

/// Renders the configuration of a node.
pub(crate) fn node_config(
    run: &Path,
    node: u32,
    plan: &Plan,
    mode: Mode,
    timing: &Timing,
) -> String {
    let peers: Vec<String> = (0..plan.nodes)
        .map(|peer| format!("{}:{}", network::address(peer), network::PORT))
        .collect();
    let api = [API.to_owned(), socket(run, node)];
    let data = run.join(format!("data-{node}"));
    let common = format!(
        "cluster = \"chaos\"\nid = {node}\nnodes = {peers:?}\n\
         api = {api:?}\ndata = {data:?}\nplain_links = true\n"
    );
    let rest = match mode {
        Mode::Lease => {
            format!(
                "faults = \"lease\"\nvoters = {}\n[timing]\npreset = {:?}\n",
                plan.voters, timing.preset
            )
        }
        Mode::CrashStop => format!(
            "faults = \"crash-stop\"\nlease_ms = {}\n\
             detect_interval_ms = 100\ndetect_timeout_ms = {DETECT_MS}\n",
            timing.lease_ms
        ),
    };
    common + &rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are read as they are written, and nothing else is.
    #[test]
    fn names_are_read() {
        for mode in [Mode::Lease, Mode::CrashStop] {
            assert_eq!(Mode::parse(mode.name()).unwrap(), mode);
        }
        assert_eq!(Timing::parse("fast").unwrap(), Timing::FAST);
        assert!(Mode::parse("x").is_err() && Timing::parse("crash-stop").is_err());
    }

    /// The bound on a minority is the lease by the slowest clock, and a little more.
    #[test]
    fn a_lease_by_a_slow_clock() {
        assert_eq!(Timing::FAST.lease_at_most_ns(), 700_000_000 * 100 / 99 + 20_000_000);
    }
}
