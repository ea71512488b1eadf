//! The shell around a node's core: sockets, clock, disk.
//!
//! One task owns the core. Whatever happens comes through queues; it is handed over with the time
//! of the lease clock, and what the core wants done is done before the next. Everything that has
//! come meanwhile is handled in one go, so that many messages share a write.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use kgate_api::LeaseInstant;
use kgate_control::log::{Log, LogStatus};
use kgate_control::state::{Change, ClusterId};
use kgate_core::{NodeId, Time};
use kgate_net::wire::RefuseCode;
use kgate_net::{LinkEvent, Links};
use tokio::sync::{mpsc, oneshot, watch};

use crate::agreement::{self, Agreement, Event};
use crate::core::{
    Action, ClientId, ClientMessage, Core, PeerEvent, PeerMessage, ServerMessage, SessionId,
    StatusReport,
};
use crate::slot_files::SlotFiles;
use crate::store::{Store, StoreError};
use crate::wall_clock::WallClock;

/// Reason of the refusal of a peer that this node has declared dead.
const DECLARED_DEAD: &str = "this node has declared it dead";

/// What may be unread of what a client was told; a client that reads so slowly is cut off.
pub(crate) const UNREAD: usize = 4096;

/// What the API asks of the core.
#[derive(Debug)]
pub(crate) enum Command {
    /// A client has opened a stream, and reads what it is told there.
    Open(ClientId, mpsc::Sender<ServerMessage>),
    /// It says something.
    Client(ClientId, ClientMessage),
    /// Its stream has ended.
    Gone(ClientId),
    /// Somebody wants to see a gate, or all.
    Status(Option<String>, oneshot::Sender<StatusReport>),
    /// Nobody uses any more what that request holds.
    Free(SessionId, u64),
    /// Somebody begins to watch, or ends.
    Watch(bool),
    /// An operator wants the log, if there is one.
    Log(oneshot::Sender<Option<Log>>),
    /// Somebody wants the numbers of this node.
    Numbers(oneshot::Sender<String>),
    /// Somebody wants to know why this node can grant nothing now, if it cannot.
    Unready(oneshot::Sender<Option<String>>),
}

/// What wakes the shell.
enum Input {
    Log(Event),
    Link(LinkEvent),
    Command(Command),
    Time,
}

/// Whether a node is to stop, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    NotYet,
    /// It puts away what it knows and says good-bye.
    Clean,
    /// As by a crash: with nothing put away, its next start is another incarnation.
    AtOnce,
}

/// Why a node has stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// It takes part no more.
    #[error("{0}")]
    OutOfCluster(String),
    /// Its disk fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its log cannot go on.
    #[error("the log of this node cannot go on: {0}")]
    Log(String),
}

pub(crate) struct Shell {
    pub(crate) core: Core,
    pub(crate) links: Option<Links>,
    /// The agreed log, where failures are not crash-stop.
    pub(crate) agreement: Option<Agreement>,
    pub(crate) wall: WallClock,
    pub(crate) store: Store,
    pub(crate) link_events: mpsc::Receiver<LinkEvent>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) streams: BTreeMap<ClientId, mpsc::Sender<ServerMessage>>,
    pub(crate) status_queries: BTreeMap<u64, oneshot::Sender<StatusReport>>,
    pub(crate) looked: u64,
    pub(crate) watchers: usize,
    pub(crate) slot_files: Option<SlotFiles>,
    /// The way to this shell, for what it starts itself.
    pub(crate) back: mpsc::WeakSender<Command>,
    /// Told whenever something has changed that people may see.
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) idle_stop: Option<Duration>,
    /// The cluster that this node is to join: another one is not taken for it.
    pub(crate) expected: Option<ClusterId>,
}

/// The time of the lease clock, as the core counts it.
pub(crate) fn now() -> Time {
    Time(LeaseInstant::now().0)
}

impl Shell {
    /// Runs until `end` says so, or the node must stop.
    pub(crate) async fn run(
        mut self,
        first: Vec<Action>,
        mut end: watch::Receiver<End>,
    ) -> Result<(), Stopped> {
        let mut actions = first;
        let mut idle_since = now();
        loop {
            self.carry_out(&mut actions)?;
            // The clock is not for nothing: it is read only where somebody counts.
            if self.idle_stop.is_some() && (!self.streams.is_empty() || self.core.sessions() > 0) {
                idle_since = now();
            }
            let idle = self.idle_stop.map(|most| most.saturating_sub(since(idle_since)));
            if idle == Some(Duration::ZERO) {
                self.leave().await;
                return Ok(());
            }
            let due = self.core.next_due(now()).map(|at| Duration::from_nanos(at.since(now()).0));
            let nap = due.into_iter().chain(idle).min().unwrap_or(Duration::from_secs(3600));
            let input = tokio::select! {
                biased;
                end = ended(&mut end) => {
                    if end == End::Clean {
                        self.leave().await;
                    }
                    return Ok(());
                }
                event = agreement::next(&mut self.agreement) => Input::Log(event),
                Some(event) = self.link_events.recv() => Input::Link(event),
                Some(command) = self.commands.recv() => Input::Command(command),
                () = tokio::time::sleep(nap) => Input::Time,
            };
            // Before anything that came is answered: the lease may be over though its clock does
            // not say so.
            if self.agreement.is_some() && self.wall.jumped() {
                tracing::warn!(
                    "the clock has jumped: nothing is granted until the voters have answered"
                );
                self.core.clock_jumped(now(), &mut actions);
            }
            match input {
                Input::Log(event) => self.on_log(event, &mut actions)?,
                Input::Link(event) => self.on_link(event, &mut actions),
                Input::Command(command) => self.on_command(command, &mut actions),
                Input::Time => {}
            }
            while let Some(event) = self.agreement.as_mut().and_then(Agreement::try_next) {
                self.on_log(event, &mut actions)?;
            }
            while let Ok(event) = self.link_events.try_recv() {
                self.on_link(event, &mut actions);
            }
            while let Ok(command) = self.commands.try_recv() {
                self.on_command(command, &mut actions);
            }
            if self.core.next_due(now()).is_some_and(|due| due <= now()) {
                self.core.tick(now(), &mut actions);
            }
        }
    }

    /// A clean stop: what can go on is put away; else peers are told, so that they need not find
    /// out.
    async fn leave(mut self) {
        let mut actions = Vec::new();
        let suspended = self.core.suspend(now(), &mut actions);
        self.core.leave(&mut actions);
        let _ = self.carry_out(&mut actions);
        // R1: after this nothing more is sent but what is under way already.
        if let Some(Err(error)) = suspended.map(|suspended| self.store.suspend(&suspended.bytes()))
        {
            tracing::error!(%error, "what this node knows cannot be put away: its next incarnation will wait until this one is evicted");
        }
        self.streams.clear();
        if let Some(links) = self.links.take() {
            links.stop().await;
        }
        if let Some(agreement) = self.agreement.take() {
            agreement.stop().await;
        }
    }

    fn on_link(&mut self, event: LinkEvent, actions: &mut Vec<Action>) {
        let (peer, event) = match event {
            LinkEvent::Message { from, bytes } => {
                if let Some(agreement) = &self.agreement {
                    if let Some(inside) = PeerMessage::of_log(&bytes) {
                        return agreement.receive(from, &inside);
                    }
                    if PeerMessage::is_lease(&bytes) {
                        self.core.voters_appended(now(), agreement.voters_appended());
                    }
                }
                (from, PeerEvent::Received(bytes))
            }
            LinkEvent::Up { peer, incarnation } => {
                tracing::info!(peer = peer.0, incarnation = incarnation.0, "connected");
                (peer, PeerEvent::Up)
            }
            LinkEvent::Down { peer } => {
                tracing::warn!(peer = peer.0, "the connection is cut; dialling again");
                (peer, PeerEvent::Down)
            }
            LinkEvent::NewIncarnation { peer, was, now } => {
                tracing::info!(
                    peer = peer.0,
                    was = was.0,
                    now = now.0,
                    "a new incarnation of a peer"
                );
                if let Some(links) = &self.links {
                    let _ = links.accept(peer, now);
                }
                return;
            }
            LinkEvent::Failed { peer, error } => {
                tracing::error!(peer = peer.0, %error, "the link has failed: the peer counts as crashed");
                (peer, PeerEvent::Broken)
            }
            LinkEvent::Refused { peer, refusal } => {
                let (code, peer_id) = (refusal.code, peer.map(|peer| peer.0));
                tracing::warn!(peer = peer_id, code = %code, "{refusal}");
                let is_dead = refusal.is_final() || code == RefuseCode::DeclaredDead;
                match peer.filter(|_| is_dead) {
                    Some(peer) => (peer, PeerEvent::Banned),
                    None => return,
                }
            }
        };
        if let Err(junk) = self.core.peer(now(), peer, event, actions) {
            tracing::warn!(peer = peer.0, "{junk}");
        }
    }

    fn on_command(&mut self, command: Command, actions: &mut Vec<Action>) {
        match command {
            Command::Open(client, tells) => drop(self.streams.insert(client, tells)),
            Command::Client(client, ask) => self.core.client(now(), client, ask, actions),
            Command::Gone(client) => {
                self.streams.remove(&client);
                self.core.client_gone(now(), client, actions);
            }
            Command::Status(gate, answer) => {
                self.looked += 1;
                self.status_queries.insert(self.looked, answer);
                self.core.look(now(), self.looked, gate.as_deref(), actions);
            }
            Command::Free(session, number) => self.core.free(now(), session, number, actions),
            Command::Watch(begins) => {
                let before = self.watchers;
                self.watchers = if begins { before + 1 } else { before.saturating_sub(1) };
                if (before == 0) != (self.watchers == 0) {
                    self.core.watch(begins, actions);
                }
            }
            Command::Log(answer) => {
                drop(answer.send(self.agreement.as_ref().map(Agreement::handle)))
            }
            Command::Numbers(answer) => {
                drop(answer.send(crate::metrics::render(&self.core, now())))
            }
            Command::Unready(answer) => drop(answer.send(self.core.unready(now()))),
        }
    }

    fn carry_out(&mut self, actions: &mut Vec<Action>) -> Result<(), Stopped> {
        let mut stopped = None;
        let mut cut = Vec::new();
        let mut new_incarnation = false;
        for action in actions.drain(..) {
            match action {
                Action::Send(to, bytes) => self.send(to, bytes),
                Action::Reply(client, tell) => {
                    let closes = matches!(tell, ServerMessage::Closed { .. });
                    let full = self
                        .streams
                        .get(&client)
                        .is_some_and(|stream| stream.try_send(tell).is_err());
                    if closes || full {
                        cut.push(client);
                    }
                }
                Action::Store(gate, bytes) => self.store.put(gate, &bytes)?,
                Action::StatusReport(question, report) => {
                    if let Some(answer) = self.status_queries.remove(&question) {
                        let _ = answer.send(report);
                    }
                }
                Action::Ban(peer) => {
                    tracing::error!(peer = peer.0, "held for crashed");
                    if let Some(links) = &self.links {
                        let _ = links.declare_dead(peer, DECLARED_DEAD);
                    }
                }
                Action::Probe { session, number, gate, slots } => {
                    self.probe(session, number, gate, slots)
                }
                Action::Opened(gate) => {
                    if let Some(files) = &self.slot_files {
                        files.note(&gate.name, gate.k);
                    }
                }
                Action::Changed => self.changes.send_modify(|version| *version += 1),
                Action::Stop(why) => stopped = Some(why),
                Action::Propose(number, command) => {
                    if let Some(agreement) = &mut self.agreement {
                        agreement.propose(number, command);
                    }
                }
                Action::Connect(peer, address) => self.connect(peer, &address),
                Action::Disconnect(peer) => {
                    if let Some(Err(error)) = self.links.as_mut().map(|links| links.remove(peer)) {
                        tracing::error!(peer = peer.0, "{error}");
                    }
                }
                Action::NewIncarnation => new_incarnation = true,
                Action::Log(Ok(text)) => tracing::info!("{text}"),
                Action::Log(Err(text)) => tracing::warn!("{text}"),
            }
        }
        for client in cut {
            // Dropping the sender ends the stream; whoever reads it then says that it is gone.
            self.streams.remove(&client);
        }
        if let Some(why) = stopped {
            return Err(Stopped::OutOfCluster(why));
        }
        if new_incarnation {
            let incarnation = self.store.next_incarnation()?;
            tracing::warn!(
                incarnation = incarnation.0,
                "an incarnation of this node is over: another one begins"
            );
            self.core.begin_incarnation(now(), incarnation, crate::random_seed(), actions);
            return self.carry_out(actions);
        }
        Ok(())
    }

    fn on_log(&mut self, event: Event, actions: &mut Vec<Action>) -> Result<(), Stopped> {
        match event {
            Event::AppliedEntry(news) => {
                let other = |change: &Change| matches!(change, Change::Bootstrapped(id) if self.expected.is_some_and(|expected| expected != *id));
                if news.changes.iter().any(other) {
                    return Err(Stopped::OutOfCluster(
                        "the join token is for another cluster of the same name: take one of this cluster, by `kgate members add`".to_owned(),
                    ));
                }
                self.core.news(now(), news, actions);
            }
            Event::PeerMessage(to, bytes) => self.send(to, PeerMessage::Log(bytes.into()).bytes()),
            Event::Answer(number, came) => self.core.proposed(now(), number, came, actions),
            Event::Status(LogStatus { stopped: Some(why), .. }) => {
                return Err(Stopped::Log(why.to_string()));
            }
            Event::Status(status) => self.core.log_status(now(), status, actions),
            Event::Unfounded(why) => return Err(Stopped::OutOfCluster(why)),
        }
        Ok(())
    }

    fn connect(&mut self, peer: NodeId, address: &str) {
        if let Some(Err(error)) = self.links.as_mut().map(|links| links.add(peer, address)) {
            tracing::error!(peer = peer.0, "{error}");
        }
    }

    /// Finds out, on a thread of its own, when nobody uses the slots any more.
    fn probe(&self, session: SessionId, number: u64, gate: String, slots: Vec<u32>) {
        let (files, back) = (self.slot_files.clone(), self.back.clone());
        tokio::task::spawn_blocking(move || {
            if let Some(files) = files {
                files.wait_until_free(&gate, &slots);
            }
            if let Some(back) = back.upgrade() {
                let _ = back.blocking_send(Command::Free(session, number));
            }
        });
    }

    fn send(&self, to: NodeId, frame: Bytes) {
        let Some(links) = &self.links else { return };
        if let Err(error) = links.send(to, frame) {
            tracing::error!(peer = to.0, "{error}");
        }
    }
}

/// Waits until the node is to stop, and says how.
pub(crate) async fn ended(end: &mut watch::Receiver<End>) -> End {
    let said = end.wait_for(|end| *end != End::NotYet).await;
    // Whoever could say so may be gone: then it is to stop too.
    said.map_or(End::AtOnce, |end| *end)
}

fn since(then: Time) -> Duration {
    Duration::from_nanos(now().since(then).0)
}
