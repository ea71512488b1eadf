//! Gates that somebody wants: the first to put one into the log wins, and k is what the log says
//! (docs/internals/leases.md section 10).

use kgate_control::log::ProposeError;
use kgate_control::state::{Applied, Command, PermitId, Rejected};
use kgate_core::{GrantId, NodeId, Time};

use crate::core::clients::PendingAcquire;
use crate::core::messages::{ErrorCode, PermitCommand};
use crate::core::{Action, ClientId, Core, Definition, GateId, Process, RequestKey};

/// Why something was proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::core) enum Purpose {
    /// This incarnation is to take part.
    Add,
    /// A gate is wanted with that k.
    Gate(String, u32),
    /// The log is to hold what was decided.
    Held(GateId, GrantId),
    /// Who waits here has a permit in the log already.
    Attach(RequestKey, PermitId),
    /// Nobody wants what the log holds.
    ReleaseUnwanted(PermitId),
    /// A permit was not renewed in time.
    Expire(PermitId),
    /// A client has shown the secret of a permit.
    Permit(ClientId, RequestKey, PermitId, PermitCommand),
}

impl Core {
    /// Proposes something, unless the same is under way; the answer comes by [`Core::proposed`].
    pub(super) fn propose(
        &mut self,
        purpose: Purpose,
        command: Command,
        actions: &mut Vec<Action>,
    ) {
        let control = self.failures.control_mut();
        if control.open.values().any(|open| *open == purpose) {
            return;
        }
        control.asked += 1;
        control.open.insert(control.asked, purpose);
        actions.push(Action::Propose(control.asked, command));
    }

    /// The log answered a proposal.
    pub(in crate::core) fn on_proposed(
        &mut self,
        now: Time,
        number: u64,
        came: Result<Applied, ProposeError>,
        actions: &mut Vec<Action>,
    ) {
        let purpose = self.failures.control_mut().open.remove(&number);
        match purpose {
            Some(Purpose::Add) => self.on_add_proposed(now, came.err(), actions),
            Some(Purpose::Gate(name, k)) => self.on_gate_proposed(now, &name, k, came, actions),
            Some(Purpose::Held(gate, grant)) => {
                self.on_hold_proposed(now, (gate, grant), came, actions)
            }
            Some(Purpose::Attach(key, permit)) => {
                self.on_attach_proposed(now, (key, permit), came, actions)
            }
            Some(Purpose::Permit(client, key, permit, word)) => {
                self.on_permit_proposed(client, key, (permit, word), came, actions);
            }
            Some(Purpose::ReleaseUnwanted(permit)) => self.on_release_unwanted(now, permit, &came),
            // Proposed again when its time has passed again.
            Some(Purpose::Expire(_)) | None => {}
        }
    }

    /// A client wants a gate that is not known here, or not with that k: the log knows better than
    /// this node, which may be behind.
    pub(in crate::core) fn create_by_log(
        &mut self,
        pending: PendingAcquire,
        actions: &mut Vec<Action>,
    ) {
        let (name, k) = (pending.request.gate.clone(), pending.request.k.unwrap_or(1));
        let author = author(&pending.process, self.settings.me);
        let policy = pending.request.durable.policy.unwrap_or_default();
        self.pending.push(pending);
        let plan = Definition { author, policy, ..self.plan(GateId(0), &name, k) };
        self.propose_gate(plan, actions);
    }

    fn propose_gate(&mut self, plan: Definition, actions: &mut Vec<Action>) {
        let Definition { name, k, protocol, lanes, policy, author, .. } = plan;
        let purpose = Purpose::Gate(name.clone(), k);
        let create =
            Command::CreateGate { name, k, protocol, lanes, policy, weight_max: None, author };
        self.propose(purpose, create, actions);
    }

    /// The entry that changed a gate last, as far as it is applied here.
    pub(in crate::core) fn version_of(&self, gate: GateId) -> u64 {
        let cluster_state = self.failures.leases().map(|control| &control.cluster_state);
        cluster_state
            .and_then(|cluster_state| cluster_state.gates.get(&gate))
            .map_or(0, |gate| gate.version)
    }

    /// The gates of the configuration are made, if nobody has made them. Whether some are missing.
    pub(super) fn reconcile_gates(&mut self, actions: &mut Vec<Action>) -> bool {
        let missing = |gate: &&Definition| self.catalogue.get(&gate.name).is_none();
        let missing: Vec<Definition> =
            self.settings.fixed.iter().filter(missing).cloned().collect();
        let some = !missing.is_empty();
        missing.into_iter().for_each(|gate| self.propose_gate(gate, actions));
        some
    }

    fn on_gate_proposed(
        &mut self,
        now: Time,
        name: &str,
        k: u32,
        came: Result<Applied, ProposeError>,
        actions: &mut Vec<Action>,
    ) {
        let version = if let Ok(Applied::Gate { version, .. }) = came { version } else { 0 };
        if let Some((why, text)) = came.err().map(refusal_of) {
            // Who did not say which k takes the gate as it is; the log has it, and this node will
            // hear of it.
            let content = |pending: &PendingAcquire| {
                why == ErrorCode::Conflict && pending.request.k.is_none()
            };
            let concerns = |pending: &PendingAcquire| {
                pending.request.gate == name
                    && pending.request.k.unwrap_or(1) == k
                    && !content(pending)
            };
            let (gone, rest): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.pending).into_iter().partition(concerns);
            self.pending = rest;
            gone.into_iter().for_each(|pending: PendingAcquire| {
                self.refuse(pending.key, why, text.clone(), actions)
            });
        }
        // If the entry is not applied here yet, they are placed when it is.
        let applied = self.failures.control().cluster_state.applied;
        if version <= applied && self.catalogue.get(name).is_some() {
            self.place_all(now, name, actions);
        }
    }
}

/// What a client is told whose gate could not be made.
fn refusal_of(not_done: ProposeError) -> (ErrorCode, String) {
    match not_done {
        ProposeError::Rejected(void @ Rejected::Conflict { .. }) => {
            (ErrorCode::Conflict, void.to_string())
        }
        // Nothing is wrong with the request: it came too early.
        ProposeError::Rejected(void @ Rejected::NotBootstrapped) => {
            (ErrorCode::NoQuorum, format!("no quorum: {void}"))
        }
        ProposeError::Rejected(void) => (ErrorCode::BadRequest, void.to_string()),
        ProposeError::NoQuorum(text) => (ErrorCode::NoQuorum, format!("no quorum: {text}")),
        stopped @ ProposeError::Stopped => (ErrorCode::NodeGone, stopped.to_string()),
    }
}

/// Who wants a gate, for people.
pub(super) fn author(process: &Process, at: NodeId) -> String {
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

    /// Who asks before the cluster is founded may ask again, as without a quorum; who asks for
    /// nonsense may not.
    #[test]
    fn too_early_is_not_wrong() {
        let refusal_of = |rejected| refusal_of(ProposeError::Rejected(rejected)).0;
        assert_eq!(refusal_of(Rejected::NotBootstrapped), ErrorCode::NoQuorum);
        assert_eq!(refusal_of(Rejected::Invalid(Invalid::ZeroK)), ErrorCode::BadRequest);
    }
}
