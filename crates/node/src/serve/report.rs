//! What all nodes see, put together for people: one list of holders by slot, one queue in order.

use std::collections::{BTreeMap, BTreeSet};

use kgate_api::v1;
use kgate_core::NodeId;

use super::{Desk, grpc};
use crate::core::{ClientView, ControlView, DurablePermitView, GateView, Process, StatusReport};

/// The answer to whoever asked.
pub(super) fn of(report: StatusReport, desk: &Desk) -> v1::StatusReply {
    let mut crashed = BTreeSet::new();
    let mut gates: BTreeMap<String, v1::GateStatus> = BTreeMap::new();
    let mut queues: BTreeMap<String, Vec<ClientView>> = BTreeMap::new();
    let (mut members, mut standings, mut newest) = (Vec::new(), Vec::new(), 0);
    for (who, views) in report.seen {
        if let Some(view) = who.control {
            standings.push(standing(who.node.0, &view));
            if view.applied >= newest {
                (newest, members) = (
                    view.applied,
                    view.members.iter().map(|member| shown(member, &view)).collect(),
                );
            }
        }
        crashed.extend(who.crashed.iter().map(|node| node.0));
        for view in views {
            let GateView {
                name, k, protocol, author, holders, waiting, lacking, held, policy, ..
            } = view;
            let policy = grpc::policy(policy).into();
            let empty = v1::GateStatus::default();
            let status =
                v1::GateStatus { name: name.clone(), k, protocol, author, policy, ..empty };
            let status = gates.entry(name.clone()).or_insert(status);
            status.holders.extend(holders.into_iter().map(client));
            held.into_iter().for_each(|held| add_held(&mut status.held, held));
            if !waiting.is_empty() {
                status.lacking.extend(lacking.iter().map(|node| node.0));
            }
            queues.entry(name).or_default().extend(waiting);
        }
    }
    for (name, status) in &mut gates {
        status.held.sort_by_key(|held| held.slots.first().copied());
        status.holders.sort_by_key(|holder| (holder.slots.first().copied(), holder.node));
        status.lacking.sort_unstable();
        status.lacking.dedup();
        let mut queue = queues.remove(name).unwrap_or_default();
        // The stamp of a node's request orders nodes; those of one node come in their own order,
        // which a stable sort keeps.
        queue.sort_by_key(|waiter| (waiter.stamp.is_none(), waiter.stamp));
        status.waiting = queue.into_iter().map(client).collect();
    }
    v1::StatusReply {
        gates: gates.into_values().collect(),
        silent: report
            .silent
            .iter()
            .map(|node| node.0)
            .filter(|node| !crashed.contains(node))
            .collect(),
        crashed: crashed.into_iter().collect(),
        node: desk.node,
        nodes: desk.nodes,
        members,
        standings,
    }
}

/// All nodes tell of the same: who has known of it for longest, and has counted least of its time,
/// knows best.
fn add_held(all: &mut Vec<v1::HeldPermit>, held: DurablePermitView) {
    let DurablePermitView { permit, slots, fence, holder, node, since, ttl } = held;
    let left = ttl.map(|(_, left)| left);
    if let Some(known) = all.iter_mut().find(|known| known.permit == permit) {
        known.since_ns = known.since_ns.max(since);
        known.ttl_left_ns = known.ttl_left_ns.max(left);
        return;
    }
    let (node, ttl_ns) = (node.0, ttl.map(|(whole, _)| whole));
    all.push(v1::HeldPermit {
        permit,
        slots,
        fence,
        holder,
        node,
        since_ns: since,
        ttl_ns,
        ttl_left_ns: left,
    });
}

fn shown((node, incarnation, suspected): &(NodeId, u32, bool), view: &ControlView) -> v1::Peer {
    let votes = view.voters.contains(node);
    v1::Peer { node: node.0, incarnation: *incarnation, suspected: *suspected, votes }
}

fn standing(node: u32, view: &ControlView) -> v1::Standing {
    v1::Standing {
        node,
        lease_left_ns: view.lease_left,
        without: view.without.clone().unwrap_or_default(),
        leader: view.leader.map(|leader| leader.0),
        applied: view.applied,
    }
}

/// Whether two answers say the same but for how long it has been so.
pub(super) fn same(one: &v1::StatusReply, other: &v1::StatusReply) -> bool {
    let timeless = |reply: &v1::StatusReply| {
        let mut reply = reply.clone();
        for gate in &mut reply.gates {
            gate.holders.iter_mut().chain(&mut gate.waiting).for_each(|client| client.since_ns = 0);
            gate.held.iter_mut().for_each(|held| (held.since_ns, held.ttl_left_ns) = (0, None));
        }
        for standing in &mut reply.standings {
            (standing.lease_left_ns, standing.applied) = (standing.lease_left_ns.min(1), 0);
        }
        reply
    };
    timeless(one) == timeless(other)
}

fn client(client: ClientView) -> v1::Client {
    let ClientView { node, process, weight, since, slots, fence, stamp: _, cut_off } = client;
    let Process { pid, host, user, command } = process;
    let process = Some(v1::Process { pid, host, user, command });
    v1::Client { node: node.0, process, permits: weight, since_ns: since, slots, fence, cut_off }
}
