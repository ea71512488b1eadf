//! Merges the views of all nodes into one status: holders by slot, one queue in order.

use std::collections::{BTreeMap, BTreeSet};

use kgate_api::v1;
use kgate_core::NodeId;

use super::{CoreHandle, session};
use crate::core::{
    ClientView, ControlView, DurablePermitView, GateView, Note, Omitted, PAST_HOLDS_KEPT, Process,
    StatusReport, bound, size,
};

/// The most bytes of the gates in a reply. Clients of gRPC decode at most 4 MiB by default.
const BYTES_MAX: usize = 3 << 20;

/// The reply for the views that arrived, restricted to the gates that the client may see.
pub(super) fn reply(
    mut report: StatusReport,
    core: &CoreHandle,
    may_see: impl Fn(&str) -> bool,
) -> v1::StatusReply {
    for (_, views) in &mut report.seen {
        views.retain(|view| may_see(&view.name));
    }
    bound_all(&mut report, BYTES_MAX);
    let mut durable: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let mut omitted_gates = 0;
    let mut crashed = BTreeSet::new();
    let mut gates: BTreeMap<String, v1::GateStatus> = BTreeMap::new();
    let mut queues: BTreeMap<String, Vec<ClientView>> = BTreeMap::new();
    let (mut members, mut standings, mut newest) = (Vec::new(), Vec::new(), 0);
    for (who, views) in report.seen {
        omitted_gates = omitted_gates.max(number(views.len()).saturating_add(who.omitted_gates));
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
            let known = durable.entry(view.name.clone()).or_default();
            let status = gates.entry(view.name.clone()).or_insert_with(|| v1::GateStatus {
                name: view.name.clone(),
                k: view.k,
                k_expression: view.source.expression().unwrap_or_default().to_owned(),
                names: view.source.names().to_vec(),
                protocol: view.protocol.clone(),
                updated_by: view.author.clone(),
                policy: session::policy(view.policy).into(),
                ..v1::GateStatus::default()
            });
            add_omitted(status, known, &view);
            status.holders.extend(view.holders.into_iter().map(client));
            view.held.into_iter().for_each(|held| add_durable(&mut status.durable_permits, held));
            status.past_holds_ns.extend(view.past_holds.into_iter().take(PAST_HOLDS_KEPT));
            status.waiting_for.extend(view.lacking.iter().map(|node| node.0));
            queues.entry(view.name).or_default().extend(view.waiting);
        }
    }
    for (name, status) in &mut gates {
        status.durable_permits.sort_by_key(|held| held.slots.first().copied());
        status.holders.sort_by_key(|holder| (holder.slots.first().copied(), holder.node));
        status.waiting_for.sort_unstable();
        status.waiting_for.dedup();
        let mut queue = queues.remove(name).unwrap_or_default();
        // The stamp orders requests of different nodes. Requests of one node share a stamp, and a
        // stable sort keeps their own order.
        queue.sort_by_key(|waiter| (waiter.stamp.is_none(), waiter.stamp));
        status.waiting = queue.into_iter().map(client).collect();
        close_omitted(status);
    }
    v1::StatusReply {
        omitted_gates: omitted_gates.saturating_sub(number(gates.len())),
        gates: gates.into_values().collect(),
        unreachable: report
            .silent
            .iter()
            .map(|node| node.0)
            .filter(|node| !crashed.contains(node))
            .collect(),
        declared_dead: crashed.into_iter().collect(),
        node: core.node,
        nodes: core.nodes,
        members,
        node_statuses: standings,
    }
}

/// Bounds the views of all nodes together. What nodes with few clients leave over is shared by the
/// others.
fn bound_all(report: &mut StatusReport, bytes: usize) {
    report.seen.sort_by_key(|(_, views)| size(views));
    let (mut left, nodes) = (bytes, report.seen.len());
    for (at, (who, views)) in report.seen.iter_mut().enumerate() {
        who.omitted_gates += bound(views, left / (nodes - at));
        left = left.saturating_sub(size(views));
    }
}

/// What a node's view of a gate leaves out. All nodes report the same durable permits: `durable`
/// are the most that one of them has, and their slots.
fn add_omitted(status: &mut v1::GateStatus, durable: &mut (u32, u32), view: &GateView) {
    let Omitted { notes, holders, slots, waiting, durable: permits, durable_slots } = view.omitted;
    let listed: usize = view.held.iter().map(|held| held.slots.len()).sum();
    durable.0 = durable.0.max(number(view.held.len()).saturating_add(permits));
    durable.1 = durable.1.max(number(listed).saturating_add(durable_slots));
    let all = status.omitted.get_or_insert_default();
    all.notes |= notes;
    all.holders = all.holders.saturating_add(holders);
    all.slots = all.slots.saturating_add(slots);
    all.waiting = all.waiting.saturating_add(waiting);
    (all.durable_permits, all.durable_slots) = *durable;
}

/// Subtracts the durable permits that are listed, as some node has reported them; none if then
/// nothing is left out.
fn close_omitted(status: &mut v1::GateStatus) {
    let listed: usize = status.durable_permits.iter().map(|held| held.slots.len()).sum();
    if let Some(all) = &mut status.omitted {
        all.durable_permits =
            all.durable_permits.saturating_sub(number(status.durable_permits.len()));
        all.durable_slots = all.durable_slots.saturating_sub(number(listed));
    }
    status.omitted = status.omitted.filter(|all| *all != v1::Omitted::default());
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Adds a node's view of a durable permit. All nodes report the same permits; the greatest age and
/// the greatest rest of the TTL are the best known ones.
fn add_durable(all: &mut Vec<v1::DurablePermitStatus>, held: DurablePermitView) {
    let (ttl_ns, ttl_left_ns) = held.ttl.unzip();
    if let Some(known) = all.iter_mut().find(|known| known.permit_id == held.permit) {
        known.age_ns = known.age_ns.max(held.since);
        known.ttl_left_ns = known.ttl_left_ns.max(ttl_left_ns);
        return;
    }
    all.push(v1::DurablePermitStatus {
        permit_id: held.permit,
        slots: held.slots,
        fence: held.fence,
        holder: held.holder,
        node: held.node.0,
        age_ns: held.since,
        ttl_ns,
        ttl_left_ns,
    });
}

fn shown(
    (node, incarnation, suspected): &(NodeId, u32, bool),
    view: &ControlView,
) -> v1::MemberStatus {
    let votes = view.voters.contains(node);
    v1::MemberStatus { node: node.0, incarnation: *incarnation, suspected: *suspected, votes }
}

fn standing(node: u32, view: &ControlView) -> v1::NodeStatus {
    v1::NodeStatus {
        node,
        lease_left_ns: view.lease_left,
        no_lease_reason: view.without.clone().unwrap_or_default(),
        leader: view.leader.map(|leader| leader.0),
        applied_index: view.applied,
    }
}

/// Whether two replies are equal except for ages and remaining times.
pub(super) fn same(one: &v1::StatusReply, other: &v1::StatusReply) -> bool {
    let timeless = |reply: &v1::StatusReply| {
        let mut reply = reply.clone();
        for gate in &mut reply.gates {
            gate.holders.iter_mut().chain(&mut gate.waiting).for_each(|client| client.age_ns = 0);
            gate.durable_permits
                .iter_mut()
                .for_each(|held| (held.age_ns, held.ttl_left_ns) = (0, None));
        }
        for standing in &mut reply.node_statuses {
            (standing.lease_left_ns, standing.applied_index) = (standing.lease_left_ns.min(1), 0);
        }
        reply
    };
    timeless(one) == timeless(other)
}

fn client(client: ClientView) -> v1::ClientStatus {
    let Process { pid, host, user, command, note: Note { reason, meta } } = client.process;
    v1::ClientStatus {
        node: client.node.0,
        process: Some(v1::Process { pid, host, user, command }),
        weight: client.weight,
        age_ns: client.since,
        slots: client.slots,
        fence: client.fence,
        disconnected: client.cut_off,
        guarded: client.guarded,
        session_id: client.session,
        reason,
        meta,
    }
}
