//! This node takes part in one incarnation at a time (rules R1, R2).
//!
//! A new incarnation proposes to be added. While an earlier incarnation of this node is a member,
//! that is rejected; the new one has the earlier one suspected, and the voters evict it when its
//! lease has certainly ended. An incarnation that finds itself evicted has ended, and the next one
//! begins with no state.

use kgate_control::log::ProposeError;
use kgate_control::state::{Command, Rejected};
use kgate_core::{Incarnation, Span, Time};

use super::gates::Purpose;
use super::{Control, ControlView, Log, view};
use crate::core::action::StopReason;
use crate::core::timers::Deadline;
use crate::core::{Action, CannotStart, Core};

impl Core {
    /// Begins with the state of the log at this node.
    pub(in crate::core) fn begin_control(&mut self) -> Result<(), CannotStart> {
        let Some(settings) = self.settings.control.take() else { return Ok(()) };
        if let Some(suspended) = settings.suspended {
            let control = self.failures.control_mut();
            control.take_up(self.now, &suspended, &mut self.log);
            self.others =
                self.log.incarnations.keys().copied().filter(|node| *node != self.log.me).collect();
            self.resume(suspended)?;
            self.restart_all_ttls();
            self.restart_all_once();
        }
        let control = self.failures.control();
        let changes = settings.cluster_state.changes_since(&self.log.state);
        let (applied, patience) = (settings.cluster_state.applied, control.timing.lease);
        self.apply_changes(applied, changes);
        self.timers.arm(self.now, Deadline::NoQuorum, patience, patience);
        self.reconcile();
        self.check_lease();
        Ok(())
    }

    /// Proposes whatever is missing in the log: this incarnation as a member, the gates of the
    /// configuration, durable permits. Repeats it until nothing is missing.
    pub(in crate::core) fn reconcile(&mut self) {
        let control = self.failures.control_mut();
        if self.stopped {
            return;
        }
        match self.log.state.membership.get(self.log.me).map(|member| member.incarnation) {
            Some(incarnation) if incarnation == self.log.incarnation => {
                let gates = self.reconcile_gates();
                let held = self.reconcile_held();
                if !gates && !held {
                    return self.timers.disarm(&Deadline::Reconcile);
                }
            }
            // R2: an incarnation must not take part beside an earlier one.
            Some(former) => {
                let known = control.former.replace(former);
                if known != Some(former) {
                    control.leases.set_predecessor(self.now, former);
                }
            }
            // An operator removed this node while it still received the log.
            None if control.joined
                && let Some(ordered) = self.log.forced_eviction().filter(|it| it.for_good) =>
            {
                let author = ordered.author.clone();
                return self.stop_all(StopReason::Removed { author });
            }
            None if control.joined => {
                control.joined = false;
                self.actions.push(Action::NewIncarnation);
            }
            None if self.log.state.cluster.is_some()
                && self.log.state.directory.contains_key(&self.log.me) =>
            {
                let add = Command::Add {
                    node: self.log.me,
                    incarnation: self.log.incarnation,
                    store: control.store,
                    start: control.start,
                    terms: control.timing.terms(),
                    address: control.address.clone(),
                };
                self.propose(Purpose::Add, add);
            }
            // The cluster is being bootstrapped, or an operator has to admit this node.
            None => {}
        }
        if !self.timers.runs(&Deadline::Reconcile) {
            self.reconcile_later();
        }
    }

    /// Begins the next incarnation of this node.
    pub(in crate::core) fn begin_incarnation(&mut self, incarnation: Incarnation, start: u64) {
        // The earlier incarnation has ended here, though the entry that ends it may be on its way.
        // When it arrives, it concerns another incarnation.
        self.end_incarnation();
        let control = self.failures.control_mut();
        self.log.incarnation = incarnation;
        control.begin(self.now, &self.log, start);
        self.log.open.retain(|_, purpose| *purpose != Purpose::Add);
        self.check_lease();
        self.reconcile();
    }

    /// Tells the gates that the present incarnation has ended, if it is a member. Its permits are
    /// lost here, and stay taken elsewhere until it is evicted.
    fn end_incarnation(&mut self) {
        if !self.log.is_member() {
            return;
        }
        #[cfg(test)]
        if self.mutations.gates_keep_incarnations {
            return;
        }
        let (me, Some(at)) = (self.log.me, self.log.incarnations.get(&self.log.me)) else { return };
        let incarnation = view(*at).incarnation();
        self.at_all(|gate| gate.crashed(me, incarnation));
    }

    /// The log answered the proposal to add this incarnation.
    pub(super) fn on_add_proposed(&mut self, refused: Option<ProposeError>) {
        match refused {
            // If it was added, its entry arrives by the log. Otherwise it is proposed again, also
            // when the earlier incarnation is gone.
            None
            | Some(
                ProposeError::NoQuorum(_)
                | ProposeError::Stopped
                | ProposeError::Rejected(Rejected::AlreadyMember { .. }),
            ) => {
                self.reconcile_later();
            }
            // R4: with another store this node has forgotten what it promised.
            Some(ProposeError::Rejected(
                rejected @ (Rejected::StoreMismatch(_) | Rejected::Removed { .. }),
            )) => self.stop_all(StopReason::NotAdmitted(rejected)),
            Some(ProposeError::Rejected(_)) => {
                // An incarnation of this number existed before, as after a store was restored from
                // a copy. Only a later one can be added.
                self.actions.push(Action::NewIncarnation);
            }
        }
    }

    pub(in crate::core) fn reconcile_later(&mut self) {
        let again = Span(self.failures.control().timing.lease.0 / 4);
        self.timers.arm(self.now, Deadline::Reconcile, again, again);
    }

    /// What status queries show of the control plane at this node.
    pub fn control_view(&self, now: Time) -> Option<ControlView> {
        let control = self.failures.leases()?;
        let members = self.log.state.membership.iter();
        Some(ControlView {
            leader: control.status.leader,
            incarnation: self.log.is_member().then_some(self.log.incarnation.0),
            lease_left: if control.held {
                control.leases.end().since(now).min(control.timing.lease).0
            } else {
                0
            },
            without: if control.held { None } else { Some(control.waits_for(&self.log, now)) },
            members: members
                .map(|(node, member)| (node, member.incarnation.0, member.suspected.is_some()))
                .collect(),
            voters: self.log.state.voters.all().into_iter().collect(),
            applied: self.log.state.applied,
        })
    }
}

impl Control {
    /// Why this node has no lease.
    pub(super) fn waits_for(&self, log: &Log, now: Time) -> String {
        match log.state.membership.get(log.me) {
            _ if self.status.store_mismatch => {
                "the data of this node was lost or is a copy: the cluster knows this node ID with \
                 another store and excludes this one permanently (docs/guide/fleet.md)"
                    .into()
            }
            _ if log.state.cluster.is_none() && self.joins => {
                "no member has admitted this node yet: it may be unreachable, or its join token \
                 was used before or revoked (see the logs of the nodes)"
                    .into()
            }
            _ if log.state.cluster.is_none() => {
                "the cluster is not bootstrapped yet: that needs all voters once. If it was \
                 bootstrapped before, this node has lost its data (docs/guide/fleet.md)"
                    .into()
            }
            None if !log.state.directory.contains_key(&log.me) => {
                "this node was not admitted: an operator adds it by `kgate members add`".into()
            }
            None => "this node is about to be added to the log".into(),
            Some(member) if member.incarnation != log.incarnation => {
                "this node was not stopped cleanly: its earlier incarnation must be evicted first, \
                 which takes as long as its lease"
                    .into()
            }
            Some(_) => self.leases.status(now).to_string(),
        }
    }
}
