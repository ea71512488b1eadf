//! What people may see, as JSON: the same from a node by HTTP and from the command with `--json`.

use serde_json::{Value, json};

use crate::v1::{
    Client, GateStatus, HeldPermit, Member, MembersReply, Peer, SetGateReply, Standing, StatusReply,
};

/// All gates.
pub fn status(reply: &StatusReply) -> Value {
    json!({
        "node": reply.node,
        "nodes": reply.nodes,
        "silent": reply.silent,
        "crashed": reply.crashed,
        "gates": reply.gates.iter().map(gate).collect::<Vec<_>>(),
        "members": reply.members.iter().map(member).collect::<Vec<_>>(),
        "standings": reply.standings.iter().map(standing).collect::<Vec<_>>(),
    })
}

fn member(member: &Peer) -> Value {
    let Peer { node, incarnation, suspected, votes } = member;
    json!({ "node": node, "incarnation": incarnation, "suspected": suspected, "votes": votes })
}

fn standing(standing: &Standing) -> Value {
    json!({
        "node": standing.node,
        "lease_left_ms": standing.lease_left_ns / 1_000_000,
        "without": Some(&standing.without).filter(|why| !why.is_empty()),
        "leader": standing.leader,
        "applied": standing.applied,
    })
}

/// One gate.
pub fn gate(gate: &GateStatus) -> Value {
    json!({
        "name": gate.name,
        "k": gate.k,
        "protocol": gate.protocol,
        "author": gate.author,
        "holders": gate.holders.iter().map(client).collect::<Vec<_>>(),
        "waiting": gate.waiting.iter().map(client).collect::<Vec<_>>(),
        "lacking": gate.lacking,
        "policy": gate.policy().as_str_name().to_lowercase(),
        "held": gate.held.iter().map(held).collect::<Vec<_>>(),
    })
}

fn held(held: &HeldPermit) -> Value {
    json!({
        "permit": held.permit,
        "slots": held.slots,
        "fence": held.fence,
        "holder": held.holder,
        "node": held.node,
        "since_ms": held.since_ns / 1_000_000,
        "ttl_ms": held.ttl_ns.map(|ttl| ttl / 1_000_000),
        "ttl_left_ms": held.ttl_left_ns.map(|left| left / 1_000_000),
    })
}

fn client(client: &Client) -> Value {
    let process = client.process.clone().unwrap_or_default();
    json!({
        "node": client.node,
        "pid": process.pid,
        "host": process.host,
        "user": process.user,
        "command": process.command,
        "permits": client.permits,
        "since_ms": client.since_ns / 1_000_000,
        "slots": client.slots,
        "fence": client.fence,
        "cut_off": client.cut_off,
    })
}

/// Who takes part.
pub fn members(reply: &MembersReply) -> Value {
    let member = |member: &Member| {
        json!({
            "node": member.node,
            "name": member.name,
            "address": member.address,
            "incarnation": member.incarnation,
            "standing": member.standing,
            "role": member.role,
            "since_entry": member.since_entry,
            "answers": member.answers,
        })
    };
    json!({
        "members": reply.members.iter().map(member).collect::<Vec<_>>(),
        "applied": reply.applied,
        "leader": reply.leader,
        "stale": Some(&reply.stale).filter(|stale| !stale.is_empty()),
    })
}

/// What became of another k.
pub fn set(reply: &SetGateReply) -> Value {
    json!({
        "k": reply.k,
        "k_before": reply.k_before,
        "version": reply.version,
        "drained": reply.drained,
        "draining": reply.draining,
    })
}
