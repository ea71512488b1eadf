//! This node takes part in one incarnation at a time (rules R1, R2).
//!
//! An incarnation that begins proposes to be added. While an earlier incarnation of this node is a
//! member, that is refused; the newcomer has it suspected, and the voters evict it when its lease
//! is surely over. An incarnation that finds itself evicted is over: another one begins, with
//! nothing.

use kgate_control::log::ProposeError;
use kgate_control::state::{Cluster, ClusterId, Command, ForcedEviction, Rejected};
use kgate_core::{Incarnation, Span, Time};

use super::gates::Purpose;
use super::{Control, ControlView, view};
use crate::core::action::StopReason;
use crate::core::timers::Deadline;
use crate::core::{Action, CannotStart, Core};

impl Core {
    /// Begins to take part, with what the log has said so far.
    pub(in crate::core) fn begin_control(
        &mut self,
        now: Time,
        actions: &mut Vec<Action>,
    ) -> Result<(), CannotStart> {
        let Some(settings) = self.settings.control.take() else { return Ok(()) };
        if let Some(suspended) = settings.suspended {
            let control = self.failures.control_mut();
            control.take_up(now, &suspended);
            self.others =
                control.incarnations.keys().copied().filter(|node| *node != control.me).collect();
            self.resume(now, suspended, actions)?;
            self.restart_all_ttls(now);
        }
        let control = self.failures.control();
        let changes = settings.cluster_state.changes_since(&control.cluster_state);
        let (applied, patience) = (settings.cluster_state.applied, control.timing.lease);
        self.apply_changes(now, applied, changes, actions);
        self.timers.arm(now, Deadline::NoQuorum, patience, patience);
        self.reconcile(now, actions);
        self.check_lease(now, actions);
        Ok(())
    }

    /// Whether this incarnation takes part, as far as it knows.
    pub(in crate::core) fn takes_part(&self) -> bool {
        self.failures.control().is_member()
    }

    /// The incarnation that takes part, if one does.
    pub(in crate::core) fn own_incarnation(&self) -> Option<u32> {
        self.failures
            .leases()
            .filter(|control| control.is_member())
            .map(|control| control.incarnation.0)
    }

    /// Proposes what is missing for this incarnation to take part, and for the gates of its
    /// configuration to be there. Again, until it is so.
    pub(in crate::core) fn reconcile(&mut self, now: Time, actions: &mut Vec<Action>) {
        let control = self.failures.control_mut();
        if self.stopped {
            return;
        }
        let again = Span(control.timing.lease.0 / 4);
        match control.cluster_state.membership.get(control.me).map(|member| member.incarnation) {
            Some(incarnation) if incarnation == control.incarnation => {
                let gates = self.reconcile_gates(actions);
                let held = self.reconcile_held(actions);
                if !gates && !held {
                    return self.timers.disarm(&Deadline::Reconcile);
                }
            }
            // R2: never beside an earlier incarnation.
            Some(former) => {
                let known = control.former.replace(former);
                if known != Some(former) {
                    control.leases.set_predecessor(now, former);
                }
            }
            // An operator has removed this node: it was told while it still heard the log.
            None if control.joined
                && control
                    .forced_eviction()
                    .is_some_and(|forced_eviction| forced_eviction.for_good) =>
            {
                let author = control
                    .forced_eviction()
                    .map(|forced_eviction| forced_eviction.author.clone())
                    .unwrap_or_default();
                return self.stop_all(StopReason::Removed { author }, actions);
            }
            None if control.joined => {
                control.joined = false;
                actions.push(Action::NewIncarnation);
            }
            None if control.cluster_state.cluster.is_some()
                && control.cluster_state.directory.contains_key(&control.me) =>
            {
                let add = Command::Add {
                    node: control.me,
                    incarnation: control.incarnation,
                    store: control.store,
                    start: control.start,
                    terms: control.timing.terms(),
                    address: control.address.clone(),
                };
                self.propose(Purpose::Add, add, actions);
            }
            // The log is being founded, or an operator has to admit this node.
            None => {}
        }
        if !self.timers.runs(&Deadline::Reconcile) {
            self.timers.arm(now, Deadline::Reconcile, again, again);
        }
    }

    /// Another incarnation of this node begins: its number is greater than all before, and is
    /// stored. `start` is random.
    pub(in crate::core) fn begin_incarnation(
        &mut self,
        now: Time,
        incarnation: Incarnation,
        start: u64,
        actions: &mut Vec<Action>,
    ) {
        // The incarnation before is over here, though the entry that ends it may still be on its
        // way: when it comes, it is about somebody else.
        self.end_incarnation(now, actions);
        let control = self.failures.control_mut();
        control.begin(now, incarnation, start);
        control.open.retain(|_, purpose| *purpose != Purpose::Add);
        self.check_lease(now, actions);
        self.reconcile(now, actions);
    }

    /// The gates hear that the present incarnation is over, if it takes part. What it held is lost
    /// here and stays taken elsewhere until it is evicted.
    fn end_incarnation(&mut self, now: Time, actions: &mut Vec<Action>) {
        let control = self.failures.control();
        if !control.is_member() {
            return;
        }
        #[cfg(test)]
        if self.mutations.gates_keep_incarnations {
            return;
        }
        let (me, Some(at)) = (control.me, control.incarnations.get(&control.me)) else { return };
        let incarnation = view(*at).incarnation();
        self.at_all(now, actions, |gate, out| gate.crashed(now, me, incarnation, out));
    }

    /// What came of the proposal to add this incarnation.
    pub(super) fn on_add_proposed(
        &mut self,
        now: Time,
        refused: Option<ProposeError>,
        actions: &mut Vec<Action>,
    ) {
        match refused {
            // The news of it come by the log. Without a quorum it is tried again; and when the
            // earlier incarnation is gone.
            None
            | Some(
                ProposeError::NoQuorum(_)
                | ProposeError::Stopped
                | ProposeError::Rejected(Rejected::AlreadyMember { .. }),
            ) => {
                self.reconcile_later(now);
            }
            // R4: with another store this node has forgotten what it promised.
            Some(ProposeError::Rejected(
                void @ (Rejected::StoreMismatch(_) | Rejected::Removed { .. }),
            )) => self.stop_all(StopReason::NotAdmitted(void), actions),
            Some(ProposeError::Rejected(_)) => {
                // An incarnation of this number was there before, as after a store was copied back:
                // only a later one can be added.
                actions.push(Action::NewIncarnation);
            }
        }
    }

    pub(in crate::core) fn reconcile_later(&mut self, now: Time) {
        let again = Span(self.failures.control().timing.lease.0 / 4);
        self.timers.arm(now, Deadline::Reconcile, again, again);
    }

    /// What people may see of the control plane at this node.
    pub fn control_view(&self, now: Time) -> Option<ControlView> {
        let control = self.failures.leases()?;
        let members = control.cluster_state.membership.iter();
        Some(ControlView {
            leader: control.log.leader,
            incarnation: control.is_member().then_some(control.incarnation.0),
            lease_left: if control.held {
                control.leases.end().since(now).min(control.timing.lease).0
            } else {
                0
            },
            without: if control.held { None } else { Some(control.waits_for(now)) },
            members: members
                .map(|(node, member)| (node, member.incarnation.0, member.suspected.is_some()))
                .collect(),
            voters: control.cluster_state.voters.all().into_iter().collect(),
            applied: control.cluster_state.applied,
        })
    }
}

impl Control {
    pub(super) fn founded(&mut self, id: ClusterId) {
        let (name, initial_members) = (String::new(), std::collections::BTreeSet::new());
        self.cluster_state.cluster =
            Some(Cluster { id, name, terms: self.timing.terms(), initial_members });
    }

    /// What an operator has decided about this incarnation.
    pub(super) fn forced_eviction(&self) -> Option<&ForcedEviction> {
        let listed = self.cluster_state.directory.get(&self.me)?;
        listed
            .forced_eviction
            .as_ref()
            .filter(|forced_eviction| forced_eviction.incarnation == self.incarnation)
    }

    /// Why there is no lease.
    pub(super) fn waits_for(&self, now: Time) -> String {
        match self.cluster_state.membership.get(self.me) {
            _ if self.log.store_mismatch => {
                "the other nodes know this one with other data: its own was lost, or is a copy, and under this number it takes part no more (docs/guide/fleet.md)".into()
            }
            _ if self.cluster_state.cluster.is_none() && self.joins => {
                "no member has let this node in yet: it may be cut off, or its join token was used before or taken back (the logs of the nodes say more)".into()
            }
            _ if self.cluster_state.cluster.is_none() => {
                "the cluster is not founded yet: all voters must be there for that once. If it was founded before, this node has lost its data (docs/guide/fleet.md)".into()
            }
            None if !self.cluster_state.directory.contains_key(&self.me) => {
                "this node was not admitted: an operator adds it by `kgate members add`".into()
            }
            None => "this node is about to be added to the log".into(),
            Some(member) if member.incarnation != self.incarnation => {
                "this node was not stopped cleanly: its earlier incarnation must be evicted first, which takes as long as its lease".into()
            }
            Some(_) => self.leases.status(now).to_string(),
        }
    }
}
