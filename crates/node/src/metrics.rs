//! The numbers of a node, in Prometheus' text form.

use std::fmt::Write;

use kgate_core::Time;

use crate::core::Core;

/// Everything, as text.
pub(crate) fn render(core: &Core, now: Time) -> String {
    let mut text = String::new();
    let head = |text: &mut String, name: &str, kind: &str, help: &str| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    };
    let gates: Vec<_> = core.numbers(now).collect();
    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(usize) -> f64| {
        head(&mut text, name, kind, help);
        for (at, (gate, _, _)) in gates.iter().enumerate() {
            let _ = writeln!(text, "{name}{{gate=\"{gate}\"}} {}", value(at));
        }
    };
    each("kgate_held", "gauge", "Permits held through this node.", &|at| float(gates[at].2[0]));
    each("kgate_waiting", "gauge", "Clients that wait at this node.", &|at| float(gates[at].2[1]));
    each(
        "kgate_waiting_longest_seconds",
        "gauge",
        "How long the first of those has waited.",
        &|at| float(gates[at].2[2]) / 1e9,
    );
    each("kgate_grants_total", "counter", "Permits granted.", &|at| float(gates[at].1.grants));
    each("kgate_losses_total", "counter", "Permits lost.", &|at| float(gates[at].1.losses));
    each("kgate_junk_total", "counter", "Messages that no correct peer sends.", &|at| {
        float(gates[at].1.rejected)
    });
    each("kgate_wait_max_seconds", "gauge", "The longest wait of those who got in.", &|at| {
        float(gates[at].1.longest_wait) / 1e9
    });
    head(&mut text, "kgate_messages_total", "counter", "Messages sent to other nodes, by kind.");
    for (gate, counters, _) in &gates {
        for (kind, count) in &counters.sent {
            let _ =
                writeln!(text, "kgate_messages_total{{gate=\"{gate}\",kind=\"{kind}\"}} {count}");
        }
    }
    let mut one = |name: &str, help: &str, value: f64| {
        head(&mut text, name, "gauge", help);
        let _ = writeln!(text, "{name} {value}");
    };
    one(
        "kgate_ready",
        "Whether this node can grant now (/readyz).",
        flag(core.unready(now).is_none()),
    );
    if let Some(control) = core.control_view(now) {
        let left = float(control.lease_left) / 1e9;
        one(
            "kgate_lease_remaining_seconds",
            "What is left of this node's lease; 0 without one.",
            left,
        );
        let leads = control.leader == Some(core.me());
        one("kgate_is_leader", "Whether this node leads the log, as far as it knows.", flag(leads));
        one(
            "kgate_members",
            "Nodes that take part, as far as this node knows.",
            count(control.members.len()),
        );
        one(
            "kgate_voters",
            "Nodes that vote, as far as this node knows.",
            count(control.voters.len()),
        );
    }
    for (name, help, value) in [
        ("kgate_sessions", "Sessions of clients.", core.sessions()),
        ("kgate_peers_connected", "Peers that can be talked to.", core.connected()),
        ("kgate_peers_suspected", "Peers that are held for crashed.", core.crashed().count()),
    ] {
        one(name, help, count(value));
    }
    text
}

fn count(number: usize) -> f64 {
    float(number as u64)
}

fn flag(so: bool) -> f64 {
    f64::from(u8::from(so))
}

#[allow(clippy::cast_precision_loss)] // What is shown, not computed with.
fn float(value: u64) -> f64 {
    value as f64
}
