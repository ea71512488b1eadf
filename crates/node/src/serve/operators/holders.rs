//! Eviction of single holders by an operator.
//!
//! The node of the holder tells it that its permit is lost. The holder stops its work and releases
//! the permit; `kgate run` stops the whole process tree of its command. The slots are free when it
//! has done so. With leases they are also free when a holder that does not respond has surely
//! stopped (rule S4). Where permits are bound to processes, they are free when the processes have
//! ended. So the operator waits, and no eviction lets two holders in.

use std::time::Duration;

use kgate_api::v1::ErrorCode;
use kgate_api::{LeaseInstant, v1};

use super::{Answer, ApiError, CoreHandle, Identity, Operator, Privilege, author, durable, listed};
use crate::core::{Call, ClientView, GateView, StatusReport};

/// Maximum time to wait until an evicted holder has stopped.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the queries to all nodes.
const QUERY_INTERVAL: Duration = Duration::from_millis(50);

/// Evicts a permit: a durable one, or that of a holder. The right over its gate is enough. A client
/// that names it by an ID needs the right over some gate to learn whether it is held, and over the
/// gates of everything that is evicted.
pub(super) async fn evict_permit(
    core: &CoreHandle,
    who: &Identity,
    request: v1::EvictPermitRequest,
) -> Answer<v1::OperationReply> {
    core.access.admit_request(who)?;
    let may = |gate: &str| core.access.authorise(who, Privilege::Operate(gate));
    if request.permit_id.is_some() || request.session_id.is_some() {
        core.access.authorise(who, Privilege::OperateSome)?;
    } else {
        may(&request.gate)?;
    }
    let operator = Operator::of_log(core, who).await;
    if let (Some(permit), None) = (request.permit_id, &operator) {
        let text = format!(
            "there is no durable permit {permit}: this node has no agreed log, so processes hold \
             all its permits; name the holder by --gate NAME --slot SLOT, or by --session NODE:ID"
        );
        return Err(ApiError::new(ErrorCode::PermitNotFound, text));
    }
    if let Some(operator) = &operator
        && (request.permit_id.is_some() || names_durable(operator, &request).await?)
    {
        return operator.evict_permit(request, may).await;
    }
    let holders = find(&core.query_status(None).await?, &request)?;
    holders.iter().try_for_each(|(gate, _)| may(gate))?;
    let mut message = holders.iter().map(describe).collect::<Vec<_>>().join("; ");
    if request.dry_run {
        message.push_str(
            ". If it is evicted, its work is stopped; its slots are free when it has stopped",
        );
        return Ok(v1::OperationReply { message, warning: String::new() });
    }
    for (_, holder) in &holders {
        let (holder, author) = (holder.id(), author(core, who));
        core.call(Call::EvictHolder { holder, author }).await?;
    }
    until_gone(core, &holders).await?;
    message.push_str(": evicted and stopped, its slots are free");
    Ok(v1::OperationReply { message, warning: String::new() })
}

/// A holder, and the name of its gate.
type Holder = (String, ClientView);

/// Whether gate and slot name a durable permit.
async fn names_durable(operator: &Operator, request: &v1::EvictPermitRequest) -> Answer<bool> {
    if request.session_id.is_some() {
        return Ok(false);
    }
    let cluster_state = operator.read().await?;
    let gate = cluster_state.gate(&request.gate);
    Ok(gate.is_some_and(|gate| !durable::of_gate(&cluster_state, gate, request.slot).is_empty()))
}

/// All holders of all nodes that answered.
fn all(report: &StatusReport) -> impl Iterator<Item = Holder> {
    report
        .seen
        .iter()
        .flat_map(|(_, gates)| gates)
        .flat_map(|gate| gate.holders.iter().map(|holder| (gate.name.clone(), holder.clone())))
}

/// The holders that a request names.
fn find(report: &StatusReport, request: &v1::EvictPermitRequest) -> Answer<Vec<Holder>> {
    let v1::EvictPermitRequest { gate, slot, session_id, node, .. } = request;
    if let Some(session) = *session_id {
        let of_session = |(_, holder): &Holder| (holder.node.0, holder.session) == (*node, session);
        let found: Vec<Holder> = all(report).filter(of_session).collect();
        let none = || {
            let text = format!(
                "session {node}:{session} holds nothing; `kgate status --json` shows sessions"
            );
            ApiError::new(ErrorCode::PermitNotFound, text)
        };
        return if found.is_empty() { Err(none()) } else { Ok(found) };
    }
    if !report.seen.iter().any(|(_, gates)| gates.iter().any(|view| view.name == *gate)) {
        return Err(ApiError::new(
            ErrorCode::GateNotFound,
            format!("there is no gate `{gate}`: `kgate status` lists all"),
        ));
    }
    let named = |(name, holder): &Holder| {
        name == gate && slot.is_none_or(|slot| holder.slots.contains(&slot))
    };
    let found: Vec<Holder> = all(report).filter(named).collect();
    match found.len() {
        1 => Ok(found),
        0 => Err(ApiError::new(ErrorCode::PermitNotFound, no_holder(report, gate, *slot))),
        _ => Err(ApiError::bad_request(format!(
            "gate `{gate}` has several holders: {}; name a slot",
            found.iter().map(describe).collect::<Vec<_>>().join("; ")
        ))),
    }
}

/// Why there is no holder to evict.
fn no_holder(report: &StatusReport, gate: &str, slot: Option<u32>) -> String {
    let views = report.seen.iter().flat_map(|(_, gates)| gates);
    let k = views.filter(|view| view.name == gate).map(|view| view.k).max().unwrap_or(0);
    let mut text = match slot {
        None => format!("nobody holds a permit of gate `{gate}`"),
        Some(slot) if slot >= k => {
            format!("gate `{gate}` has k = {k}, so it has no slot {slot}: slots count from 0")
        }
        Some(slot) => format!("slot {slot} of gate `{gate}` is free: nobody holds it"),
    };
    if !report.silent.is_empty() {
        let silent = listed(report.silent.iter().map(|node| node.0));
        text.push_str(&format!(", as far as is known: node {silent} does not answer"));
    }
    let views = report.seen.iter().flat_map(|(_, gates)| gates);
    let omitted = |view: &GateView| view.name == gate && view.omitted.holders > 0;
    if views.into_iter().any(omitted) {
        text.push_str(", as far as is known: a node has too many holders to list them all");
    }
    text.push_str(&format!(" (`kgate status {gate}`)"));
    text
}

fn describe((gate, holder): &Holder) -> String {
    let slots = match holder.slots.as_slice() {
        [] => "a permit".to_owned(),
        slots => format!("slot {}", listed(slots.iter().copied())),
    };
    format!("{slots} of gate {gate}, held at node {} by {}", holder.node.0, holder.process)
}

/// Waits until none of them holds anything. A node that does not answer may have holders.
async fn until_gone(core: &CoreHandle, holders: &[Holder]) -> Answer<()> {
    let end = LeaseInstant::now() + TIMEOUT;
    loop {
        let report = core.query_status(None).await?;
        let silent = holders.iter().any(|(_, holder)| report.silent.contains(&holder.node));
        let held = all(&report)
            .find(|(_, now)| holders.iter().any(|(_, evicted)| evicted.id() == now.id()));
        if held.is_none() && !silent {
            return Ok(());
        }
        if end.after(LeaseInstant::now()).is_zero() {
            let rest = held.as_ref().map_or_else(
                || "its node does not answer".to_owned(),
                |held| format!("{} still runs", describe(held)),
            );
            return Err(ApiError::new(
                ErrorCode::TimedOut,
                format!(
                    "the holder was told to stop and has not done so within {TIMEOUT:?}: {rest}. \
                     Its slots are free as soon as it has stopped: kill its processes"
                ),
            ));
        }
        tokio::time::sleep(QUERY_INTERVAL).await;
    }
}
