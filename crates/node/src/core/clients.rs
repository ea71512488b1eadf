//! Messages of clients, and the path of a request from its gate to its end.

use std::sync::Arc;

use kgate_control::state::{Limit, Policy, Slots, bounds};
use kgate_core::{Fence, Span};

use super::action::StopReason;
use super::catalogue::CATALOGUE;
use super::control::author;
use super::definition::Definition;
use super::failures::FailureModel;
use super::messages::{
    AcquireRequest, ClientMessage, DurableOptions, ErrorCode, Refusal, ServerMessage,
};
use super::peer_message::GateId;
use super::sessions::{Request, RequestState};
use super::timers::Deadline;
use super::view::Process;
use super::{Action, ClientId, Core, RequestKey, Secret, SessionId};

/// A request that waits for its gate to be created.
#[derive(Debug)]
pub(super) struct PendingAcquire {
    pub(super) key: RequestKey,
    pub(super) request: Box<AcquireRequest>,
    /// The process that will use the permit: that of the request, or else of its session.
    pub(super) process: Arc<Process>,
}

/// Why a session whose processes are being ended cannot go on.
const OUTLIVED: &str =
    "the session was not renewed in time, and this node is ending the processes that outlived it";

/// The shortest time to live of a durable permit, or of a key. Each renewal is a commit of the log.
pub(super) const SHORTEST_TTL: Span = Span(1_000_000_000);
/// The longest time to live of a durable permit, or of a key.
pub(super) const LONGEST_TTL: Span = Span(366 * 86_400 * 1_000_000_000);

/// The name of a policy in the configuration and in messages.
pub(crate) fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::Lease => "lease",
        Policy::Hold => "hold",
    }
}

/// Whether a gate has the slots that a request asks for, if it asks for some.
fn satisfies(definition: &Definition, request: &AcquireRequest) -> bool {
    request.k.as_ref().is_none_or(|wanted| definition.slots().satisfies(wanted))
}

/// The refusal at a closed gate.
pub(super) fn closed(name: &str, author: &str) -> String {
    format!("gate `{name}` is closed (k = 0, set by {author}): `kgate set {name} -k K` opens it")
}

impl Core {
    /// A client sent a message.
    pub(super) fn on_client(&mut self, client: ClientId, message: ClientMessage) {
        if self.stopped {
            return self.close(client, ErrorCode::NodeGone, "this node has stopped");
        }
        let session = match (message, self.sessions.of(client)) {
            (ClientMessage::Hello { process, resume, secret }, None) => {
                return self.hello(client, process.cut(), resume, secret);
            }
            (ClientMessage::Hello { .. }, Some(_)) => {
                let text = "Hello is valid only as the first message of a stream";
                return self.close(client, ErrorCode::BadRequest, text);
            }
            (_, None) => {
                let text = "the first message of a stream must be Hello";
                return self.close(client, ErrorCode::BadRequest, text);
            }
            (message, Some(session)) => (message, session),
        };
        match session {
            (ClientMessage::Permit { number, permit, secret, command }, session) => {
                let key = RequestKey { session, number };
                self.on_permit_command(client, key, (permit, secret, command));
            }
            (ClientMessage::MarkOnce { number, mark }, session) => {
                self.on_mark_once(client, (session, number), mark);
            }
            (ClientMessage::Acquire { number, request }, session) => {
                self.on_acquire(client, RequestKey { session, number }, request);
            }
            (ClientMessage::Withdraw { number }, session) => {
                let key = RequestKey { session, number };
                if self.withdraw(key) {
                    self.reply(client, ServerMessage::Withdrawn { number });
                }
            }
            (ClientMessage::Release { number }, session) => {
                self.release(RequestKey { session, number });
                self.sessions.leave(session);
                self.reply(client, ServerMessage::Released { number, was_gone: false });
            }
            (ClientMessage::Renew { sequence }, session) => {
                if self.sessions.get(session).is_some_and(|session| session.is_over()) {
                    return self.close(client, ErrorCode::SessionNotFound, OUTLIVED);
                }
                self.sessions.renew(self.now, session);
                let valid_for = self.valid_for();
                self.promised(session, valid_for);
                self.reply(client, ServerMessage::Renewed { sequence, valid_for });
            }
            (ClientMessage::Bye, session) => self.end_session(session, Self::release),
            (ClientMessage::Hello { .. }, _) => unreachable!("answered above"),
        }
    }

    fn on_acquire(&mut self, client: ClientId, key: RequestKey, mut request: Box<AcquireRequest>) {
        let session = self.sessions.get_mut(key.session).expect("it has a stream");
        let number = key.number;
        if session.requests.contains_key(&number) {
            let text = format!(
                "request number {number} is in use: each request of a session needs its own"
            );
            return self.close(client, ErrorCode::BadRequest, text);
        }
        let note = std::mem::take(&mut request.note);
        let process = match request.process.take() {
            None if note.is_empty() => session.process.clone(),
            None => Arc::new(Process { note, ..Process::clone(&session.process) }),
            Some(process) => Arc::new(Process { note, ..process.cut() }),
        };
        let waiting = Request { gate: None, state: RequestState::Waiting };
        session.requests.insert(number, waiting);
        let slots = request.k.as_ref().map_or(Ok(()), Slots::check);
        let slots = slots.map_err(|bad| bad.to_string());
        let checked = slots.and_then(|()| process.note.check().map_err(|bad| bad.to_string()));
        if let Err(text) = checked {
            return self.refuse(key, ErrorCode::BadRequest, text);
        }
        self.place(PendingAcquire { key, request, process });
    }

    fn hello(
        &mut self,
        client: ClientId,
        process: Process,
        resume: Option<(SessionId, Secret)>,
        secret: Secret,
    ) {
        let (session, secret) = match resume {
            Some((session, secret)) if self.sessions.resume(self.now, client, session, secret) => {
                // The former stream may have ended unnoticed. The client sends its waiting requests
                // again under the same numbers.
                self.withdraw_all(session);
                (session, secret)
            }
            Some(_) => {
                let text = "the session has expired: its permits were released, and their holders \
                            must stop";
                return self.close(client, ErrorCode::SessionNotFound, text);
            }
            None if self.sessions.count() >= self.settings.sessions_max => {
                let text =
                    format!("this node has {} sessions, its maximum", self.settings.sessions_max);
                return self.close(client, ErrorCode::LimitExceeded, text);
            }
            None => (self.sessions.open(self.now, client, secret, process), secret),
        };
        let valid_for = self.valid_for();
        self.promised(session, valid_for);
        let requests = &self.sessions.get(session).expect("just opened").requests;
        let held = requests.iter().filter(|(_, request)| request.state == RequestState::Holding);
        let holds = held.map(|(number, _)| *number).collect();
        self.reply(client, ServerMessage::Welcome { session, secret, valid_for, holds });
    }

    /// Hands a request to its gate, or has the gate created first.
    pub(super) fn place(&mut self, pending: PendingAcquire) {
        let key = pending.key;
        if let Some(text) = self.no_quorum() {
            return self.refuse(key, ErrorCode::NoQuorum, text);
        }
        let agreed = self.failures.has_leases();
        let found = match self.catalogue.get(&pending.request.gate) {
            Some(definition) if let Some(slots) = self.next_slots(definition, &pending.request) => {
                let definition = definition.clone();
                let author = author(&pending.process, self.settings.me);
                self.resize_alone(&definition, slots, author);
                return self.place(pending);
            }
            Some(definition)
                if agreed && definition.k != 0 && !satisfies(definition, &pending.request) =>
            {
                return self.create_by_log(pending);
            }
            Some(definition) => self.accepts(definition, &pending).map(|()| definition.id),
            // The log does not know this gate of the configuration yet: it is being created.
            None if agreed
                && self.settings.fixed.iter().any(|fixed| fixed.name == pending.request.gate) =>
            {
                return self.pending.push(pending);
            }
            None => match self.can_create(&pending) {
                Ok(()) if agreed => return self.create_by_log(pending),
                Ok(()) => {
                    let (name, slots) = (pending.request.gate.clone(), pending.request.new_slots());
                    let author = author(&pending.process, self.settings.me);
                    // First, since a node alone creates it at once.
                    self.pending.push(pending);
                    return self.create_gate(&name, slots, author);
                }
                Err(refusal) => Err(refusal),
            },
        };
        let taken = found.and_then(|id| {
            let PendingAcquire { request, process, .. } = pending;
            let AcquireRequest { weight, wait, durable, .. } = *request;
            self.set_gate(key, id);
            let hold = self.hold_of(id, durable);

            if !wait {
                let patience = self.settings.patience;
                self.timers.arm(self.now, Deadline::Patience(key), patience, patience);
            }
            self.start_at_first_use(id);
            let taken = self.at_gate(id, |gate| gate.acquire(key, weight, process, hold));
            let taken = taken.expect("a known gate is open");
            if hold.is_some() {
                self.attach_waiting(id);
                self.reconcile_later();
            }
            if !wait && taken.is_ok() && self.is_surely_busy(id) {
                self.no_wait_expired(key);
            }
            taken.map_err(|refusal| (ErrorCode::BadRequest, refusal.to_string()))
        });
        if let Err((code, message)) = taken {
            self.refuse(key, code, message);
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
        // First: with any k the answer is how to open it.
        if *k == 0 {
            return Err((ErrorCode::TooLarge, closed(name, author)));
        }
        let slots = definition.slots();
        if let Some(wanted) = pending.request.k.as_ref().filter(|wanted| !slots.satisfies(wanted)) {
            let change = if self.is_alone() {
                format!(
                    "leave out {}, or an operator changes it: `kgate set {name} {}`",
                    wanted.flag(),
                    slots.change_to(wanted)
                )
            } else {
                format!(
                    "the slots are fixed without an agreed log, so leave out {}: `kgate run {name} \
                     -- CMD`",
                    wanted.flag()
                )
            };
            let text = format!(
                "gate `{name}` has {slots}, set by {author}, not the requested {wanted}; {change}"
            );
            return Err((ErrorCode::Conflict, text));
        }
        self.check_durable(definition, pending)?;
        if let Some(wanted) =
            pending.request.durable.policy.filter(|wanted| *wanted != definition.policy)
        {
            let text = format!(
                "gate `{name}` has policy {}, not the requested {}: omit the policy, or change it \
                 with `kgate set {name} --policy`",
                policy_name(definition.policy),
                policy_name(wanted)
            );
            return Err((ErrorCode::Conflict, text));
        }
        let gate = self.gates.get(&definition.id).expect("a known gate is open");
        let most = gate.widest();
        if pending.request.weight == 0 || pending.request.weight > most {
            let weight = pending.request.weight;
            let advice = if most == *k && weight > 0 {
                format!(": `kgate set {name} -k {weight}` changes k")
            } else {
                String::new()
            };
            let text = format!(
                "gate `{name}` (k = {k}, by {}) gives 1 to {most} permits at once, not \
                 {weight}{advice}",
                definition.protocol
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

    /// Checks whether the permit can be durable, if the gate or the request wants it so.
    fn check_durable(
        &self,
        definition: &Definition,
        PendingAcquire { request, process, .. }: &PendingAcquire,
    ) -> Result<(), Refusal> {
        let durable = &request.durable;
        let outlives = definition.policy == Policy::Hold || durable.ttl.is_some();
        let wants_hold = durable.policy == Some(Policy::Hold);
        if (outlives || wants_hold) && !self.failures.has_leases() {
            let text = "a durable permit needs the agreed log: a cluster with `faults = \"lease\"`";
            return Err((ErrorCode::BadRequest, text.into()));
        }
        if outlives && durable.secret == Secret::NONE {
            let name = &definition.name;
            let text = format!(
                "permits of gate `{name}` are durable, and their holders need a token: use \
                 `kgate acquire` or POST /v1/gates/{name}/permits"
            );
            return Err((ErrorCode::BadRequest, text));
        }
        if outlives && !process.note.is_empty() {
            let text = "a durable permit carries no reason and no meta: leave them out";
            return Err((ErrorCode::BadRequest, text.into()));
        }
        if durable.ttl.is_some_and(|ttl| ttl < SHORTEST_TTL || ttl > LONGEST_TTL) {
            return Err((
                ErrorCode::BadRequest,
                "a time to live is between one second and one year".into(),
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
                "gate `{name}` does not exist, and clients may not create gates in this cluster; \
                 its gates: {}",
                known.join(", ")
            );
            return Err((ErrorCode::GateNotFound, text));
        };
        let slots = pending.request.new_slots();
        self.check_names_in_all(name, &slots)?;
        let plan = self.plan(GateId(0), name, slots);
        plan.check_with(entry, self.settings.nodes).map_err(invalid)
    }

    /// Checks that the names of a gate fit beside those of all others, as the log does.
    pub(super) fn check_names_in_all(&self, name: &str, slots: &Slots) -> Result<(), Refusal> {
        let others = self.catalogue.all().filter(|gate| gate.name != name);
        let others: usize = others.map(|gate| gate.source.names().len()).sum();
        let names = slots.source.names().len();
        if names > 0 && others + names > bounds::NAMES_IN_ALL {
            return Err((ErrorCode::LimitExceeded, Limit::Names.to_string()));
        }
        Ok(())
    }

    /// Creates a gate, unless it is being created.
    fn create_gate(&mut self, name: &str, slots: Slots, author: String) {
        if self.catalogue.want(name, slots, author) {
            let process = Arc::default();
            self.at_gate(CATALOGUE, |gate| gate.acquire(CATALOGUE_REQUEST, 1, process, None))
                .expect("the catalogue's gate is open")
                .expect("its k is 1");
        }
    }

    pub(super) fn plan(&self, id: GateId, name: &str, Slots { k, source }: Slots) -> Definition {
        Definition {
            id,
            name: name.to_owned(),
            k,
            source,
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
    pub(super) fn place_all(&mut self, name: &str) {
        let (placed, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending: &PendingAcquire| pending.request.gate == name);
        self.pending = rest;
        let placed: Vec<PendingAcquire> = placed;
        placed.into_iter().for_each(|pending| self.place(pending));
    }

    pub(super) fn on_granted(
        &mut self,
        id: GateId,
        key: RequestKey,
        slots: Vec<u32>,
        fence: Option<Fence>,
    ) {
        if key == CATALOGUE_REQUEST {
            return self.create_next();
        }
        self.mark_dirty();
        self.timers.disarm(&Deadline::Patience(key));
        let stream = self.sessions.stream(key);
        let session = self.sessions.get_mut(key.session).expect("a session outlives its requests");
        session.requests.get_mut(&key.number).expect("it waits").state = RequestState::Holding;
        self.entered(key.session);
        let session = self.sessions.get(key.session).expect("a session outlives its requests");
        let reentry_key = session.reentry_key(key.session, key.number);
        let definition = &self.gates[&id].definition;
        let slot_names = definition.source.names_of(&slots);
        let granted = ServerMessage::Granted {
            number: key.number,
            gate: definition.name.clone(),
            slots,
            fence,
            k: definition.k,
            slot_names,
            durable: None,
            lock_files: Vec::new(),
            reentry_key,
        };
        self.actions.extend(stream.map(|client| Action::Reply(client, granted)));
    }

    pub(super) fn forget(&mut self, key: RequestKey) -> Option<(Option<ClientId>, Request)> {
        self.mark_dirty();
        self.timers.disarm(&Deadline::Patience(key));
        self.timers.disarm(&Deadline::Reclaim(key));
        let session = self.sessions.get_mut(key.session)?;
        Some((session.client, session.requests.remove(&key.number)?))
    }

    pub(super) fn refuse(&mut self, key: RequestKey, code: ErrorCode, message: String) {
        if let Some((Some(client), _)) = self.forget(key) {
            self.reply(client, ServerMessage::Refused { number: key.number, code, message });
        }
    }

    /// Tells the client that its permit is lost. Its slots stay taken until the client releases
    /// them, or has certainly stopped.
    pub(super) fn announce_loss(&mut self, key: RequestKey, text: String) {
        let Some(session) = self.sessions.get_mut(key.session) else { return };
        let Some(request) = session.requests.get_mut(&key.number) else { return };
        request.state = RequestState::Losing;
        let lost = ServerMessage::Lost { number: key.number, message: text };
        self.actions.extend(session.client.map(|client| Action::Reply(client, lost)));
    }

    pub(super) fn lose(&mut self, key: RequestKey, text: String) {
        if let Some((Some(client), _)) = self.forget(key) {
            self.reply(client, ServerMessage::Lost { number: key.number, message: text });
        }
    }

    /// Withdraws a request. Returns whether it waited.
    pub(super) fn withdraw(&mut self, key: RequestKey) -> bool {
        let request =
            self.sessions.get(key.session).and_then(|session| session.requests.get(&key.number));
        let Some(Request { gate, state: RequestState::Waiting }) = request.copied() else {
            return false;
        };
        match gate {
            Some(id) => {
                self.at_gate(id, |gate| gate.withdraw(key));
            }
            None => self.pending.retain(|pending| pending.key != key),
        }
        self.forget(key);
        true
    }

    /// Withdraws all waiting requests of a session.
    fn withdraw_all(&mut self, session: SessionId) {
        let requests = self.sessions.get(session).into_iter().flat_map(|session| &session.requests);
        let waiting = requests.filter(|(_, request)| request.state == RequestState::Waiting);
        let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        for number in waiting {
            self.withdraw(RequestKey { session, number });
        }
    }

    pub(super) fn release(&mut self, key: RequestKey) {
        let request =
            self.sessions.get(key.session).and_then(|session| session.requests.get(&key.number));
        let Some(Request { gate: Some(id), state }) = request.copied() else { return };
        if state != RequestState::Waiting {
            self.at_gate(id, |gate| gate.release(key));
            self.forget(key);
        }
    }

    /// The client of a permit has certainly stopped, by the clock and not by its own word (rule
    /// S4). A protocol that follows the log learns of it behind a barrier (rule H13).
    pub(super) fn lapse(&mut self, key: RequestKey) {
        let gate = self.gate_of(key);
        let follows = gate.and_then(|id| self.gates.get(&id)).is_some_and(super::Gate::follows_log);
        match gate.filter(|_| follows) {
            Some(id) => {
                self.forget(key);
                self.lapse_behind_barrier(id, key);
            }
            None => self.release(key),
        }
    }

    /// Whether a request that was not granted at once cannot be granted soon: no other node is
    /// asked, and no holder is being found to have ended.
    fn is_surely_busy(&self, id: GateId) -> bool {
        let connected = |key: RequestKey| self.sessions.stream(key).is_some();
        self.is_alone() && self.gates.get(&id).is_some_and(|gate| gate.all_holders(connected))
    }

    /// A request without waiting has had as much time as a free gate needs to grant it.
    pub(super) fn no_wait_expired(&mut self, key: RequestKey) {
        let stream = self.sessions.stream(key);
        if self.withdraw(key) {
            let (code, message) = match self.missing_lease() {
                None if self.is_alone() => {
                    let text = "not enough slots are free: `kgate explain` shows who holds them";
                    (ErrorCode::Busy, text.to_owned())
                }
                None => {
                    let text = "not enough slots are free, or a node does not answer: `kgate \
                                explain` shows which";
                    (ErrorCode::Busy, text.to_owned())
                }
                Some(text) => (ErrorCode::NoQuorum, text),
            };
            let refused = ServerMessage::Refused { number: key.number, code, message };
            self.actions.extend(stream.map(|client| Action::Reply(client, refused)));
        }
    }

    /// The stream of a client ended. Its waiting requests are withdrawn. Its permits stay until the
    /// session expires or is resumed (rule S4).
    pub(super) fn on_client_gone(&mut self, client: ClientId) {
        let Some(id) = self.sessions.cut(client) else { return };
        self.mark_dirty();
        self.withdraw_all(id);
        if self.sessions.get(id).is_some_and(|session| session.requests.is_empty()) {
            self.sessions.close(id);
        } else if self.sessions.terms().valid_for.is_none() {
            self.probe(id);
        }
    }

    /// A session ended: withdraws its waiting requests, and its permits end as the caller says: by
    /// [`Core::release`] if the client has said that it has stopped, else by [`Core::lapse`].
    pub(super) fn end_session(&mut self, id: SessionId, end: fn(&mut Self, RequestKey)) {
        let Some(session) = self.sessions.get(id) else { return };
        let requests: Vec<(u64, RequestState)> =
            session.requests.iter().map(|(number, request)| (*number, request.state)).collect();
        let client = session.client;
        for (number, state) in requests {
            let key = RequestKey { session: id, number };
            match state {
                RequestState::Waiting => drop(self.withdraw(key)),
                RequestState::Holding | RequestState::Losing => end(self, key),
            }
        }
        self.sessions.close(id);
        if let Some(client) = client {
            self.close(client, ErrorCode::SessionNotFound, "the session has ended");
        }
    }

    /// This node is excluded from the cluster: notifies all its clients.
    pub(super) fn stop_all(&mut self, reason: StopReason) {
        let text = reason.to_string();
        for (session, client, requests) in self.sessions.all() {
            for (number, state) in requests {
                let key = RequestKey { session, number };
                match state {
                    RequestState::Holding | RequestState::Losing => self.lose(key, text.clone()),
                    RequestState::Waiting => self.refuse(key, ErrorCode::NodeGone, text.clone()),
                }
            }
            if let Some(client) = client {
                self.close(client, ErrorCode::NodeGone, text.clone());
            }
        }
        self.stopped = true;
        self.actions.push(Action::Stop(reason));
    }

    fn close(&mut self, client: ClientId, code: ErrorCode, message: impl Into<String>) {
        self.reply(client, ServerMessage::Closed { code, message: message.into() });
    }
}

/// The request of this node itself for the permit of the catalogue.
pub(super) const CATALOGUE_REQUEST: RequestKey = RequestKey { session: SessionId(0), number: 0 };
