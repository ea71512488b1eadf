//! The session: one task that talks to the node for all permits of a client.
//!
//! The task renews the session at the interval that the node asks for, and measures the validity
//! from the instant at which it sent the renewal (rule S1 of the leases). When the connection is
//! lost, the task reconnects and resumes the session with its secret (S5): waiting requests, which
//! the node has forgotten, are sent again, and permits stay. When the validity ends before the node
//! is heard again, all permits are lost, even if the node does not agree; waiting requests keep
//! looking for the node for [`RECONNECT_TIMEOUT`]. The permits are in `permit_table.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use kgate_api::v1;
use kgate_api::v1::client_message::Message as ClientMessage;
use kgate_api::v1::server_message::Message as ServerMessage;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::connection::{Connection, Opened, SessionToken, valid_until};
use crate::durable::DurableCall;
use crate::permit::{Grant, LostReason};
use crate::permit_table::{GrantOutcome, PermitTable};
use crate::{Address, Addresses, Error, ErrorKind, Lease, LeaseInstant};

/// How long the task looks for a node that is gone while requests wait.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a grant is withheld if the node does not say how long its leases are.
const WITHHOLD_TIMEOUT: Duration = Duration::from_secs(4);
/// The pauses before the first attempts to reconnect; the last one repeats.
const RECONNECT_PAUSES: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
];

/// The way back to the client that waits for a permit.
pub(crate) type Answer = oneshot::Sender<Result<Grant, Error>>;

/// A request that waits for its grant.
#[derive(Debug)]
pub(crate) struct PendingAcquire {
    pub(crate) request: Box<v1::Acquire>,
    /// The time that the holder needs to stop.
    pub(crate) min_remaining: Duration,
    pub(crate) answer: Answer,
}

/// A command to the task. Numbers are request IDs.
#[derive(Debug)]
pub(crate) enum Command {
    Acquire(PendingAcquire),
    /// The client does not wait any more: cancel the request, release its permit.
    Cancel(u64),
    Release(u64, Option<oneshot::Sender<()>>),
    BindToLock(u64),
    Durable(u64, DurableCall),
    End,
}

/// What a client observes of its session.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) valid_until: watch::Receiver<LeaseInstant>,
    pub(crate) token: watch::Receiver<SessionToken>,
    pub(crate) lease: watch::Receiver<Lease>,
    pub(crate) node: u32,
    /// Whether the node ends the processes of this session, or why it does not.
    pub(crate) guarded: Result<(), String>,
}

/// The session of a client.
pub(crate) struct Session {
    /// The node that has the session. Only this node can resume it.
    address: Address,
    /// What each connection begins with, less the token.
    hello: v1::Hello,
    commands: mpsc::UnboundedReceiver<Command>,
    connection: Connection,
    token: watch::Sender<SessionToken>,
    valid_until: watch::Sender<LeaseInstant>,
    lease: watch::Sender<Lease>,
    /// When the last message of the node arrived.
    last_heard: LeaseInstant,
    /// When each unanswered `Renew` was sent, by sequence number.
    renewals: BTreeMap<u64, LeaseInstant>,
    sequence: u64,
    waiting: BTreeMap<u64, PendingAcquire>,
    durable_calls: BTreeMap<u64, DurableCall>,
    permits: PermitTable,
    ending: bool,
}

impl Session {
    /// Opens a new session. `hello` has no token.
    pub(crate) async fn open(
        addresses: &Addresses,
        hello: v1::Hello,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Result<(Self, View), Error> {
        let (address, opened) = Connection::open_any(addresses, &hello).await?;
        Ok(Self::new(address, hello, commands, opened))
    }

    /// Ends the session of `token`, which another process has opened.
    pub(crate) async fn end_other(address: Address, token: SessionToken) -> Result<(), Error> {
        let hello = v1::Hello::default();
        let opened = Connection::open(&address, &hello, Some(token)).await?;
        let (commands, received) = mpsc::unbounded_channel();
        let (session, _view) = Self::new(address, hello, received, opened);
        let _ = commands.send(Command::End);
        session.run().await;
        Ok(())
    }

    fn new(
        address: Address,
        hello: v1::Hello,
        commands: mpsc::UnboundedReceiver<Command>,
        opened: Opened,
    ) -> (Self, View) {
        let Opened { connection, token, welcome, sent } = opened;
        let (valid_until, valid_until_view) =
            watch::channel(valid_until(sent, welcome.valid_for_ns));
        let (token, token_view) = watch::channel(token);
        let (lease, lease_view) = watch::channel(Lease::of(&welcome));
        let session = Self {
            address,
            hello,
            commands,
            connection,
            token,
            valid_until,
            lease,
            last_heard: LeaseInstant::now(),
            renewals: BTreeMap::new(),
            sequence: 0,
            waiting: BTreeMap::new(),
            durable_calls: BTreeMap::new(),
            permits: PermitTable::default(),
            ending: false,
        };
        let view = View {
            valid_until: valid_until_view,
            token: token_view,
            lease: lease_view,
            node: welcome.node,
            guarded: if welcome.guarded { Ok(()) } else { Err(welcome.unguarded_reason) },
        };
        (session, view)
    }

    /// Runs until the client is gone and everything is released.
    pub(crate) async fn run(mut self) {
        loop {
            let cause = self.serve_connection().await;
            if self.ending && !self.permits.must_release() {
                return;
            }
            if let Err(cause) = self.reconnect(cause).await {
                return self.fail(&cause);
            }
        }
    }

    /// Serves one connection until it is lost, and says why it was.
    async fn serve_connection(&mut self) -> String {
        // Opening the connection was a renewal.
        let every = self.lease.borrow().renew_every;
        let mut renew = tokio::time::interval_at(Instant::now() + every, every);
        renew.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.last_heard = LeaseInstant::now();
        loop {
            tokio::select! {
                biased;
                message = self.connection.receive() => {
                    let message = match message {
                        Ok(message) => message,
                        Err(cause) => return cause,
                    };
                    self.last_heard = LeaseInstant::now();
                    if let Some(cause) = self.on_message(message).await {
                        return cause;
                    }
                }
                command = self.commands.recv(), if !self.ending => match command {
                    Some(command) => self.on_command(command).await,
                    None => self.end().await,
                },
                _ = renew.tick() => self.renew().await,
            }
            let now = LeaseInstant::now();
            self.check_clock(now).await;
            let silence = now.after(self.last_heard);
            if self.lease.borrow().max_silence().is_some_and(|max| silence > max) {
                return "timed out: the node was silent for too long".into();
            }
        }
    }

    /// Compares the clock with the validity: permits expire; withheld grants are delivered or
    /// released.
    async fn check_clock(&mut self, now: LeaseInstant) {
        let until = *self.valid_until.borrow();
        if until <= now {
            self.permits.expire();
        }
        for request_id in self.permits.settle(now, until) {
            self.release(request_id, None).await;
        }
    }

    async fn renew(&mut self) {
        self.sequence += 1;
        self.renewals.insert(self.sequence, LeaseInstant::now());
        self.connection.send(ClientMessage::Renew(v1::Renew { sequence: self.sequence })).await;
    }

    async fn end(&mut self) {
        self.ending = true;
        self.connection.send(ClientMessage::EndSession(v1::EndSession {})).await;
    }

    async fn on_command(&mut self, command: Command) {
        match command {
            Command::Acquire(pending) => {
                self.connection.send(ClientMessage::Acquire(pending.request.clone())).await;
                self.waiting.insert(pending.request.request_id, pending);
            }
            Command::Cancel(request_id) => {
                let is_waiting = self.waiting.remove(&request_id).is_some();
                if is_waiting || self.durable_calls.contains_key(&request_id) {
                    let withdraw = v1::Withdraw { request_id };
                    self.connection.send(ClientMessage::Withdraw(withdraw)).await;
                }
                self.release(request_id, None).await;
            }
            Command::Release(request_id, done) => self.release(request_id, done).await,
            Command::BindToLock(request_id) => self.permits.bind_to_lock(request_id),
            Command::Durable(request_id, call) => {
                self.connection.send(call.request.clone()).await;
                self.durable_calls.insert(request_id, call);
            }
            Command::End => self.end().await,
        }
    }

    async fn release(&mut self, request_id: u64, done: Option<oneshot::Sender<()>>) {
        if self.permits.release(request_id, done) {
            self.connection.send(ClientMessage::Release(v1::Release { request_id })).await;
        }
    }

    /// Handles a message of the node. Returns the cause if it ends the stream.
    async fn on_message(&mut self, message: ServerMessage) -> Option<String> {
        match message {
            ServerMessage::Welcome(_) => {}
            ServerMessage::Granted(granted) => self.on_granted(granted).await,
            ServerMessage::Refused(v1::Refused { request_id, code, message }) => {
                let error = Error::sent(code, message);
                if let Some(pending) = self.waiting.remove(&request_id) {
                    let _ = pending.answer.send(Err(error));
                } else if let Some(call) = self.durable_calls.remove(&request_id) {
                    let _ = call.answer.send(Err(error));
                }
            }
            ServerMessage::Withdrawn(v1::Withdrawn { request_id }) => {
                self.durable_calls.remove(&request_id);
            }
            ServerMessage::Lost(v1::Lost { request_id, message }) => {
                // The holder stops first; its release follows.
                if self.permits.lose(request_id, LostReason::Revoked(message)) {
                    self.release(request_id, None).await;
                }
            }
            ServerMessage::Released(v1::Released { request_id, .. }) => {
                self.answer_durable(request_id, message);
                self.permits.on_released(request_id);
            }
            ServerMessage::PermitRenewed(v1::PermitRenewed { request_id, .. })
            | ServerMessage::OnceMarked(v1::OnceMarked { request_id, .. }) => {
                self.answer_durable(request_id, message);
            }
            ServerMessage::Renewed(v1::Renewed { sequence, valid_for_ns }) => {
                self.on_renewed(sequence, valid_for_ns);
            }
            ServerMessage::Closed(v1::Closed { code, message }) => {
                self.on_closed(code, &message);
                return Some(message);
            }
        }
        None
    }

    fn on_renewed(&mut self, sequence: u64, valid_for_ns: Option<u64>) {
        let Some(sent) = self.renewals.remove(&sequence) else { return };
        // An answer to an earlier renewal that arrives later cannot extend the validity.
        self.renewals.retain(|earlier, _| *earlier > sequence);
        let until = valid_until(sent, valid_for_ns);
        self.valid_until.send_if_modified(|known| {
            let is_later = until > *known;
            *known = until.max(*known);
            is_later
        });
    }

    fn on_closed(&mut self, code: i32, message: &str) {
        let error = Error::sent(code, message.to_owned());
        let kind = error.kind();
        if matches!(kind, ErrorKind::SessionNotFound | ErrorKind::NodeGone) {
            self.session_lost(message);
        } else if kind == ErrorKind::BadRequest {
            // The same messages on a new stream would be refused again.
            self.fail_waiting(&error);
        }
    }

    async fn on_granted(&mut self, granted: v1::Granted) {
        let request_id = granted.request_id;
        if let Some(call) = self.durable_calls.remove(&request_id) {
            if let Some(undo) = call.on_granted(granted) {
                self.connection.send(undo).await;
            }
            return;
        }
        let pending = self.waiting.remove(&request_id);
        let withhold = self.lease.borrow().length.unwrap_or(WITHHOLD_TIMEOUT);
        let (now, until) = (LeaseInstant::now(), *self.valid_until.borrow());
        match self.permits.grant(now, until, withhold, granted, pending) {
            GrantOutcome::Delivered => {}
            GrantOutcome::Withheld => self.renew().await,
            GrantOutcome::Cancelled => self.release(request_id, None).await,
        }
    }

    fn answer_durable(&mut self, request_id: u64, reply: ServerMessage) {
        if let Some(call) = self.durable_calls.remove(&request_id) {
            let _ = call.answer.send(Ok(reply));
        }
    }

    /// Reconnects within [`RECONNECT_TIMEOUT`], or says why that failed.
    async fn reconnect(&mut self, cause: String) -> Result<(), String> {
        let give_up_at = LeaseInstant::now() + RECONNECT_TIMEOUT;
        let mut pauses = RECONNECT_PAUSES.into_iter();
        let mut last_cause = cause;
        loop {
            while let Ok(command) = self.commands.try_recv() {
                self.on_command(command).await;
            }
            let now = LeaseInstant::now();
            self.check_clock(now).await;
            let until = *self.valid_until.borrow();
            // Without a client no request can follow, and the node frees the rest when the session
            // expires.
            let no_client = self.ending || self.commands.is_closed();
            let is_over =
                now >= give_up_at || no_client && (!self.permits.must_release() || until <= now);
            if is_over && !self.permits.has_valid() {
                return Err(last_cause);
            }
            let resume = self.permits.must_release().then_some(*self.token.borrow());
            match Connection::open(&self.address, &self.hello, resume).await {
                Ok(opened) => {
                    self.resume(resume, opened).await;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::SessionNotFound => {
                    self.session_lost(&error.to_string());
                }
                Err(error) => {
                    last_cause = error.to_string();
                    let pause = pauses.next().unwrap_or(RECONNECT_PAUSES[3]);
                    // Wake up when the validity ends, to tell the holders in time.
                    let left = until.after(LeaseInstant::now());
                    let pause = if left.is_zero() { pause } else { pause.min(left) };
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Continues on a new connection: the same session (S5), or another one.
    async fn resume(&mut self, former: Option<SessionToken>, opened: Opened) {
        let Opened { connection, token, welcome, sent } = opened;
        self.connection = connection;
        self.renewals.clear();
        let until = valid_until(sent, welcome.valid_for_ns);
        if former.is_some_and(|former| former.session_id == token.session_id) {
            self.valid_until.send_modify(|known| *known = until.max(*known));
        } else {
            self.session_lost("the node does not know the session any more");
            // The validity of another session says nothing about this one.
            self.valid_until.send_replace(until);
        }
        self.token.send_replace(token);
        self.lease.send_replace(Lease::of(&welcome));
        self.send_again(&welcome).await;
    }

    /// Sends on a new connection what the node does not know: releases, waiting requests, calls for
    /// durable permits.
    async fn send_again(&mut self, welcome: &v1::Welcome) {
        let (releases, retries) = self.permits.resume(&welcome.held_request_ids);
        self.waiting.extend(retries);
        let releases = releases
            .into_iter()
            .map(|request_id| ClientMessage::Release(v1::Release { request_id }));
        let requests = self.waiting.values();
        let requests = requests.map(|pending| ClientMessage::Acquire(pending.request.clone()));
        let calls = self.durable_calls.values().map(|call| call.request.clone());
        let messages: Vec<ClientMessage> = releases.chain(requests).chain(calls).collect();
        for message in messages {
            self.connection.send(message).await;
        }
        if self.ending {
            self.end().await;
        }
    }

    /// The session does not exist any more. Withheld grants are requested again in the next one.
    fn session_lost(&mut self, cause: &str) {
        self.waiting.extend(self.permits.session_lost(cause));
    }

    fn fail_waiting(&mut self, error: &Error) {
        for pending in std::mem::take(&mut self.waiting).into_values() {
            let _ = pending.answer.send(Err(error.clone()));
        }
        for call in std::mem::take(&mut self.durable_calls).into_values() {
            let _ = call.answer.send(Err(error.clone()));
        }
    }

    /// The node could not be reached again: all permits are lost, all requests fail.
    fn fail(mut self, cause: &str) {
        self.session_lost(cause);
        self.fail_waiting(&Error::unreachable(&self.address, cause));
    }
}
