//! Eviction of durable permits by an operator (docs/internals/leases.md section 8).
//!
//! Only the holder knows that the work under such a permit has ended. An operator who evicts the
//! permit decides in its place: if the holder is alive, there may be two holders.

use kgate_api::v1;
use kgate_api::v1::ErrorCode;
use kgate_control::state::{ClusterState, Command, DurablePermit, Gate, PermitId};

use super::{Answer, ApiError, Operator, listed};

impl Operator {
    /// Evicts a durable permit that is named by its ID, or by gate and slot. `may` checks the right
    /// over its gate.
    pub(super) async fn evict_permit(
        &self,
        request: v1::EvictPermitRequest,
        may: impl Fn(&str) -> Answer<()>,
    ) -> Answer<v1::OperationReply> {
        let v1::EvictPermitRequest { permit_id: permit, gate, slot, dry_run, .. } = request;
        let cluster_state = self.read().await?;
        let (id, held) = find(&cluster_state, permit, &gate, slot)?;
        // Only the right over all gates has no name of a gate to check.
        may(cluster_state.gates.get(&held.gate).map_or("", |gate| gate.name.as_str()))?;
        let warning = String::new();
        if dry_run {
            return Ok(v1::OperationReply {
                message: consequences(&cluster_state, id, held),
                warning,
            });
        }
        let evict = Command::EvictPermit { permit: id, author: self.author.clone() };
        self.propose(evict).await?;
        let text = format!("{id} is evicted: {} may be granted again", slots(held));
        Ok(v1::OperationReply { message: text, warning })
    }
}

fn find<'a>(
    cluster_state: &'a ClusterState,
    permit: Option<u64>,
    gate: &str,
    slot: Option<u32>,
) -> Answer<(PermitId, &'a DurablePermit)> {
    if let Some(id) = permit.map(PermitId) {
        let held = cluster_state.permits.get(&id);
        return held.map(|held| (id, held)).ok_or_else(|| {
            ApiError::new(
                ErrorCode::PermitNotFound,
                format!("{id} is not held: it was released, has expired, or never existed"),
            )
        });
    }
    let Some(known) = cluster_state.gate(gate) else {
        return Err(ApiError::new(
            ErrorCode::GateNotFound,
            format!("there is no gate `{gate}`: `kgate status` lists all"),
        ));
    };
    let found = of_gate(cluster_state, known, slot);
    match found.as_slice() {
        [(id, held)] => Ok((**id, held)),
        [] => Err(ApiError::new(
            ErrorCode::PermitNotFound,
            format!("gate `{gate}` has no such durable permit: `kgate status` lists all"),
        )),
        several => {
            let all: Vec<String> =
                several.iter().map(|(id, held)| format!("{id} ({})", slots(held))).collect();
            Err(ApiError::bad_request(format!(
                "gate `{gate}` has several durable permits: {}; name a slot or an ID",
                all.join(", ")
            )))
        }
    }
}

/// The durable permits of a gate, or those with this slot.
pub(super) fn of_gate<'a>(
    cluster_state: &'a ClusterState,
    gate: &Gate,
    slot: Option<u32>,
) -> Vec<(&'a PermitId, &'a DurablePermit)> {
    let of_gate = cluster_state.permits.iter().filter(|(_, held)| held.gate == gate.id);
    of_gate.filter(|(_, held)| slot.is_none_or(|slot| held.slots.contains(&slot))).collect()
}

fn slots(held: &DurablePermit) -> String {
    format!("slot {}", listed(held.slots.iter().copied()))
}

fn consequences(cluster_state: &ClusterState, id: PermitId, held: &DurablePermit) -> String {
    let gate = cluster_state.gates.get(&held.gate).map_or("(deleted)", |gate| gate.name.as_str());
    let end = match held.ttl {
        Some(ttl) => {
            format!("it expires {} s after its last renewal", ttl.0 / 1_000_000_000)
        }
        None => "it never expires".to_owned(),
    };
    format!(
        "{id} holds {} of gate {gate} for {} (fence {:032x}, decided by node {}); {end}. If it is \
        evicted, its slots are free at once. \
         The eviction does not stop the holder: if it may be alive, stop it first, \
         or make sure that the resource checks fences",
        slots(held),
        held.holder,
        held.fence.0,
        held.by.0.0
    )
}
