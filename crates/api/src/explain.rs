//! Why somebody waits, in sentences: for whom, since when, who is suspected, and what would unblock it.

use std::fmt::Write;
use std::time::Duration;

use crate::v1::{Client, GateStatus, HeldPermit, StatusReply};

/// What is to be said of a gate.
pub fn explain(reply: &StatusReply, gate: &GateStatus) -> String {
    let mut text = String::new();
    let held: usize = gate.held.iter().map(|held| held.slots.len()).sum();
    let taken: u32 = gate.holders.iter().map(|holder| holder.permits).sum();
    let taken = taken + u32::try_from(held).unwrap_or(u32::MAX);
    let free = gate.k.saturating_sub(taken);
    let _ = writeln!(
        text,
        "Gate `{}` lets {} through at once (k set by {}, protocol {}): {taken} taken, {free} free, {} waiting.",
        gate.name,
        gate.k,
        gate.author,
        gate.protocol,
        gate.waiting.len()
    );
    for holder in &gate.holders {
        let _ = writeln!(text, "{}", holds(holder));
    }
    for held in &gate.held {
        let _ = writeln!(text, "{}", holds_by_log(held));
    }
    let Some(first) = gate.waiting.first() else {
        text.push_str(if free > 0 { "Nobody waits: whoever asks now gets in.\n" } else { "Nobody waits.\n" });
        add_nodes(&mut text, reply);
        return text;
    };
    let _ = writeln!(text, "First in the queue: {}, for {}.", who(first), ago(first.since_ns));
    let silent: Vec<u32> = gate.lacking.iter().filter(|node| reply.silent.contains(node)).copied().collect();
    if first.permits > free && gate.holders.is_empty() && held > 0 {
        text.push_str("It gets in when enough of what the log holds is given back, runs out, or is evicted: `kgate evict --permit ID` says what that means.\n");
    } else if first.permits > free && !gate.holders.is_empty() {
        let wants = if first.permits == 1 { "a permit".into() } else { format!("{} permits", first.permits) };
        let _ = writeln!(
            text,
            "It wants {wants} and {free} {} free: it gets in when {} come{} out.",
            if free == 1 { "is" } else { "are" },
            names(&gate.holders),
            if gate.holders.len() == 1 { "s" } else { "" }
        );
    } else if !silent.is_empty() {
        let _ = writeln!(
            text,
            "It lacks the answer of {}, which cannot be reached: it gets in when that answers, or is held for crashed.",
            nodes(&silent)
        );
    } else if !gate.lacking.is_empty() {
        let _ =
            writeln!(text, "It lacks the answer of {}, which should come any moment.", nodes(&gate.lacking));
    } else {
        text.push_str("Nothing stands in its way: it should get in any moment.\n");
    }
    add_nodes(&mut text, reply);
    text
}

/// A permit that no node's silence frees.
fn holds_by_log(held: &HeldPermit) -> String {
    let slots: Vec<String> = held.slots.iter().map(u32::to_string).collect();
    let end = held.ttl_left_ns.map_or_else(
        || "without an end of its own".to_owned(),
        |left| format!("for another {} unless it is renewed", ago(left)),
    );
    let (permit, holder, since) = (held.permit, &held.holder, ago(held.since_ns));
    format!(
        "The log holds slot {} for {holder} (permit {permit}), for at least {since} now, {end}.",
        slots.join(", ")
    )
}

fn add_nodes(text: &mut String, reply: &StatusReply) {
    if !reply.silent.is_empty() {
        let _ =
            writeln!(text, "Not heard just now: {}; what happens there is not shown.", nodes(&reply.silent));
    }
    if !reply.crashed.is_empty() {
        let _ = writeln!(text, "Held for crashed: {}.", nodes(&reply.crashed));
    }
    let suspected: Vec<u32> =
        reply.members.iter().filter(|member| member.suspected).map(|member| member.node).collect();
    if !suspected.is_empty() {
        let _ = writeln!(
            text,
            "Suspected: {}; what is held there is free when its lease is surely over, unless it is heard again before.",
            nodes(&suspected)
        );
    }
    for standing in reply.standings.iter().filter(|standing| !standing.without.is_empty()) {
        let _ = writeln!(text, "Node {} grants nothing now: {}.", standing.node, standing.without);
    }
}

fn holds(holder: &Client) -> String {
    let slots: Vec<String> = holder.slots.iter().map(u32::to_string).collect();
    let what = match slots.len() {
        0 => "a permit".to_owned(),
        1 => format!("slot {}", slots[0]),
        _ => format!("slots {}", slots.join(", ")),
    };
    let cut = if holder.cut_off {
        "; its connection is cut, and the slot comes back when its time has passed"
    } else {
        ""
    };
    format!("{} holds {what}, for {}{cut}.", who(holder), ago(holder.since_ns))
}

fn who(client: &Client) -> String {
    let process = client.process.clone().unwrap_or_default();
    let command =
        if process.command.is_empty() { "a client".into() } else { format!("`{}`", process.command) };
    format!("{command} (pid {} of {}@{}, at node {})", process.pid, process.user, process.host, client.node)
}

fn names(holders: &[Client]) -> String {
    let all: Vec<String> = holders
        .iter()
        .map(|holder| {
            format!("pid {} at node {}", holder.process.as_ref().map_or(0, |it| it.pid), holder.node)
        })
        .collect();
    all.join(" or ")
}

fn nodes(nodes: &[u32]) -> String {
    let all: Vec<String> = nodes.iter().map(|node| format!("node {node}")).collect();
    all.join(", ")
}

/// How long, as people say it.
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
    use crate::v1::{Peer, Process, Standing};

    fn client(pid: u32, node: u32, slots: &[u32]) -> Client {
        let process = Process { pid, host: "h".into(), user: "u".into(), command: "train".into() };
        let (process, slots) = (Some(process), slots.to_vec());
        Client { node, process, permits: 1, since_ns: 3_000_000_000, slots, ..Client::default() }
    }

    /// Who waits for whom, since when; who is not heard; what would unblock it.
    #[test]
    fn why_somebody_waits() {
        let mut gate = GateStatus {
            name: "gpu".into(),
            k: 1,
            protocol: "slots".into(),
            author: "me".into(),
            ..Default::default()
        };
        let mut reply = StatusReply::default();
        assert!(explain(&reply, &gate).contains("whoever asks now gets in"));
        gate.holders = vec![client(7, 2, &[0])];
        gate.waiting = vec![client(8, 1, &[])];
        let text = explain(&reply, &gate);
        assert!(text.contains("`train` (pid 7 of u@h, at node 2) holds slot 0, for 3 s."), "{text}");
        assert!(text.contains("First in the queue: `train` (pid 8"), "{text}");
        assert!(text.contains("gets in when pid 7 at node 2 comes out"), "{text}");
        gate.holders.clear();
        gate.lacking = vec![2];
        assert!(explain(&reply, &gate).contains("lacks the answer of node 2, which should come"));
        reply.silent = vec![2];
        assert!(explain(&reply, &gate).contains("node 2, which cannot be reached"));
        reply.crashed = vec![3];
        assert!(explain(&reply, &gate).contains("Held for crashed: node 3."));
        reply.members = vec![Peer { node: 2, suspected: true, ..Peer::default() }, Peer::default()];
        reply.standings = vec![Standing { node: 1, without: "no lease".into(), ..Standing::default() }];
        let text = explain(&reply, &gate);
        assert!(
            text.contains("Suspected: node 2;") && text.contains("Node 1 grants nothing now: no lease."),
            "{text}"
        );
    }

    /// Times as people say them.
    #[test]
    fn times() {
        let all = [5_000_000, 3_000_000_000, 125_000_000_000, 7_260_000_000_000].map(ago);
        assert_eq!(all, ["5 ms", "3 s", "2 min", "2 h 1 min"]);
    }
}
