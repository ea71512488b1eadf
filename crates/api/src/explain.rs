//! The state of a gate in sentences: holders, the queue, suspected nodes, and what would unblock
//! the first request.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use crate::v1::{ClientStatus, DurablePermitStatus, GateStatus, StatusReply};

/// Explains the state of a gate.
pub fn explain(reply: &StatusReply, gate: &GateStatus) -> String {
    let mut text = String::new();
    let (taken, waiting) = (taken(gate), gate.waiting.len());
    let free = gate.k.saturating_sub(taken);
    let unknown = unknown(reply);
    let counts = if unknown.is_empty() {
        format!("{taken} taken, {free} free, {waiting} waiting")
    } else {
        format!(
            "at least {taken} taken, at most {free} free, at least {waiting} waiting; not known \
            at {}",
            nodes(&unknown)
        )
    };
    let GateStatus { name, k, updated_by, protocol, .. } = gate;
    let _ = writeln!(
        text,
        "Gate `{name}` lets {k} through at once (k set by {updated_by}, protocol {protocol}): \
        {counts}."
    );
    if gate.k == 0 {
        let _ =
            writeln!(text, "It is closed: requests are refused. `kgate set {name} -k K` opens it.");
    }
    for holder in &gate.holders {
        let _ = writeln!(text, "{}", holds(holder));
    }
    for held in &gate.durable_permits {
        let _ = writeln!(text, "{}", holds_by_log(held));
    }
    match gate.waiting.first() {
        Some(first) => {
            let _ =
                writeln!(text, "First in the queue: {}, for {}.", who(first), ago(first.age_ns));
            let _ = writeln!(text, "{}", unblocks(reply, gate, first, free));
        }
        // It may hold what seems free, and its answer may be needed.
        None if !unknown.is_empty() => text.push_str("Nobody is known to wait.\n"),
        None if free > 0
            && reply.node_statuses.iter().all(|standing| standing.no_lease_reason.is_empty()) =>
        {
            text.push_str("No request waits: the next one is granted at once.\n");
        }
        None => text.push_str("No request waits.\n"),
    }
    add_nodes(&mut text, reply);
    text
}

/// Nodes whose holders may be missing from a reply: unreachable nodes, and suspected ones, whose
/// earlier incarnation may still have holders.
pub fn unknown(reply: &StatusReply) -> Vec<u32> {
    let suspected =
        reply.members.iter().filter(|member| member.suspected).map(|member| member.node);
    let unknown: BTreeSet<u32> = reply.unreachable.iter().copied().chain(suspected).collect();
    unknown.into_iter().collect()
}

/// The number of slots in use, as far as nodes have reported; a lower bound if some are
/// [`unknown`].
pub fn taken(gate: &GateStatus) -> u32 {
    let held: usize = gate.durable_permits.iter().map(|held| held.slots.len()).sum();
    let taken: u32 = gate.holders.iter().map(|holder| holder.weight).sum();
    taken.saturating_add(u32::try_from(held).unwrap_or(u32::MAX))
}

/// What would unblock the first request of the queue.
fn unblocks(reply: &StatusReply, gate: &GateStatus, first: &ClientStatus, free: u32) -> String {
    let without = reply
        .node_statuses
        .iter()
        .any(|standing| standing.node == first.node && !standing.no_lease_reason.is_empty());
    let silent: Vec<u32> =
        gate.waiting_for.iter().filter(|node| reply.unreachable.contains(node)).copied().collect();
    if without {
        format!("Nobody gets in at node {} before that has a lease again.", first.node)
    } else if first.weight > free && gate.holders.is_empty() && !gate.durable_permits.is_empty() {
        "It gets in when enough of what the log holds is given back, runs out, or is evicted: \
        `kgate evict --permit ID` says what that means."
            .into()
    } else if first.weight > free && !gate.holders.is_empty() {
        let wants =
            if first.weight == 1 { "a permit".into() } else { format!("{} permits", first.weight) };
        format!(
            "It wants {wants} and {free} {} free: it gets in when {} come{} out.",
            if free == 1 { "is" } else { "are" },
            names(&gate.holders),
            if gate.holders.len() == 1 { "s" } else { "" }
        )
    } else if !silent.is_empty() {
        let (silent, it) = (nodes(&silent), if silent.len() == 1 { "it" } else { "each of them" });
        // Where there are leases, nobody is declared dead.
        let end = if reply.node_statuses.is_empty() {
            "is declared dead"
        } else {
            "is evicted, its lease surely over"
        };
        format!(
            "It lacks the answer of {silent}, which cannot be reached: it gets in when {it} \
            answers, or {end}."
        )
    } else if !gate.waiting_for.is_empty() {
        format!(
            "It lacks the answer of {}, which should come any moment.",
            nodes(&gate.waiting_for)
        )
    } else {
        "Nothing stands in its way: it should get in any moment.".into()
    }
}

/// Describes a durable permit.
fn holds_by_log(held: &DurablePermitStatus) -> String {
    let slots: Vec<String> = held.slots.iter().map(u32::to_string).collect();
    let end = held.ttl_left_ns.map_or_else(
        || "without an end of its own".to_owned(),
        |left| format!("for another {} unless it is renewed", ago(left)),
    );
    let (permit, holder, since) = (held.permit_id, &held.holder, ago(held.age_ns));
    format!(
        "The log holds slot {} for {holder} (permit {permit}), for at least {since} now, {end}.",
        slots.join(", ")
    )
}

fn add_nodes(text: &mut String, reply: &StatusReply) {
    if !reply.unreachable.is_empty() {
        let _ = writeln!(
            text,
            "Not heard just now: {}; what happens there is not shown.",
            nodes(&reply.unreachable)
        );
    }
    if !reply.declared_dead.is_empty() {
        let _ = writeln!(text, "Declared dead: {}.", nodes(&reply.declared_dead));
    }
    let suspected: Vec<u32> =
        reply.members.iter().filter(|member| member.suspected).map(|member| member.node).collect();
    if !suspected.is_empty() {
        let _ = writeln!(
            text,
            "Suspected: {}; what is held there is free when its lease is surely over, unless it \
            is heard again before.",
            nodes(&suspected)
        );
    }
    for standing in
        reply.node_statuses.iter().filter(|standing| !standing.no_lease_reason.is_empty())
    {
        let _ = writeln!(
            text,
            "Node {} grants nothing now: {}.",
            standing.node, standing.no_lease_reason
        );
    }
}

fn holds(holder: &ClientStatus) -> String {
    let slots: Vec<String> = holder.slots.iter().map(u32::to_string).collect();
    let what = match slots.len() {
        0 => "a permit".to_owned(),
        1 => format!("slot {}", slots[0]),
        _ => format!("slots {}", slots.join(", ")),
    };
    let cut = if holder.disconnected {
        "; its connection is cut, and the slot comes back when its time has passed"
    } else {
        ""
    };
    format!("{} holds {what}, for {}{cut}.", who(holder), ago(holder.age_ns))
}

fn who(client: &ClientStatus) -> String {
    let process = client.process.clone().unwrap_or_default();
    let command = if process.command.is_empty() {
        "a client".into()
    } else {
        format!("`{}`", process.command)
    };
    match process.pid {
        0 => format!("{command} (an unknown process at node {})", client.node),
        pid => format!(
            "{command} (pid {pid} of {}@{}, at node {})",
            process.user, process.host, client.node
        ),
    }
}

fn names(holders: &[ClientStatus]) -> String {
    let all: Vec<String> = holders
        .iter()
        .map(|holder| match holder.process.as_ref().map_or(0, |it| it.pid) {
            0 => format!("the holders at node {}", holder.node),
            pid => format!("pid {pid} at node {}", holder.node),
        })
        .collect();
    all.join(" or ")
}

fn nodes(nodes: &[u32]) -> String {
    let all: Vec<String> = nodes.iter().map(|node| format!("node {node}")).collect();
    all.join(", ")
}

/// A duration for people.
pub fn ago(ns: u64) -> String {
    let span = Duration::from_nanos(ns);
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        seconds @ 1..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{MemberStatus, NodeStatus, Process};

    fn client(pid: u32, node: u32, slots: &[u32]) -> ClientStatus {
        let process = Process { pid, host: "h".into(), user: "u".into(), command: "train".into() };
        let (process, slots) = (Some(process), slots.to_vec());
        ClientStatus {
            node,
            process,
            weight: 1,
            age_ns: 3_000_000_000,
            slots,
            ..ClientStatus::default()
        }
    }

    /// The text names holders, queue, unreachable nodes, and what would unblock the first request.
    #[test]
    fn why_somebody_waits() {
        let mut gate = GateStatus {
            name: "gpu".into(),
            k: 1,
            protocol: "slots".into(),
            updated_by: "me".into(),
            ..Default::default()
        };
        let mut reply = StatusReply::default();
        assert!(explain(&reply, &gate).contains("the next one is granted at once"));
        gate.holders = vec![client(7, 2, &[0])];
        gate.waiting = vec![client(8, 1, &[])];
        let text = explain(&reply, &gate);
        assert!(
            text.contains("`train` (pid 7 of u@h, at node 2) holds slot 0, for 3 s."),
            "{text}"
        );
        assert!(text.contains("First in the queue: `train` (pid 8"), "{text}");
        assert!(text.contains("gets in when pid 7 at node 2 comes out"), "{text}");
        gate.holders.clear();
        gate.waiting_for = vec![2];
        assert!(explain(&reply, &gate).contains("lacks the answer of node 2, which should come"));
        reply.unreachable = vec![2];
        assert!(explain(&reply, &gate).contains("node 2, which cannot be reached"));
        reply.declared_dead = vec![3];
        assert!(explain(&reply, &gate).contains("Declared dead: node 3."));
        reply.members = vec![
            MemberStatus { node: 2, suspected: true, ..MemberStatus::default() },
            MemberStatus::default(),
        ];
        reply.node_statuses = vec![NodeStatus {
            node: 1,
            no_lease_reason: "no lease".into(),
            ..NodeStatus::default()
        }];
        let text = explain(&reply, &gate);
        assert!(
            text.contains("Suspected: node 2;")
                && text.contains("Node 1 grants nothing now: no lease."),
            "{text}"
        );
    }

    /// An unreachable node may hold slots that seem free: the text gives bounds. With leases the
    /// node is evicted, not declared dead.
    #[test]
    fn what_is_not_known_is_not_said() {
        let mut gate = GateStatus { name: "gpu".into(), k: 1, ..Default::default() };
        let mut reply = StatusReply { unreachable: vec![1], ..Default::default() };
        let text = explain(&reply, &gate);
        assert!(
            text.contains(
                "at least 0 taken, at most 1 free, at least 0 waiting; not known at node 1."
            ),
            "{text}"
        );
        assert!(text.contains("Nobody is known to wait.") && !text.contains("gets in"), "{text}");
        (gate.waiting, gate.waiting_for) = (vec![client(8, 0, &[])], vec![1]);
        assert!(explain(&reply, &gate).contains("when it answers, or is declared dead."));
        reply.node_statuses = vec![NodeStatus::default()];
        let text = explain(&reply, &gate);
        assert!(text.contains("when it answers, or is evicted, its lease surely over."), "{text}");
        assert!(!text.contains("crashed"), "{text}");
        // A node that is back says what its present incarnation holds; the former one is suspected
        // until it is evicted.
        reply.unreachable.clear();
        reply.members = vec![MemberStatus { node: 1, suspected: true, ..MemberStatus::default() }];
        assert!(explain(&reply, &gate).contains("at least 0 taken"));
    }

    /// A node without a lease grants nothing, even if slots are free.
    #[test]
    fn nobody_gets_in_without_a_lease() {
        let mut gate = GateStatus { name: "gpu".into(), k: 1, ..Default::default() };
        let node_statuses =
            vec![NodeStatus { no_lease_reason: "no lease".into(), ..NodeStatus::default() }];
        let reply = StatusReply { node_statuses, ..Default::default() };
        let text = explain(&reply, &gate);
        assert!(
            text.contains("No request waits.\n") && text.contains("grants nothing now"),
            "{text}"
        );
        gate.waiting = vec![client(8, 0, &[])];
        let text = explain(&reply, &gate);
        assert!(text.contains("Nobody gets in at node 0 before that has a lease again."), "{text}");
    }

    /// A gate with k = 0 is closed, and the text says how to open it.
    #[test]
    fn a_closed_gate() {
        let gate = GateStatus { name: "gpu".into(), ..Default::default() };
        let text = explain(&StatusReply::default(), &gate);
        assert!(text.contains("It is closed") && text.contains("kgate set gpu -k K"), "{text}");
        assert!(!text.contains("gets in"), "{text}");
    }

    /// Durations use the largest unit that fits.
    #[test]
    fn times() {
        let all = [5_000_000, 3_000_000_000, 125_000_000_000, 7_260_000_000_000].map(ago);
        assert_eq!(all, ["5 ms", "3 s", "2 min", "2 h 1 min"]);
    }
}
