//! What clients ask, and what they are told.

use kgate_control::state::Policy;
use kgate_core::{Fence, Span, Time};

use super::action::StopReason;
use super::catalogue::CATALOGUE;
use super::definition::Definition;
use super::failures::FailureModel;
use super::gate::Waiter;
use super::messages::{AcquireRequest, ClientMessage, DurableOptions, ErrorCode, ServerMessage};
use super::peer_message::GateId;
use super::sessions::{Request, RequestState};
use super::timers::Deadline;
use super::view::Process;
use super::{Action, ClientId, Core, GateEffect, RequestKey, Secret, SessionId};

/// A request for a gate that is being made.
#[derive(Debug)]
pub(super) struct PendingAcquire {
    pub(super) key: RequestKey,
    pub(super) request: AcquireRequest,
    /// The process that will use the permit: of the request, or else of its session.
    pub(super) process: Process,
}

type Refusal = (ErrorCode, String);

/// The shortest time to live of a permit: it must be renewed by a commit.
const SHORTEST_TTL: Span = Span(1_000_000_000);
/// The longest.
const LONGEST_TTL: Span = Span(366 * 86_400 * 1_000_000_000);

/// As people say it.
pub(crate) fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::Lease => "lease",
        Policy::Hold => "hold",
    }
}

/// What whoever asks at a closed gate is told.
pub(super) fn closed(name: &str, author: &str) -> String {
    format!("gate `{name}` is closed (k = 0, set by {author}): `kgate set {name} -k K` opens it")
}

impl Core {
    /// A client sent a message.
    pub(super) fn on_client(
        &mut self,
        now: Time,
        client: ClientId,
        message: ClientMessage,
        actions: &mut Vec<Action>,
    ) {
        if self.stopped {
            return close(client, ErrorCode::NodeGone, "this node has stopped".into(), actions);
        }
        let session = match (message, self.sessions.of(client)) {
            (ClientMessage::Hello { process, resume, secret }, None) => {
                return self.hello(now, client, process.cut(), resume, secret, actions);
            }
            (ClientMessage::Hello { .. }, Some(_)) => {
                return close(
                    client,
                    ErrorCode::BadRequest,
                    "a stream begins with one Hello".into(),
                    actions,
                );
            }
            (_, None) => {
                return close(
                    client,
                    ErrorCode::BadRequest,
                    "a stream begins with Hello".into(),
                    actions,
                );
            }
            (message, Some(session)) => (message, session),
        };
        match session {
            (ClientMessage::Permit { number, permit, secret, command }, session) => {
                let key = RequestKey { session, number };
                self.on_permit_command(client, key, (permit, secret, command), actions);
            }
            (ClientMessage::Acquire { number, mut request }, session) => {
                let key = RequestKey { session, number };
                let known = self.sessions.get(session).expect("it has a stream");
                if known.requests.contains_key(&number) {
                    let text =
                        format!("request {number} is under way: each has a number of its own");
                    return close(client, ErrorCode::BadRequest, text, actions);
                }
                let process = request.process.take();
                let process = process.map_or_else(|| known.process.clone(), Process::cut);
                let waiting = Request { gate: None, state: RequestState::Waiting };
                self.sessions.get_mut(session).expect("just seen").requests.insert(number, waiting);
                self.place(now, PendingAcquire { key, request, process }, actions);
            }
            (ClientMessage::Withdraw { number }, session) => {
                let key = RequestKey { session, number };
                if self.withdraw(now, key, actions) {
                    actions.push(Action::Reply(client, ServerMessage::Withdrawn { number }));
                }
            }
            (ClientMessage::Release { number }, session) => {
                self.release(now, RequestKey { session, number }, actions);
                actions.push(Action::Reply(
                    client,
                    ServerMessage::Released { number, was_gone: false },
                ));
            }
            (ClientMessage::Renew { sequence }, session) => {
                self.sessions.renew(now, session);
                let valid_for = self.valid_for(now);
                actions.push(Action::Reply(client, ServerMessage::Renewed { sequence, valid_for }));
            }
            (ClientMessage::Bye, session) => self.end_session(now, session, actions),
            (ClientMessage::Hello { .. }, _) => unreachable!("answered above"),
        }
    }

    fn hello(
        &mut self,
        now: Time,
        client: ClientId,
        process: Process,
        resume: Option<(SessionId, Secret)>,
        secret: Secret,
        actions: &mut Vec<Action>,
    ) {
        let (session, secret) = match resume {
            Some((session, secret)) if self.sessions.resume(now, client, session, secret) => {
                // The end of the former stream may not be known yet. Whoever waits is asked for
                // anew, under the same number.
                self.withdraw_all(now, session, actions);
                (session, secret)
            }
            Some(_) => {
                let text = "that session is over: what it held was freed, and it must stop".into();
                return close(client, ErrorCode::SessionNotFound, text, actions);
            }
            None if self.sessions.count() >= self.settings.sessions_max => {
                let text =
                    format!("this node has {} sessions, its most", self.settings.sessions_max);
                return close(client, ErrorCode::LimitExceeded, text, actions);
            }
            None => (self.sessions.open(now, client, secret, process), secret),
        };
        let valid_for = self.valid_for(now);
        let requests = &self.sessions.get(session).expect("just opened").requests;
        let held = requests.iter().filter(|(_, request)| request.state == RequestState::Holding);
        let holds = held.map(|(number, _)| *number).collect();
        actions.push(Action::Reply(
            client,
            ServerMessage::Welcome { session, secret, valid_for, holds },
        ));
    }

    /// A request finds its gate, or has it made.
    pub(super) fn place(&mut self, now: Time, pending: PendingAcquire, actions: &mut Vec<Action>) {
        let key = pending.key;
        if let Some(text) = self.no_quorum(now) {
            return self.refuse(key, ErrorCode::NoQuorum, text, actions);
        }
        let agreed = self.failures.has_leases();
        let found = match self.catalogue.get(&pending.request.gate) {
            Some(definition) if agreed && pending.request.k.is_some_and(|k| k != definition.k) => {
                return self.create_by_log(pending, actions);
            }
            Some(definition) => self.accepts(definition, &pending).map(|()| definition.id),
            // A gate of the configuration that the log does not know yet is being made.
            None if agreed
                && self.settings.fixed.iter().any(|fixed| fixed.name == pending.request.gate) =>
            {
                return self.pending.push(pending);
            }
            None => match self.can_create(&pending) {
                Ok(()) if agreed => return self.create_by_log(pending, actions),
                Ok(()) => {
                    let (name, k) = (pending.request.gate.clone(), pending.request.k.unwrap_or(1));
                    // First, since a node alone makes it at once.
                    self.pending.push(pending);
                    return self.create_gate(now, &name, k, actions);
                }
                Err(refusal) => Err(refusal),
            },
        };
        let taken = found.and_then(|id| {
            let PendingAcquire { request, process, .. } = pending;
            let AcquireRequest { weight, wait, durable, .. } = request;
            self.set_gate(key, id);
            let hold = self.hold_of(id, durable);

            if !wait {
                let patience = self.settings.patience;
                self.timers.arm(now, Deadline::Patience(key), patience, patience);
            }
            let waiter = Waiter::new(key, weight, now, process).durable(hold);
            let ask =
                |gate: &mut super::Gate, out: &mut Vec<GateEffect>| gate.acquire(now, waiter, out);
            let taken = self.at_gate(now, id, actions, ask).expect("what is known is there");
            if hold.is_some() {
                self.attach_waiting(id, actions);
                self.reconcile_later(now);
            }
            taken.map_err(|refusal| (ErrorCode::BadRequest, refusal.to_string()))
        });
        if let Err((code, message)) = taken {
            self.refuse(key, code, message, actions);
        }
    }

    fn set_gate(&mut self, key: RequestKey, gate: GateId) {
        self.mark_dirty();
        let session = self.sessions.get_mut(key.session).expect("its request is under way");
        session.requests.get_mut(&key.number).expect("it is under way").gate = Some(gate);
    }

    fn accepts(&self, definition: &Definition, pending: &PendingAcquire) -> Result<(), Refusal> {
        if let FailureModel::CrashStop(crashes) = &self.failures
            && let Some(text) = crashes.conflicts.get(&definition.id)
        {
            return Err((ErrorCode::Conflict, text.clone()));
        }
        let Definition { name, k, author, .. } = definition;
        if let Some(wanted) = pending.request.k.filter(|wanted| wanted != k) {
            let text =
                format!("gate `{name}` has k = {k}, set by {author}, and you say k = {wanted}");
            return Err((ErrorCode::Conflict, text));
        }
        if let Some(wanted) =
            pending.request.durable.policy.filter(|wanted| *wanted != definition.policy)
        {
            let text = format!(
                "gate `{name}` has policy {}, and you say {}: leave it out, or `kgate set {name} --policy`",
                policy_name(definition.policy),
                policy_name(wanted)
            );
            return Err((ErrorCode::Conflict, text));
        }
        let outlives = definition.policy == Policy::Hold || pending.request.durable.ttl.is_some();
        if outlives && !self.failures.has_leases() {
            let text = "a permit that outlives its node needs the agreed log: a cluster with `faults = \"leases\"`";
            return Err((ErrorCode::BadRequest, text.into()));
        }
        if outlives && pending.request.durable.secret == Secret::NONE {
            let text = format!(
                "a permit of gate `{name}` outlives its session, so its holder needs a secret to show: ask by `kgate acquire`, or by POST /v1/gates/{name}/permits"
            );
            return Err((ErrorCode::BadRequest, text));
        }
        if pending.request.durable.ttl.is_some_and(|ttl| ttl < SHORTEST_TTL || ttl > LONGEST_TTL) {
            return Err((
                ErrorCode::BadRequest,
                "a time to live is between a second and a year".into(),
            ));
        }
        if *k == 0 {
            return Err((ErrorCode::TooLarge, closed(name, author)));
        }
        let gate = self.gates.get(&definition.id).expect("what is known is there");
        let most = gate.widest();
        if pending.request.weight == 0 || pending.request.weight > most {
            let text = format!(
                "gate `{name}` (k = {k}, by {}) gives 1 to {most} permits at once, not {}",
                definition.protocol, pending.request.weight
            );
            return Err((ErrorCode::TooLarge, text));
        }
        let waiters = gate.waiters();
        if waiters >= self.settings.queue_max {
            return Err((
                ErrorCode::LimitExceeded,
                format!("{waiters} wait at gate `{name}` of this node already, its most"),
            ));
        }
        Ok(())
    }

    /// Whether the log is to hold what a client wants.
    fn hold_of(&self, id: GateId, durable: DurableOptions) -> Option<super::DurableSpec> {
        let holds = self.gates.get(&id).is_some_and(|gate| gate.definition.policy == Policy::Hold);
        (holds || durable.ttl.is_some())
            .then(|| super::DurableSpec { secret: durable.secret.hashed(), ttl: durable.ttl })
    }

    /// Whether a gate can be made as somebody wants it.
    fn can_create(&self, pending: &PendingAcquire) -> Result<(), Refusal> {
        let name = &pending.request.gate;
        let invalid = |error: super::BadDefinition| (ErrorCode::BadRequest, error.to_string());
        Definition::check_name(name).map_err(invalid)?;
        let Some(entry) = self.settings.new_gates else {
            let known: Vec<&str> = self.catalogue.all().map(|gate| gate.name.as_str()).collect();
            let text = format!(
                "there is no gate `{name}`, and this cluster has those of its configuration only: {}",
                known.join(", ")
            );
            return Err((ErrorCode::GateNotFound, text));
        };
        let plan = self.plan(GateId(0), name, pending.request.k.unwrap_or(1));
        plan.check_with(entry, self.settings.nodes).map_err(invalid)
    }

    /// Sees to it that a gate is made.
    fn create_gate(&mut self, now: Time, name: &str, k: u32, actions: &mut Vec<Action>) {
        if self.catalogue.want(name, k) {
            let ask = |gate: &mut super::Gate, out: &mut Vec<GateEffect>| {
                gate.acquire(now, Waiter::new(CATALOGUE_REQUEST, 1, now, Process::default()), out)
            };
            self.at_gate(now, CATALOGUE, actions, ask)
                .expect("it is there")
                .expect("it asks for one");
        }
    }

    pub(super) fn plan(&self, id: GateId, name: &str, k: u32) -> Definition {
        Definition {
            id,
            name: name.to_owned(),
            k,
            protocol: self.settings.new_gates.map_or("slots", |entry| entry.name).to_owned(),
            lanes: 1,
            policy: Policy::Lease,
            author: format!("a client of node {}", self.settings.me.0),
        }
    }

    /// At which gate a request is.
    pub(super) fn gate_of(&self, key: RequestKey) -> Option<GateId> {
        self.sessions.get(key.session)?.requests.get(&key.number)?.gate
    }

    /// A gate has come to be known: those who waited for that ask there.
    pub(super) fn place_all(&mut self, now: Time, name: &str, actions: &mut Vec<Action>) {
        let (placed, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending: &PendingAcquire| pending.request.gate == name);
        self.pending = rest;
        let placed: Vec<PendingAcquire> = placed;
        placed.into_iter().for_each(|pending| self.place(now, pending, actions));
    }

    pub(super) fn on_granted(
        &mut self,
        now: Time,
        id: GateId,
        key: RequestKey,
        slots: Vec<u32>,
        fence: Option<Fence>,
        actions: &mut Vec<Action>,
    ) {
        if key == CATALOGUE_REQUEST {
            return self.create_next(now, actions);
        }
        self.mark_dirty();
        self.timers.disarm(&Deadline::Patience(key));
        let stream = self.sessions.stream(key);
        let session =
            self.sessions.get_mut(key.session).expect("it waits as long as its session is");
        session.requests.get_mut(&key.number).expect("it waits").state = RequestState::Holding;
        let k = self.gates[&id].definition.k;
        let number = key.number;
        actions.extend(stream.map(|client| {
            Action::Reply(client, ServerMessage::Granted { number, slots, fence, k, durable: None })
        }));
    }

    pub(super) fn forget(&mut self, key: RequestKey) -> Option<(Option<ClientId>, Request)> {
        self.mark_dirty();
        self.timers.disarm(&Deadline::Patience(key));
        self.timers.disarm(&Deadline::Reclaim(key));
        let session = self.sessions.get_mut(key.session)?;
        Some((session.client, session.requests.remove(&key.number)?))
    }

    pub(super) fn refuse(
        &mut self,
        key: RequestKey,
        code: ErrorCode,
        message: String,
        actions: &mut Vec<Action>,
    ) {
        if let Some((Some(client), _)) = self.forget(key) {
            actions.push(Action::Reply(
                client,
                ServerMessage::Refused { number: key.number, code, message },
            ));
        }
    }

    /// It is told that its permit no longer counts; its slots stay taken until it says that all is
    /// over, or that is sure.
    pub(super) fn announce_loss(
        &mut self,
        key: RequestKey,
        text: String,
        actions: &mut Vec<Action>,
    ) {
        let Some(session) = self.sessions.get_mut(key.session) else { return };
        let Some(request) = session.requests.get_mut(&key.number) else { return };
        request.state = RequestState::Losing;
        let lost = ServerMessage::Lost { number: key.number, message: text };
        actions.extend(session.client.map(|client| Action::Reply(client, lost)));
    }

    pub(super) fn lose(&mut self, key: RequestKey, text: String, actions: &mut Vec<Action>) {
        if let Some((Some(client), _)) = self.forget(key) {
            actions.push(Action::Reply(
                client,
                ServerMessage::Lost { number: key.number, message: text },
            ));
        }
    }

    /// Takes back a request that waits; false if it does not wait (any more).
    pub(super) fn withdraw(
        &mut self,
        now: Time,
        key: RequestKey,
        actions: &mut Vec<Action>,
    ) -> bool {
        let request =
            self.sessions.get(key.session).and_then(|session| session.requests.get(&key.number));
        let Some(Request { gate, state: RequestState::Waiting }) = request.copied() else {
            return false;
        };
        match gate {
            Some(id) => {
                self.at_gate(now, id, actions, |gate, out| gate.withdraw(now, key, out));
            }
            None => self.pending.retain(|pending| pending.key != key),
        }
        self.forget(key);
        true
    }

    /// Takes back whatever a session waits for.
    fn withdraw_all(&mut self, now: Time, session: SessionId, actions: &mut Vec<Action>) {
        let requests = self.sessions.get(session).into_iter().flat_map(|session| &session.requests);
        let waiting = requests.filter(|(_, request)| request.state == RequestState::Waiting);
        let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        for number in waiting {
            self.withdraw(now, RequestKey { session, number }, actions);
        }
    }

    pub(super) fn release(&mut self, now: Time, key: RequestKey, actions: &mut Vec<Action>) {
        let request =
            self.sessions.get(key.session).and_then(|session| session.requests.get(&key.number));
        let Some(Request { gate: Some(id), state }) = request.copied() else { return };
        if state != RequestState::Waiting {
            self.at_gate(now, id, actions, |gate, out| gate.release(now, key, out));
            self.forget(key);
        }
    }

    /// Somebody who does not want to wait has waited as long as a free gate would need.
    pub(super) fn no_wait_expired(
        &mut self,
        now: Time,
        key: RequestKey,
        actions: &mut Vec<Action>,
    ) {
        let stream = self.sessions.stream(key);
        if self.withdraw(now, key, actions) {
            let (code, message) = match self.missing_lease(now) {
                None => (
                    ErrorCode::Busy,
                    "all permits are in use, or some node does not answer: `kgate explain` says more".into(),
                ),
                Some(text) => (ErrorCode::NoQuorum, text),
            };
            let refused = ServerMessage::Refused { number: key.number, code, message };
            actions.extend(stream.map(|client| Action::Reply(client, refused)));
        }
    }

    /// A client's stream has ended. What it waits for is taken back; what it holds stays, until its
    /// time has passed or it comes back.
    pub(super) fn on_client_gone(
        &mut self,
        now: Time,
        client: ClientId,
        actions: &mut Vec<Action>,
    ) {
        let Some(id) = self.sessions.cut(client) else { return };
        self.mark_dirty();
        self.withdraw_all(now, id, actions);
        if self.sessions.get(id).is_some_and(|session| session.requests.is_empty()) {
            self.sessions.close(id);
        } else if self.sessions.terms().valid_for.is_none() {
            self.probe(id, actions);
        }
    }

    /// A session is over: all that it waits for or holds is freed.
    pub(super) fn end_session(&mut self, now: Time, id: SessionId, actions: &mut Vec<Action>) {
        let Some(session) = self.sessions.get(id) else { return };
        let requests: Vec<(u64, RequestState)> =
            session.requests.iter().map(|(number, request)| (*number, request.state)).collect();
        let client = session.client;
        for (number, state) in requests {
            let key = RequestKey { session: id, number };
            match state {
                RequestState::Waiting => drop(self.withdraw(now, key, actions)),
                RequestState::Holding | RequestState::Losing => self.release(now, key, actions),
            }
        }
        self.sessions.close(id);
        if let Some(client) = client {
            close(client, ErrorCode::SessionNotFound, "the session is over".into(), actions);
        }
    }

    /// This node takes part no more: everybody is told so.
    pub(super) fn stop_all(&mut self, reason: StopReason, actions: &mut Vec<Action>) {
        let text = reason.to_string();
        for (session, client, requests) in self.sessions.all() {
            for (number, state) in requests {
                let key = RequestKey { session, number };
                match state {
                    RequestState::Holding | RequestState::Losing => {
                        self.lose(key, text.clone(), actions)
                    }
                    RequestState::Waiting => {
                        self.refuse(key, ErrorCode::NodeGone, text.clone(), actions)
                    }
                }
            }
            if let Some(client) = client {
                close(client, ErrorCode::NodeGone, text.clone(), actions);
            }
        }
        self.stopped = true;
        actions.push(Action::Stop(reason));
    }
}

/// The request of this node itself, for the catalogue.
pub(super) const CATALOGUE_REQUEST: RequestKey = RequestKey { session: SessionId(0), number: 0 };

fn close(client: ClientId, code: ErrorCode, message: String, actions: &mut Vec<Action>) {
    actions.push(Action::Reply(client, ServerMessage::Closed { code, message }));
}
