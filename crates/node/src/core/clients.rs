//! Messages of clients, and the path of a request from its gate to its end.

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

/// A request that waits for its gate to be created.
#[derive(Debug)]
pub(super) struct PendingAcquire {
    pub(super) key: RequestKey,
    pub(super) request: AcquireRequest,
    /// The process that will use the permit: that of the request, or else of its session.
    pub(super) process: Process,
}

type Refusal = (ErrorCode, String);

/// The shortest time to live of a durable permit. Each renewal is a commit of the log.
const SHORTEST_TTL: Span = Span(1_000_000_000);
/// The longest time to live of a durable permit.
const LONGEST_TTL: Span = Span(366 * 86_400 * 1_000_000_000);

/// The name of a policy in the configuration and in messages.
pub(crate) fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::Lease => "lease",
        Policy::Hold => "hold",
    }
}

/// The refusal at a closed gate.
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
                    "Hello is valid only as the first message of a stream".into(),
                    actions,
                );
            }
            (_, None) => {
                return close(
                    client,
                    ErrorCode::BadRequest,
                    "the first message of a stream must be Hello".into(),
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
                    let text = format!(
                        "request number {number} is in use: each request of a session needs its own"
                    );
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
                // The former stream may have ended unnoticed. The client sends its waiting requests
                // again under the same numbers.
                self.withdraw_all(now, session, actions);
                (session, secret)
            }
            Some(_) => {
                let text = "the session has expired: its permits were released, and their holders must stop".into();
                return close(client, ErrorCode::SessionNotFound, text, actions);
            }
            None if self.sessions.count() >= self.settings.sessions_max => {
                let text =
                    format!("this node has {} sessions, its maximum", self.settings.sessions_max);
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

    /// Hands a request to its gate, or has the gate created first.
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
            // The log does not know this gate of the configuration yet: it is being created.
            None if agreed
                && self.settings.fixed.iter().any(|fixed| fixed.name == pending.request.gate) =>
            {
                return self.pending.push(pending);
            }
            None => match self.can_create(&pending) {
                Ok(()) if agreed => return self.create_by_log(pending, actions),
                Ok(()) => {
                    let (name, k) = (pending.request.gate.clone(), pending.request.k.unwrap_or(1));
                    // First, since a node alone creates it at once.
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
            let taken = self.at_gate(now, id, actions, ask).expect("a known gate is open");
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
            let text =
                "a durable permit needs the agreed log: a cluster with `faults = \"leases\"`";
            return Err((ErrorCode::BadRequest, text.into()));
        }
        if outlives && pending.request.durable.secret == Secret::NONE {
            let text = format!(
                "a permit of gate `{name}` is durable, so its holder needs a secret: use `kgate acquire`, or POST /v1/gates/{name}/permits"
            );
            return Err((ErrorCode::BadRequest, text));
        }
        if pending.request.durable.ttl.is_some_and(|ttl| ttl < SHORTEST_TTL || ttl > LONGEST_TTL) {
            return Err((
                ErrorCode::BadRequest,
                "a time to live is between one second and one year".into(),
            ));
        }
        if *k == 0 {
            return Err((ErrorCode::TooLarge, closed(name, author)));
        }
        let gate = self.gates.get(&definition.id).expect("a known gate is open");
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

    /// What makes the permit of a request durable, if it is to be.
    fn hold_of(&self, id: GateId, durable: DurableOptions) -> Option<super::DurableSpec> {
        let holds = self.gates.get(&id).is_some_and(|gate| gate.definition.policy == Policy::Hold);
        (holds || durable.ttl.is_some())
            .then(|| super::DurableSpec { secret: durable.secret.hashed(), ttl: durable.ttl })
    }

    /// Checks whether the gate of a request can be created.
    fn can_create(&self, pending: &PendingAcquire) -> Result<(), Refusal> {
        let name = &pending.request.gate;
        let invalid = |error: super::BadDefinition| (ErrorCode::BadRequest, error.to_string());
        Definition::check_name(name).map_err(invalid)?;
        let Some(entry) = self.settings.new_gates else {
            let known: Vec<&str> = self.catalogue.all().map(|gate| gate.name.as_str()).collect();
            let text = format!(
                "gate `{name}` does not exist, and this cluster has only the gates of its configuration: {}",
                known.join(", ")
            );
            return Err((ErrorCode::GateNotFound, text));
        };
        let plan = self.plan(GateId(0), name, pending.request.k.unwrap_or(1));
        plan.check_with(entry, self.settings.nodes).map_err(invalid)
    }

    /// Creates a gate, unless it is being created.
    fn create_gate(&mut self, now: Time, name: &str, k: u32, actions: &mut Vec<Action>) {
        if self.catalogue.want(name, k) {
            let ask = |gate: &mut super::Gate, out: &mut Vec<GateEffect>| {
                gate.acquire(now, Waiter::new(CATALOGUE_REQUEST, 1, now, Process::default()), out)
            };
            self.at_gate(now, CATALOGUE, actions, ask)
                .expect("the catalogue's gate is open")
                .expect("its k is 1");
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

    /// The gate of a request.
    pub(super) fn gate_of(&self, key: RequestKey) -> Option<GateId> {
        self.sessions.get(key.session)?.requests.get(&key.number)?.gate
    }

    /// A gate is open now: hands it the requests that waited for it.
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
        let session = self.sessions.get_mut(key.session).expect("a session outlives its requests");
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

    /// Tells the client that its permit is lost. Its slots stay taken until the client releases
    /// them, or has surely stopped.
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

    /// Withdraws a request. Returns whether it waited.
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

    /// Withdraws all waiting requests of a session.
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

    /// A request without waiting has had as much time as a free gate needs to grant it.
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
                    "all permits are in use, or some node does not answer: `kgate explain` tells which".into(),
                ),
                Some(text) => (ErrorCode::NoQuorum, text),
            };
            let refused = ServerMessage::Refused { number: key.number, code, message };
            actions.extend(stream.map(|client| Action::Reply(client, refused)));
        }
    }

    /// The stream of a client ended. Its waiting requests are withdrawn. Its permits stay until the
    /// session expires or is resumed (rule S4).
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

    /// A session ended: withdraws its waiting requests and releases its permits.
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
            close(client, ErrorCode::SessionNotFound, "the session has ended".into(), actions);
        }
    }

    /// This node takes part no more: tells all its clients.
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

/// The request of this node itself for the permit of the catalogue.
pub(super) const CATALOGUE_REQUEST: RequestKey = RequestKey { session: SessionId(0), number: 0 };

fn close(client: ClientId, code: ErrorCode, message: String, actions: &mut Vec<Action>) {
    actions.push(Action::Reply(client, ServerMessage::Closed { code, message }));
}
