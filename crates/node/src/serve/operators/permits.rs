//! Permits that the log holds, taken back by an operator (docs/internals/leases.md section 8).
//!
//! Nothing but its holder's word says that what was done with such a permit is over. Who takes it
//! back says so in its place: if the holder is alive, two may be through.

use kgate_api::v1;
use kgate_api::v1::ErrorCode;
use kgate_control::state::{ClusterState, Command, DurablePermit, PermitId};

use super::{Answer, ApiError, Operator};

impl Operator {
    /// The gate of a permit that is named by its number, or by gate and slot.
    pub(super) async fn evict_permit(
        &self,
        wish: v1::EvictPermitRequest,
    ) -> Answer<v1::OperationReply> {
        let v1::EvictPermitRequest { permit_id: permit, gate, slot, dry_run } = wish;
        let cluster_state = self.read().await?;
        let (id, held) = find(&cluster_state, permit, &gate, slot)?;
        let warning = String::new();
        if dry_run {
            return Ok(v1::OperationReply {
                message: consequences(&cluster_state, id, held),
                warning,
            });
        }
        let evict = Command::EvictPermit { permit: id, author: self.author.clone() };
        if let Err(why) = self.log.propose(evict).await {
            return Err(self.failed(why).await);
        }
        let text = format!("{id} is not held any more: {} may be granted again", slots(held));
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
                format!("{id} is not held: it was given back, has expired, or never was"),
            )
        });
    }
    let Some(known) = cluster_state.gate(gate) else {
        return Err(ApiError::new(ErrorCode::GateNotFound, format!("there is no gate `{gate}`")));
    };
    let of_gate = cluster_state.permits.iter().filter(|(_, held)| held.gate == known.id);
    let found = of_gate.filter(|(_, held)| slot.is_none_or(|slot| held.slots.contains(&slot)));
    let found: Vec<_> = found.collect();
    match found.as_slice() {
        [(id, held)] => Ok((**id, held)),
        [] => Err(ApiError::new(
            ErrorCode::PermitNotFound,
            format!("the log holds no such permit of gate `{gate}`: `kgate status` lists all"),
        )),
        several => {
            let all: Vec<String> =
                several.iter().map(|(id, held)| format!("{id} ({})", slots(held))).collect();
            Err(ApiError::bad_request(format!(
                "the log holds {} of gate `{gate}`: say which",
                all.join(", ")
            )))
        }
    }
}

fn slots(held: &DurablePermit) -> String {
    let all: Vec<String> = held.slots.iter().map(u32::to_string).collect();
    format!("slot {}", all.join(", "))
}

fn consequences(cluster_state: &ClusterState, id: PermitId, held: &DurablePermit) -> String {
    let gate = cluster_state
        .gates
        .get(&held.gate)
        .map_or("a gate that is gone", |gate| gate.name.as_str());
    let end = match held.ttl {
        Some(ttl) => {
            format!("it ends by itself {} s after its last renewal", ttl.0 / 1_000_000_000)
        }
        None => "it has no end of its own".to_owned(),
    };
    format!(
        "{id} holds {} of gate {gate} for {} (fence {:032x}, decided by node {}); {end}. Evicted, its slots are free at once. \
         Nobody stops its holder: if it is alive, be sure that it is stopped first, or that what it uses checks fences",
        slots(held),
        held.holder,
        held.fence.0,
        held.by.0.0
    )
}
