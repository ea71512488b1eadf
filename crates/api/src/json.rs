//! Replies as JSON: `GET /v1/status` and the other HTTP calls of a node return the same objects as
//! `kgate status --json` prints. Durations are in milliseconds.

use serde_json::{Value, json};

use crate::v1::{
    ClientStatus, DurablePermitStatus, ErrorCode, GateStatus, Member, MemberStatus, MembersReply,
    NodeStatus, Omitted, OperationReply, SetGateReply, StatusReply,
};

/// The value as text that a terminal does not obey: JSON escapes ASCII's control characters except
/// DEL, and none of the others.
pub fn printable(value: &Value) -> String {
    let mut text = String::new();
    for character in value.to_string().chars() {
        match character {
            // Outside of a string JSON has no such characters.
            '\u{7f}'..='\u{9f}' => text.push_str(&format!("\\u{:04x}", u32::from(character))),
            other => text.push(other),
        }
    }
    text
}

/// The status of all gates.
pub fn status(reply: &StatusReply) -> Value {
    json!({
        "node": reply.node,
        "nodes": reply.nodes,
        "unreachable": reply.unreachable,
        "declared_dead": reply.declared_dead,
        "gates": reply.gates.iter().map(gate).collect::<Vec<_>>(),
        "members": reply.members.iter().map(member_status).collect::<Vec<_>>(),
        "node_statuses": reply.node_statuses.iter().map(node_status).collect::<Vec<_>>(),
        "omitted_gates": reply.omitted_gates,
    })
}

fn member_status(member: &MemberStatus) -> Value {
    let MemberStatus { node, incarnation, suspected, votes } = member;
    json!({ "node": node, "incarnation": incarnation, "suspected": suspected, "votes": votes })
}

fn node_status(status: &NodeStatus) -> Value {
    json!({
        "node": status.node,
        "lease_left_ms": status.lease_left_ns / 1_000_000,
        "no_lease_reason": non_empty(&status.no_lease_reason),
        "leader": status.leader,
        "applied_index": status.applied_index,
    })
}

/// The status of one gate.
pub fn gate(gate: &GateStatus) -> Value {
    json!({
        "name": gate.name,
        "k": gate.k,
        "k_expression": non_empty(&gate.k_expression),
        "names": gate.names,
        "protocol": gate.protocol,
        "updated_by": gate.updated_by,
        "holders": gate.holders.iter().map(client).collect::<Vec<_>>(),
        "waiting": gate.waiting.iter().map(client).collect::<Vec<_>>(),
        "waiting_for": gate.waiting_for,
        "policy": gate.policy().name(),
        "durable_permits": gate.durable_permits.iter().map(durable).collect::<Vec<_>>(),
        "past_holds_ms": gate.past_holds_ns.iter().map(|hold| hold / 1_000_000).collect::<Vec<_>>(),
        "omitted": gate.omitted.as_ref().map(omitted),
    })
}

fn omitted(omitted: &Omitted) -> Value {
    let Omitted { notes, holders, slots, waiting, durable_permits, durable_slots } = omitted;
    json!({
        "notes": notes,
        "holders": holders,
        "slots": slots,
        "waiting": waiting,
        "durable_permits": durable_permits,
        "durable_slots": durable_slots,
    })
}

fn durable(permit: &DurablePermitStatus) -> Value {
    json!({
        "permit_id": permit.permit_id,
        "slots": permit.slots,
        "fence": permit.fence,
        "holder": permit.holder,
        "node": permit.node,
        "age_ms": permit.age_ns / 1_000_000,
        "ttl_ms": permit.ttl_ns.map(|ttl| ttl / 1_000_000),
        "ttl_left_ms": permit.ttl_left_ns.map(|left| left / 1_000_000),
    })
}

fn client(client: &ClientStatus) -> Value {
    let process = client.process.clone().unwrap_or_default();
    json!({
        "node": client.node,
        "pid": process.pid,
        "host": process.host,
        "user": process.user,
        "command": process.command,
        "weight": client.weight,
        "age_ms": client.age_ns / 1_000_000,
        "slots": client.slots,
        "fence": client.fence,
        "disconnected": client.disconnected,
        "guarded": client.guarded,
        "session_id": client.session_id,
        "reason": non_empty(&client.reason),
        "meta": client.meta,
    })
}

/// The members of the cluster.
pub fn members(reply: &MembersReply) -> Value {
    let member = |member: &Member| {
        json!({
            "node": member.node,
            "name": member.name,
            "address": member.address,
            "incarnation": member.incarnation,
            "state": member.state().name(),
            "role": non_empty(member.role().name()),
            "since_index": member.since_index,
            "reachable": member.reachable,
        })
    };
    json!({
        "members": reply.members.iter().map(member).collect::<Vec<_>>(),
        "applied_index": reply.applied_index,
        "leader": reply.leader,
        "stale_reason": non_empty(&reply.stale_reason),
    })
}

/// The result of changing a gate.
pub fn set(reply: &SetGateReply) -> Value {
    json!({
        "k": reply.k,
        "previous_k": reply.previous_k,
        "log_index": reply.log_index,
        "drained": reply.drained,
        "draining": reply.draining,
    })
}

/// The result of an operator's command.
pub fn operation(reply: &OperationReply) -> Value {
    json!({ "message": reply.message, "warning": non_empty(&reply.warning) })
}

/// An error: the body of each HTTP reply whose status is not 2xx.
pub fn error(code: ErrorCode, message: &str) -> Value {
    json!({ "code": code.name(), "message": message })
}

fn non_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text has no control character, and is the same value.
    #[test]
    fn json_has_no_control_characters() {
        let value = json!({ "command": "\u{9b}31m \x1b \x7f \n ä" });
        let text = printable(&value);
        assert!(!text.chars().any(|character| character.is_control()), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }
}
