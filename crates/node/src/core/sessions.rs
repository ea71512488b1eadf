//! Sessions of clients, and how long they are valid (rules S1, S4 and S5 of the leases).
//!
//! A session outlives its stream. Its permits are released when the client ends the session, or
//! when the validity that the client was last told has passed, plus a margin for clocks that run at
//! other rates. The end of a stream releases nothing: a killed wrapper may leave a child.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kgate_core::{Span, Time};
use serde::{Deserialize, Serialize};

use super::peer_message::GateId;
use super::reentry::ReentryKey;
use super::view::Process;
use super::{ClientId, RequestKey, Secret, SessionId};

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    /// The hash of its secret; none if the session cannot be resumed.
    secret: Option<[u8; 32]>,
    /// Its stream, while it has one.
    pub(super) client: Option<ClientId>,
    pub(super) process: Arc<Process>,
    /// When the session expires, unless it is renewed. Never, where permits are bound to processes
    /// instead of time.
    pub(super) until: Time,
    /// Its requests, by the client's own numbers.
    pub(super) requests: BTreeMap<u64, Request>,
    /// Whether this node ends its processes.
    pub(super) guarded: Guarded,
    /// The latest instant until which the client may count the session as valid; none, where
    /// permits are bound to processes.
    promised: Option<Time>,
    /// A request was granted, and the client has not released it.
    entered: bool,
    /// It has expired while its processes were being ended.
    overdue: bool,
}

impl Session {
    fn new(secret: Option<[u8; 32]>, client: Option<ClientId>, process: Arc<Process>) -> Self {
        Self {
            secret,
            client,
            process,
            until: Time::NEVER,
            requests: BTreeMap::new(),
            guarded: Guarded::No,
            promised: None,
            entered: false,
            overdue: false,
        }
    }

    /// Whether its processes outlived it: it cannot be renewed.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.guarded, Guarded::Ending(_) | Guarded::Ended(_))
    }

    /// When its processes must be ended, if they are guarded and still may run.
    fn end_tree_at(&self, kill: Span) -> Option<Time> {
        let runs = self.entered && matches!(self.guarded, Guarded::Yes(_));
        self.promised.filter(|_| runs).map(|until| Time(until.0.saturating_sub(kill.0)))
    }
}

/// Whether this node ends the processes of a session ([`guarded`](super::guarded)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guarded {
    /// Its processes are not known here.
    No,
    /// The shell has handles of the processes of this stream.
    Yes(ClientId),
    /// They are being ended.
    Ending(ClientId),
    /// None is left.
    Ended(ClientId),
}

impl Guarded {
    /// The stream whose processes the shell knows.
    pub(super) fn tree(self) -> Option<ClientId> {
        match self {
            Self::No => None,
            Self::Yes(tree) | Self::Ending(tree) | Self::Ended(tree) => Some(tree),
        }
    }
}

impl Session {
    /// The key that proves one of its permits; none if the session has no secret.
    pub(super) fn reentry_key(&self, own: SessionId, number: u64) -> Option<ReentryKey> {
        self.secret.map(|hashed| ReentryKey::new(own, number, hashed))
    }
}

/// One request of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Its gate; none while the gate is being created.
    pub(super) gate: Option<GateId>,
    pub(super) state: RequestState,
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    Waiting,
    Holding,
    /// The client was told that its permit is lost, and has not released it.
    Losing,
}

/// How long a session is valid.
#[derive(Clone, Copy, Debug)]
pub struct SessionTerms {
    /// The validity that a client is told, counted from when it sent its request. None: permits are
    /// bound to processes, not to time.
    pub valid_for: Option<Span>,
    /// The greatest error of a clock's rate, in parts per thousand.
    pub clock_error: u32,
    /// K: the time from SIGKILL until a process is certainly gone.
    pub kill: Span,
}

impl SessionTerms {
    /// When a client that was answered at `now` has certainly stopped.
    fn until(self, now: Time) -> Time {
        if self.valid_for.is_none() { Time::NEVER } else { now + self.over_after() }
    }

    /// How long after its last answer a client has certainly stopped, whatever the rates of its
    /// clock and of this one. Zero, where permits are bound to processes.
    pub fn over_after(self) -> Span {
        let Some(span) = self.valid_for else { return Span::ZERO };
        let (more, less) = (u64::from(1000 + self.clock_error), u64::from(1000 - self.clock_error));
        let stretched = u128::from(span.0) * u128::from(more) / u128::from(less);
        Span(u64::try_from(stretched).unwrap_or(u64::MAX).saturating_add(50_000_000))
    }
}

/// A session, its stream, and the states of its requests.
pub(super) type Summary = (SessionId, Option<ClientId>, Vec<(u64, RequestState)>);

/// A session at a clean stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SuspendedSession {
    pub(super) id: u64,
    /// The hash: the secret itself is not stored.
    secret: [u8; 32],
    process: Process,
    until: Time,
    /// Its permits: the client's number, the gate, and whether the client was told of its loss.
    pub(super) requests: Vec<(u64, u32, bool)>,
}

/// All sessions of this node.
#[derive(Debug)]
pub(super) struct Sessions {
    terms: SessionTerms,
    sessions: BTreeMap<SessionId, Session>,
    streams: BTreeMap<ClientId, SessionId>,
    /// When each session expires.
    ends: BTreeSet<(Time, SessionId)>,
    opened: u64,
    /// The new streams whose clients have offered their processes.
    offered: BTreeSet<ClientId>,
    /// The streams whose processes no session needs any more.
    forgotten_trees: Vec<ClientId>,
}

impl Sessions {
    pub(super) fn new(terms: SessionTerms) -> Self {
        Self {
            terms,
            sessions: BTreeMap::new(),
            streams: BTreeMap::new(),
            ends: BTreeSet::new(),
            opened: 0,
            offered: BTreeSet::new(),
            forgotten_trees: Vec::new(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn terms(&self) -> SessionTerms {
        self.terms
    }

    /// Opens a session.
    pub(super) fn open(
        &mut self,
        now: Time,
        client: ClientId,
        secret: Secret,
        process: Process,
    ) -> SessionId {
        self.opened += 1;
        let id = SessionId(self.opened);
        let until = self.terms.until(now);
        let secret = (secret != Secret::NONE).then(|| secret.hashed());
        let session = Session { until, ..Session::new(secret, Some(client), process.into()) };
        self.sessions.insert(id, session);
        self.streams.insert(client, id);
        self.ends.insert((until, id));
        self.guard(id, client);
        id
    }

    /// Opens a session that cannot be resumed, for a holder from before this node started.
    pub(super) fn open_detached(&mut self, process: Arc<Process>) -> SessionId {
        self.opened += 1;
        let id = SessionId(self.opened);
        self.sessions.insert(id, Session::new(None, None, process));
        id
    }

    /// The sessions with permits, and how many sessions were ever opened.
    pub(super) fn suspend(&self) -> (u64, Vec<SuspendedSession>) {
        let suspended = self.sessions.iter().filter_map(|(id, session)| {
            let held = session
                .requests
                .iter()
                .filter(|(_, request)| request.state != RequestState::Waiting);
            let requests = held.filter_map(|(number, request)| {
                Some((*number, request.gate?.0, request.state == RequestState::Losing))
            });
            let requests: Vec<(u64, u32, bool)> = requests.collect();
            let Session { secret, process, until, .. } = session;
            let (secret, process) = ((*secret)?, Process::clone(process));
            Some(SuspendedSession { id: id.0, secret, process, until: *until, requests })
        });
        (self.opened, suspended.filter(|session| !session.requests.is_empty()).collect())
    }

    /// Restores the sessions of a clean stop, each without a stream.
    pub(super) fn restore(&mut self, opened: u64, suspended: Vec<SuspendedSession>) {
        self.opened = opened;
        for SuspendedSession { id, secret, process, until, requests } in suspended {
            let state =
                |loses: bool| if loses { RequestState::Losing } else { RequestState::Holding };
            let requests = requests.into_iter().map(|(number, gate, loses)| {
                (number, Request { gate: Some(GateId(gate)), state: state(loses) })
            });
            let session = Session {
                until,
                requests: requests.collect(),
                ..Session::new(Some(secret), None, process.into())
            };
            self.ends.insert((until, SessionId(id)));
            self.sessions.insert(SessionId(id), session);
        }
    }

    /// Adds a waiting request.
    pub(super) fn begin(&mut self, key: RequestKey, gate: GateId) {
        if let Some(session) = self.sessions.get_mut(&key.session) {
            session
                .requests
                .insert(key.number, Request { gate: Some(gate), state: RequestState::Waiting });
        }
    }

    /// Resumes a session on another stream. Returns false if there is no such session, or the
    /// secret is wrong.
    pub(super) fn resume(
        &mut self,
        now: Time,
        client: ClientId,
        id: SessionId,
        secret: Secret,
    ) -> bool {
        let shown = secret.hashed();
        let known = self.sessions.get_mut(&id);
        let is_open = |session: &&mut Session| session.secret == Some(shown) && !session.is_over();
        let Some(session) = known.filter(is_open) else { return false };
        if let Some(former) = session.client.replace(client) {
            self.streams.remove(&former);
        }
        self.streams.insert(client, id);
        self.renew(now, id);
        self.guard(id, client);
        true
    }

    /// The client of a stream that has no session yet has offered its processes.
    pub(super) fn offer_tree(&mut self, client: ClientId) {
        self.offered.insert(client);
    }

    /// Guards the processes of a stream, if its client has offered them. A client that resumes a
    /// session without an offer is another process: those that were offered before stay guarded.
    fn guard(&mut self, id: SessionId, client: ClientId) {
        if let Some(session) = self.sessions.get_mut(&id)
            && self.offered.remove(&client)
        {
            self.forgotten_trees.extend(session.guarded.tree());
            session.guarded = Guarded::Yes(client);
        }
    }

    /// The streams whose processes no session needs any more, each once.
    pub(super) fn take_forgotten_trees(&mut self) -> impl Iterator<Item = ClientId> + use<> {
        std::mem::take(&mut self.forgotten_trees).into_iter()
    }

    /// The client was told that the session is valid until then; for ever, if none. Returns when
    /// its processes must be ended, if that has changed.
    pub(super) fn promise(&mut self, id: SessionId, until: Option<Time>) -> Option<Time> {
        let kill = self.terms.kill;
        let session = self.sessions.get_mut(&id)?;
        if until <= session.promised {
            return None;
        }
        session.promised = until;
        session.end_tree_at(kill)
    }

    /// A request was granted. Returns when the processes of the session must be ended.
    pub(super) fn enter(&mut self, id: SessionId) -> Option<Time> {
        let kill = self.terms.kill;
        let session = self.sessions.get_mut(&id)?;
        session.entered = true;
        session.end_tree_at(kill)
    }

    /// The client has released a permit.
    pub(super) fn leave(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            let mut requests = session.requests.values();
            session.entered = requests.any(|request| request.state != RequestState::Waiting);
        }
    }

    /// Whether this node ends the processes of a session at its deadline.
    pub(super) fn is_guarded(&self, id: SessionId) -> bool {
        self.terms.valid_for.is_some()
            && self.sessions.get(&id).is_some_and(|session| session.guarded != Guarded::No)
    }

    /// The processes of the session must end now. Returns their stream, the first time.
    pub(super) fn end_tree(&mut self, id: SessionId) -> Option<ClientId> {
        let session = self.sessions.get_mut(&id).filter(|session| session.entered)?;
        let Guarded::Yes(tree) = session.guarded else { return None };
        session.guarded = Guarded::Ending(tree);
        Some(tree)
    }

    /// The session has expired; it stays until its processes are gone.
    pub(super) fn postpone(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            self.ends.remove(&(session.until, id));
            session.overdue = true;
        }
    }

    /// The processes of the session are gone. Returns whether it has expired before.
    pub(super) fn tree_ended(&mut self, id: SessionId) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        session.guarded = session.guarded.tree().map_or(Guarded::No, Guarded::Ended);
        session.overdue
    }

    /// Renews the validity of a session from now on.
    pub(super) fn renew(&mut self, now: Time, id: SessionId) {
        let until = self.terms.until(now);
        if let Some(session) = self.sessions.get_mut(&id) {
            self.ends.remove(&(session.until, id));
            session.until = until;
            self.ends.insert((until, id));
        }
    }

    pub(super) fn of(&self, client: ClientId) -> Option<SessionId> {
        self.streams.get(&client).copied()
    }

    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(&id)
    }

    /// The stream of a session ended.
    pub(super) fn cut(&mut self, client: ClientId) -> Option<SessionId> {
        if self.offered.remove(&client) {
            self.forgotten_trees.push(client);
        }
        let id = self.streams.remove(&client)?;
        self.sessions.get_mut(&id)?.client = None;
        Some(id)
    }

    /// Removes a session.
    pub(super) fn close(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        self.ends.remove(&(session.until, id));
        self.forgotten_trees.extend(session.guarded.tree());
        if let Some(client) = session.client {
            self.streams.remove(&client);
        }
        Some(session)
    }

    /// The sessions that have expired.
    pub(super) fn over(&self, now: Time) -> Vec<SessionId> {
        self.ends.iter().take_while(|(until, _)| *until <= now).map(|(_, id)| *id).collect()
    }

    /// When the next session expires.
    pub(super) fn next(&self) -> Option<Time> {
        self.ends.first().map(|(until, _)| *until).filter(|until| *until < Time::NEVER)
    }

    /// All sessions with their streams and requests.
    pub(super) fn all(&self) -> Vec<Summary> {
        let requests = |session: &Session| {
            session.requests.iter().map(|(number, request)| (*number, request.state)).collect()
        };
        self.sessions.iter().map(|(id, session)| (*id, session.client, requests(session))).collect()
    }

    /// The stream of a request's session, if it has one.
    pub(super) fn stream(&self, key: RequestKey) -> Option<ClientId> {
        self.sessions.get(&key.session)?.client
    }
}
