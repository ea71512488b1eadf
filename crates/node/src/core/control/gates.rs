//! Gates that clients or the configuration want: the first entry that creates a gate wins, and k is
//! what the log says (docs/internals/leases.md section 10).

use kgate_control::log::ProposeError;
use kgate_control::state::{Applied, Command, PermitId, Rejected, Slots};
use kgate_core::{GrantId, NodeId};

use crate::core::clients::{PendingAcquire, closed};
use crate::core::messages::{ErrorCode, PermitCommand};
use crate::core::{Action, ClientId, Core, Definition, GateId, Process, RequestKey};

/// The purpose of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::core) enum Purpose {
    /// Add this incarnation to the members.
    Add,
    /// Create a gate with these slots.
    Gate(String, Slots),
    /// Hold a permit that this node granted.
    Held(GateId, GrantId),
    /// Give a waiting request the permit that the log holds for it already.
    Attach(RequestKey, PermitId),
    /// Release a permit that no request wants.
    ReleaseUnwanted(PermitId),
    /// Expire a permit.
    Expire(PermitId),
    /// Use a key for the message of this number of a client.
    Once(ClientId, u64),
    /// Expire the key that this entry marked.
    ExpireOnce(u64),
    /// Renew or release a permit for a client.
    Permit(ClientId, RequestKey, PermitId, PermitCommand),
}

impl Core {
    /// Proposes a command, unless the same proposal is open. The answer comes back by
    /// [`Core::on_proposed`].
    pub(in crate::core) fn propose(&mut self, purpose: Purpose, command: Command) {
        if self.log.open.values().any(|open| *open == purpose) {
            return;
        }
        self.log.proposed += 1;
        self.log.open.insert(self.log.proposed, purpose);
        self.actions.push(Action::Propose(self.log.proposed, command));
    }

    /// The log answered a proposal.
    pub(in crate::core) fn on_proposed(
        &mut self,
        number: u64,
        result: Result<Applied, ProposeError>,
    ) {
        let purpose = self.log.open.remove(&number);
        match purpose {
            Some(Purpose::Add) => self.on_add_proposed(result.err()),
            Some(Purpose::Gate(name, slots)) => self.on_gate_proposed(&name, &slots, result),
            Some(Purpose::Held(gate, grant)) => self.on_hold_proposed((gate, grant), result),
            Some(Purpose::Attach(key, permit)) => self.on_attach_proposed((key, permit), result),
            Some(Purpose::Permit(client, key, permit, word)) => {
                self.on_permit_proposed(client, key, (permit, word), result);
            }
            Some(Purpose::Once(client, number)) => self.on_once_proposed(client, number, result),
            Some(Purpose::ReleaseUnwanted(permit)) => self.on_release_unwanted(permit, &result),
            // Proposed again when the timer fires again.
            Some(Purpose::Expire(_) | Purpose::ExpireOnce(_)) | None => {}
        }
    }

    /// A client wants a gate that is unknown here, or known with other slots. The log decides,
    /// since this node may be behind.
    pub(in crate::core) fn create_by_log(&mut self, pending: PendingAcquire) {
        let (name, slots) = (pending.request.gate.clone(), pending.request.new_slots());
        let author = author(&pending.process, self.settings.me);
        let policy = pending.request.durable.policy.unwrap_or_default();
        self.pending.push(pending);
        let plan = Definition { author, policy, ..self.plan(GateId(0), &name, slots) };
        self.propose_gate(plan);
    }

    fn propose_gate(&mut self, plan: Definition) {
        let slots = plan.slots();
        let Definition { name, protocol, lanes, policy, author, .. } = plan;
        let purpose = Purpose::Gate(name.clone(), slots.clone());
        let create =
            Command::CreateGate { name, slots, protocol, lanes, policy, weight_max: None, author };
        self.propose(purpose, create);
    }

    /// The entry that changed a gate last, as far as it is applied here.
    pub(in crate::core) fn version_of(&self, gate: GateId) -> u64 {
        self.log.state.gates.get(&gate).map_or(0, |gate| gate.version)
    }

    /// Creates the missing gates of the configuration. Returns whether some are missing.
    pub(super) fn reconcile_gates(&mut self) -> bool {
        let missing = |gate: &&Definition| self.catalogue.get(&gate.name).is_none();
        let missing: Vec<Definition> =
            self.settings.fixed.iter().filter(missing).cloned().collect();
        let some = !missing.is_empty();
        missing.into_iter().for_each(|gate| self.propose_gate(gate));
        some
    }

    fn on_gate_proposed(
        &mut self,
        name: &str,
        slots: &Slots,
        result: Result<Applied, ProposeError>,
    ) {
        let version = if let Ok(Applied::Gate { version, .. }) = result { version } else { 0 };
        if let Some((why, text)) = result.err().map(refusal_of) {
            // A request without a k takes the gate as it is. The log has the gate, and this node
            // will apply its entry.
            let content = |pending: &PendingAcquire| {
                why == ErrorCode::Conflict && pending.request.k.is_none()
            };
            let concerns = |pending: &PendingAcquire| {
                pending.request.gate == name
                    && pending.request.new_slots() == *slots
                    && !content(pending)
            };
            let (gone, rest): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.pending).into_iter().partition(concerns);
            self.pending = rest;
            gone.into_iter()
                .for_each(|pending: PendingAcquire| self.refuse(pending.key, why, text.clone()));
        }
        // If the entry is not applied here yet, the requests follow when it is.
        let applied = self.log.state.applied;
        if version <= applied && self.catalogue.get(name).is_some() {
            self.place_all(name);
        }
    }
}

/// The refusal of a request whose gate could not be created.
fn refusal_of(not_done: ProposeError) -> (ErrorCode, String) {
    match not_done {
        ProposeError::Rejected(Rejected::Conflict { gate, slots, author, .. }) if slots.k == 0 => {
            (ErrorCode::TooLarge, closed(&gate, &author))
        }
        ProposeError::Rejected(rejected @ Rejected::Conflict { .. }) => {
            (ErrorCode::Conflict, rejected.to_string())
        }
        // Nothing is wrong with the request: it came too early.
        ProposeError::Rejected(rejected @ Rejected::NotBootstrapped) => {
            (ErrorCode::NoQuorum, format!("no quorum: {rejected}"))
        }
        ProposeError::Rejected(rejected) => (ErrorCode::BadRequest, rejected.to_string()),
        ProposeError::NoQuorum(text) => (ErrorCode::NoQuorum, format!("no quorum: {text}")),
        stopped @ ProposeError::Stopped => (ErrorCode::NodeGone, stopped.to_string()),
    }
}

/// The author of a gate, for people.
pub(in crate::core) fn author(process: &Process, at: NodeId) -> String {
    let at = at.0;
    match (process.user.as_str(), process.host.as_str()) {
        ("", "") => format!("a client of node {at}"),
        (user, host) => format!("{user}@{host} through node {at}")
            .chars()
            .filter(|c| c.is_ascii() && !c.is_ascii_control())
            .take(100)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use kgate_control::state::Invalid;

    use super::*;

    /// A request before the cluster is bootstrapped is refused like one without a quorum, so that
    /// the client retries. A bad request is refused as such.
    #[test]
    fn too_early_is_not_wrong() {
        let refusal_of = |rejected| refusal_of(ProposeError::Rejected(rejected)).0;
        assert_eq!(refusal_of(Rejected::NotBootstrapped), ErrorCode::NoQuorum);
        assert_eq!(refusal_of(Rejected::Invalid(Invalid::ZeroK)), ErrorCode::BadRequest);
    }
}
