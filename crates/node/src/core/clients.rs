//! What clients ask, and what they are told.

use kgate_control::state::{PermitId, Policy};
use kgate_core::{Fence, Span, Time};

use super::catalogue::{CATALOGUE, Definition};
use super::peer_message::GateId;
use super::sessions::{Request, RequestState};
use super::timers::Due;
use super::view::Process;
use super::{Action, ClientId, Core, Outcome, RequestKey, Secret, SessionId};

/// What a client asks by its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The first word: who I am. With what I was told before, I go on with my session.
    Hello {
        /// The process that asks.
        process: Process,
        /// The session and its secret, to go on with it.
        resume: Option<(SessionId, Secret)>,
        /// The secret of a new session; drawn by whoever reads the stream, never by the client.
        secret: Secret,
    },
    /// I want permits.
    Acquire {
        /// The client's own number for this request.
        number: u64,
        /// Of which gate.
        gate: String,
        /// How many.
        weight: u32,
        /// What k must be; whatever it is, if none.
        permits: Option<u32>,
        /// Whether it waits, or wants it at once or not at all.
        waits: bool,
        /// For which process, if it is another than the one of `Hello`.
        process: Option<Process>,
        /// Whether it outlives its node.
        keep: Keep,
    },
    /// I hold that permit of the log, as its secret shows.
    Permit {
        /// The client's own number for this.
        number: u64,
        /// Which.
        permit: PermitId,
        /// Its secret.
        secret: Secret,
        /// What about it.
        word: PermitWord,
    },
    /// I do not want that any more.
    Withdraw {
        /// Which request.
        number: u64,
    },
    /// I give that back: whatever I did with it is over.
    Release {
        /// Which request.
        number: u64,
    },
    /// Am I still counted?
    Renew {
        /// Named in the answer.
        sequence: u64,
    },
    /// I want nothing more, and whatever I did is over.
    Bye,
}

/// Whether a permit outlives its node, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// What the gate's policy must be; whatever it is, if none.
    pub policy: Option<Policy>,
    /// The log holds it, and after so long without a renewal it may be taken back.
    pub ttl: Option<Span>,
    /// What its holder will show: hard to guess, and the same when it asks again elsewhere.
    pub secret: Secret,
}

/// What a holder says of a permit that the log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitWord {
    /// I live; and I want to hear if it is taken back.
    Renew,
    /// Whatever I did with it is over.
    Release,
}

/// A permit that the log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name, at all nodes.
    pub permit: PermitId,
    /// After so long without a renewal it may be taken back.
    pub ttl: Option<Span>,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tell {
    /// The answer to `Hello`.
    Welcome {
        /// The session.
        session: SessionId,
        /// Its secret.
        secret: Secret,
        /// How long its word counts from when it was asked; for ever, if none.
        valid_for: Option<Span>,
        /// The requests that it holds permits for: none in a new session.
        holds: Vec<u64>,
    },
    /// A permit.
    Granted {
        /// Which request.
        number: u64,
        /// Its slots, where they have numbers.
        slots: Vec<u32>,
        /// Its fence, where it has one.
        fence: Option<Fence>,
        /// k.
        permits: u32,
        /// If the log holds it: what it is called, and that no session keeps it.
        kept: Option<Kept>,
    },
    /// The answer to a renewal of a permit that the log holds.
    Kept {
        /// Which word.
        number: u64,
        /// The permit.
        kept: Kept,
    },
    /// No permit, and the request has ended.
    Refused {
        /// Which request.
        number: u64,
        /// What kind of reason.
        why: Why,
        /// The reason, for people.
        text: String,
    },
    /// The permit no longer counts: stop.
    Lost {
        /// Which request.
        number: u64,
        /// Why.
        text: String,
    },
    /// The answer to `Withdraw`: it waits no more.
    Withdrawn {
        /// Which request.
        number: u64,
    },
    /// The answer to `Release`.
    Released {
        /// Which request.
        number: u64,
        /// Of what the log holds: it was not held any more.
        was_gone: bool,
    },
    /// The answer to `Renew`.
    Renewed {
        /// Which.
        sequence: u64,
        /// How long the session's word counts from when it was asked; for ever, if none.
        valid_for: Option<Span>,
    },
    /// The stream ends here, for a reason.
    Closed {
        /// What kind of reason.
        why: Why,
        /// The reason, for people.
        text: String,
    },
}

/// Kinds of reasons, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It cannot be understood, or makes no sense.
    BadRequest,
    /// Somebody else has it, and the client did not want to wait.
    Busy,
    /// The gate has another k.
    Conflict,
    /// More permits at once than there are.
    TooLarge,
    /// Too many wait, or too many sessions.
    Full,
    /// There is no such gate, and none can be made.
    NoGate,
    /// This node takes part no more.
    NoNode,
    /// There is no such session any more.
    NoSession,
    /// It may not.
    Forbidden,
    /// Too few voters answer: nothing can be granted here.
    NoQuorum,
}

/// A request for a gate that is being made.
#[derive(Debug)]
pub(super) struct Unplaced {
    pub(super) key: RequestKey,
    pub(super) gate: String,
    weight: u32,
    pub(super) permits: Option<u32>,
    waits: bool,
    pub(super) process: Process,
    pub(super) keep: Keep,
}

type Refusal = (Why, String);

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
    /// A client says something.
    pub fn client(&mut self, now: Time, client: ClientId, ask: Ask, actions: &mut Vec<Action>) {
        self.heed_lease(now, actions);
        self.on_ask(now, client, ask, actions);
        self.note_changes(now);
    }

    fn on_ask(&mut self, now: Time, client: ClientId, ask: Ask, actions: &mut Vec<Action>) {
        if self.stopped {
            return close(client, Why::NoNode, "this node has stopped".into(), actions);
        }
        let session = match (ask, self.sessions.of(client)) {
            (Ask::Hello { process, resume, secret }, None) => {
                return self.hello(now, client, process.cut(), resume, secret, actions);
            }
            (Ask::Hello { .. }, Some(_)) => {
                return close(
                    client,
                    Why::BadRequest,
                    "a stream begins with one Hello".into(),
                    actions,
                );
            }
            (_, None) => {
                return close(
                    client,
                    Why::BadRequest,
                    "a stream begins with Hello".into(),
                    actions,
                );
            }
            (ask, Some(session)) => (ask, session),
        };
        match session {
            (Ask::Permit { number, permit, secret, word }, session) => {
                let key = RequestKey { session, number };
                self.permit_asked(client, key, (permit, secret, word), actions);
            }
            (Ask::Acquire { number, gate, weight, permits, waits, process, keep }, session) => {
                let key = RequestKey { session, number };
                let known = self.sessions.get(session).expect("it has a stream");
                if known.requests.contains_key(&number) {
                    let text =
                        format!("request {number} is under way: each has a number of its own");
                    return close(client, Why::BadRequest, text, actions);
                }
                let process = process.map_or_else(|| known.process.clone(), Process::cut);
                let wish = Unplaced { key, gate, weight, permits, waits, process, keep };
                let request = Request { gate: None, state: RequestState::Waits };
                self.sessions.get_mut(session).expect("just seen").requests.insert(number, request);
                self.place(now, wish, actions);
            }
            (Ask::Withdraw { number }, session) => {
                let key = RequestKey { session, number };
                if self.withdraw(now, key, actions) {
                    actions.push(Action::Tell(client, Tell::Withdrawn { number }));
                }
            }
            (Ask::Release { number }, session) => {
                self.release(now, RequestKey { session, number }, actions);
                actions.push(Action::Tell(client, Tell::Released { number, was_gone: false }));
            }
            (Ask::Renew { sequence }, session) => {
                self.sessions.renew(now, session);
                let valid_for = self.valid_for(now);
                actions.push(Action::Tell(client, Tell::Renewed { sequence, valid_for }));
            }
            (Ask::Bye, session) => self.end_session(now, session, actions),
            (Ask::Hello { .. }, _) => unreachable!("answered above"),
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
                return close(client, Why::NoSession, text, actions);
            }
            None if self.sessions.count() >= self.settings.sessions_max => {
                let text =
                    format!("this node has {} sessions, its most", self.settings.sessions_max);
                return close(client, Why::Full, text, actions);
            }
            None => (self.sessions.open(now, client, secret, process), secret),
        };
        let valid_for = self.valid_for(now);
        let requests = &self.sessions.get(session).expect("just opened").requests;
        let held = requests.iter().filter(|(_, request)| request.state == RequestState::Holds);
        let holds = held.map(|(number, _)| *number).collect();
        actions.push(Action::Tell(client, Tell::Welcome { session, secret, valid_for, holds }));
    }

    /// A request finds its gate, or has it made.
    pub(super) fn place(&mut self, now: Time, wish: Unplaced, actions: &mut Vec<Action>) {
        let key = wish.key;
        if let Some(text) = self.no_quorum(now) {
            return self.refuse(key, Why::NoQuorum, text, actions);
        }
        let agreed = self.control.is_some();
        let found = match self.catalogue.get(&wish.gate) {
            Some(definition) if agreed && wish.permits.is_some_and(|k| k != definition.permits) => {
                return self.ask_log(wish, actions);
            }
            Some(definition) => self.accepts(definition, &wish).map(|()| definition.id),
            // A gate of the configuration that the log does not know yet is being made.
            None if agreed && self.settings.fixed.iter().any(|fixed| fixed.name == wish.gate) => {
                return self.unplaced.push(wish);
            }
            None => match self.can_make(&wish) {
                Ok(()) if agreed => return self.ask_log(wish, actions),
                Ok(()) => {
                    let (name, permits) = (wish.gate.clone(), wish.permits.unwrap_or(1));
                    // First, since a node alone makes it at once.
                    self.unplaced.push(wish);
                    return self.make_gate(now, &name, permits, actions);
                }
                Err(refusal) => Err(refusal),
            },
        };
        let taken = found.and_then(|id| {
            let Unplaced { weight, process, waits, keep, .. } = wish;
            self.set_gate(key, id);
            let hold = self.hold_of(id, keep);

            if !waits {
                let patience = self.settings.patience;
                self.timers.arm(now, Due::Patience(key), patience, patience);
            }
            let ask = |gate: &mut super::Gate, out: &mut Vec<Outcome>| {
                gate.acquire(now, key, weight, (process, hold), out)
            };
            let taken = self.at_gate(now, id, actions, ask).expect("what is known is there");
            if hold.is_some() {
                self.attach_all(id, actions);
                self.seek_later(now);
            }
            taken.map_err(|refusal| (Why::BadRequest, refusal.to_string()))
        });
        if let Err((why, text)) = taken {
            self.refuse(key, why, text, actions);
        }
    }

    fn set_gate(&mut self, key: RequestKey, gate: GateId) {
        self.touch();
        let session = self.sessions.get_mut(key.session).expect("its request is under way");
        session.requests.get_mut(&key.number).expect("it is under way").gate = Some(gate);
    }

    fn accepts(&self, definition: &Definition, wish: &Unplaced) -> Result<(), Refusal> {
        if let Some(text) = self.conflicts.get(&definition.id) {
            return Err((Why::Conflict, text.clone()));
        }
        let Definition { name, permits, author, .. } = definition;
        if let Some(wanted) = wish.permits.filter(|wanted| wanted != permits) {
            let text = format!(
                "gate `{name}` has k = {permits}, set by {author}, and you say k = {wanted}"
            );
            return Err((Why::Conflict, text));
        }
        if let Some(wanted) = wish.keep.policy.filter(|wanted| *wanted != definition.policy) {
            let text = format!(
                "gate `{name}` has policy {}, and you say {}: leave it out, or `kgate set {name} --policy`",
                policy_name(definition.policy),
                policy_name(wanted)
            );
            return Err((Why::Conflict, text));
        }
        let outlives = definition.policy == Policy::Hold || wish.keep.ttl.is_some();
        if outlives && self.control.is_none() {
            let text = "a permit that outlives its node needs the agreed log: a cluster with `faults = \"leases\"`";
            return Err((Why::BadRequest, text.into()));
        }
        if outlives && wish.keep.secret == Secret::NONE {
            let text = format!(
                "a permit of gate `{name}` outlives its session, so its holder needs a secret to show: ask by `kgate acquire`, or by POST /v1/gates/{name}/permits"
            );
            return Err((Why::BadRequest, text));
        }
        if wish.keep.ttl.is_some_and(|ttl| ttl < SHORTEST_TTL || ttl > LONGEST_TTL) {
            return Err((Why::BadRequest, "a time to live is between a second and a year".into()));
        }
        if *permits == 0 {
            return Err((Why::TooLarge, closed(name, author)));
        }
        let gate = self.gates.get(&definition.id).expect("what is known is there");
        let most = gate.widest();
        if wish.weight == 0 || wish.weight > most {
            let text = format!(
                "gate `{name}` (k = {permits}, by {}) gives 1 to {most} permits at once, not {}",
                definition.protocol, wish.weight
            );
            return Err((Why::TooLarge, text));
        }
        let waiters = gate.waiters();
        if waiters >= self.settings.queue_max {
            return Err((
                Why::Full,
                format!("{waiters} wait at gate `{name}` of this node already, its most"),
            ));
        }
        Ok(())
    }

    /// Whether the log is to hold what a client wants.
    fn hold_of(&self, id: GateId, keep: Keep) -> Option<super::Hold> {
        let holds = self.gates.get(&id).is_some_and(|gate| gate.definition.policy == Policy::Hold);
        (holds || keep.ttl.is_some())
            .then(|| super::Hold { secret: keep.secret.hashed(), ttl: keep.ttl })
    }

    /// Whether a gate can be made as somebody wants it.
    fn can_make(&self, wish: &Unplaced) -> Result<(), Refusal> {
        let name = &wish.gate;
        Definition::check_name(name).map_err(|text| (Why::BadRequest, text))?;
        let Some(entry) = self.settings.new_gates else {
            let known: Vec<&str> = self.catalogue.all().map(|gate| gate.name.as_str()).collect();
            let text = format!(
                "there is no gate `{name}`, and this cluster has those of its configuration only: {}",
                known.join(", ")
            );
            return Err((Why::NoGate, text));
        };
        let plan = self.plan(GateId(0), name, wish.permits.unwrap_or(1));
        super::check(&plan, entry, self.settings.nodes).map_err(|text| (Why::BadRequest, text))
    }

    /// Sees to it that a gate is made.
    fn make_gate(&mut self, now: Time, name: &str, permits: u32, actions: &mut Vec<Action>) {
        if self.catalogue.want(name, permits) {
            let ask = |gate: &mut super::Gate, out: &mut Vec<Outcome>| {
                gate.acquire(now, OURS, 1, (Process::default(), None), out)
            };
            self.at_gate(now, CATALOGUE, actions, ask)
                .expect("it is there")
                .expect("it asks for one");
        }
    }

    pub(super) fn plan(&self, id: GateId, name: &str, permits: u32) -> Definition {
        Definition {
            id,
            name: name.to_owned(),
            permits,
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
        let (placed, rest) = std::mem::take(&mut self.unplaced)
            .into_iter()
            .partition(|wish: &Unplaced| wish.gate == name);
        self.unplaced = rest;
        let placed: Vec<Unplaced> = placed;
        placed.into_iter().for_each(|wish| self.place(now, wish, actions));
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
        if key == OURS {
            return self.make_next(now, actions);
        }
        self.touch();
        self.timers.disarm(&Due::Patience(key));
        let stream = self.sessions.stream(key);
        let session =
            self.sessions.get_mut(key.session).expect("it waits as long as its session is");
        session.requests.get_mut(&key.number).expect("it waits").state = RequestState::Holds;
        let permits = self.gates[&id].definition.permits;
        let number = key.number;
        actions.extend(stream.map(|client| {
            Action::Tell(client, Tell::Granted { number, slots, fence, permits, kept: None })
        }));
    }

    pub(super) fn forget(&mut self, key: RequestKey) -> Option<(Option<ClientId>, Request)> {
        self.touch();
        self.timers.disarm(&Due::Patience(key));
        self.timers.disarm(&Due::Reclaim(key));
        let session = self.sessions.get_mut(key.session)?;
        Some((session.client, session.requests.remove(&key.number)?))
    }

    pub(super) fn refuse(
        &mut self,
        key: RequestKey,
        why: Why,
        text: String,
        actions: &mut Vec<Action>,
    ) {
        if let Some((Some(client), _)) = self.forget(key) {
            actions.push(Action::Tell(client, Tell::Refused { number: key.number, why, text }));
        }
    }

    /// It is told that its permit no longer counts; its slots stay taken until it says that all is
    /// over, or that is sure.
    pub(super) fn tell_lost(&mut self, key: RequestKey, text: String, actions: &mut Vec<Action>) {
        let Some(session) = self.sessions.get_mut(key.session) else { return };
        let Some(request) = session.requests.get_mut(&key.number) else { return };
        request.state = RequestState::Loses;
        let lost = Tell::Lost { number: key.number, text };
        actions.extend(session.client.map(|client| Action::Tell(client, lost)));
    }

    pub(super) fn lose(&mut self, key: RequestKey, text: String, actions: &mut Vec<Action>) {
        if let Some((Some(client), _)) = self.forget(key) {
            actions.push(Action::Tell(client, Tell::Lost { number: key.number, text }));
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
        let Some(Request { gate, state: RequestState::Waits }) = request.copied() else {
            return false;
        };
        match gate {
            Some(id) => {
                self.at_gate(now, id, actions, |gate, out| gate.withdraw(now, key, out));
            }
            None => self.unplaced.retain(|wish| wish.key != key),
        }
        self.forget(key);
        true
    }

    /// Takes back whatever a session waits for.
    fn withdraw_all(&mut self, now: Time, session: SessionId, actions: &mut Vec<Action>) {
        let requests = self.sessions.get(session).into_iter().flat_map(|session| &session.requests);
        let waiting = requests.filter(|(_, request)| request.state == RequestState::Waits);
        let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        for number in waiting {
            self.withdraw(now, RequestKey { session, number }, actions);
        }
    }

    pub(super) fn release(&mut self, now: Time, key: RequestKey, actions: &mut Vec<Action>) {
        let request =
            self.sessions.get(key.session).and_then(|session| session.requests.get(&key.number));
        let Some(Request { gate: Some(id), state }) = request.copied() else { return };
        if state != RequestState::Waits {
            self.at_gate(now, id, actions, |gate, out| gate.release(now, key, out));
            self.forget(key);
        }
    }

    /// Somebody who does not want to wait has waited as long as a free gate would need.
    pub(super) fn out_of_patience(
        &mut self,
        now: Time,
        key: RequestKey,
        actions: &mut Vec<Action>,
    ) {
        let stream = self.sessions.stream(key);
        if self.withdraw(now, key, actions) {
            let (why, text) = match self.without_lease(now) {
                None => (
                    Why::Busy,
                    "all permits are in use, or some node does not answer: `kgate explain` says more".into(),
                ),
                Some(text) => (Why::NoQuorum, text),
            };
            let refused = Tell::Refused { number: key.number, why, text };
            actions.extend(stream.map(|client| Action::Tell(client, refused)));
        }
    }

    /// A client's stream has ended. What it waits for is taken back; what it holds stays, until its
    /// time has passed or it comes back.
    pub fn client_gone(&mut self, now: Time, client: ClientId, actions: &mut Vec<Action>) {
        self.heed_lease(now, actions);
        let Some(id) = self.sessions.cut(client) else { return };
        self.touch();
        self.withdraw_all(now, id, actions);
        if self.sessions.get(id).is_some_and(|session| session.requests.is_empty()) {
            self.sessions.close(id);
        } else if self.sessions.terms().valid_for.is_none() {
            self.probe(id, actions);
        }
        self.note_changes(now);
    }

    /// A session is over: all that it waits for or holds is freed.
    pub fn end_session(&mut self, now: Time, id: SessionId, actions: &mut Vec<Action>) {
        let Some(session) = self.sessions.get(id) else { return };
        let requests: Vec<(u64, RequestState)> =
            session.requests.iter().map(|(number, request)| (*number, request.state)).collect();
        let client = session.client;
        for (number, state) in requests {
            let key = RequestKey { session: id, number };
            match state {
                RequestState::Waits => drop(self.withdraw(now, key, actions)),
                RequestState::Holds | RequestState::Loses => self.release(now, key, actions),
            }
        }
        self.sessions.close(id);
        if let Some(client) = client {
            close(client, Why::NoSession, "the session is over".into(), actions);
        }
    }

    /// This node takes part no more: everybody is told so.
    pub(super) fn stop_all(&mut self, why: &str, actions: &mut Vec<Action>) {
        for (session, client, requests) in self.sessions.all() {
            for (number, state) in requests {
                let key = RequestKey { session, number };
                match state {
                    RequestState::Holds | RequestState::Loses => {
                        self.lose(key, why.to_owned(), actions)
                    }
                    RequestState::Waits => self.refuse(key, Why::NoNode, why.to_owned(), actions),
                }
            }
            if let Some(client) = client {
                close(client, Why::NoNode, why.to_owned(), actions);
            }
        }
        self.stopped = true;
        actions.push(Action::Stop(why.to_owned()));
    }
}

/// The request of this node itself, for the catalogue.
pub(super) const OURS: RequestKey = RequestKey { session: SessionId(0), number: 0 };

fn close(client: ClientId, why: Why, text: String, actions: &mut Vec<Action>) {
    actions.push(Action::Tell(client, Tell::Closed { why, text }));
}
