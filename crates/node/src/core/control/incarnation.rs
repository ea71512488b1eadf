//! This node takes part in one incarnation at a time (rules R1, R2).
//!
//! A new incarnation proposes to be added. While an earlier incarnation of this node is a member,
//! that is rejected; the new one has the earlier one suspected, and the voters evict it when its
//! lease has surely ended. An incarnation that finds itself evicted has ended, and the next one
//! begins with no state.

use kgate_control::log::ProposeError;
use kgate_control::state::{Cluster, ClusterId, Command, ForcedEviction, Rejected};
use kgate_core::{Incarnation, Span, Time};

use super::gates::Purpose;
use super::{Control, ControlView, view};
use crate::core::action::StopReason;
use crate::core::timers::Deadline;
use crate::core::{Action, CannotStart, Core};

impl Core {
    /// Begins with the state of the log at this node.
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

    /// Whether this incarnation is a member, as far as this node knows.
    pub(in crate::core) fn takes_part(&self) -> bool {
        self.failures.control().is_member()
    }

    /// The incarnation that is a member, if one is.
    pub(in crate::core) fn own_incarnation(&self) -> Option<u32> {
        self.failures
            .leases()
            .filter(|control| control.is_member())
            .map(|control| control.incarnation.0)
    }

    /// Proposes whatever is missing in the log: this incarnation as a member, the gates of the
    /// configuration, durable permits. Repeats it until nothing is missing.
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
            // R2: an incarnation must not take part beside an earlier one.
            Some(former) => {
                let known = control.former.replace(former);
                if known != Some(former) {
                    control.leases.set_predecessor(now, former);
                }
            }
            // An operator removed this node while it still received the log.
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
            // The cluster is being bootstrapped, or an operator has to admit this node.
            None => {}
        }
        if !self.timers.runs(&Deadline::Reconcile) {
            self.timers.arm(now, Deadline::Reconcile, again, again);
        }
    }

    /// Begins the next incarnation of this node.
    pub(in crate::core) fn begin_incarnation(
        &mut self,
        now: Time,
        incarnation: Incarnation,
        start: u64,
        actions: &mut Vec<Action>,
    ) {
        // The earlier incarnation has ended here, though the entry that ends it may be on its way.
        // When it arrives, it concerns another incarnation.
        self.end_incarnation(now, actions);
        let control = self.failures.control_mut();
        control.begin(now, incarnation, start);
        control.open.retain(|_, purpose| *purpose != Purpose::Add);
        self.check_lease(now, actions);
        self.reconcile(now, actions);
    }

    /// Tells the gates that the present incarnation has ended, if it is a member. Its permits are
    /// lost here, and stay taken elsewhere until it is evicted.
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

    /// The log answered the proposal to add this incarnation.
    pub(super) fn on_add_proposed(
        &mut self,
        now: Time,
        refused: Option<ProposeError>,
        actions: &mut Vec<Action>,
    ) {
        match refused {
            // If it was added, its entry arrives by the log. Otherwise it is proposed again, also
            // when the earlier incarnation is gone.
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
                rejected @ (Rejected::StoreMismatch(_) | Rejected::Removed { .. }),
            )) => self.stop_all(StopReason::NotAdmitted(rejected), actions),
            Some(ProposeError::Rejected(_)) => {
                // An incarnation of this number existed before, as after a store was restored from
                // a copy. Only a later one can be added.
                actions.push(Action::NewIncarnation);
            }
        }
    }

    pub(in crate::core) fn reconcile_later(&mut self, now: Time) {
        let again = Span(self.failures.control().timing.lease.0 / 4);
        self.timers.arm(now, Deadline::Reconcile, again, again);
    }

    /// What status queries show of the control plane at this node.
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

    /// The forced eviction of this incarnation, if an operator ordered one.
    pub(super) fn forced_eviction(&self) -> Option<&ForcedEviction> {
        let listed = self.cluster_state.directory.get(&self.me)?;
        listed
            .forced_eviction
            .as_ref()
            .filter(|forced_eviction| forced_eviction.incarnation == self.incarnation)
    }

    /// Why this node has no lease.
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
