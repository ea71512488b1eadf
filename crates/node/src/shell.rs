//! The shell around a node's core: sockets, clock, disk.
//!
//! One task owns the core. Links, clients and the log reach it through queues. The shell hands each
//! input to the core with the time of the lease clock, and carries out the core's actions in order.
//! It takes everything that is queued before it writes, so that many messages share one write.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kgate_api::LeaseInstant;
use kgate_control::log::{Log, LogStatus};
use kgate_control::state::{Change, ClusterId, Rejected};
use kgate_core::{NodeId, Time};
use kgate_net::wire::RefuseCode;
use kgate_net::{LinkEvent, Links};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::agreement::{self, Agreement, Event};
use crate::core::{
    Action, Call, CallReply, ClientId, ClientMessage, Core, Input, LogEvent, PeerEvent,
    PeerMessage, Refusal, ServerMessage, SessionId, StatusReport, StopReason, Suspended,
};
use crate::holder_tree::HolderTree;
use crate::idle_stop::{Idle, IdleStop};
use crate::lending::{Completed, Lending};
use crate::store::{Store, StoreError};
use crate::wall_clock::WallClock;

/// Reason of the refusal of a peer that this node has declared dead.
const DECLARED_DEAD: &str = "this node has declared it dead";

/// Capacity of a client's outgoing queue. A client that lets it fill up is disconnected.
pub(crate) const UNREAD: usize = 4096;

/// A command of the API to the shell.
#[derive(Debug)]
pub(crate) enum Command {
    /// A client opened a stream. Messages to it go into this queue.
    Open(ClientId, mpsc::Sender<ServerMessage>),
    /// A client sent a message.
    Client(ClientId, ClientMessage),
    /// The client of a new stream offers its processes.
    OfferTree(ClientId, Arc<HolderTree>),
    /// No process of this session is left.
    TreeEnded(SessionId),
    /// The stream of a client ended.
    Gone(ClientId),
    /// Query the status of one gate, or of all gates.
    Status(Option<String>, oneshot::Sender<StatusReport>),
    /// A call of the core that belongs to no session.
    Call(Call, oneshot::Sender<Result<CallReply, Refusal>>),
    /// No process uses the slots of this request any more.
    Free(SessionId, u64),
    /// A watcher arrived (`true`) or left.
    Watch(bool),
    /// Get a handle to the log, if there is one.
    Log(oneshot::Sender<Option<Log>>),
    /// Render the metrics.
    Numbers(oneshot::Sender<String>),
    /// Get the reason why this node cannot grant now, if it cannot.
    Unready(oneshot::Sender<Option<String>>),
}

/// What wakes the shell.
enum Wakeup {
    Log(Event),
    Link(LinkEvent),
    Command(Command),
    Time,
}

/// Whether a node has to stop, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    NotYet,
    /// It stores its state and notifies its peers.
    Clean,
    /// It stops as by a crash. Nothing is stored, so its next start is another incarnation.
    AtOnce,
}

/// Why a node stopped without being asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// It was excluded from its cluster.
    #[error("{0}")]
    OutOfCluster(StopReason),
    /// Its join token belongs to another cluster.
    #[error(
        "the join token is for another cluster of the same name: get a token of this cluster by \
         `kgate members add`"
    )]
    OtherCluster,
    /// The cluster was bootstrapped otherwise than its configuration says.
    #[error(transparent)]
    BootstrapRejected(Rejected),
    /// Its disk failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its log stopped.
    #[error("the log of this node stopped: {0}")]
    Log(kgate_control::log::StopReason),
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
    pub(crate) calls: BTreeMap<u64, oneshot::Sender<Result<CallReply, Refusal>>>,
    /// The number of the last query or call.
    pub(crate) last_query: u64,
    pub(crate) watchers: usize,
    /// The files of the slots, where permits are bound to processes.
    pub(crate) lending: Option<Lending>,
    /// The processes that clients have offered, by stream.
    pub(crate) trees: BTreeMap<ClientId, Arc<HolderTree>>,
    /// The way to this shell, for what it starts itself.
    pub(crate) back: mpsc::WeakSender<Command>,
    /// Notified whenever something visible to status queries changes.
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) idle: Option<IdleStop>,
    /// The listeners, which also end when the node stops.
    pub(crate) serving: JoinSet<()>,
    /// The cluster that this node is to join: another one is not taken for it.
    pub(crate) expected: Option<ClusterId>,
    /// The locks of the Unix sockets. Last: they are free when everything else has ended.
    pub(crate) _locks: Vec<File>,
}

/// The time of the lease clock, as the core counts it.
pub(crate) fn now() -> Time {
    Time(LeaseInstant::now().0)
}

impl Shell {
    /// Runs until `end` completes, or the node must stop.
    pub(crate) async fn run(
        mut self,
        first: Vec<Action>,
        mut end: watch::Receiver<End>,
    ) -> Result<(), Stopped> {
        let mut actions = first;
        loop {
            self.carry_out(&mut actions)?;
            let in_use = !self.streams.is_empty() || self.core.sessions() > 0;
            // Reading the clock is not free; skip it unless idle-stop is on.
            let idle = match self.idle.as_mut().map(|idle| idle.check(in_use)) {
                Some(Idle::Stop(lock)) => {
                    // Before the lock is dropped: a client that gets it finds no node, not one that
                    // is about to end.
                    self.serving.shutdown().await;
                    self.leave().await;
                    drop(lock);
                    return Ok(());
                }
                Some(Idle::Wait(left)) => Some(left),
                None => None,
            };
            let at = now();
            let due = self.core.next_due(at).map(|due| Duration::from_nanos(due.since(at).0));
            let nap = due.into_iter().chain(idle).min().unwrap_or(Duration::from_secs(3600));
            let wakeup = tokio::select! {
                biased;
                end = ended(&mut end) => {
                    if end == End::Clean {
                        self.leave().await;
                    }
                    return Ok(());
                }
                event = agreement::next(&mut self.agreement) => Wakeup::Log(event),
                Some(event) = self.link_events.recv() => Wakeup::Link(event),
                Some(command) = self.commands.recv() => Wakeup::Command(command),
                () = tokio::time::sleep(nap) => Wakeup::Time,
            };
            // Before any input is handled: the lease may have ended although the lease clock does
            // not show it.
            if self.agreement.is_some() && self.wall.jumped() {
                tracing::warn!(
                    "the clock jumped: this node grants nothing until the voters have answered"
                );
                self.core.handle(now(), Input::ClockJumped, &mut actions);
            }
            match wakeup {
                Wakeup::Log(event) => self.on_log(event, &mut actions)?,
                Wakeup::Link(event) => self.on_link(event, &mut actions),
                Wakeup::Command(command) => self.on_command(command, &mut actions),
                Wakeup::Time => {}
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
            let at = now();
            if self.core.next_due(at).is_some_and(|due| due <= at) {
                self.core.handle(at, Input::Tick, &mut actions);
            }
        }
    }

    /// Stops the node cleanly (rule R1). Nothing is sent afterwards but what is on its way.
    async fn leave(mut self) {
        let mut actions = Vec::new();
        self.core.handle(now(), Input::Stop, &mut actions);
        let _ = self.carry_out(&mut actions);
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
                        let voters = agreement.voters_appended();
                        self.core.handle(now(), Input::VotersAppended(voters), actions);
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
                tracing::error!(
                    peer = peer.0,
                    %error,
                    "the link has failed: the peer counts as crashed"
                );
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
        self.core.handle(now(), Input::Peer(peer, event), actions);
    }

    fn on_command(&mut self, command: Command, actions: &mut Vec<Action>) {
        match command {
            Command::Open(client, tells) => drop(self.streams.insert(client, tells)),
            Command::Client(client, message) => {
                let message = match &mut self.lending {
                    Some(lending) => lending.admit(client, message),
                    None => Some(message),
                };
                let Some(message) = message else { return };
                self.core.handle(now(), Input::Client(client, message), actions);
            }
            Command::OfferTree(client, tree) => {
                self.trees.insert(client, tree);
                self.core.handle(now(), Input::TreeOffered(client), actions);
            }
            Command::TreeEnded(session) => {
                self.core.handle(now(), Input::TreeEnded(session), actions);
            }
            Command::Gone(client) => {
                self.lending.iter_mut().for_each(|lending| lending.forget(client));
                self.streams.remove(&client);
                self.core.handle(now(), Input::ClientGone(client), actions);
            }
            Command::Status(gate, answer) => {
                self.last_query += 1;
                let query = self.last_query;
                self.status_queries.insert(query, answer);
                self.core.handle(now(), Input::StatusQuery { query, gate }, actions);
            }
            Command::Call(call, answer) => {
                self.last_query += 1;
                let number = self.last_query;
                self.calls.insert(number, answer);
                self.core.handle(now(), Input::Call { number, call }, actions);
            }
            Command::Free(session, number) => {
                self.core.handle(now(), Input::SlotsFree { session, number }, actions);
            }
            Command::Watch(begins) => {
                let before = self.watchers;
                self.watchers = if begins { before + 1 } else { before.saturating_sub(1) };
                if (before == 0) != (self.watchers == 0) {
                    self.core.handle(now(), Input::Watch(begins), actions);
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
        let mut next = Vec::new();
        for action in actions.drain(..) {
            match action {
                Action::Send(to, bytes) => self.send(to, bytes),
                Action::Reply(client, tell) => {
                    let tell = match &mut self.lending {
                        None => tell,
                        Some(lending) => match lending.complete(client, tell) {
                            Completed::Message(tell) => tell,
                            Completed::NoFiles { refusal, number } => {
                                let release = ClientMessage::Release { number };
                                next.push(Input::Client(client, release));
                                refusal
                            }
                        },
                    };
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
                Action::StoreGateSetting(setting) => self.store.put_gate_setting(&setting)?,
                Action::MarkOnce(client, number, mark) => {
                    let marked = self.store.mark_once(&mark)?;
                    next.push(Input::Marked(client, number, marked));
                }
                Action::Answer(number, reply) => {
                    if let Some(answer) = self.calls.remove(&number) {
                        let _ = answer.send(reply);
                    }
                }
                Action::StatusReport(question, report) => {
                    if let Some(answer) = self.status_queries.remove(&question) {
                        let _ = answer.send(report);
                    }
                }
                Action::Ban(peer) => {
                    tracing::error!(peer = peer.0, "peer declared dead and banned");
                    if let Some(links) = &self.links {
                        let _ = links.declare_dead(peer, DECLARED_DEAD);
                    }
                }
                Action::Probe { session, tree, number, gate, slots } => {
                    let tree = tree.and_then(|tree| self.trees.get(&tree).cloned());
                    match &self.lending {
                        Some(lending) => lending.probe(session, tree, number, &gate, &slots),
                        None => next.push(Input::SlotsFree { session, number }),
                    }
                }
                Action::EndTree { session, tree } => self.end_tree(session, tree),
                Action::ForgetTree(tree) => drop(self.trees.remove(&tree)),
                Action::Opened(gate) => {
                    if let Some(lending) = &self.lending {
                        lending.note(&gate.name, &gate.slots());
                    }
                }
                Action::Changed => self.changes.send_modify(|version| *version += 1),
                Action::Stop(why) => stopped = Some(why),
                Action::Propose(number, command) => {
                    if let Some(agreement) = &mut self.agreement {
                        agreement.propose(number, command);
                    }
                }
                Action::ReadIndex(number) => {
                    if let Some(agreement) = &mut self.agreement {
                        agreement.read_index(number);
                    }
                }
                Action::Connect(peer, address) => self.connect(peer, &address),
                Action::Disconnect(peer) => {
                    if let Some(Err(error)) = self.links.as_mut().map(|links| links.remove(peer)) {
                        tracing::error!(peer = peer.0, "{error}");
                    }
                }
                Action::NewIncarnation => new_incarnation = true,
                Action::Suspend(suspended) => self.suspend(&suspended),
                Action::Log(event) => log(&event),
            }
        }
        for client in cut {
            // Dropping the sender ends the stream; its reader then reports that the client is gone.
            self.streams.remove(&client);
        }
        if let Some(reason) = stopped {
            return Err(Stopped::OutOfCluster(reason));
        }
        if !next.is_empty() {
            next.into_iter().for_each(|input| self.core.handle(now(), input, actions));
            self.carry_out(actions)?;
        }
        if new_incarnation {
            let incarnation = self.store.next_incarnation()?;
            tracing::warn!(
                incarnation = incarnation.0,
                "this incarnation of the node has ended; the next one begins"
            );
            let start = crate::random_seed();
            let next = Input::BeginIncarnation { incarnation, start };
            self.core.handle(now(), next, actions);
            return self.carry_out(actions);
        }
        Ok(())
    }

    fn on_log(&mut self, event: Event, actions: &mut Vec<Action>) -> Result<(), Stopped> {
        match event {
            Event::AppliedEntry(entry) => {
                let is_other = |id: ClusterId| self.expected.is_some_and(|known| known != id);
                let bootstraps_other = |change: &Change| {
                    let Change::Bootstrapped(cluster) = change else { return false };
                    is_other(cluster.id)
                };
                if entry.changes.iter().any(bootstraps_other) {
                    return Err(Stopped::OtherCluster);
                }
                self.core.handle(now(), Input::Applied(entry), actions);
            }
            Event::PeerMessage(to, bytes) => self.send(to, PeerMessage::Log(bytes.into()).bytes()),
            Event::Answer(number, result) => {
                self.core.handle(now(), Input::Proposed { number, result }, actions);
            }
            Event::ReadIndex(number, result) => {
                self.core.handle(now(), Input::ReadIndex { number, result }, actions);
            }
            Event::Status(LogStatus { stopped: Some(reason), .. }) => {
                return Err(Stopped::Log(reason));
            }
            Event::Status(status) => {
                self.core.handle(now(), Input::LogStatus(status), actions);
            }
            Event::BootstrapRejected(rejected) => return Err(Stopped::BootstrapRejected(rejected)),
        }
        Ok(())
    }

    /// Stores the state for a clean restart (rule R1).
    fn suspend(&self, suspended: &Suspended) {
        if let Err(error) = self.store.suspend(&suspended.bytes()) {
            tracing::error!(
                %error,
                "cannot store the state of this node: after a restart it waits until its present \
                 incarnation is evicted"
            );
        }
    }

    fn connect(&mut self, peer: NodeId, address: &str) {
        if let Some(Err(error)) = self.links.as_mut().map(|links| links.add(peer, address)) {
            tracing::error!(peer = peer.0, "{error}");
        }
    }

    /// Ends the processes of a session.
    fn end_tree(&self, session: SessionId, tree: ClientId) {
        let (tree, back) = (self.trees.get(&tree).cloned(), self.back.clone());
        tokio::spawn(async move {
            if let Some(tree) = tree {
                tree.end().await;
            }
            if let Some(back) = back.upgrade() {
                let _ = back.send(Command::TreeEnded(session)).await;
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

/// Writes an event of the core to the node's log.
fn log(event: &LogEvent) {
    match event {
        LogEvent::CanGrant => tracing::info!("{event}"),
        LogEvent::CannotGrant(_) | LogEvent::RefusesRequests(_) => tracing::warn!("{event}"),
        LogEvent::PeerRejected { peer, error } => {
            tracing::warn!(peer = peer.0, %error, "message of a peer rejected");
        }
    }
}

/// Waits until the node has to stop, and returns how.
pub(crate) async fn ended(end: &mut watch::Receiver<End>) -> End {
    let said = end.wait_for(|end| *end != End::NotYet).await;
    // The sender may be gone: then the node stops too.
    said.map_or(End::AtOnce, |end| *end)
}
