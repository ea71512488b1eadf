//! The metrics of a node, in Prometheus' text format.
//!
//! Each metric is a constant with its name, type, labels and help; docs/reference/metrics.md is
//! generated from [`ALL`].

use std::fmt::Write;

use kgate_core::Time;

use crate::core::Core;

/// A metric family.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    /// The type: `gauge` or `counter`.
    pub(crate) kind: &'static str,
    #[allow(dead_code, reason = "the reference lists them")]
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
}

impl Metric {
    /// Writes the two lines that come before the values.
    pub(crate) fn write_head(&self, text: &mut String) {
        let Self { name, kind, help, .. } = self;
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: "gauge", labels: &[], help }
}

const fn gate_gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: "gauge", labels: &["gate"], help }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: "counter", labels, help }
}

const HELD: Metric = gate_gauge("kgate_held", "Permits held through this node.");
const WAITING: Metric = gate_gauge("kgate_waiting", "Requests waiting at this node.");
const WAITING_LONGEST: Metric = gate_gauge(
    "kgate_waiting_longest_seconds",
    "Time that the oldest waiting request has waited so far.",
);
const GRANTS: Metric = counter("kgate_grants_total", &["gate"], "Permits granted.");
const LOSSES: Metric =
    counter("kgate_losses_total", &["gate"], "Permits lost before their release.");
const MALFORMED: Metric = counter(
    "kgate_malformed_messages_total",
    &["gate"],
    "Messages from peers that were dropped because no correct peer sends them.",
);
const WAIT_MAX: Metric =
    gate_gauge("kgate_wait_max_seconds", "Longest wait of a request that was granted.");
const MESSAGES: Metric =
    counter("kgate_messages_total", &["gate", "kind"], "Messages sent to other nodes, by kind.");
const READY: Metric =
    gauge("kgate_ready", "1 if this node can grant now (as /readyz), 0 otherwise.");
const LEASE_REMAINING: Metric =
    gauge("kgate_lease_remaining_seconds", "Remaining time of this node's lease; 0 without one.");
const IS_LEADER: Metric =
    gauge("kgate_is_leader", "1 if this node knows itself as the leader of the log, 0 otherwise.");
const MEMBERS: Metric = gauge("kgate_members", "Members of the cluster that this node knows.");
const VOTERS: Metric = gauge("kgate_voters", "Voters of the cluster that this node knows.");
const SESSIONS: Metric = gauge("kgate_sessions", "Sessions of clients at this node.");
const PEERS_CONNECTED: Metric = gauge("kgate_peers_connected", "Peers with an open link.");
const PEERS_SUSPECTED: Metric = gauge("kgate_peers_suspected", "Peers that are declared dead.");
/// Rendered by the guard of the API.
pub(crate) const REFUSED: Metric = counter(
    "kgate_refused_total",
    &["reason"],
    "Requests and connections of clients that were refused.",
);

/// All metrics, for the reference.
#[cfg(test)]
const ALL: &[Metric] = &[
    HELD,
    WAITING,
    WAITING_LONGEST,
    GRANTS,
    LOSSES,
    MALFORMED,
    WAIT_MAX,
    MESSAGES,
    READY,
    LEASE_REMAINING,
    IS_LEADER,
    MEMBERS,
    VOTERS,
    SESSIONS,
    PEERS_CONNECTED,
    PEERS_SUSPECTED,
    REFUSED,
];

/// Renders all metrics of the core.
pub(crate) fn render(core: &Core, now: Time) -> String {
    let mut text = String::new();
    let gates: Vec<_> = core.numbers(now).collect();
    let mut each = |metric: Metric, value: &dyn Fn(usize) -> f64| {
        metric.write_head(&mut text);
        for (at, (gate, _, _)) in gates.iter().enumerate() {
            let _ = writeln!(text, "{}{{gate=\"{gate}\"}} {}", metric.name, value(at));
        }
    };
    each(HELD, &|at| float(gates[at].2[0]));
    each(WAITING, &|at| float(gates[at].2[1]));
    each(WAITING_LONGEST, &|at| float(gates[at].2[2]) / 1e9);
    each(GRANTS, &|at| float(gates[at].1.grants));
    each(LOSSES, &|at| float(gates[at].1.losses));
    each(MALFORMED, &|at| float(gates[at].1.rejected));
    each(WAIT_MAX, &|at| float(gates[at].1.longest_wait) / 1e9);
    MESSAGES.write_head(&mut text);
    for (gate, counters, _) in &gates {
        for (kind, count) in &counters.sent {
            let name = MESSAGES.name;
            let _ = writeln!(text, "{name}{{gate=\"{gate}\",kind=\"{kind}\"}} {count}");
        }
    }
    let mut one = |metric: Metric, value: f64| {
        metric.write_head(&mut text);
        let _ = writeln!(text, "{} {value}", metric.name);
    };
    one(READY, flag(core.unready(now).is_none()));
    if let Some(control) = core.control_view(now) {
        one(LEASE_REMAINING, float(control.lease_left) / 1e9);
        one(IS_LEADER, flag(control.leader == Some(core.me())));
        one(MEMBERS, count(control.members.len()));
        one(VOTERS, count(control.voters.len()));
    }
    one(SESSIONS, count(core.sessions()));
    one(PEERS_CONNECTED, count(core.connected()));
    one(PEERS_SUSPECTED, count(core.crashed().count()));
    text
}

fn count(number: usize) -> f64 {
    float(number as u64)
}

fn flag(so: bool) -> f64 {
    f64::from(u8::from(so))
}

#[allow(clippy::cast_precision_loss, reason = "shown, not computed with")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/reference/metrics.md lists every metric as the code defines it.
    #[test]
    fn the_reference_is_up_to_date() {
        let mut page = String::from(
            "# Metrics\n\n\
             `GET /metrics` of a node answers in Prometheus' text format. This page is generated: \
             `cargo xtask reference`.\n\n\
             | metric | type | labels | meaning |\n|---|---|---|---|\n",
        );
        for Metric { name, kind, labels, help } in ALL {
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(page, "| `{name}` | {kind} | {} | {help} |", labels.join(", "));
        }
        kgate_testkit::assert_reference("metrics.md", &page);
    }

    /// No metric is defined twice or missing from the list.
    #[test]
    fn the_list_is_complete() {
        let source = include_str!("metrics.rs").split("#[cfg(test)]").next().unwrap_or_default();
        let defined = source.matches("\"kgate_").count();
        assert_eq!(ALL.len(), defined);
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
