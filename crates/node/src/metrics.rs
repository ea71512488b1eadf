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
    each("kgate_waiting_longest_seconds", "gauge", "How long the first of those has waited.", &|at| {
        float(gates[at].2[2]) / 1e9
    });
    each("kgate_grants_total", "counter", "Permits granted.", &|at| float(gates[at].1.grants));
    each("kgate_losses_total", "counter", "Permits lost.", &|at| float(gates[at].1.losses));
    each("kgate_junk_total", "counter", "Messages that no correct peer sends.", &|at| {
        float(gates[at].1.junk)
    });
    each("kgate_wait_max_seconds", "gauge", "The longest wait of those who got in.", &|at| {
        float(gates[at].1.longest_wait) / 1e9
    });
    head(&mut text, "kgate_messages_total", "counter", "Messages sent to other nodes, by kind.");
    for (gate, counters, _) in &gates {
        for (kind, count) in &counters.sent {
            let _ = writeln!(text, "kgate_messages_total{{gate=\"{gate}\",kind=\"{kind}\"}} {count}");
        }
    }
    for (name, help, value) in [
        ("kgate_sessions", "Sessions of clients.", core.sessions()),
        ("kgate_peers_connected", "Peers that can be talked to.", core.connected()),
        ("kgate_peers_suspected", "Peers that are held for crashed.", core.crashed().count()),
    ] {
        head(&mut text, name, "gauge", help);
        let _ = writeln!(text, "{name} {value}");
    }
    text
}

#[allow(clippy::cast_precision_loss)] // What is shown, not computed with.
fn float(value: u64) -> f64 {
    value as f64
}
