//! Changes of k and policy (docs/internals/leases.md section 10).
//!
//! The change is committed at once. It is in force when every member has reported that it has
//! applied the change and holds no slot at or above the new k. A member that does not answer counts
//! as holding until it is evicted. Slots of an earlier incarnation count too: only the incarnation
//! that the log knows can report that it holds nothing. A node alone needs no log: it changes its
//! gate at once, and only its own holders count.

use std::time::Duration;

use kgate_api::v1::ErrorCode;
use kgate_api::{LeaseInstant, v1};
use kgate_control::state::{Applied, ClusterState, Command, Gate, KSource, Slots};

use super::{Answer, ApiError, CoreHandle, Identity, Operator, Privilege, author, listed};
use crate::core::{Call, CallReply, ClientView, GateView, StatusReport};
use crate::serve::session::policy_of;
use crate::serve::wanted::WantedSlots;

/// Default of `timeout_ms`.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// Interval of the queries to all members.
const QUERY_INTERVAL: Duration = Duration::from_millis(100);

/// The new k and what it comes from, as far as they change.
fn wanted(request: &v1::SetGateRequest) -> Answer<(Option<u32>, Option<KSource>)> {
    let v1::SetGateRequest { k, keep_k, names, no_names, k_expression, .. } = request;
    let k = (!keep_k).then_some(*k);
    if *no_names && !names.is_empty() {
        return Err(ApiError::bad_request("no_names excludes names: give one of them"));
    }
    let (expression, names) = (k_expression.clone(), names.clone());
    let slots = WantedSlots { k, expression, names }.resolve()?;
    let slots = slots.map(|Slots { k, source }| (Some(k), source));
    Ok(match slots {
        Some((k, source)) if source != KSource::Number => (k, Some(source)),
        // A number alone says nothing of names.
        Some((k, _)) => (k, no_names.then_some(KSource::Number)),
        None => (None, no_names.then_some(KSource::Number)),
    })
}

/// Changes a gate, by the log or at this node alone, and waits until the change is in force.
pub(super) async fn set(
    core: &CoreHandle,
    who: &Identity,
    request: v1::SetGateRequest,
) -> Answer<v1::SetGateReply> {
    let need = Privilege::Operate(&request.gate);
    if core.log().await.is_some() {
        return Operator::admit(core, who, need).await?.set(request).await;
    }
    core.access.admit_request(who)?;
    core.access.authorise(who, need)?;
    set_alone(core, author(core, who), request).await
}

/// Changes a gate of a node without a log.
async fn set_alone(
    core: &CoreHandle,
    author: String,
    request: v1::SetGateRequest,
) -> Answer<v1::SetGateReply> {
    let (k, source) = wanted(&request)?;
    let v1::SetGateRequest { gate, no_wait, timeout_ms, policy, no_names, .. } = request;
    let policy = policy_of(policy);
    let set = Call::SetGate { name: gate.clone(), k, source, no_names, policy, author };
    let CallReply::GateSet { k, previous_k } = core.call(set).await? else {
        return Err(ApiError::unexpected_reply());
    };
    let draining =
        until_drained(no_wait, timeout_ms, || draining_alone(core, gate.clone(), k)).await?;
    let drained = draining.is_empty();
    Ok(v1::SetGateReply { k, log_index: 0, previous_k, drained, draining })
}

/// The holders of a node without a log that have to release slots at or above k.
async fn draining_alone(core: &CoreHandle, gate: String, k: u32) -> Answer<Vec<String>> {
    let report = core.query_status(Some(gate)).await?;
    let holders = report
        .seen
        .iter()
        .flat_map(|(who, gates)| gates.iter().flat_map(|view| holders_beyond(who.node.0, view, k)));
    Ok(holders.collect())
}

/// Asks what is still missing until nothing is, or the time is over. Returns what is missing then.
async fn until_drained<F: Future<Output = Answer<Vec<String>>>>(
    no_wait: bool,
    timeout_ms: u64,
    draining: impl Fn() -> F,
) -> Answer<Vec<String>> {
    let most = if timeout_ms == 0 { TIMEOUT } else { Duration::from_millis(timeout_ms) };
    let end = LeaseInstant::now() + most;
    loop {
        let draining = draining().await?;
        if draining.is_empty() || no_wait || end.after(LeaseInstant::now()).is_zero() {
            return Ok(draining);
        }
        tokio::time::sleep(QUERY_INTERVAL).await;
    }
}

impl Operator {
    /// Commits the change, and waits until it is in force.
    pub(super) async fn set(&self, request: v1::SetGateRequest) -> Answer<v1::SetGateReply> {
        let (k, source) = wanted(&request)?;
        let v1::SetGateRequest { gate: name, no_wait, timeout_ms, policy, no_names, .. } = request;
        let before = self.read().await?;
        let Some(gate) = before.gate(&name).cloned() else {
            return Err(ApiError::new(
                ErrorCode::GateNotFound,
                format!("no gate `{name}`: `kgate run {name} -k K -- CMD` creates it"),
            ));
        };
        if let Some(source) = &source {
            let kept = gate.source.check_kept(source, no_names);
            kept.map_err(|bad| ApiError::bad_request(bad.to_string()))?;
        }
        if let Some(source) = &source
            && gate.k == 0
            && let Err(moved) = gate.source.check_moves(source)
        {
            // At an open gate the log refuses this. A closed one may still have holders.
            let draining = self.draining(&gate, 0, gate.version).await?;
            if !draining.is_empty() {
                let message =
                    format!("{moved}; it is closed, and not drained: {}", draining.join("; "));
                return Err(ApiError::new(ErrorCode::Conflict, message));
            }
        }
        let version = Some(gate.version);
        let (policy, author) = (policy_of(policy), self.author.clone());
        let set = Command::SetGate { name, k, source, policy, version, author };
        let k = k.unwrap_or(gate.k);
        let Applied::Gate { version, .. } = self.propose(set).await? else {
            return Err(ApiError::unexpected_reply());
        };
        let draining =
            until_drained(no_wait, timeout_ms, || self.draining(&gate, k, version)).await?;
        let (previous_k, drained) = (gate.k, draining.is_empty());
        Ok(v1::SetGateReply { k, log_index: version, previous_k, drained, draining })
    }

    /// What is still missing, one sentence per node or holder.
    async fn draining(&self, gate: &Gate, k: u32, version: u64) -> Answer<Vec<String>> {
        let report = self.core.query_status(Some(gate.name.clone())).await?;
        Ok(draining(&self.log.cluster_state(), &report, gate, k, version))
    }
}

fn draining(
    cluster_state: &ClusterState,
    report: &StatusReport,
    gate: &Gate,
    k: u32,
    version: u64,
) -> Vec<String> {
    let mut draining = Vec::new();
    if cluster_state.applied < version {
        draining.push("this node has not applied the change yet".to_owned());
    }
    for (node, member) in cluster_state.membership.iter() {
        let number = node.0;
        let said = report.seen.iter().find(|(who, _)| who.node == node);
        let Some((_, gates)) =
            said.filter(|(who, _)| who.incarnation == Some(member.incarnation.0))
        else {
            draining.push(format!(
                "node {number} does not answer: it must return, or its lease must expire"
            ));
            continue;
        };
        let Some(view) =
            gates.iter().find(|view| view.name == gate.name && view.version >= version)
        else {
            draining.push(format!("node {number} has not applied the change yet"));
            continue;
        };
        draining.extend(holders_beyond(number, view, k));
    }
    for slot in cluster_state.held_slots(gate.id).into_iter().filter(|slot| *slot >= k) {
        draining.push(format!("a durable permit holds slot {slot}"));
    }
    draining
}

/// The holders at a node of slots at or above k, one sentence each.
fn holders_beyond(node: u32, view: &GateView, k: u32) -> impl Iterator<Item = String> {
    let beyond = move |holder: &&ClientView| holder.slots.iter().any(|slot| *slot >= k);
    view.holders.iter().filter(beyond).map(move |holder| {
        let slots = listed(holder.slots.iter().copied());
        format!("node {node}: slot {slots} is held by {}", holder.process)
    })
}
