//! The lease of this node, and what it means for its clients.
//!
//! The clock is read against the lease before any input reaches a gate (rule N5): gates grant only
//! while the lease holds. A session is valid for what is left of the lease (rule S1). When the
//! lease ends, every session has expired by its client's own clock too. Clients that can be reached
//! are told, and their slots stay taken until they release them or have certainly stopped (rule
//! S4). To answer requests and to release needs no lease.

use kgate_control::lease::{LeaseEffect, LeaseMessage, MissingShare};
use kgate_control::log::LogStatus;
use kgate_control::voters::Voters;
use kgate_core::{NodeId, Span, Time};

use super::{Control, Log};
use crate::core::action::LogEvent;
use crate::core::failures::FailureModel;
use crate::core::messages::ErrorCode;
use crate::core::peer_message::{GateId, PeerMessage};
use crate::core::sessions::RequestState;
use crate::core::timers::Deadline;
use crate::core::{Action, Core, RequestKey};

impl Core {
    /// Reads the clock against the lease (rule N5), and tells gates, holders and waiting requests
    /// if the answer has changed. [`Core::handle`] calls it before and after every input.
    pub(in crate::core) fn check_lease(&mut self) {
        let FailureModel::Leases(control) = &mut self.failures else { return };
        let holds = self.log.is_member() && control.leases.holds(self.now);
        // A node that is being evicted grants nothing more, even while its lease is still valid.
        let may_grant =
            holds && control.leases.may_grant(self.now) && self.log.forced_eviction().is_none();
        #[cfg(test)]
        let may_grant = may_grant || self.mutations.grants_without_lease && self.log.is_member();
        let told = std::mem::replace(&mut control.granting, may_grant);
        match (std::mem::replace(&mut control.held, holds), holds) {
            (true, false) => {
                control.without_since = self.now;
                let why = control.waits_for(&self.log, self.now);
                self.actions.push(Action::Log(LogEvent::CannotGrant(why)));
                let patience = control.timing.lease;
                self.timers.arm(self.now, Deadline::NoQuorum, patience, patience);
                let text = "the lease of its node is over: too few voters have answered it";
                self.lose_all_permits(text);
            }
            (false, true) => {
                control.no_quorum = false;
                self.actions.push(Action::Log(LogEvent::CanGrant));
                self.timers.disarm(&Deadline::NoQuorum);
                self.mark_dirty();
            }
            (false, false) | (true, true) => {}
        }
        if told != may_grant {
            self.at_all(|gate| gate.lease(may_grant));
        }
    }

    /// How long from now a session is valid, at most: what is left of the lease (rule S1). For
    /// ever, if none.
    pub(in crate::core) fn valid_for(&self) -> Option<Span> {
        let FailureModel::Leases(control) = &self.failures else {
            return self.sessions.terms().valid_for;
        };
        // In doubt the node promises nothing new and keeps what it has promised.
        let in_doubt = !control.leases.may_grant(self.now) && control.leases.status(self.now).doubt;
        if !control.held || in_doubt {
            return Some(Span::ZERO);
        }
        Some(control.leases.end().since(self.now).min(control.timing.lease))
    }

    /// The lease has ended, or will: notifies every holder. Each has as long to stop as its session
    /// may last by the slowest clock.
    pub(super) fn lose_all_permits(&mut self, text: &str) {
        self.mark_dirty();
        let over = self.sessions.terms().over_after();
        for (session, _, requests) in self.sessions.all() {
            for (number, _) in
                requests.into_iter().filter(|(_, state)| *state == RequestState::Holding)
            {
                let key = RequestKey { session, number };
                self.announce_loss(key, text.to_owned());
                self.timers.arm(self.now, Deadline::Reclaim(key), over, over);
            }
        }
    }

    /// The lease has been missing for long: refuses waiting requests, unless a quorum answers.
    pub(in crate::core) fn quorum_lost(&mut self) {
        let control = self.failures.control_mut();
        if control.held {
            return;
        }
        // A node that a quorum answers only has to wait for its lease.
        let Some(text) = control.lacks_quorum(&self.log, self.now) else {
            let patience = control.timing.lease;
            return self.timers.arm(self.now, Deadline::NoQuorum, patience, patience);
        };
        if !std::mem::replace(&mut control.no_quorum, true) {
            self.actions.push(Action::Log(LogEvent::RefusesRequests(text.clone())));
        }
        self.refuse_waiting(None, ErrorCode::NoQuorum, &text);
        self.mark_dirty();
    }

    /// Refuses all waiting requests, at one gate or at all gates.
    pub(in crate::core) fn refuse_waiting(
        &mut self,
        gate: Option<GateId>,
        code: ErrorCode,
        message: &str,
    ) {
        for (session, client, requests) in self.sessions.all() {
            for (number, _) in
                requests.into_iter().filter(|(_, state)| *state == RequestState::Waiting)
            {
                let key = RequestKey { session, number };
                if gate.is_none_or(|gate| self.gate_of(key) == Some(gate)) && self.withdraw(key) {
                    let refused = crate::core::ServerMessage::Refused {
                        number,
                        code,
                        message: message.to_owned(),
                    };
                    self.actions.extend(client.map(|client| Action::Reply(client, refused)));
                }
            }
        }
    }

    /// Why this node has no lease, if it has none.
    pub(in crate::core) fn missing_lease(&self) -> Option<String> {
        let control = self.failures.leases().filter(|control| !control.held)?;
        Some(format!("this node has no lease: {}", control.waits_for(&self.log, self.now)))
    }

    /// Why this node cannot grant now, if it cannot: the answer of `/readyz`. Without leases it
    /// always can.
    pub fn unready(&self, now: Time) -> Option<String> {
        let control = self.failures.leases()?;
        if control.granting && now < control.leases.end() {
            return None;
        }
        let evicted = self.log.forced_eviction().map(|forced_eviction| {
            format!(
                "incarnation {} of this node is being evicted by {}",
                self.log.incarnation.0, forced_eviction.author
            )
        });
        Some(evicted.unwrap_or_else(|| control.waits_for(&self.log, now)))
    }

    /// Whether gates may grant.
    pub(in crate::core) fn is_granting(&self) -> bool {
        self.failures.control().granting
    }

    /// Why requests are refused instead of queued, if they are. Once a quorum answers again,
    /// requests wait for the lease.
    pub(in crate::core) fn no_quorum(&mut self) -> Option<String> {
        let FailureModel::Leases(control) = &mut self.failures else { return None };
        if !control.no_quorum {
            return None;
        }
        let lacks = control.lacks_quorum(&self.log, self.now);
        if lacks.is_none() {
            control.no_quorum = false;
            let patience = control.timing.lease;
            self.timers.arm(self.now, Deadline::NoQuorum, patience, patience);
        }
        lacks
    }

    /// A peer sent a message about leases.
    pub(in crate::core) fn lease_message(&mut self, from: NodeId, message: LeaseMessage) {
        let FailureModel::Leases(control) = &mut self.failures else { return };
        let mut effects = Vec::new();
        control.leases.on_message(self.now, from, message, &mut effects);
        self.carry_out_lease(effects);
    }

    /// The timers of the lease.
    pub(in crate::core) fn lease_tick(&mut self) {
        let FailureModel::Leases(control) = &mut self.failures else { return };
        let mut effects = Vec::new();
        control.leases.tick(self.now, &mut effects);
        self.carry_out_lease(effects);
        self.check_lease();
    }

    /// The next deadline of the lease; its end, at the latest.
    pub(in crate::core) fn lease_due(&self, now: Time) -> Option<Time> {
        let control = self.failures.leases()?;
        let end = Some(control.leases.end()).filter(|end| control.held && *end < Time::NEVER);
        control.leases.next_due(now).into_iter().chain(end).min()
    }

    /// A link to a node is down: a reason to ask the voters, and nothing more (rule E1).
    pub(in crate::core) fn hint(&mut self, node: NodeId) {
        if let FailureModel::Leases(control) = &mut self.failures {
            control.leases.on_silence_hint(self.now, node);
        }
    }

    /// The status of the log at this node changed.
    pub(in crate::core) fn on_log_status(&mut self, status: LogStatus) {
        self.on_voters_appended(status.appended.clone());
        let control = self.failures.control_mut();
        control.leases.committed(status.committed);
        control.leases.set_leader(status.is_leader);
        control.status = status;
    }

    /// The newest voters in this node's log changed (rule N4).
    pub(in crate::core) fn on_voters_appended(&mut self, voters: Voters) {
        let control = self.failures.control_mut();
        if control.appended != voters {
            control.appended = voters.clone();
            control.leases.voters_appended(self.now, voters);
        }
    }

    /// The wall clock and the lease clock moved apart.
    pub(in crate::core) fn on_clock_jumped(&mut self) {
        self.failures.control_mut().leases.clock_jumped(self.now);
    }

    /// Carries out what the lease wants done.
    fn carry_out_lease(&mut self, effects: Vec<LeaseEffect>) {
        self.actions.extend(effects.into_iter().map(|effect| match effect {
            LeaseEffect::Send(to, message) => Action::Send(to, PeerMessage::Lease(message).bytes()),
            // Number 0: the result is not reported. The lease proposes again while there is a
            // reason.
            LeaseEffect::Propose(proposal) => Action::Propose(0, proposal.into()),
        }));
    }
}

impl Control {
    /// The voters that are missing for a quorum, if too few answer at all.
    fn lacks_quorum(&self, log: &Log, now: Time) -> Option<String> {
        let voters = &log.state.voters;
        if voters.sets.is_empty() {
            return Some(format!("no quorum: {}", self.waits_for(log, now)));
        }
        let missing = self.leases.status(now).missing;
        let is_silent = |node: NodeId| {
            missing.iter().any(|(voter, why)| *voter == node && *why == MissingShare::Silent)
        };
        if voters.is_quorum(|node| !is_silent(node)) {
            return None;
        }
        let silent: Vec<String> = voters
            .all()
            .into_iter()
            .filter(|node| is_silent(*node))
            .map(|node| node.0.to_string())
            .collect();
        Some(format!(
            "no quorum: of the voters {}, node {} does not answer this node, and more than half \
             must answer",
            voters.all().iter().map(|node| node.0.to_string()).collect::<Vec<_>>().join(", "),
            silent.join(", ")
        ))
    }
}
