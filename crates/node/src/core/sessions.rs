//! Sessions of clients, and how long they are valid (rules S1, S4 and S5 of the leases).
//!
//! A session outlives its stream. Its permits are released when the client ends the session, or
//! when the validity that the client was last told has passed, plus a margin for clocks that run at
//! other rates. The end of a stream releases nothing: a killed wrapper may leave a child.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{Span, Time};
use serde::{Deserialize, Serialize};

use super::peer_message::GateId;
use super::view::Process;
use super::{ClientId, RequestKey, Secret, SessionId};

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    /// The hash of its secret; none if the session cannot be resumed.
    secret: Option<[u8; 32]>,
    /// Its stream, while it has one.
    pub(super) client: Option<ClientId>,
    pub(super) process: Process,
    /// When the session expires, unless it is renewed. Never, where permits are bound to processes
    /// instead of time.
    pub(super) until: Time,
    /// Its requests, by the client's own numbers.
    pub(super) requests: BTreeMap<u64, Request>,
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
}

impl SessionTerms {
    /// When a client that was answered at `now` has surely stopped.
    fn until(self, now: Time) -> Time {
        if self.valid_for.is_none() { Time::NEVER } else { now + self.over_after() }
    }

    /// How long after its last answer a client has surely stopped, whatever the rates of its clock
    /// and of this one. Zero, where permits are bound to processes.
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
}

impl Sessions {
    pub(super) fn new(terms: SessionTerms) -> Self {
        Self {
            terms,
            sessions: BTreeMap::new(),
            streams: BTreeMap::new(),
            ends: BTreeSet::new(),
            opened: 0,
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
        let session =
            Session { secret, client: Some(client), process, until, requests: BTreeMap::new() };
        self.sessions.insert(id, session);
        self.streams.insert(client, id);
        self.ends.insert((until, id));
        id
    }

    /// Opens a session that cannot be resumed, for a holder from before this node started.
    pub(super) fn open_detached(&mut self, process: Process) -> SessionId {
        self.opened += 1;
        let id = SessionId(self.opened);
        let session = Session {
            secret: None,
            client: None,
            process,
            until: Time::NEVER,
            requests: BTreeMap::new(),
        };
        self.sessions.insert(id, session);
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
            let (secret, process) = ((*secret)?, process.clone());
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
                secret: Some(secret),
                client: None,
                process,
                until,
                requests: requests.collect(),
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
        let Some(session) = known.filter(|session| session.secret == Some(shown)) else {
            return false;
        };
        if let Some(former) = session.client.replace(client) {
            self.streams.remove(&former);
        }
        self.streams.insert(client, id);
        self.renew(now, id);
        true
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
        let id = self.streams.remove(&client)?;
        self.sessions.get_mut(&id)?.client = None;
        Some(id)
    }

    /// Removes a session.
    pub(super) fn close(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        self.ends.remove(&(session.until, id));
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
