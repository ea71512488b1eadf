//! What an applied entry of the log changes at this node.
//!
//! Every node applies the same entries in the same order. To the gates, an entry that adds an
//! incarnation begins a view, named by the entry's index; an entry that ends an incarnation frees
//! whatever that incarnation held. So fences carry the index of the entry that began their view,
//! never a node's own clock.

use kgate_control::log::AppliedEntry;
use kgate_control::membership::MembershipChange;
use kgate_control::state::{self, Change};
use kgate_core::{InitialMembers, NodeId, Time, ViewId};

use super::view;
use crate::core::action::StopReason;
use crate::core::clients::closed;
use crate::core::messages::ErrorCode;
use crate::core::{Action, Core, Definition, Gate, GateEffect, GateId};

impl Core {
    /// The log applied an entry and stored it here (rule N3).
    pub(in crate::core) fn on_applied(
        &mut self,
        now: Time,
        entry: AppliedEntry,
        actions: &mut Vec<Action>,
    ) {
        self.apply_changes(now, entry.index, entry.changes, actions);
        self.reconcile(now, actions);
    }

    pub(super) fn apply_changes(
        &mut self,
        now: Time,
        index: u64,
        changes: Vec<Change>,
        actions: &mut Vec<Action>,
    ) {
        self.apply_permit_changes(now, &changes, actions);
        for change in changes {
            self.apply_change(now, change, actions);
        }
        let control = self.failures.control_mut();
        control.cluster_state.applied = index;
        control.leases.applied(now, index);
        self.mark_dirty();
    }

    fn apply_change(&mut self, now: Time, change: Change, actions: &mut Vec<Action>) {
        let control = self.failures.control_mut();
        match change {
            Change::Membership { at, change } => self.apply_membership(now, at, change, actions),
            Change::Voters(voters) => {
                control.cluster_state.voters = voters.clone();
                control.leases.voters_applied(now, voters);
            }
            Change::DirectoryUpdated(node, listed) => {
                if node != control.me {
                    actions.push(Action::Connect(node, listed.address.clone()));
                }
                control.cluster_state.directory.insert(node, listed);
                if let Some(forced_eviction) =
                    control.forced_eviction().filter(|_| node == control.me)
                {
                    let text = format!("its node is being evicted by {}", forced_eviction.author);
                    self.lose_all_permits(now, &text, actions);
                }
            }
            Change::DirectoryRemoved(node) => {
                control.cluster_state.directory.remove(&node);
                actions.push(Action::Disconnect(node));
            }
            Change::GateCreated(gate) => {
                control.cluster_state.gates.insert(gate.id, gate.clone());
                self.define(now, gate, actions);
            }
            Change::GateChanged(gate) => {
                control.cluster_state.gates.insert(gate.id, gate.clone());
                self.alter(now, &gate, actions);
            }
            Change::GateDeleted(id, _) => {
                let gone = control.cluster_state.gates.remove(&id);
                self.gates.remove(&id);
                self.early.remove(&id);
                gone.iter().for_each(|gate| self.catalogue.remove(&gate.name));
            }
            Change::PermitHeld(..) | Change::PermitRenewed(..) | Change::PermitFreed(..) => {} // By `apply_permit_changes`.
            Change::Bootstrapped(cluster) => control.founded(cluster),
        }
    }

    fn apply_membership(
        &mut self,
        now: Time,
        at: u64,
        change: MembershipChange,
        actions: &mut Vec<Action>,
    ) {
        let control = self.failures.control_mut();
        control.cluster_state.membership.apply(change);
        control.leases.membership_changed(now, change);
        match change {
            MembershipChange::Added(node, incarnation, _) => {
                control.incarnations.insert(node, at);
                // An earlier incarnation of this node may still be a member. It counts as another
                // node of which this one knows nothing.
                let takes_part = node != control.me || incarnation == control.incarnation;
                control.joined |= node == control.me && takes_part;
                if node != control.me {
                    self.others.insert(node);
                    // Only members are told about watchers, and this node becomes one only now.
                    actions.extend(
                        self.watch_message().map(|message| Action::Send(node, message.bytes())),
                    );
                }
                if takes_part {
                    let view = view(at);
                    self.at_all(now, actions, |gate, out| gate.joined(now, node, view, out));
                }
            }
            MembershipChange::Gone(node, incarnation) => {
                let Some(at) = control.incarnations.remove(&node) else { return };
                let mine = node == control.me;
                if !mine || incarnation == control.incarnation {
                    let incarnation = view(at).incarnation();
                    self.at_all(now, actions, |gate, out| {
                        gate.crashed(now, node, incarnation, out)
                    });
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
    pub(in crate::core) fn at_all(
        &mut self,
        now: Time,
        actions: &mut Vec<Action>,
        mut what: impl FnMut(&mut Gate, &mut Vec<GateEffect>),
    ) {
        let all: Vec<GateId> = self.gates.keys().copied().collect();
        for id in all {
            self.at_gate(now, id, actions, &mut what);
        }
    }

    /// Opens a gate. Its entry may be older than some members.
    fn define(&mut self, now: Time, gate: state::Gate, actions: &mut Vec<Action>) {
        let definition = definition(&gate);
        if let Err(error) = self.open_gate(now, definition.clone(), None, actions) {
            // Its proposer checked it; a node of an older version may not know its protocol.
            actions.push(Action::Stop(StopReason::UnsupportedGate(error)));
            return;
        }
        self.gate_opened(now, definition, actions);
    }

    /// The members of a gate that the log created: those at its creation, and those added since.
    /// Members that have left since do not matter.
    pub(in crate::core) fn initial_members(
        &self,
        id: GateId,
    ) -> (Option<InitialMembers>, Vec<(NodeId, ViewId)>) {
        let Some(control) = self.failures.leases() else { return (None, Vec::new()) };
        let made = control.cluster_state.gates.get(&id).map_or(0, |gate| gate.created);
        let (before, since): (Vec<_>, Vec<_>) =
            control.members().into_iter().partition(|(_, at)| *at < made);
        let members = before.into_iter().map(|(node, at)| (node, view(at).incarnation())).collect();
        let since = since.into_iter().map(|(node, at)| (node, view(at))).collect();
        (Some(InitialMembers { view: view(made), members }), since)
    }

    /// Changes k or the policy of a gate.
    fn alter(&mut self, now: Time, gate: &state::Gate, actions: &mut Vec<Action>) {
        let id = gate.id;
        let (k, author, policy) = (gate.k, gate.author.clone(), gate.policy);
        self.catalogue.alter(&gate.name, k, policy, &author);
        self.at_gate(now, id, actions, |gate, _| gate.policy(policy));
        if k == 0 {
            let text = closed(&gate.name, &author);
            self.refuse_waiting(now, Some(id), ErrorCode::TooLarge, &text, actions);
        }
        self.at_gate(now, id, actions, |gate, out| gate.resize(now, k, author, out));
        self.place_all(now, &gate.name, actions);
    }
}

/// The definition of a gate of the log.
pub(in crate::core) fn definition(gate: &state::Gate) -> Definition {
    Definition {
        id: gate.id,
        name: gate.name.clone(),
        k: gate.k,
        protocol: gate.protocol.clone(),
        lanes: gate.lanes,
        policy: gate.policy,
        author: gate.author.clone(),
    }
}
