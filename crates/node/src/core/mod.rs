//! A node without I/O: gates, sessions, the catalogue and the failure model as one state machine.
//!
//! [`Core::handle`] takes one [`Input`] with the time, and appends the [`Action`]s that follow. The
//! core has no clock, no I/O, and no randomness but from its seed. So a test drives it by hand, a
//! simulator drives a whole cluster, and the shell drives it with real sockets.
//!
//! - `input.rs`, `action.rs`: what happens to a node, and what it wants done;
//! - `messages.rs`: messages of clients; `note.rs`: what they say of their requests;
//!   `peer_message.rs`: messages between nodes;
//! - `gate.rs`: a protocol with its local queue and holders; `catalogue.rs`: the gates of a cluster
//!   without a log; `definition.rs`: what a gate is;
//! - `sessions.rs`, `secret.rs`: sessions of clients; `clients.rs`: the path of their requests;
//!   `process_bound.rs`: permits that are bound to processes; `guarded.rs`: the end of processes
//!   that outlive their session;
//! - `calls.rs`: commands and questions outside of sessions; `reentry.rs`: work that runs under a
//!   permit already;
//! - `once.rs`: keys that are used at most once;
//! - `peers.rs`: links to other nodes; `failures.rs`: the failure model, crash-stop or leases;
//! - `control/`: with leases, the agreed log, the lease of this node and its own incarnation;
//! - `suspend.rs`: a clean stop, and the restart after it;
//! - `status.rs`: status queries over all nodes; `watch.rs`: notification of changes; `view.rs`:
//!   what they show; `timers.rs`: the timers.

mod action;
mod bounded;
mod calls;
mod catalogue;
mod clients;
mod control;
mod definition;
mod failures;
mod gate;
mod guarded;
mod input;
mod messages;
mod note;
mod once;
mod peer_message;
mod peers;
mod process_bound;
mod reentry;
mod secret;
mod sessions;
mod status;
mod suspend;
mod timers;
mod view;
mod watch;

pub use crate::driver::{InputRejected, Unreadable};
pub use action::{Action, LogEvent, StopReason};
pub use bounded::Omitted;
pub(crate) use bounded::{bound, size};
pub(crate) use calls::NO_LOG;
pub use calls::{Call, CallReply, GateSetting};
pub use catalogue::CATALOGUE;
pub use control::{ControlSettings, ControlView};
pub use definition::{BadDefinition, Definition};
pub(crate) use gate::PAST_HOLDS_KEPT;
pub use gate::{Counters, DurableSpec};
pub use input::{Input, PeerEvent};
pub use messages::{
    AcquireRequest, ClientMessage, DurableGrant, DurableOptions, ErrorCode, PermitCommand, Refusal,
    ServerMessage,
};
pub use note::{BadNote, Note};
pub use once::{MarkOnce, Marked, StoredMark};
pub use peer_message::{GateId, PeerMessage};
pub use peers::PeerError;
pub use process_bound::RestoredGate;
pub use reentry::{HeldPermit, ReentryKey};
pub use secret::Secret;
pub use sessions::SessionTerms;
pub use status::StatusReport;
pub use suspend::Suspended;
pub use view::{ClientView, DurablePermitView, GateView, HolderId, NodeStatus, Process};

use std::collections::{BTreeMap, BTreeSet};

use kgate_control::state::Policy;
use kgate_core::{
    Graph, Incarnation, NodeId, Protocol, Setup, SlotOptions, Span, Suspend, Time, To, ViewId,
};
use kgate_protocols::detect::{Heartbeat, HiAdsd, VCube};
use kgate_protocols::registry::{self, Entry, MutexProtocol, Visitor};

use bytes::Bytes;

use crate::driver::{Drive, Driver, DriverEffect};
use catalogue::Catalogue;
use control::{Control, Log};
use failures::{CrashStop, FailureModel};
use gate::{Gate, GateEffect};
use sessions::Sessions;
use timers::{Deadline, Timers};

/// A stream of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// A session at this node, in this incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A request: its session and the client's own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestKey {
    session: SessionId,
    number: u64,
}

/// The detector that finds crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// Tests along a virtual hypercube.
    VCube,
    /// All-to-all heartbeats.
    Heartbeat,
    /// Tests along Hi-ADSD clusters.
    HiAdsd,
    /// No detector: crashes are learned from the log or not at all.
    Off,
}

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The id of this node.
    pub me: NodeId,
    /// The number of nodes.
    pub nodes: u32,
    /// The gates of the configuration, the same at all nodes.
    pub fixed: Vec<Definition>,
    /// The protocol of gates that clients create; none if they may not.
    pub new_gates: Option<&'static Entry>,
    /// The detector of crashes.
    pub detection: Detection,
    /// How often the detector tests.
    pub detect_interval: Span,
    /// How long it waits for an answer.
    pub detect_timeout: Span,
    /// How long a session is valid.
    pub terms: SessionTerms,
    /// How long a request without waiting may wait: as long as a free gate needs to grant it.
    pub patience: Span,
    /// The most waiting requests at a gate of this node.
    pub queue_max: usize,
    /// The most sessions at this node.
    pub sessions_max: usize,
    /// The options of gates with numbered slots.
    pub slots: SlotOptions,
    /// How often an idle node of a self-healing gate sends a message.
    pub refresh: Span,
    /// The incarnation that begins or resumes: greater than all before.
    pub incarnation: Incarnation,
    /// The seed of its randomness.
    pub seed: u64,
    /// Whether the node has a place for what must survive its end.
    pub has_store: bool,
    /// The settings of the control plane; none with crash-stop.
    pub control: Option<ControlSettings>,
}

/// Why a node cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotStart {
    /// The stored state of a protocol cannot be decoded.
    #[error("gate `{0}`: {1}")]
    Stored(String, Unreadable),
    /// A gate's definition is not valid.
    #[error("gate `{0}`: {1}")]
    Gate(String, BadDefinition),
}

/// A node.
pub struct Core {
    settings: Settings,
    failures: FailureModel,
    log: Log,
    gates: BTreeMap<GateId, Gate>,
    catalogue: Catalogue,
    /// Requests for gates that are being created.
    pending: Vec<clients::PendingAcquire>,
    /// Messages for gates that are not known yet, within bounds.
    early: BTreeMap<GateId, Vec<(NodeId, Bytes)>>,
    sessions: Sessions,
    timers: Timers,
    /// The other nodes that take part, or have not crashed.
    others: BTreeSet<NodeId>,
    /// Of those, the nodes with a link that is up.
    up: BTreeSet<NodeId>,
    status_queries: status::StatusQueries,
    watching: watch::Watching,
    stopped: bool,
    /// The time of the present input.
    now: Time,
    /// The actions that follow from the present input so far.
    actions: Vec<Action>,
    #[cfg(test)]
    mutations: tests::Mutations,
    #[cfg(test)]
    lapses_seen: Vec<tests::LapseSeen>,
}

impl Core {
    /// Starts a node, with the stored state of its gates.
    pub fn start(
        now: Time,
        settings: Settings,
        stored: &BTreeMap<GateId, Vec<u8>>,
        actions: &mut Vec<Action>,
    ) -> Result<Self, CannotStart> {
        let mut core = Self {
            failures: match &settings.control {
                Some(control) => {
                    FailureModel::Leases(Box::new(Control::new(now, &settings, control)))
                }
                None => FailureModel::CrashStop(CrashStop::default()),
            },
            log: Log::new(settings.me, settings.incarnation),
            gates: BTreeMap::new(),
            catalogue: Catalogue::default(),
            pending: Vec::new(),
            early: BTreeMap::new(),
            sessions: Sessions::new(settings.terms),
            timers: Timers::new(settings.seed),
            others: (0..settings.nodes).map(NodeId).filter(|node| *node != settings.me).collect(),
            up: BTreeSet::new(),
            status_queries: status::StatusQueries::default(),
            watching: watch::Watching::default(),
            stopped: false,
            now,
            actions: Vec::new(),
            #[cfg(test)]
            mutations: tests::Mutations::default(),
            #[cfg(test)]
            lapses_seen: Vec::new(),
            settings,
        };
        if core.failures.has_leases() {
            core.others.clear();
            core.begin_control()?;
            actions.append(&mut core.actions);
            return Ok(core);
        }
        if core.settings.new_gates.is_some() {
            let guard = Definition {
                id: CATALOGUE,
                name: "kgate/catalogue".into(),
                k: 1,
                source: Default::default(),
                protocol: "slots".into(),
                lanes: 1,
                policy: Policy::Lease,
                author: "kgate".into(),
            };
            core.open_gate(guard, None)?;
        }
        for definition in core.settings.fixed.clone() {
            let restored = stored.get(&definition.id).map(Vec::as_slice);
            core.catalogue.insert(definition.clone());
            core.open_gate(definition, restored)?;
        }
        core.begin_detection();
        actions.append(&mut core.actions);
        Ok(core)
    }

    /// Takes one input and appends the actions that follow, in order.
    pub fn handle(&mut self, now: Time, input: Input, actions: &mut Vec<Action>) {
        self.now = now;
        std::mem::swap(&mut self.actions, actions);
        // N5: the clock is read against the lease before an input reaches a gate, and again after
        // an input that may have changed the lease.
        self.check_lease();
        match input {
            Input::Client(client, message) => self.on_client(client, message),
            Input::ClientGone(client) => self.on_client_gone(client),
            Input::TreeOffered(client) => self.on_tree_offered(client),
            Input::TreeEnded(session) => self.on_tree_ended(session),
            Input::Peer(peer, event) => {
                if let Err(error) = self.on_peer(peer, event) {
                    self.actions.push(Action::Log(LogEvent::PeerRejected { peer, error }));
                }
            }
            Input::Applied(entry) => self.on_applied(entry),
            Input::Proposed { number, result } => self.on_proposed(number, result),
            Input::ReadIndex { number, result } => self.on_read_index(number, result),
            Input::LogStatus(status) => self.on_log_status(status),
            Input::VotersAppended(voters) => self.on_voters_appended(voters),
            Input::ClockJumped => self.on_clock_jumped(),
            Input::BeginIncarnation { incarnation, start } => {
                self.begin_incarnation(incarnation, start);
            }
            Input::StatusQuery { query, gate } => {
                self.on_status_query(query, gate.as_deref());
            }
            Input::Watch(begins) => self.on_watch(begins),
            Input::SlotsFree { session, number } => {
                self.on_slots_free(session, number);
            }
            Input::Call { number, call } => self.on_call(number, call),
            Input::RestoreGate(restored) => self.restore_gate(restored),
            Input::Marked(client, number, marked) => self.on_marked(client, number, marked),
            Input::Tick => self.on_tick(),
            Input::Stop => self.on_stop(),
        }
        self.check_lease();
        self.forget_trees();
        self.notify_watchers_later();
        std::mem::swap(&mut self.actions, actions);
    }

    /// The next deadline, for [`Input::Tick`].
    pub fn next_due(&self, now: Time) -> Option<Time> {
        self.timers.next().into_iter().chain(self.sessions.next()).chain(self.lease_due(now)).min()
    }

    fn on_tick(&mut self) {
        self.lease_tick();
        for session in self.sessions.over(self.now) {
            self.expire_session(session);
        }
        while let Some(due) = self.timers.pop(self.now) {
            match due {
                Deadline::Gate(id, timer) => {
                    self.at_gate(id, |gate| gate.expire(timer));
                }
                Deadline::Detector(timer) => {
                    let taken = self.drive_detector(kgate_core::Input::Expire(timer));
                    taken.expect("it was armed by the detector itself");
                }
                Deadline::Patience(key) => self.no_wait_expired(key),
                Deadline::StatusQuery(question) => self.status_timed_out(question),
                Deadline::ConfirmDead(node) => self.confirm_dead(node),
                Deadline::NotifyWatchers => self.notify_watchers(),
                Deadline::NoQuorum => self.quorum_lost(),
                Deadline::Reclaim(key) => self.reclaim(key),
                Deadline::EndTree(session) => self.end_tree(session),
                Deadline::Expire(permit) => self.expire_permit(permit),
                Deadline::ExpireOnce(at) => self.expire_once(at),
                Deadline::Barrier => self.ask_barrier(),
                Deadline::Reconcile => self.reconcile(),
            }
        }
    }

    /// The number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.count()
    }

    /// For each gate: its name, its counters, the number of holders, the number of waiting
    /// requests, and how long the first of those has waited, in nanoseconds.
    pub fn numbers(&self, now: Time) -> impl Iterator<Item = (&str, &Counters, [u64; 3])> {
        self.gates.values().map(move |gate| {
            let counts = [gate.holders() as u64, gate.waiters() as u64, gate.longest_waiting(now)];
            (gate.definition.name.as_str(), &gate.counters, counts)
        })
    }

    /// The nodes that were declared dead.
    pub fn crashed(&self) -> impl Iterator<Item = NodeId> {
        self.failures.crashed()
    }

    /// The number of connected peers.
    pub fn connected(&self) -> usize {
        self.up.len()
    }

    /// Sends a message to a client.
    fn reply(&mut self, client: ClientId, message: ServerMessage) {
        self.actions.push(Action::Reply(client, message));
    }

    /// Sends a message to a peer.
    fn send_to(&mut self, node: NodeId, message: &PeerMessage) {
        self.actions.push(Action::Send(node, message.bytes()));
    }

    /// Sends a message to all others.
    fn broadcast(&mut self, message: &PeerMessage) {
        let bytes = message.bytes();
        self.actions.extend(self.others.iter().map(|node| Action::Send(*node, bytes.clone())));
    }

    /// Calls a gate and carries out its effects.
    fn at_gate<T>(&mut self, id: GateId, call: impl FnOnce(&mut Gate) -> T) -> Option<T> {
        let (result, effects) = self.gates.get_mut(&id)?.at(self.now, call);
        self.carry_out(id, effects);
        Some(result)
    }

    fn carry_out(&mut self, id: GateId, effects: Vec<GateEffect>) {
        for effect in effects {
            match effect {
                GateEffect::Send { to, message } => {
                    self.send(&to, &peer_message::gate_frame(id, message));
                }
                GateEffect::Arm { timer, least, most } => {
                    self.timers.arm(self.now, Deadline::Gate(id, timer), least, most)
                }
                GateEffect::Disarm(timer) => self.timers.disarm(&Deadline::Gate(id, timer)),
                GateEffect::Persist(bytes) => self.actions.push(Action::Store(id, bytes)),
                GateEffect::Granted { key, slots, fence } => {
                    self.on_granted(id, key, slots, fence);
                }
                GateEffect::Decided(grant) => {
                    self.propose_hold(id, grant);
                    self.reconcile_later();
                }
                GateEffect::Lost(key) => {
                    self.lose(key, "its node is excluded from the cluster".into());
                }
                GateEffect::TooLarge { key, weight, most } => {
                    let text = format!(
                        "{weight} permits at once were asked for, and the gate has {most} now"
                    );
                    self.refuse(key, ErrorCode::TooLarge, text);
                }
            }
        }
    }

    fn send(&mut self, to: &To, frame: &Bytes) {
        let mut send = |node: NodeId| {
            if !self.failures.has_crashed(node) {
                self.actions.push(Action::Send(node, frame.clone()));
            }
        };
        match to {
            To::One(node) => send(*node),
            To::Many(nodes) => nodes.iter().copied().for_each(send),
            To::All => self.others.iter().copied().for_each(send),
        }
    }

    /// Opens a gate.
    fn open_gate(
        &mut self,
        definition: Definition,
        stored: Option<&[u8]>,
    ) -> Result<(), CannotStart> {
        let name = definition.name.clone();
        let wrong = |error| CannotStart::Gate(name.clone(), error);
        let entry = registry::entry(&definition.protocol).map_err(|error| wrong(error.into()))?;
        if !self.failures.has_leases() {
            Definition::check_without_log(entry).map_err(wrong)?;
            definition.check_with(entry, self.settings.nodes).map_err(wrong)?;
        } else if !entry.slots {
            return Err(wrong(BadDefinition::LeasesNotSupported(entry.name)));
        } else if entry.follows_log && definition.lanes > 1 {
            return Err(wrong(BadDefinition::LanesNotSupported(entry.name)));
        }
        let id = definition.id;
        let (initial_members, since) = self.initial_members(id);
        self.gates.insert(id, Gate::new(definition, entry, self.settings.nodes));
        if entry.follows_log {
            return stored.map_or(Ok(()), |stored| self.start_following(id, Some(stored)));
        }
        let goes_on = stored.is_some();
        let setup = Setup { initial_members, ..self.setup(id, entry) };
        self.start_protocol(id, entry, &setup, stored)?;
        self.reserve(id);
        // A gate that resumes knows its members.
        for (node, view) in since.into_iter().filter(|_| !goes_on) {
            self.at_gate(id, |gate| gate.joined(node, view));
        }
        if self.failures.has_leases() {
            let granting = self.is_granting();
            self.at_gate(id, |gate| gate.lease(granting));
        } else if self.settings.nodes == 1 && entry.slots {
            // No other node has to agree: each incarnation of the only node begins a view of its
            // own, so that fences grow across all of them.
            let (me, view) = (self.settings.me, ViewId(self.settings.incarnation.0));
            self.at_gate(id, |gate| gate.joined(me, view));
        }
        let dead = match &self.failures {
            FailureModel::CrashStop(crashes) if entry.detector.is_some() => {
                crashes.confirmed_dead.clone()
            }
            FailureModel::CrashStop(_) | FailureModel::Leases(_) => BTreeSet::new(),
        };
        for node in dead {
            self.at_gate(id, |gate| gate.crashed(node, Incarnation(0)));
        }
        Ok(())
    }
}

impl Core {
    /// What the protocol of a gate knows when it starts.
    fn setup(&self, id: GateId, entry: &Entry) -> Setup {
        let Definition { k, lanes, .. } = self.gates[&id].definition;
        let graph = graph(entry, self.settings.nodes);
        Setup {
            me: self.settings.me,
            detect_interval: self.settings.detect_interval,
            detect_timeout: self.settings.detect_timeout,
            tolerate: k.saturating_sub(1).min(self.settings.nodes - 1),
            refresh: entry.heals.then_some(self.settings.refresh),
            graph: graph.map(Into::into),
            slots: SlotOptions { lanes, ..self.settings.slots },
            ..Setup::new(self.settings.nodes, k.max(1))
        }
    }

    /// Starts the protocol of a gate, from stored state if there is any.
    fn start_protocol(
        &mut self,
        id: GateId,
        entry: &Entry,
        setup: &Setup,
        stored: Option<&[u8]>,
    ) -> Result<(), CannotStart> {
        let mut effects = Vec::new();
        let start = Start { setup, stored, effects: &mut effects };
        let driver = registry::visit(entry, false, start).map_err(|unreadable| {
            CannotStart::Stored(self.gates[&id].definition.name.clone(), unreadable)
        })?;
        self.at_gate(id, |gate| gate.started(driver, effects));
        Ok(())
    }
}

/// Starts a driver of the type that the registry names.
struct Start<'a> {
    setup: &'a Setup,
    stored: Option<&'a [u8]>,
    effects: &'a mut Vec<DriverEffect>,
}

impl Visitor for Start<'_> {
    type Output = Result<Box<dyn Drive>, Unreadable>;
    fn visit<M: MutexProtocol, D: Protocol>(self) -> Self::Output {
        Ok(Box::new(Driver::<M>::start(self.setup, self.stored, self.effects)?))
    }
}

/// The detector, if there is one.
fn detector(
    detection: Detection,
    setup: &Setup,
    effects: &mut Vec<DriverEffect>,
) -> Option<Box<dyn Drive>> {
    fn start<P: Protocol + Suspend>(
        setup: &Setup,
        effects: &mut Vec<DriverEffect>,
    ) -> Option<Box<dyn Drive>> {
        let driver = Driver::<P>::start(setup, None, effects);
        Some(Box::new(driver.expect("nothing was stored")))
    }
    match detection {
        Detection::VCube => start::<VCube>(setup, effects),
        Detection::Heartbeat => start::<Heartbeat>(setup, effects),
        Detection::HiAdsd => start::<HiAdsd>(setup, effects),
        Detection::Off => None,
    }
}

/// The graph of neighbours, where a protocol needs one: the same at every node.
fn graph(entry: &Entry, nodes: u32) -> Option<Graph> {
    let shape = entry.network.usual_shape()?;
    Some(shape.build(nodes, &mut |_| 0).expect("any number of nodes has a graph of that shape"))
}

#[cfg(test)]
mod tests;
