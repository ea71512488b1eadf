//! This node takes part in one life at a time (rules R1, R2).
//!
//! A life that begins proposes to be added. While a former life of this node is a member, that is refused; the newcomer has it suspected, and the voters evict it
//! when its lease is surely over. A life that finds itself evicted is over: another one begins, with nothing.

use kgate_control::log::NotDone;
use kgate_control::state::{Cluster, ClusterId, Command, Condemned, Void};
use kgate_core::{Incarnation, Span, Time};

use super::gates::Purpose;
use super::{Control, ControlView, view};
use crate::core::timers::Due;
use crate::core::{Action, CannotStart, Core};

impl Core {
    /// Begins to take part, with what the log has said so far.
    pub(in crate::core) fn begin_control(
        &mut self,
        now: Time,
        actions: &mut Vec<Action>,
    ) -> Result<(), CannotStart> {
        if let (Some(control), Some(told)) = (&mut self.control, &mut self.settings.control)
            && let Some(parked) = told.parked.take()
        {
            control.take_up(now, &parked);
            self.others = control.lives.keys().copied().filter(|node| *node != control.me).collect();
            self.unpark(now, parked, actions)?;
            self.count_all(now);
        }
        let (Some(control), Some(told)) = (&self.control, &self.settings.control) else { return Ok(()) };
        let changes = told.picture.changes_since(&control.picture);
        let (applied, patience) = (told.picture.applied, self.lease_patience());
        self.take_news(now, applied, changes, actions);
        self.timers.arm(now, Due::NoQuorum, patience, patience);
        self.seek(now, actions);
        self.heed_lease(now, actions);
        Ok(())
    }

    /// Whether this life takes part, as far as it knows.
    pub(in crate::core) fn takes_part(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.is_member())
    }

    /// The life that takes part, if one does.
    pub(in crate::core) fn own_life(&self) -> Option<u32> {
        self.control.as_ref().filter(|control| control.is_member()).map(|control| control.incarnation.0)
    }

    /// Proposes what is missing for this life to take part, and for the gates of its configuration to be there. Again, until it is so.
    pub(in crate::core) fn seek(&mut self, now: Time, actions: &mut Vec<Action>) {
        let Some(control) = &mut self.control else { return };
        if self.stopped {
            return;
        }
        let again = Span(control.timing.lease.0 / 4);
        match control.picture.roll.get(control.me).map(|member| member.incarnation) {
            Some(incarnation) if incarnation == control.incarnation => {
                let gates = self.seek_gates(actions);
                let held = self.seek_held(actions);
                if !gates && !held {
                    return self.timers.disarm(&Due::Seek);
                }
            }
            // R2: never beside a former life.
            Some(former) => {
                let known = control.former.replace(former);
                if known != Some(former) {
                    control.leases.succeed(now, former);
                }
            }
            // An operator has removed this node: it was told while it still heard the log.
            None if control.joined && control.condemned().is_some_and(|condemned| condemned.for_good) => {
                let author =
                    control.condemned().map(|condemned| condemned.author.clone()).unwrap_or_default();
                let why = format!("this node was removed from the cluster by {author}");
                return self.stop_all(&why, actions);
            }
            None if control.joined => {
                control.joined = false;
                actions.push(Action::NewLife);
            }
            None if control.picture.cluster.is_some()
                && control.picture.directory.contains_key(&control.me) =>
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
        if !self.timers.runs(&Due::Seek) {
            self.timers.arm(now, Due::Seek, again, again);
        }
    }

    /// Another life of this node begins: its number is greater than all before, and is stored. `start` is random.
    pub fn begin_life(&mut self, now: Time, life: Incarnation, start: u64, actions: &mut Vec<Action>) {
        // The life before is over here, though the entry that ends it may still be on its way: when it comes, it is about somebody else.
        self.end_life(now, actions);
        let Some(control) = &mut self.control else { return };
        control.begin(now, life, start);
        control.open.retain(|_, purpose| *purpose != Purpose::Add);
        self.heed_lease(now, actions);
        self.seek(now, actions);
    }

    /// The gates hear that the present life is over, if it takes part. What it held is lost here and stays taken elsewhere until it is evicted.
    fn end_life(&mut self, now: Time, actions: &mut Vec<Action>) {
        let Some(control) = self.control.as_ref().filter(|control| control.is_member()) else { return };
        #[cfg(test)]
        if self.flaws.gates_keep_lives {
            return;
        }
        let (me, Some(at)) = (control.me, control.lives.get(&control.me)) else { return };
        let life = view(*at);
        self.at_all(now, actions, |gate, out| gate.crashed(now, me, life, out));
    }

    /// What came of the proposal to add this life.
    pub(super) fn add_proposed(&mut self, now: Time, refused: Option<NotDone>, actions: &mut Vec<Action>) {
        match refused {
            // The news of it come by the log. Without a quorum it is tried again; and when the former life is gone.
            None | Some(NotDone::NoQuorum(_) | NotDone::Stopped | NotDone::Void(Void::Occupied { .. })) => {
                self.seek_later(now);
            }
            // R4: with another store this node has forgotten what it promised.
            Some(NotDone::Void(void @ (Void::Stranger(_) | Void::Removed { .. }))) => {
                self.stop_all(&void.to_string(), actions)
            }
            Some(NotDone::Void(_)) => {
                // A life of this number was there before, as after a store was copied back: only a later one can be added.
                actions.push(Action::NewLife);
            }
        }
    }

    pub(in crate::core) fn seek_later(&mut self, now: Time) {
        if let Some(control) = &self.control {
            let again = Span(control.timing.lease.0 / 4);
            self.timers.arm(now, Due::Seek, again, again);
        }
    }

    /// What people may see of the control plane at this node.
    pub fn control_view(&self, now: Time) -> Option<ControlView> {
        let control = self.control.as_ref()?;
        let members = control.picture.roll.iter();
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
            voters: control.picture.voters.all().into_iter().collect(),
            applied: control.picture.applied,
        })
    }
}

impl Control {
    pub(super) fn founded(&mut self, id: ClusterId) {
        let (name, founders) = (String::new(), std::collections::BTreeSet::new());
        self.picture.cluster = Some(Cluster { id, name, terms: self.timing.terms(), founders });
    }

    /// What an operator has decided about this life.
    pub(super) fn condemned(&self) -> Option<&Condemned> {
        let listed = self.picture.directory.get(&self.me)?;
        listed.condemned.as_ref().filter(|condemned| condemned.incarnation == self.incarnation)
    }

    /// Why there is no lease.
    pub(super) fn waits_for(&self, now: Time) -> String {
        match self.picture.roll.get(self.me) {
            _ if self.log.stranger => {
                "the other nodes know this one with other data: its own was lost, or is a copy, and under this number it takes part no more (docs/CLUSTER.md)".into()
            }
            _ if self.picture.cluster.is_none() && self.joins => {
                "no member has let this node in yet: it may be cut off, or its join token was used before or taken back (the logs of the nodes say more)".into()
            }
            _ if self.picture.cluster.is_none() => {
                "the cluster is not founded yet: all voters must be there for that once. If it was founded before, this node has lost its data (docs/CLUSTER.md)".into()
            }
            None if !self.picture.directory.contains_key(&self.me) => {
                "this node was not admitted: an operator adds it by `kgate members add`".into()
            }
            None => "this node is about to be added to the log".into(),
            Some(member) if member.incarnation != self.incarnation => {
                "this node was not stopped cleanly: its former life must be evicted first, which takes as long as its lease".into()
            }
            Some(_) => self.leases.standing(now).to_string(),
        }
    }
}
