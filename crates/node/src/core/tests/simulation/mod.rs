//! A simulation of whole nodes under faults: clocks of different rates, late, lost and duplicate
//! messages, partitions, pauses, kills and restarts, and clients that keep the rules of a session.
//! Everything is determined by one seed.
//!
//! The log is a total order that reaches each node with delays (`log.rs`); the leases, the gates
//! and the sessions are the real ones. The property checker (`checker.rs`) alone sees real time:
//! **at most k clients believe to hold at any instant, and never two the same slot**.

mod checker;
mod clients;
mod durable;
mod durable_clients;
mod homes;
mod log;
mod runs;
mod scenario;

use std::collections::{BTreeMap, BTreeSet};

use kgate_control::log::ProposeError;
use kgate_control::state::{Applied, Command};
use kgate_control::timing::Timing;
use kgate_core::{NodeId, Span, Time};
use kgate_testkit::Rng;

use super::super::*;
use checker::Checker;
use clients::{ClientStep, SimulatedClient};
use durable_clients::{DurableClient, DurableClientStep};
use log::TotalOrder;

pub(super) const MILLISECOND: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;

/// A rule that is left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    /// Gates grant without a lease (N5).
    GrantsWithoutLease,
    /// A suspected node is evicted at once (E3).
    GoneAtSuspect,
    /// Clients are told the whole lease L, whatever is left of it (S1).
    AlwaysWholeLease,
    /// A killed node restarts as the same incarnation (R2).
    KeepsItsIncarnation,
    /// The fence is made of the clock at the decision (SLOTS P2).
    FenceOfDecision,
    /// The end of a stream releases its permits (S4).
    FreedAtStreamEnd,
    /// Slots that the log holds are not reserved at gates.
    NeverReserves,
    /// A node releases a permit that no request wants, although its holder has renewed it
    /// elsewhere.
    GivesBackBlindly,
    /// A time to live is counted only by half.
    ExpiresEarly,
    /// Permits lapse at the deadline of their sessions, whatever of the log is applied (H13).
    LapsesWithoutBarrier,
    /// A node begins another incarnation before it applies the eviction of the earlier one, and its
    /// gates do not (R2).
    GatesKeepIncarnations,
}

/// A clock that runs at its own rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The error of the rate, in parts per million.
    pub(super) error: i64,
}

impl Clock {
    pub(super) fn read(self, real: u64) -> Time {
        let rate = u128::try_from(1_000_000 + self.error).expect("a clock goes forward");
        Time(u64::try_from(u128::from(real) * rate / 1_000_000).expect("short runs") + SECOND)
    }

    /// The first real instant at which the clock shows that time.
    pub(super) fn real(self, shown: Time) -> u64 {
        let rate = u128::try_from(1_000_000 + self.error).expect("a clock goes forward");
        let counted = u128::from(shown.0.saturating_sub(SECOND));
        u64::try_from((counted * 1_000_000).div_ceil(rate)).unwrap_or(u64::MAX)
    }
}

/// An event of the simulation.
#[derive(Clone, Debug)]
enum Event {
    /// A deadline of a node has passed.
    Tick(NodeId),
    /// A message arrives.
    PeerMessage { from: NodeId, to: NodeId, bytes: Bytes, lamport: u64 },
    /// A node may apply an entry.
    Entry(NodeId),
    /// A proposal reaches the log.
    Proposal { from: Proposer, command: Command },
    /// A proposal becomes an entry, late.
    Decided { from: Proposer, command: Command },
    /// The result of a proposal arrives.
    Answer { to: Proposer, came: Result<Applied, ProposeError> },
    /// A question how far the log goes reaches the leader.
    ReadIndex(Proposer),
    /// Its answer arrives.
    ReadAt { to: Proposer, result: Result<u64, ProposeError> },
    /// A message of a client arrives.
    ClientMessage { node: NodeId, boot: u64, stream: ClientId, ask: ClientMessage },
    /// A client's stream ends, as its node sees it.
    Gone { node: NodeId, boot: u64, stream: ClientId },
    /// A message to a client arrives.
    Told { stream: ClientId, tell: ServerMessage },
    /// A client takes a step by itself.
    Client(usize, ClientStep),
    /// A client with a durable permit takes a step by itself.
    DurableClient(usize, DurableClientStep),
    /// A node starts.
    Start(NodeId),
    /// A fault occurs.
    Fault(runs::Fault),
}

/// The origin of a proposal: the process of a node, and the number of the proposal; 0 if the node
/// does not wait for the result.
#[derive(Clone, Copy, Debug)]
struct Proposer {
    node: NodeId,
    boot: u64,
    number: u64,
}

/// A simulated node.
struct Machine {
    core: Option<Core>,
    clock: Clock,
    /// The number of the running process: inputs for an earlier one are dropped.
    boot: u64,
    incarnation: u32,
    /// The node is paused until this instant.
    paused_until: u64,
    /// When its next deadline is due, so that there is one event for it.
    tick_at: u64,
    suspended: Option<Vec<u8>>,
    /// A Lamport clock, for the mutated fence.
    lamport: u64,
}

pub(super) struct Simulation {
    pub(super) now: u64,
    seq: u64,
    events: BTreeMap<(u64, u64), Event>,
    pub(super) rng: Rng,
    pub(super) timing: Timing,
    machines: BTreeMap<NodeId, Machine>,
    log: TotalOrder,
    clients: Vec<SimulatedClient>,
    streams: BTreeMap<ClientId, usize>,
    durable_clients: Vec<DurableClient>,
    durable_streams: BTreeMap<ClientId, usize>,
    opened: u64,
    pub(super) checker: Checker,
    mutation: Option<Mutation>,
    /// Links on which nothing arrives.
    cut: BTreeSet<(NodeId, NodeId)>,
    /// Those of them that never heal.
    cut_for_good: BTreeSet<(NodeId, NodeId)>,
    loss: u64,
    delay_most: u64,
    healed: bool,
    /// Clients acquire only when the test says so, and keep their permits.
    by_hand: bool,
    /// The last grant of each client, with its fence; and its last refusal.
    grants: BTreeMap<usize, (Vec<u32>, u128)>,
    refusals: BTreeMap<usize, (ErrorCode, String)>,
    pub(super) stopped: Vec<StopReason>,
    /// What the operators of the nodes read in their logs.
    pub(super) events_logged: Vec<(NodeId, LogEvent)>,
    /// When the watchers of each node were notified last.
    changed: BTreeMap<NodeId, u64>,
}

impl Simulation {
    pub(super) fn new(
        seed: u64,
        nodes: u32,
        voters: u32,
        k: u32,
        mutation: Option<Mutation>,
    ) -> Self {
        Self::with_clients(seed, nodes, voters, k, mutation, nodes * 2, 0)
    }

    /// With this number of clients, which start at `from`.
    pub(super) fn with_clients(
        seed: u64,
        nodes: u32,
        voters: u32,
        k: u32,
        mutation: Option<Mutation>,
        clients: u32,
        from: u64,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let timing = Timing::FAST;
        let error = |rng: &mut Rng| i64::try_from(rng.below(20_001)).expect("small") - 10_000;
        let machine = |rng: &mut Rng| Machine {
            core: None,
            clock: Clock { error: error(rng) },
            boot: 0,
            incarnation: 0,
            paused_until: 0,
            tick_at: u64::MAX,
            suspended: None,
            lamport: 0,
        };
        let machines = (0..nodes).map(|node| (NodeId(node), machine(&mut rng))).collect();
        let log = TotalOrder::new(nodes, voters, k, timing, "slots");
        let clients = (0..clients)
            .map(|at| SimulatedClient::new(NodeId(at % nodes), Clock { error: error(&mut rng) }))
            .collect();
        let mut simulation = Self {
            now: 0,
            seq: 0,
            events: BTreeMap::new(),
            rng,
            timing,
            machines,
            log,
            clients,
            streams: BTreeMap::new(),
            durable_clients: Vec::new(),
            durable_streams: BTreeMap::new(),
            opened: 0,
            checker: Checker::new(k),
            mutation,
            cut: BTreeSet::new(),
            cut_for_good: BTreeSet::new(),
            loss: 0,
            delay_most: 5 * MILLISECOND,
            healed: false,
            by_hand: false,
            grants: BTreeMap::new(),
            refusals: BTreeMap::new(),
            stopped: Vec::new(),
            events_logged: Vec::new(),
            changed: BTreeMap::new(),
        };
        for node in (0..nodes).map(NodeId) {
            let at = simulation.rng.below(50 * MILLISECOND);
            simulation.at(at, Event::Start(node));
        }
        for client in 0..simulation.clients.len() {
            let at = from + simulation.rng.below(1000 * MILLISECOND);
            simulation.at(at, Event::Client(client, ClientStep::Dial));
        }
        simulation
    }

    fn at(&mut self, after: u64, event: Event) {
        self.seq += 1;
        self.events.insert((self.now + after, self.seq), event);
    }

    /// Runs all events until `end`.
    pub(super) fn run_until(&mut self, end: u64) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            let (now, _) = *entry.key();
            let event = entry.remove();
            self.now = now;
            self.happen(event);
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        // At a paused node everything waits.
        let place = match &event {
            Event::Tick(node) | Event::Entry(node) => Some(*node),
            Event::PeerMessage { to, .. } => Some(*to),
            Event::Answer { to, .. } | Event::ReadAt { to, .. } => Some(to.node),
            Event::ClientMessage { node, .. } | Event::Gone { node, .. } => Some(*node),
            Event::Proposal { .. }
            | Event::ReadIndex(_)
            | Event::Decided { .. }
            | Event::Told { .. }
            | Event::Client(..)
            | Event::DurableClient(..)
            | Event::Start(_)
            | Event::Fault(_) => None,
        };
        let paused = place.map_or(0, |node| self.machines[&node].paused_until);
        if paused > self.now {
            return self.at(paused - self.now, event);
        }
        match event {
            Event::Tick(node) => {
                if self.machines[&node].tick_at <= self.now {
                    self.machine(node).tick_at = u64::MAX;
                    self.input(node, Input::Tick);
                }
            }
            Event::PeerMessage { from, to, bytes, lamport } => {
                let machine = self.machine(to);
                machine.lamport = machine.lamport.max(lamport);
                self.input(to, Input::Peer(from, PeerEvent::Received(bytes)));
            }
            Event::Entry(node) => self.entry(node),
            Event::Proposal { from, command } => self.proposal(from, command),
            Event::Decided { from, command } => self.decided(from, command),
            Event::Answer { to, came } => {
                if self.machines[&to.node].boot == to.boot {
                    self.input(to.node, Input::Proposed { number: to.number, result: came });
                }
            }
            Event::ReadIndex(to) => self.read_index(to),
            Event::ReadAt { to, result } => {
                if self.machines[&to.node].boot == to.boot {
                    self.input(to.node, Input::ReadIndex { number: to.number, result });
                }
            }
            Event::ClientMessage { node, boot, stream, ask } => {
                if self.machines[&node].boot == boot {
                    self.input(node, Input::Client(stream, ask));
                }
            }
            Event::Gone { node, boot, stream } => {
                if self.machines[&node].boot == boot {
                    self.gone(node, stream);
                }
            }
            Event::Told { stream, tell } => self.received(stream, tell),
            Event::Client(client, step) => self.step(client, step),
            Event::DurableClient(durable_client, step) => {
                self.durable_client_step(durable_client, step)
            }
            Event::Start(node) => self.start(node),
            Event::Fault(fault) => self.fault(fault),
        }
    }

    fn gone(&mut self, node: NodeId, stream: ClientId) {
        let freed = self.mutation == Some(Mutation::FreedAtStreamEnd);
        self.with(node, |core, now, actions| match core.sessions.of(stream).filter(|_| freed) {
            Some(session) => {
                core.now = now;
                core.end_session(session, Core::release);
                actions.append(&mut core.actions);
            }
            None => core.handle(now, Input::ClientGone(stream), actions),
        });
    }

    fn machine(&mut self, node: NodeId) -> &mut Machine {
        self.machines.get_mut(&node).expect("there is such a node")
    }

    /// A node that is up takes an input, and its actions are carried out.
    fn input(&mut self, node: NodeId, input: Input) {
        self.with(node, |core, now, actions| core.handle(now, input, actions));
    }

    /// Something happens at a node that is up, and its actions are carried out.
    fn with(&mut self, node: NodeId, what: impl FnOnce(&mut Core, Time, &mut Vec<Action>)) {
        let real = self.now;
        let machine = self.machine(node);
        let now = machine.clock.read(real);
        let Some(core) = &mut machine.core else { return };
        let mut actions = Vec::new();
        what(core, now, &mut actions);
        let seen = std::mem::take(&mut core.lapses_seen);
        seen.into_iter().for_each(|seen| self.on_lapse(node, seen));
        self.carry_out(node, actions);
        self.look_later(node);
    }

    /// Schedules the node's next deadline.
    fn look_later(&mut self, node: NodeId) {
        let real = self.now;
        let machine = self.machine(node);
        let now = machine.clock.read(real);
        let Some(due) = machine.core.as_ref().and_then(|core| core.next_due(now)) else { return };
        let at = machine.clock.real(due).max(real);
        if at < machine.tick_at {
            machine.tick_at = at;
            self.at(at - real, Event::Tick(node));
        }
    }

    fn carry_out(&mut self, node: NodeId, actions: Vec<Action>) {
        let boot = self.machines[&node].boot;
        for action in actions {
            match action {
                Action::Send(to, bytes) => self.send(node, to, bytes),
                Action::Reply(stream, tell) => self.tell(node, stream, tell),
                Action::Propose(number, command) => {
                    let after = self.rng.within(MILLISECOND, 10 * MILLISECOND);
                    self.at(
                        after,
                        Event::Proposal { from: Proposer { node, boot, number }, command },
                    );
                }
                Action::ReadIndex(number) => {
                    let after = self.rng.within(MILLISECOND, 10 * MILLISECOND);
                    self.at(after, Event::ReadIndex(Proposer { node, boot, number }));
                }
                Action::NewIncarnation => {
                    let machine = self.machine(node);
                    machine.incarnation += 1;
                    let (incarnation, start) =
                        (Incarnation(machine.incarnation), self.rng.below(u64::MAX));
                    self.input(node, Input::BeginIncarnation { incarnation, start });
                }
                Action::Stop(reason) => self.stopped.push(reason),
                Action::Log(event @ LogEvent::PeerRejected { .. }) => {
                    assert!(self.mutation.is_some(), "{node}: {event}");
                }
                Action::Log(event) => self.events_logged.push((node, event)),
                Action::Suspend(suspended) => {
                    self.machine(node).suspended = Some(suspended.bytes());
                }
                Action::Changed => drop(self.changed.insert(node, self.now)),
                Action::Connect(..) | Action::Disconnect(_) | Action::Opened(_) => {}
                Action::StoreGateSetting(_) | Action::MarkOnce(..) | Action::Answer(..) => {
                    unreachable!("only without a log")
                }
                Action::Store(..)
                | Action::StatusReport(..)
                | Action::Ban(_)
                | Action::Probe { .. } => {
                    unreachable!("not with leases")
                }
                Action::EndTree { .. } | Action::ForgetTree(_) => {
                    unreachable!("no client here offers its processes")
                }
            }
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, bytes: Bytes) {
        if self.cut.contains(&(from, to))
            || self.rng.percent(self.loss)
            || !self.machines.contains_key(&to)
        {
            return;
        }
        // Only messages of gates advance the Lamport clocks.
        let is_gates = matches!(
            peer_message::PeerMessage::read(&bytes),
            Some(peer_message::PeerMessage::Gate(..))
        );
        let lamport = if is_gates { self.machines[&from].lamport } else { 0 };
        let copies = if self.rng.percent(self.loss / 4) { 2 } else { 1 };
        for _ in 0..copies {
            let slow = if self.rng.percent(3) { 20 } else { 1 };
            let after = self.rng.within(MILLISECOND / 10, self.delay_most) * slow;
            self.at(after, Event::PeerMessage { from, to, bytes: bytes.clone(), lamport });
        }
    }

    /// Starts a node, with its suspended state if there is any.
    fn start(&mut self, node: NodeId) {
        if self.machines[&node].core.is_some() {
            return;
        }
        let cluster_state = self.log.cluster_state_of(node);
        let (start, seed) = (self.rng.below(u64::MAX), self.rng.below(u64::MAX));
        let (real, timing, nodes) =
            (self.now, self.timing, u32::try_from(self.machines.len()).expect("few"));
        let keeps = self.mutation == Some(Mutation::KeepsItsIncarnation);
        let mutations = super::Mutations {
            grants_without_lease: self.mutation == Some(Mutation::GrantsWithoutLease),
            never_reserves: self.mutation == Some(Mutation::NeverReserves),
            gives_back_blindly: self.mutation == Some(Mutation::GivesBackBlindly),
            expires_early: self.mutation == Some(Mutation::ExpiresEarly),
            gates_keep_incarnations: self.mutation == Some(Mutation::GatesKeepIncarnations),
            lapses_without_barrier: self.mutation == Some(Mutation::LapsesWithoutBarrier),
        };
        let appended = self.log.voters();
        let machine = self.machine(node);
        machine.boot += 1;
        let suspended = machine.suspended.take();
        if suspended.is_none() && !(keeps && machine.incarnation > 0) {
            machine.incarnation += 1;
        }
        let control = ControlSettings {
            timing,
            store: kgate_control::membership::StoreId(u64::from(node.0) + 1),
            address: String::new(),
            start,
            cluster_state,
            appended,
            suspended: suspended.map(|bytes| Suspended::read(&bytes).expect("as it was written")),
            joins: false,
        };
        let settings = Settings {
            me: node,
            incarnation: Incarnation(machine.incarnation),
            seed,
            terms: SessionTerms {
                valid_for: Some(timing.lease),
                clock_error: 10,
                kill: timing.kill,
            },
            slots: SlotOptions {
                ask_again: Some(Span(100 * MILLISECOND)),
                ..SlotOptions::default()
            },
            control: Some(control),
            ..super::settings(nodes)
        };
        let mut actions = Vec::new();
        let now = machine.clock.read(real);
        let mut core =
            Core::start(now, settings, &BTreeMap::new(), &mut actions).expect("it starts");
        core.mutations = mutations;
        machine.core = Some(core);
        machine.tick_at = u64::MAX;
        self.carry_out(node, actions);
        self.look_later(node);
        self.at(0, Event::Entry(node));
    }

    /// The status of each node, for a failure message.
    pub(super) fn describe(&self) -> Vec<String> {
        let of = |(node, machine): (&NodeId, &Machine)| {
            let Some(core) = &machine.core else { return format!("{node} is down") };
            let now = machine.clock.read(self.now);
            format!(
                "{node} incarnation {}: {:?} {:?}",
                machine.incarnation,
                core.control_view(now),
                core.views(None)
            )
        };
        let k = self.log.permits().iter().map(|(id, permit)| format!("the log: {id} {permit:?}"));
        let durable_clients = self
            .durable_clients
            .iter()
            .enumerate()
            .map(|(at, durable_client)| format!("durable client {at}: {durable_client:?}"));
        self.machines.iter().map(of).chain(k).chain(durable_clients).collect()
    }

    /// Kills a node, with all its streams.
    pub(in crate::core::tests) fn kill(&mut self, node: NodeId) {
        let machine = self.machine(node);
        machine.core = None;
        machine.boot += 1;
        machine.paused_until = 0;
        self.cut_streams(node);
    }

    /// A node stops cleanly (R1).
    pub(super) fn suspend(&mut self, node: NodeId) {
        self.machine(node).suspended = None;
        self.input(node, Input::Stop);
        self.kill(node);
    }
}
