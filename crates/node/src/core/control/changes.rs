//! What an applied entry of the log changes at this node.
//!
//! Every node applies the same entries in the same order. To the gates, an entry that adds an
//! incarnation begins a view, named by the entry's index; an entry that ends an incarnation frees
//! whatever that incarnation held. So fences carry the index of the entry that began their view,
//! never a node's own clock.

use kgate_control::log::AppliedEntry;
use kgate_control::membership::MembershipChange;
use kgate_control::state::{self, Change};
use kgate_core::{InitialMembers, NodeId, ViewId};

use super::view;
use crate::core::action::StopReason;
use crate::core::clients::closed;
use crate::core::messages::ErrorCode;
use crate::core::{Action, Core, Definition, Gate, GateId};

impl Core {
    /// The log applied an entry and stored it here (rule N3).
    pub(in crate::core) fn on_applied(&mut self, entry: AppliedEntry) {
        self.apply_changes(entry.index, entry.changes);
        self.reconcile();
    }

    pub(super) fn apply_changes(&mut self, index: u64, changes: Vec<Change>) {
        self.follow_log(&changes);
        self.apply_permit_changes(&changes);
        for change in changes {
            self.apply_change(change);
        }
        self.log.state.applied = index;
        self.failures.control_mut().leases.applied(self.now, index);
        self.pass_barriers();
        self.mark_dirty();
    }

    fn apply_change(&mut self, change: Change) {
        self.log.state.follow(&change);
        match change {
            Change::Membership { at, change } => self.apply_membership(at, change),
            Change::Voters(voters) => {
                self.failures.control_mut().leases.voters_applied(self.now, voters);
            }
            Change::DirectoryUpdated(node, listed) => {
                if node != self.log.me {
                    self.actions.push(Action::Connect(node, listed.address));
                }
                if let Some(forced_eviction) =
                    self.log.forced_eviction().filter(|_| node == self.log.me)
                {
                    let text = format!("its node is being evicted by {}", forced_eviction.author);
                    self.lose_all_permits(&text);
                }
            }
            Change::DirectoryRemoved(node) => {
                self.actions.push(Action::Disconnect(node));
            }
            Change::GateCreated(gate) => self.define(gate),
            Change::GateChanged(gate) => self.alter(&gate),
            Change::GateDeleted(id, _) => {
                self.early.remove(&id);
                if let Some(gate) = self.gates.remove(&id) {
                    self.catalogue.remove(&gate.definition.name);
                }
            }
            Change::OnceMarked(_, _, mark) => self.count_once(mark.at, mark.ttl),
            // Its timer finds no mark.
            Change::OnceExpired(..) => {}
            // `follow_log` and `apply_permit_changes` handle these.
            Change::Bootstrapped(_)
            | Change::Homes(_)
            | Change::PermitHeld(..)
            | Change::PermitRenewed(..)
            | Change::PermitFreed { .. } => {}
        }
    }

    fn apply_membership(&mut self, at: u64, change: MembershipChange) {
        let control = self.failures.control_mut();
        control.leases.membership_changed(self.now, change);
        match change {
            MembershipChange::Added(node, incarnation, _) => {
                self.log.incarnations.insert(node, at);
                // An earlier incarnation of this node may still be a member. It counts as another
                // node of which this one knows nothing.
                let takes_part = node != self.log.me || incarnation == self.log.incarnation;
                control.joined |= node == self.log.me && takes_part;
                if node != self.log.me {
                    self.others.insert(node);
                    // Only members are told about watchers, and this node becomes one only now.
                    self.actions.extend(
                        self.watch_message().map(|message| Action::Send(node, message.bytes())),
                    );
                }
                if takes_part {
                    let view = view(at);
                    self.at_all(|gate| gate.joined(node, view));
                }
            }
            MembershipChange::Gone(node, incarnation) => {
                let Some(at) = self.log.incarnations.remove(&node) else { return };
                let mine = node == self.log.me;
                if !mine || incarnation == self.log.incarnation {
                    let incarnation = view(at).incarnation();
                    self.at_all(|gate| gate.crashed(node, incarnation));
                }
                self.others.remove(&node);
                self.watched(node, false);
            }
            MembershipChange::Suspected(..) | MembershipChange::Unsuspected(..) => {}
        }
        let others = self.others.len();
        self.gates.values_mut().for_each(|gate| gate.reaches(others));
    }

    /// Does the same at all gates.
    pub(in crate::core) fn at_all(&mut self, mut call: impl FnMut(&mut Gate)) {
        let all: Vec<GateId> = self.gates.keys().copied().collect();
        for id in all {
            self.at_gate(id, &mut call);
        }
    }

    /// Opens a gate. Its entry may be older than some members.
    fn define(&mut self, gate: state::Gate) {
        let definition = definition(&gate);
        if let Err(error) = self.open_gate(definition.clone(), None) {
            // Its proposer checked it; a node of an older version may not know its protocol.
            self.actions.push(Action::Stop(StopReason::UnsupportedGate(error)));
            return;
        }
        self.gate_opened(definition);
    }

    /// The members of a gate that the log created: those at its creation, and those added since.
    /// Members that have left since do not matter.
    pub(in crate::core) fn initial_members(
        &self,
        id: GateId,
    ) -> (Option<InitialMembers>, Vec<(NodeId, ViewId)>) {
        if !self.failures.has_leases() {
            return (None, Vec::new());
        }
        let made = self.log.state.gates.get(&id).map_or(0, |gate| gate.created);
        let (before, since): (Vec<_>, Vec<_>) =
            self.log.members().into_iter().partition(|(_, at)| *at < made);
        let members = before.into_iter().map(|(node, at)| (node, view(at).incarnation())).collect();
        let since = since.into_iter().map(|(node, at)| (node, view(at))).collect();
        (Some(InitialMembers { view: view(made), members }), since)
    }

    /// Changes the slots or the policy of a gate.
    fn alter(&mut self, gate: &state::Gate) {
        let id = gate.id;
        let (slots, author, policy) = (gate.slots(), gate.author.clone(), gate.policy);
        self.catalogue.alter(&gate.name, slots.clone(), policy, &author);
        self.at_gate(id, |gate| gate.policy(policy));
        if slots.k == 0 {
            let text = closed(&gate.name, &author);
            self.refuse_waiting(Some(id), ErrorCode::TooLarge, &text);
        }
        self.at_gate(id, |gate| gate.resize(slots, author));
        self.place_all(&gate.name);
    }
}

/// The definition of a gate of the log.
pub(in crate::core) fn definition(gate: &state::Gate) -> Definition {
    Definition {
        id: gate.id,
        name: gate.name.clone(),
        k: gate.k,
        source: gate.source.clone(),
        protocol: gate.protocol.clone(),
        lanes: gate.lanes,
        policy: gate.policy,
        author: gate.author.clone(),
    }
}
