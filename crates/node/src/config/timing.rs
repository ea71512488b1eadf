//! The table `[timing]`: a preset, and each number of the leases by its name.
//!
//! ```toml
//! [timing]
//! preset = "fast"        # or "default"
//! lease = "800ms"        # and whatever else is to differ from the preset
//! ```

use kgate_control::timing::Timing;
use kgate_core::Span;
use serde::{Deserialize, Deserializer, de};

use super::{BadConfig, Config};

/// The table `[timing]`. What is left out is as in the preset; `docs/internals/leases.md` says what
/// each is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimingConfig {
    /// Preset that supplies the keys that are left out.
    pub preset: Preset,
    /// L: length of a lease, counted from the sending of the ping that a majority answered.
    #[serde(deserialize_with = "span")]
    pub lease: Option<Span>,
    /// Interval of a node's pings to the voters.
    #[serde(deserialize_with = "span")]
    pub node_ping: Option<Span>,
    /// Interval at which a client renews its session.
    #[serde(deserialize_with = "span")]
    pub session_ping: Option<Span>,
    /// Maximum error of a clock's rate, in parts per million.
    pub clock_error: Option<u32>,
    /// Extra wait before an eviction, for the granularity of timers.
    #[serde(deserialize_with = "span")]
    pub margin: Option<Span>,
    /// G: maximum time from SIGTERM to SIGKILL that nodes plan for.
    #[serde(deserialize_with = "span")]
    pub grace: Option<Span>,
    /// K: maximum time from SIGKILL until a process is dead.
    #[serde(deserialize_with = "span")]
    pub kill: Option<Span>,
    /// Time without an answer after which a node is suspected.
    #[serde(deserialize_with = "span")]
    pub suspect_after: Option<Span>,
    /// Maximum round-trip time that the timing allows for.
    #[serde(deserialize_with = "span")]
    pub round_trip: Option<Span>,
}

/// A consistent set of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// For production.
    #[default]
    Default,
    /// For one machine room, and tests.
    Fast,
}

impl Config {
    /// The durations of the leases, if they are consistent.
    pub(crate) fn timing(&self) -> Result<Timing, BadConfig> {
        let timing = self.timing.numbers();
        timing.check().map_err(|bad| BadConfig::Invalid(format!("[timing]: {bad}")))?;
        Ok(timing)
    }
}

impl TimingConfig {
    pub(super) fn numbers(&self) -> Timing {
        let base = match self.preset {
            Preset::Default => Timing::DEFAULT,
            Preset::Fast => Timing::FAST,
        };
        Timing {
            lease: self.lease.unwrap_or(base.lease),
            node_ping: self.node_ping.unwrap_or(base.node_ping),
            session_ping: self.session_ping.unwrap_or(base.session_ping),
            clock_error: self.clock_error.unwrap_or(base.clock_error),
            margin: self.margin.unwrap_or(base.margin),
            grace: self.grace.unwrap_or(base.grace),
            kill: self.kill.unwrap_or(base.kill),
            suspect_after: self.suspect_after.unwrap_or(base.suspect_after),
            round_trip: self.round_trip.unwrap_or(base.round_trip),
        }
    }
}

fn span<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
    let text = String::deserialize(from)?;
    read_span(&text).map(Some).ok_or_else(|| {
        de::Error::custom(format!(
            "`{text}` is not a length of time: write it as in \"500ms\", \"1.5s\" or \"2m\""
        ))
    })
}

/// A decimal number and its unit, exactly: no rounding, since these numbers are compared.
fn read_span(text: &str) -> Option<Span> {
    let unit_at = text.find(|c: char| c != '.' && !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let unit: u64 = match unit {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || part.is_empty() || part.len() > 9 || part.contains('.') {
        return None;
    }
    let scale = 10_u64.pow(u32::try_from(part.len()).ok()?);
    let part = part.parse::<u64>().ok()?.checked_mul(unit)?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    (part % scale == 0).then(|| whole.checked_add(part / scale).map(Span)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Durations are parsed exactly.
    #[test]
    fn lengths_of_time() {
        let table = [
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            ("4s", 4_000_000_000),
            ("2m", 120_000_000_000),
            ("250us", 250_000),
            ("0.001s", 1_000_000),
        ];
        for (text, nanoseconds) in table {
            assert_eq!(read_span(text), Some(Span(nanoseconds)), "{text}");
        }
        for text in [
            "",
            "500",
            "ms",
            ".5s",
            "1.s",
            "1..5s",
            "-1s",
            "1 s",
            "1h",
            "0.0001us",
            "99999999999999m",
        ] {
            assert_eq!(read_span(text), None, "{text}");
        }
    }

    fn read(table: &str) -> Config {
        toml::from_str(&format!("id = 0\nnodes = [\"a:1\"]\n{table}")).expect("a configuration")
    }

    /// LEASES section 1: a preset, and single numbers that differ; what does not fit together is
    /// refused with the numbers.
    #[test]
    fn presets_and_single_numbers() {
        assert_eq!(read("").timing().unwrap(), Timing::DEFAULT);
        assert_eq!(read("[timing]\npreset = \"fast\"").timing().unwrap(), Timing::FAST);
        let longer = read("[timing]\npreset = \"fast\"\nlease = \"900ms\"\nclock_error = 20000")
            .timing()
            .unwrap();
        assert_eq!(
            longer,
            Timing { lease: Span(900_000_000), clock_error: 20_000, ..Timing::FAST }
        );
        let short = read("[timing]\nlease = \"2s\"").timing().unwrap_err().to_string();
        assert!(
            short.starts_with("[timing]: the lease is too short") && short.contains("3.65 s"),
            "{short}"
        );
    }

    /// Unknown keys and values that are no durations are refused.
    #[test]
    fn malformed_values_are_refused() {
        for table in ["leese = \"1s\"", "lease = 4", "lease = \"4\"", "preset = \"slow\""] {
            let text = format!("id = 0\nnodes = [\"a:1\"]\n[timing]\n{table}");
            assert!(toml::from_str::<Config>(&text).is_err(), "{table}");
        }
    }
}
