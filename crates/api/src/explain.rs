//! The state of a gate in sentences: holders, the queue, suspected nodes, and what would unblock
//! the first request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use crate::printable::{printable_gate, printable_status};
use crate::v1::{ClientStatus, DurablePermitStatus, GateStatus, Omitted, StatusReply};

/// The most names of slots that a line for people shows.
const NAMES_SHOWN: usize = 16;
/// The number of requests behind the first one that are explained one by one.
const QUEUE_SHOWN: usize = 20;

/// Explains the state of a gate. The text is printable.
pub fn explain(reply: &StatusReply, gate: &GateStatus) -> String {
    let (reply, gate) = (&printable_status(reply), &printable_gate(gate));
    let mut text = String::new();
    let taken = taken(gate);
    let free = gate.k.saturating_sub(taken);
    let unknown = unknown(reply);
    let (in_use, waiting) = (slots(taken), count(waiting(gate), "request"));
    let counts = if unknown.is_empty() {
        format!("{in_use} in use, {free} free, {waiting} waiting")
    } else {
        format!(
            "at least {in_use} in use, at most {free} free, at least {waiting} waiting; the state \
             of {} is unknown",
            nodes(&unknown)
        )
    };
    let GateStatus { name, k, updated_by, protocol, .. } = gate;
    let origin = k_origin(gate);
    let _ = writeln!(
        text,
        "Gate `{name}` has k = {k}{origin} (set by {updated_by}, protocol {protocol}): {counts}."
    );
    if gate.k == 0 {
        let _ =
            writeln!(text, "It is closed: requests are refused. `kgate set {name} -k K` opens it.");
    }
    for holder in &gate.holders {
        let _ = writeln!(text, "{}", holds(gate, holder));
    }
    for held in &gate.durable_permits {
        let _ = writeln!(text, "{}", holds_durably(gate, held));
    }
    if let Some(omitted) = omitted_text(gate) {
        let _ = writeln!(text, "Not listed, because the status would be too large: {omitted}.");
    }
    match gate.waiting.first() {
        Some(first) => {
            let (client, age, says) = (who(first), ago(first.age_ns), says(first));
            let _ = writeln!(text, "First in the queue: {client}, waiting for {age}.{says}");
            let _ = writeln!(text, "{}", unblocks(reply, gate, first));
            add_queue(&mut text, reply, gate);
        }
        // An unknown node may hold slots that seem free, and its answer may be needed.
        None if !unknown.is_empty() => text.push_str("No request is known to wait.\n"),
        None if free > 0
            && reply.node_statuses.iter().all(|status| status.no_lease_reason.is_empty()) =>
        {
            text.push_str("No request waits: a new request is granted at once.\n");
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
    let omitted = gate.omitted.map_or(0, |omitted| omitted.slots + omitted.durable_slots);
    taken.saturating_add(u32::try_from(held).unwrap_or(u32::MAX)).saturating_add(omitted)
}

/// The number of waiting requests, as far as nodes have reported.
pub fn waiting(gate: &GateStatus) -> usize {
    let omitted = gate.omitted.map_or(0, |omitted| omitted.waiting);
    gate.waiting.len() + usize::try_from(omitted).unwrap_or(usize::MAX)
}

/// What the status of a gate leaves out, for people; none if it is complete.
pub fn omitted_text(gate: &GateStatus) -> Option<String> {
    let Omitted { notes, holders, slots: held, waiting, durable_permits, durable_slots } =
        gate.omitted?;
    let number = |number: u32, what: &str| count(usize::try_from(number).unwrap_or(0), what);
    let mut parts = Vec::new();
    if holders > 0 {
        parts.push(format!("{} of {}", number(holders, "holder"), slots(held)));
    }
    if durable_permits > 0 {
        let permits = number(durable_permits, "durable permit");
        parts.push(format!("{permits} of {}", slots(durable_slots)));
    }
    if waiting > 0 {
        parts.push(number(waiting, "waiting request"));
    }
    if notes {
        parts.push("what clients say of their requests".to_owned());
    }
    Some(parts.join(", "))
}

/// What would unblock the first request of the queue.
fn unblocks(reply: &StatusReply, gate: &GateStatus, first: &ClientStatus) -> String {
    let holders = holders(gate);
    let held: u32 = holders.iter().map(|holder| holder.weight).sum();
    let free = gate.k.saturating_sub(held);
    let silent: Vec<u32> =
        gate.waiting_for.iter().filter(|node| reply.unreachable.contains(node)).copied().collect();
    if has_no_lease(reply, first) {
        return without_lease(first);
    }
    if first.weight > free && !holders.is_empty() {
        let (needed, are) = (slots(first.weight), if free == 1 { "is" } else { "are" });
        let until = releases(&holders, first.weight - free);
        return format!("It needs {needed} and {free} {are} free: it is granted when {until}.");
    }
    if !silent.is_empty() {
        let (silent, it) = (nodes(&silent), if silent.len() == 1 { "it" } else { "each of them" });
        // With leases, a silent node is evicted instead of declared dead.
        let end = if reply.node_statuses.is_empty() {
            "is declared dead"
        } else {
            "is evicted after its lease has certainly expired"
        };
        return format!(
            "It needs the answer of {silent}, which cannot be reached: it is granted when {it} \
             answers, or {end}."
        );
    }
    if gate.waiting_for.is_empty() {
        return "Nothing delays it: it should be granted at any moment.".into();
    }
    format!(
        "It needs the answer of {}, which should arrive at any moment.",
        nodes(&gate.waiting_for)
    )
}

/// The requests behind the first one. They are served in the order of the queue, whatever each of
/// them needs.
fn add_queue(text: &mut String, reply: &StatusReply, gate: &GateStatus) {
    for (place, waiter) in gate.waiting.iter().enumerate().skip(1).take(QUEUE_SHOWN) {
        let (client, age, weight) = (who(waiter), ago(waiter.age_ns), slots(waiter.weight));
        let says = says(waiter);
        let reason = if has_no_lease(reply, waiter) {
            without_lease(waiter)
        } else {
            let before = if place == 1 {
                "the request before it is".to_owned()
            } else {
                format!("the {place} requests before it are")
            };
            format!("It needs {weight}, and only after {before} granted.")
        };
        let _ = writeln!(
            text,
            "Number {} in the queue: {client}, waiting for {age}. {reason}{says}",
            place + 1
        );
    }
    let more = waiting(gate).saturating_sub(QUEUE_SHOWN + 1);
    if more > 0 {
        let waits = if more == 1 { "request waits" } else { "requests wait" };
        let _ = writeln!(text, "{more} more {waits} behind them: `kgate status` lists all.");
    }
}

fn has_no_lease(reply: &StatusReply, client: &ClientStatus) -> bool {
    let mut statuses = reply.node_statuses.iter();
    statuses.any(|status| status.node == client.node && !status.no_lease_reason.is_empty())
}

fn without_lease(client: &ClientStatus) -> String {
    format!("Node {} has no lease: it grants no request before it has one.", client.node)
}

/// A holder, by name, and how many of the gate's slots are free when it releases.
struct Release {
    name: String,
    weight: u32,
}

/// The holders that have slots below k. The slots of the others are not granted again.
fn holders(gate: &GateStatus) -> Vec<Release> {
    let below = |slots: &[u32]| {
        u32::try_from(slots.iter().filter(|slot| **slot < gate.k).count()).unwrap_or(u32::MAX)
    };
    let clients = gate.holders.iter().map(|holder| Release {
        name: match holder.process.as_ref().map_or(0, |process| process.pid) {
            0 => format!("an unknown process at node {}", holder.node),
            pid => format!("pid {pid} at node {}", holder.node),
        },
        weight: if holder.slots.is_empty() { holder.weight } else { below(&holder.slots) },
    });
    let durable = gate.durable_permits.iter().map(|held| Release {
        name: format!("durable permit {}", held.permit_id),
        weight: below(&held.slots),
    });
    let omitted = gate.omitted.map(|omitted| Release {
        name: format!("{} other holders", omitted.holders + omitted.durable_permits),
        weight: omitted.slots + omitted.durable_slots,
    });
    clients.chain(durable).chain(omitted).filter(|holder| holder.weight > 0).collect()
}

/// Which of the holders have to release until `missing` more slots are free.
fn releases(holders: &[Release], missing: u32) -> String {
    let all: u32 = holders.iter().map(|holder| holder.weight).sum();
    let least = holders.iter().map(|holder| holder.weight).min().unwrap_or(0);
    let names = |word: &str| {
        let names: Vec<&str> = holders.iter().map(|holder| holder.name.as_str()).collect();
        names.join(word)
    };
    if least >= missing {
        format!("{} releases", names(" or "))
    } else if all - least < missing {
        format!("{} release", names(" and "))
    } else {
        let each = |holder: &Release| format!("{} ({})", holder.name, holder.weight);
        let each: Vec<String> = holders.iter().map(each).collect();
        format!("{} in total are released by {}", slots(missing), each.join(", "))
    }
}

fn slots(number: u32) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), "slot")
}

/// A number of things: `1 slot`, `2 slots`.
pub fn count(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Describes a durable permit.
fn holds_durably(gate: &GateStatus, held: &DurablePermitStatus) -> String {
    let slots: Vec<String> = held.slots.iter().map(|slot| slot_text(&gate.names, *slot)).collect();
    let end = held.ttl_left_ns.map_or_else(
        || "it has no time to live".to_owned(),
        |left| format!("it expires in {} unless it is renewed", ago(left)),
    );
    let (permit, holder, since) = (held.permit_id, &held.holder, ago(held.age_ns));
    let slot = if slots.len() == 1 { "slot" } else { "slots" };
    format!(
        "{holder} holds {slot} {} by durable permit {permit}, for at least {since}; {end}.",
        slots.join(", ")
    )
}

fn add_nodes(text: &mut String, reply: &StatusReply) {
    if !reply.unreachable.is_empty() {
        let _ = writeln!(
            text,
            "Unreachable: {}; holders and requests there are not shown.",
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
            "Suspected: {}; slots held there are free when its lease has certainly expired, \
             unless it answers before.",
            nodes(&suspected)
        );
    }
    for status in reply.node_statuses.iter().filter(|status| !status.no_lease_reason.is_empty()) {
        let _ =
            writeln!(text, "Node {} grants nothing now: {}.", status.node, status.no_lease_reason);
    }
}

fn holds(gate: &GateStatus, holder: &ClientStatus) -> String {
    let slots: Vec<String> =
        holder.slots.iter().map(|slot| slot_text(&gate.names, *slot)).collect();
    let what = match slots.len() {
        0 => "a permit".to_owned(),
        1 => format!("slot {}", slots[0]),
        _ => format!("slots {}", slots.join(", ")),
    };
    let lost = if holder.disconnected {
        "; no connection leads to it: the permit ends when its lease expires, or on a node without \
         leases when its processes have ended"
    } else {
        ""
    };
    // A holder that an earlier incarnation of a local node has granted: its fence is not known.
    let since = if holder.fence.is_none() && !holder.slots.is_empty() { "at least " } else { "" };
    let (who, age, says) = (who(holder), ago(holder.age_ns), says(holder));
    format!("{who} holds {what}, for {since}{age}{lost}.{says}")
}

/// What the client says of its request, as a sentence after others.
fn says(client: &ClientStatus) -> String {
    let note = note(&client.reason, &client.meta);
    if note.is_empty() { note } else { format!(" It says: {note}.") }
}

/// A reason and pairs in one line; empty without them.
pub fn note(reason: &str, meta: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = meta.iter().map(|(key, value)| format!("{key}={value}")).collect();
    match (reason, pairs.is_empty()) {
        (reason, true) => reason.to_owned(),
        ("", false) => pairs.join(" "),
        (reason, false) => format!("{reason} ({})", pairs.join(" ")),
    }
}

/// A slot with its name, if it has one: `1 (cuda:1)`.
pub fn slot_text(names: &[String], slot: u32) -> String {
    let name = usize::try_from(slot).ok().and_then(|slot| names.get(slot));
    name.map_or_else(|| slot.to_string(), |name| format!("{slot} ({name})"))
}

/// What k comes from, after its number: ` (cores/2)`, ` (names a, b)`; empty for a number.
pub fn k_origin(gate: &GateStatus) -> String {
    let shown = gate.names.iter().take(NAMES_SHOWN).map(String::as_str);
    let more = (gate.names.len() > NAMES_SHOWN).then_some("..");
    let names: Vec<&str> = shown.chain(more).collect();
    match (gate.k_expression.as_str(), names.is_empty()) {
        ("", true) => String::new(),
        ("", false) => format!(" (names {})", names.join(", ")),
        (expression, _) => format!(" ({expression})"),
    }
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

    /// Slots are shown with their names, of which a long list is cut; k with its expression; and
    /// holders and waiting requests with what they say.
    #[test]
    fn names_and_notes() {
        let mut gate = GateStatus { name: "gpu".into(), k: 2, ..Default::default() };
        gate.names = vec!["cuda:0".into(), "cuda:1".into()];
        let meta = BTreeMap::from([("job".to_owned(), "17".to_owned())]);
        let holder = ClientStatus { fence: Some("5".into()), ..client(7, 2, &[1]) };
        gate.holders = vec![ClientStatus { reason: "nightly".into(), meta, ..holder }];
        gate.waiting = vec![ClientStatus { reason: "later".into(), ..client(8, 1, &[]) }];
        let text = explain(&StatusReply::default(), &gate);
        for part in [
            "k = 2 (names cuda:0, cuda:1)",
            "holds slot 1 (cuda:1), for 3 s. It says: nightly (job=17).",
            "waiting for 3 s. It says: later.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        gate.names = (0..99).map(|slot| slot.to_string()).collect();
        assert!(k_origin(&gate).ends_with("14, 15, ..)"), "{}", k_origin(&gate));
        gate.names.clear();
        assert_eq!(k_origin(&gate), "");
        gate.k_expression = "cores/2".into();
        assert_eq!(k_origin(&gate), " (cores/2)");
    }

    /// The text names holders, queue, unreachable nodes, and what would unblock the first request.
    #[test]
    fn why_a_request_waits() {
        let mut gate = GateStatus {
            name: "gpu".into(),
            k: 1,
            protocol: "slots".into(),
            updated_by: "me".into(),
            ..Default::default()
        };
        let mut reply = StatusReply::default();
        assert!(explain(&reply, &gate).contains("a new request is granted at once"));
        gate.holders = vec![client(7, 2, &[0])];
        gate.waiting = vec![client(8, 1, &[])];
        let text = explain(&reply, &gate);
        assert!(
            text.contains("`train` (pid 7 of u@h, at node 2) holds slot 0, for at least 3 s."),
            "{text}"
        );
        assert!(text.contains("First in the queue: `train` (pid 8"), "{text}");
        assert!(
            text.contains("0 are free: it is granted when pid 7 at node 2 releases."),
            "{text}"
        );
        gate.holders.clear();
        gate.waiting_for = vec![2];
        assert!(explain(&reply, &gate).contains("needs the answer of node 2, which should arrive"));
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

    /// Issue 19: "and" and "or" follow from the weights: one release may suffice, all may be
    /// needed, or some of them. Slots at or above k are not granted again. Everybody else waits for
    /// the requests before it, even where enough is free.
    #[test]
    fn what_unblocks_a_request_follows_from_the_weights() {
        let holder = |pid, slots: &[u32]| ClientStatus {
            weight: u32::try_from(slots.len()).unwrap(),
            ..client(pid, 0, slots)
        };
        let waits = |pid, weight| ClientStatus { weight, ..client(pid, 0, &[]) };
        let said = |k, holders: &[ClientStatus], waiting: &[ClientStatus]| {
            let (holders, waiting) = (holders.to_vec(), waiting.to_vec());
            let gate = GateStatus { name: "gpu".into(), k, holders, waiting, ..Default::default() };
            explain(&StatusReply::default(), &gate)
        };
        let two = [holder(1, &[0]), holder(2, &[1])];
        let expect = |text: String, part: &str| assert!(text.contains(part), "{part}: {text}");
        expect(said(2, &two, &[waits(8, 1)]), "when pid 1 at node 0 or pid 2 at node 0 releases.");
        expect(
            said(2, &two, &[waits(8, 2)]),
            "needs 2 slots and 0 are free: it is granted when pid 1 at node 0 and pid 2 at node 0 \
             release.",
        );
        let three = [holder(1, &[0]), holder(2, &[1, 2]), holder(3, &[3])];
        expect(
            said(5, &three, &[waits(8, 3)]),
            "needs 3 slots and 1 is free: it is granted when 2 slots in total are released by pid \
             1 at node 0 (1), pid 2 at node 0 (2), pid 3 at node 0 (1).",
        );
        // k was 4 and is 1: slots 1 to 3 are of no use to the next request.
        expect(said(1, &three, &[waits(8, 1)]), "it is granted when pid 1 at node 0 releases.");
        let behind = said(5, &three, &[waits(8, 3), waits(9, 1), waits(10, 2)]);
        expect(
            behind.clone(),
            "Number 2 in the queue: `train` (pid 9 of u@h, at node 0), waiting for 3 s. It needs 1 \
             slot, and only after the request before it is granted.",
        );
        expect(behind, "It needs 2 slots, and only after the 2 requests before it are granted.");
        let mut gate = GateStatus { k: 2, waiting: vec![waits(8, 2)], ..Default::default() };
        gate.holders = vec![holder(1, &[0])];
        gate.durable_permits =
            vec![DurablePermitStatus { permit_id: 7, slots: vec![1], ..Default::default() }];
        expect(
            explain(&StatusReply::default(), &gate),
            "when pid 1 at node 0 and durable permit 7 release.",
        );
        let many: Vec<ClientStatus> = (0..100).map(|pid| waits(pid + 1, 1)).collect();
        let text = said(2, &two, &many);
        expect(text.clone(), "79 more requests wait behind them");
        assert!(text.lines().count() < 30, "{text}");
    }

    /// An unreachable node may hold slots that seem free: the text gives bounds. With leases the
    /// node is evicted, not declared dead.
    #[test]
    fn the_unknown_is_bounded() {
        let mut gate = GateStatus { name: "gpu".into(), k: 1, ..Default::default() };
        let mut reply = StatusReply { unreachable: vec![1], ..Default::default() };
        let text = explain(&reply, &gate);
        assert!(
            text.contains(
                "at least 0 slots in use, at most 1 free, at least 0 requests waiting; the state \
                 of node 1 is unknown."
            ),
            "{text}"
        );
        assert!(
            text.contains("No request is known to wait.") && !text.contains("granted"),
            "{text}"
        );
        (gate.waiting, gate.waiting_for) = (vec![client(8, 0, &[])], vec![1]);
        assert!(explain(&reply, &gate).contains("when it answers, or is declared dead."));
        reply.node_statuses = vec![NodeStatus::default()];
        let text = explain(&reply, &gate);
        assert!(text.contains("or is evicted after its lease has certainly expired."), "{text}");
        assert!(!text.contains("crashed"), "{text}");
        // A node that restarted reports the holders of its new incarnation; the earlier one is
        // suspected until it is evicted.
        reply.unreachable.clear();
        reply.members = vec![MemberStatus { node: 1, suspected: true, ..MemberStatus::default() }];
        assert!(explain(&reply, &gate).contains("at least 0 slots in use"));
    }

    /// A node without a lease grants nothing, even if slots are free.
    #[test]
    fn no_grants_without_a_lease() {
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
        assert!(
            text.contains("Node 0 has no lease: it grants no request before it has one."),
            "{text}"
        );
    }

    /// A gate with k = 0 is closed, and the text says how to open it.
    #[test]
    fn a_closed_gate() {
        let gate = GateStatus { name: "gpu".into(), ..Default::default() };
        let text = explain(&StatusReply::default(), &gate);
        assert!(text.contains("It is closed") && text.contains("kgate set gpu -k K"), "{text}");
        assert!(!text.contains("granted"), "{text}");
    }

    /// No text of a client reaches the terminal as it is.
    #[test]
    fn hostile_texts_are_escaped() {
        let hostile = "\x1b]0;x\x07\n\u{202e}";
        let mut gate = GateStatus { name: hostile.into(), k: 1, ..Default::default() };
        gate.updated_by = hostile.into();
        let process =
            Process { pid: 7, host: hostile.into(), user: hostile.into(), command: hostile.into() };
        let client = ClientStatus { process: Some(process), weight: 1, ..Default::default() };
        (gate.holders, gate.waiting) = (vec![client.clone()], vec![client]);
        let holder = hostile.to_owned();
        gate.durable_permits = vec![DurablePermitStatus { holder, ..Default::default() }];
        let status = NodeStatus { no_lease_reason: hostile.into(), ..Default::default() };
        let reply = StatusReply { node_statuses: vec![status], ..Default::default() };
        let text = explain(&reply, &gate);
        let lines = text.lines().count();
        assert!(!text.contains(['\x1b', '\x07', '\u{202e}']), "{text}");
        gate.name = "plain".into();
        assert_eq!(explain(&reply, &gate).lines().count(), lines, "{text}");
        assert!(lines <= 8, "{text}");
    }

    /// Durations use the largest unit that fits.
    #[test]
    fn times() {
        let all = [5_000_000, 3_000_000_000, 125_000_000_000, 7_260_000_000_000].map(ago);
        assert_eq!(all, ["5 ms", "3 s", "2 min", "2 h 1 min"]);
    }
}
