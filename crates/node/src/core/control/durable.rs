//! Durable permits: those of gates with policy `hold`, and those with a time to live
//! (docs/internals/leases.md section 8).
//!
//! The gate grants, the log holds the permit, and only then is the client notified. A node that is
//! evicted in between has granted nothing. From then on the permit belongs to the log, and no lease
//! or session keeps it alive. A holder that shows its secret renews or releases it, at any node. It
//! ends when its holder releases it, when an operator evicts it, or when a member has counted its
//! time to live on its own clock since it applied the last renewal.
//!
//! A holder has one permit of a gate: a client that lost its node retries at another one with the
//! same secret, and gets the permit that the log holds for it already.

use kgate_control::log::ProposeError;
use kgate_control::state::{
    Applied, Change, Command, DurablePermit, FreeReason, Outdated, PermitId, Rejected,
};
use kgate_core::{GrantId, Span};

use super::gates::Purpose;
use crate::core::gate::UndecidedGrant;
use crate::core::messages::{DurableGrant, ErrorCode, PermitCommand};
use crate::core::timers::Deadline;
use crate::core::{
    Action, ClientId, Core, DurablePermitView, GateId, RequestKey, Secret, ServerMessage,
};

/// The most permit commands of clients that may wait for the log at once.
const PERMIT_COMMANDS: usize = 256;

impl Core {
    /// Applies what an entry changes of permits, before everything else that it changes: slots are
    /// reserved before a member is gone, and own grants are returned only after that.
    pub(super) fn apply_permit_changes(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::PermitHeld(id, permit) => {
                    self.held(*id, permit);
                    self.count(*id);
                }
                Change::PermitRenewed(id, _) => self.count(*id),
                Change::PermitFreed { id, reason, .. } => self.freed(*id, reason),
                Change::Bootstrapped(_)
                | Change::Membership { .. }
                | Change::DirectoryUpdated(..)
                | Change::DirectoryRemoved(_)
                | Change::Homes(_)
                | Change::GateCreated(_)
                | Change::GateChanged(_)
                | Change::GateDeleted(..)
                | Change::OnceMarked(..)
                | Change::OnceExpired(..)
                | Change::Voters(_) => {}
            }
        }
    }

    /// Tells a gate which of its slots the log holds.
    pub(in crate::core) fn reserve(&mut self, id: GateId) {
        #[cfg(test)]
        if self.mutations.never_reserves {
            return;
        }
        // Without a log no slots are reserved, and a protocol may not know the input.
        if !self.failures.has_leases() {
            return;
        }
        let slots: Vec<u32> = self.log.state.held_slots(id).into_iter().collect();
        self.at_gate(id, |gate| gate.reserve(slots));
    }

    /// The log holds a permit. The node that granted it returns its grant to the protocol and tells
    /// the client.
    fn held(&mut self, id: PermitId, permit: &DurablePermit) {
        let mine = permit.by == (self.log.me, self.log.incarnation);
        let gate_id = permit.gate;
        let Some(gate) = self.gates.get(&gate_id) else { return };
        let decided = gate
            .undecided()
            .find(|(_, it)| mine && it.fence == permit.fence)
            .map(|(grant, _)| grant);
        if let Some(grant) = decided {
            let submitted = self.at_gate(gate_id, |gate| gate.decided_held(grant));
            match submitted.flatten().and_then(|undecided| undecided.key) {
                Some(key) => self.grant_durable(key, id, permit),
                // Its request was withdrawn.
                None => self.release_unwanted(id, permit),
            }
        } else if mine {
            // The entry of a proposal that this node had given up.
            self.release_unwanted(id, permit);
        }
        self.attach_waiting(gate_id);
    }

    /// Requests that wait here for a permit that the log holds for them already, by their secrets,
    /// get that permit. The permit is renewed first: the node that granted it may be about to
    /// release it because its client is gone.
    pub(in crate::core) fn attach_waiting(&mut self, id: GateId) {
        let Some(gate) = self.gates.get(&id) else { return };
        let waiting = gate.durable_waiters();
        if waiting.is_empty() {
            return;
        }
        let permits = self.log.state.permits.iter().filter(|(_, permit)| permit.gate == id);
        let found = permits
            .filter_map(|(id, permit)| Some((*id, permit.secret, *waiting.get(&permit.secret)?)));
        let found: Vec<_> = found.collect();
        for (permit, secret, key) in found {
            self.propose(Purpose::Attach(key, permit), Command::RenewPermit { permit, secret });
        }
    }

    /// The log answered the renewal: the request gets the permit, or waits on.
    pub(super) fn on_attach_proposed(
        &mut self,
        (key, id): (RequestKey, PermitId),
        result: Result<Applied, ProposeError>,
    ) {
        let Some(gate_id) = self.gate_of(key) else { return };
        match result {
            Ok(_) => {
                let Some(permit) = self.log.state.permits.get(&id).cloned() else { return };
                self.at_gate(gate_id, |gate| {
                    gate.withdraw(key);
                });
                self.grant_durable(key, id, &permit);
            }
            Err(ProposeError::Rejected(_)) => {}
            Err(ProposeError::NoQuorum(_) | ProposeError::Stopped) => self.reconcile_later(),
        }
    }

    fn grant_durable(&mut self, key: RequestKey, id: PermitId, permit: &DurablePermit) {
        let stream = self.forget(key).and_then(|(stream, _)| stream);
        self.log.attached.insert(id, key);
        let gate = self.log.state.gates.get(&permit.gate);
        let granted = ServerMessage::Granted {
            number: key.number,
            gate: gate.map(|gate| gate.name.clone()).unwrap_or_default(),
            slots: permit.slots.clone(),
            fence: Some(permit.fence),
            k: gate.map_or(0, |gate| gate.k),
            slot_names: gate.map(|gate| gate.source.names_of(&permit.slots)).unwrap_or_default(),
            durable: Some(DurableGrant { permit: id, ttl: permit.ttl }),
            lock_files: Vec::new(),
            reentry_key: None,
        };
        self.actions.extend(stream.map(|client| Action::Reply(client, granted)));
    }

    fn release_unwanted(&mut self, id: PermitId, permit: &DurablePermit) {
        self.log.unwanted.insert(id);
        // The release is rejected if the permit was renewed since it is held: then its holder wants
        // it.
        let renewals = Some(0);
        #[cfg(test)]
        let renewals = renewals.filter(|_| !self.mutations.gives_back_blindly);
        let released = Command::ReleasePermit { permit: id, secret: permit.secret, renewals };
        self.propose(Purpose::ReleaseUnwanted(id), released);
    }

    /// The log answered the release of an unwanted permit. Without a quorum it is tried again.
    pub(super) fn on_release_unwanted(
        &mut self,
        id: PermitId,
        result: &Result<Applied, ProposeError>,
    ) {
        match result {
            // If it was renewed meanwhile, its holder wants it.
            Ok(_) | Err(ProposeError::Rejected(_)) => {
                self.log.unwanted.remove(&id);
            }
            Err(ProposeError::NoQuorum(_) | ProposeError::Stopped) => self.reconcile_later(),
        }
    }

    /// The log does not hold a permit any more. A client that is attached to it here is told,
    /// unless it released the permit itself.
    fn freed(&mut self, id: PermitId, how: &FreeReason) {
        self.timers.disarm(&Deadline::Expire(id.0));
        self.log.known.remove(&id);
        let Some(key) = self.log.attached.remove(&id) else { return };
        let text = match how {
            FreeReason::Released => return,
            FreeReason::Expired => format!("{id} was not renewed in time"),
            FreeReason::Evicted(author) => format!("{id} was evicted by {author}"),
            FreeReason::Unknown => format!("{id} was freed while this node was away"),
        };
        let stream = self.sessions.stream(key);
        self.actions.extend(stream.map(|client| {
            Action::Reply(client, ServerMessage::Lost { number: key.number, message: text })
        }));
    }

    /// Restarts the time to live of a permit on this node's clock. The node applies a renewal later
    /// than the holder sent it, so it counts too long rather than too short.
    fn count(&mut self, id: PermitId) {
        let control = self.failures.control_mut();
        self.log.known.entry(id).or_insert((self.now, self.now)).1 = self.now;
        let Some(ttl) = self.log.state.permits.get(&id).and_then(|permit| permit.ttl) else {
            return;
        };
        let wait = control.stretched(ttl);
        #[cfg(test)]
        let wait = if self.mutations.expires_early { Span(wait.0 / 2) } else { wait };
        // Spread over the members: the first expiry is enough.
        let spread = Span(control.timing.lease.0 / 2);
        self.timers.arm(self.now, Deadline::Expire(id.0), wait, wait + spread);
    }

    /// What status queries show of the durable permits of a gate.
    pub(in crate::core) fn held_views(&self, gate: GateId) -> Vec<DurablePermitView> {
        let permits = self.log.state.permits.iter().filter(|(_, permit)| permit.gate == gate);
        let view = |(id, permit): (&PermitId, &DurablePermit)| {
            let (since, counted) = self.log.known.get(id).copied().unwrap_or((self.now, self.now));
            let left = |ttl: Span| (ttl.0, ttl.0.saturating_sub(self.now.since(counted).0));
            DurablePermitView {
                permit: id.0,
                slots: permit.slots.clone(),
                fence: format!("{:032x}", permit.fence.0),
                holder: permit.holder.clone(),
                node: permit.by.0,
                since: self.now.since(since).0,
                ttl: permit.ttl.map(left),
            }
        };
        permits.map(view).collect()
    }

    /// Restarts the time to live of all permits after this node was away.
    pub(super) fn restart_all_ttls(&mut self) {
        let permits = self.log.state.permits.keys().copied();
        permits.collect::<Vec<_>>().into_iter().for_each(|id| self.count(id));
    }

    /// A permit was not renewed within its time to live by this node's clock: proposes to expire
    /// it. The log rejects that if the permit was renewed.
    pub(in crate::core) fn expire_permit(&mut self, id: u64) {
        let id = PermitId(id);
        let control = self.failures.control();
        let Some(permit) = self.log.state.permits.get(&id) else { return };
        let (again, renewals) = (Span(control.timing.lease.0), permit.renewals);
        self.propose(Purpose::Expire(id), Command::ExpirePermit { permit: id, renewals });
        // Proposed again until the log decides, which stops this timer.
        self.timers.arm(self.now, Deadline::Expire(id.0), again, again);
    }

    /// Proposes to hold a grant that the log does not hold yet; again, until the log decides.
    pub(in crate::core) fn propose_hold(&mut self, id: GateId, grant: GrantId) {
        let by = (self.log.me, self.log.incarnation);
        let found = self
            .gates
            .get(&id)
            .and_then(|gate| gate.undecided().find(|(other, _)| *other == grant));
        let Some((_, undecided)) = found else { return };
        let UndecidedGrant { slots, fence, process, hold, .. } = undecided.clone();
        let held = Command::HoldPermit {
            gate: id,
            slots,
            fence,
            by,
            holder: super::gates::author(&process, by.0),
            secret: hold.secret,
            ttl: hold.ttl,
        };
        self.propose(Purpose::Held(id, grant), held);
    }

    /// Proposes again what the log has not decided. Returns whether anything of durable permits is
    /// open.
    pub(super) fn reconcile_held(&mut self) -> bool {
        let all = self
            .gates
            .iter()
            .flat_map(|(id, gate)| gate.undecided().map(|(grant, _)| (*id, grant)));
        let all: Vec<(GateId, GrantId)> = all.collect();
        all.iter().for_each(|(id, grant)| self.propose_hold(*id, *grant));
        let permits = &self.log.state.permits;
        let unwanted = self.log.unwanted.iter();
        let unwanted = unwanted.filter_map(|id| Some((*id, permits.get(id)?.clone())));
        let unwanted: Vec<(PermitId, DurablePermit)> = unwanted.collect();
        unwanted.iter().for_each(|(id, permit)| self.release_unwanted(*id, permit));
        let gates: Vec<GateId> = self.gates.keys().copied().collect();
        gates.into_iter().for_each(|id| self.attach_waiting(id));
        let waits = self.gates.values().any(|gate| gate.has_durable_waiters());
        waits || !all.is_empty() || !unwanted.is_empty()
    }

    /// The log answered the proposal to hold a permit. That it is held becomes known by the entry
    /// itself.
    pub(super) fn on_hold_proposed(
        &mut self,
        (id, grant): (GateId, GrantId),
        result: Result<Applied, ProposeError>,
    ) {
        let rejected = match result {
            Ok(Applied::Held(permit)) if self.is_held_otherwise(id, grant, permit) => {
                Rejected::Outdated(Outdated::AlreadyGranted(permit))
            }
            Ok(_) | Err(ProposeError::NoQuorum(_) | ProposeError::Stopped) => {
                return self.reconcile_later();
            }
            Err(ProposeError::Rejected(rejected)) => rejected,
        };
        let undecided = self.at_gate(id, |gate| gate.decided_rejected(grant)).flatten();
        let Some(undecided) = undecided else { return };
        match (rejected, undecided.key) {
            (Rejected::NotMember { .. } | Rejected::Outdated(_), _) => {
                self.at_gate(id, |gate| gate.requeue(undecided));
            }
            (rejected, Some(key)) => {
                self.refuse(key, ErrorCode::LimitExceeded, rejected.to_string())
            }
            (_, None) => {}
        }
    }

    /// Whether the log holds another grant for the same holder.
    fn is_held_otherwise(&self, id: GateId, grant: GrantId, permit: PermitId) -> bool {
        let held = self.log.state.permits.get(&permit);
        let ours = self
            .gates
            .get(&id)
            .and_then(|gate| gate.undecided().find(|(other, _)| *other == grant));
        held.zip(ours).is_some_and(|(held, (_, ours))| held.fence != ours.fence)
    }

    /// A client renews or releases a durable permit, with its secret.
    pub(in crate::core) fn on_permit_command(
        &mut self,
        client: ClientId,
        key: RequestKey,
        (permit, secret, command): (PermitId, Secret, PermitCommand),
    ) {
        let refused = |code, text: &str| {
            Action::Reply(
                client,
                ServerMessage::Refused { number: key.number, code, message: text.to_owned() },
            )
        };
        if !self.failures.has_leases() {
            let text = "this cluster has no agreed log, so it has no durable permits";
            return self.actions.push(refused(ErrorCode::BadRequest, text));
        }
        let secret = secret.hashed();
        if let Some(rejected) = self.log.certainly_rejected(permit, secret) {
            let rejected = Err(ProposeError::Rejected(rejected));
            return self.on_permit_proposed(client, key, (permit, command), rejected);
        }
        let under_way = self.log.open.values().filter(|open| matches!(open, Purpose::Permit(..)));
        if under_way.count() >= PERMIT_COMMANDS {
            let text = "too many permits are renewed and released at this node at once: retry";
            return self.actions.push(refused(ErrorCode::LimitExceeded, text));
        }
        let entry = match command {
            PermitCommand::Renew => Command::RenewPermit { permit, secret },
            PermitCommand::Release => Command::ReleasePermit { permit, secret, renewals: None },
        };
        self.propose(Purpose::Permit(client, key, permit, command), entry);
    }

    /// The log answered the command.
    pub(super) fn on_permit_proposed(
        &mut self,
        client: ClientId,
        key: RequestKey,
        (permit, command): (PermitId, PermitCommand),
        result: Result<Applied, ProposeError>,
    ) {
        let number = key.number;
        let tell = match (result, command) {
            (Ok(_), PermitCommand::Renew) => {
                self.log.attached.insert(permit, key);
                let ttl = self.log.state.permits.get(&permit).and_then(|permit| permit.ttl);
                ServerMessage::PermitRenewed { number, durable: DurableGrant { permit, ttl } }
            }
            // Release is idempotent: the client repeats it if it missed the answer.
            (
                result @ (Ok(_) | Err(ProposeError::Rejected(Rejected::PermitNotHeld(_)))),
                PermitCommand::Release,
            ) => {
                self.log.attached.remove(&permit);
                ServerMessage::Released { number, was_gone: result.is_err() }
            }
            (
                Err(ProposeError::Rejected(rejected @ Rejected::PermitNotHeld(_))),
                PermitCommand::Renew,
            ) => ServerMessage::Refused {
                number,
                code: ErrorCode::PermitNotFound,
                message: rejected.to_string(),
            },
            (Err(ProposeError::Rejected(rejected)), _) => ServerMessage::Refused {
                number,
                code: ErrorCode::PermissionDenied,
                message: rejected.to_string(),
            },
            (Err(ProposeError::NoQuorum(text)), _) => ServerMessage::Refused {
                number,
                code: ErrorCode::NoQuorum,
                message: format!("no quorum: {text}"),
            },
            (Err(stopped @ ProposeError::Stopped), _) => ServerMessage::Refused {
                number,
                code: ErrorCode::NodeGone,
                message: stopped.to_string(),
            },
        };
        self.reply(client, tell);
    }
}

impl super::Control {
    /// How long this node's clock must count until a span by any other clock has certainly passed.
    pub(in crate::core) fn stretched(&self, span: Span) -> Span {
        let terms = kgate_control::membership::LeaseTerms { lease: span, ..self.timing.terms() };
        terms.wait()
    }
}
