//! What an applied entry of the log changes here.
//!
//! Every node applies the same entries in the same order. To the gates an entry that adds an
//! incarnation begins a view, named by its index; an entry that ends one frees whatever that
//! incarnation held. So fences carry the index of the entry that began their view, never a clock of
//! somebody's own.

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
                // A earlier incarnation of this node may still be a member: it is somebody else,
                // and this node knows nothing of it.
                let takes_part = node != control.me || incarnation == control.incarnation;
                control.joined |= node == control.me && takes_part;
                if node != control.me {
                    self.others.insert(node);
                    // Only those who take part are told who watches, and it is one of them only
                    // now.
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

    /// The same happens at all gates.
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

    /// There is a gate, since an entry that may be older than some members.
    fn define(&mut self, now: Time, gate: state::Gate, actions: &mut Vec<Action>) {
        let definition = definition(&gate);
        if let Err(error) = self.open_gate(now, definition.clone(), None, actions) {
            // Its proposer checked it; a node of an older version may not know its protocol.
            actions.push(Action::Stop(StopReason::UnsupportedGate(error)));
            return;
        }
        self.gate_opened(now, definition, actions);
    }

    /// Who takes part in a gate that the log has made: those who did then, and those who came
    /// since. Whoever is gone again does not matter.
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

    /// A gate has another k.
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

/// A gate as the rest of the node knows it.
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
