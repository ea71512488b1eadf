//! The event loop: take the next event, hand it to its process, apply the effects.
//!
//! - `event.rs`: the events;
//! - `network.rs`: what a send costs and when its copies arrive;
//! - `checkers.rs`: reports requests, grants and releases to the checkers of `kgate-spec`;
//! - `audit.rs`: the checkers that inspect messages and observed states;
//! - `clients.rs`: when clients ask, enter and leave; `requests.rs`: weights, withdrawals and
//!   changes of k;
//! - `crashes.rs`: crashes, restarts and crash notifications; `awareness.rs`: how long those take;
//!   `incarnations.rs`: restarts without state;
//! - `log.rs`: an agreed log that decides members; `permits.rs`: clients whose permits outlive
//!   their process;
//! - `transient.rs`: corrupted memory and channels, and when the run has recovered;
//! - `disturbances.rs`: paused processes, and messages that are late, lost or duplicated;
//! - `drain.rs`: after the measured time, whether every request of a live process is granted;
//! - `script.rs`: a run in which every step is prescribed.
//!
//! A crash takes effect after everything else scheduled at its instant: the loop runs up to the
//! crash's time, then applies it.

mod audit;
mod awareness;
mod checkers;
mod clients;
mod crashes;
mod disturbances;
mod drain;
mod event;
mod incarnations;
mod log;
mod network;
mod permits;
mod requests;
mod script;
mod transient;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Instant;

use fixedbitset::FixedBitSet;
use kgate_core::{
    Carried, Effect, GrantId, Input, InputOf, Mechanism, Message, NodeId, Notice, Outbox, Protocol,
    Span, Stamp, Time, To, TransientFaults,
};
use kgate_spec::trace;

use crate::config::{Config, ConfigError};
use crate::faults::{FaultEvent, FaultPlan};
use crate::hash::RunHash;
use crate::memory;
use crate::queue::{BucketQueue, EventQueue, HeapQueue};
use crate::report::{EngineResults, Report};
use crate::rng::Rng;
use crate::run_trace::{RunTrace, described};
use crate::stats::Stats;
use awareness::Awareness;
use checkers::Checkers;
pub(crate) use disturbances::DisturbanceCounts;
use event::{Event, EventOf};
use incarnations::Incarnations;
use log::AgreedLog;
use network::Network;
use permits::Permits;
use requests::PendingRequests;
use transient::Recovery;

pub use script::{ImpossibleStep, PlayError, Played, Script, StartError, StepError, play};

#[cfg(test)]
mod disturbance_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod request_tests;
#[cfg(test)]
mod tests;

/// The event queue that drives a run. The results are the same for both; the hash shows it.
pub trait Engine {
    /// The queue.
    type Queue<E>: EventQueue<E>;
}

/// The fast queue.
#[derive(Clone, Copy, Debug)]
pub struct Bucket;
/// The simple queue, which checks the fast one.
#[derive(Clone, Copy, Debug)]
pub struct Heap;

impl Engine for Bucket {
    type Queue<E> = BucketQueue<E>;
}
impl Engine for Heap {
    type Queue<E> = HeapQueue<E>;
}

/// Runs the mutex protocol `M` beside the detector `D`. `name` names the pair in the report. With
/// `trace` set, a trace is written.
pub fn run<M: TransientFaults, D: Protocol, Q: Engine>(
    name: &str,
    config: &Config,
    trace: Option<OpenTrace<'_>>,
) -> Result<Report, RunError> {
    config.validate()?;
    memory::check::<M, D>(config)?;
    let plan = FaultPlan::generate(config)?;
    let header = serde_json::json!({
        "protocol": name, "n": config.nodes, "k": config.k, "seed": config.seed,
        "duration": config.duration.units(),
    });
    // The trace is opened last, so that a refused run does not truncate a file.
    let trace = RunTrace::open(trace, &header)?;
    let mut simulation = Simulation::<M, D, Q::Queue<EventOf<M, D>>>::new(config, plan, trace);
    simulation.start();
    let (stats, wall_seconds) = simulation.measure();
    let unanswered = simulation.drain();
    simulation.write_violations();
    simulation.trace.finish()?;
    let (detection, undetected) = simulation.awareness.times();
    let results = EngineResults {
        detection,
        undetected,
        recoveries: simulation.recoveries,
        stabilized_at: simulation.recovery.settled_at(),
        n: config.nodes,
        k: config.k,
        seed: config.seed,
        warmup: config.warmup,
        duration: config.duration,
        max_in_use: simulation.checkers.most_inside(),
        max_in_use_overall: simulation.checkers.most_inside_overall(),
        k_in_use_seen: simulation.checkers.k_in_use_seen(),
        crashes: simulation.crashed,
        disturbed: simulation.disturbed,
        partitions: u32::try_from(config.disturbance.partitions.len()).unwrap_or(u32::MAX),
        resizes: config.resizes.len() as u64,
        unanswered,
        violations: simulation.checkers.into_violations(),
        wall_seconds,
        hash: simulation.hash.value(),
    };
    Ok(Report::new(name, stats, results))
}

/// Why a run has no report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The trace cannot be opened; nothing was run.
    #[error("the trace could not be opened")]
    OpenTrace(#[source] io::Error),
    /// The trace cannot be written.
    #[error("the trace could not be written")]
    Trace(#[source] io::Error),
}

/// Opens the trace's file once the run can start.
pub type OpenTrace<'a> = Box<dyn FnOnce() -> io::Result<Box<dyn Write + 'a>> + 'a>;

/// What the hash of a run includes of an input: its kind, the process it comes from or concerns,
/// and its content.
#[derive(Clone, Copy)]
struct Label {
    word: u64,
    content: u64,
}

impl Label {
    fn bare(kind: u64) -> Self {
        Self { word: kind, content: 0 }
    }

    #[inline]
    fn of(kind: u64, whom: NodeId, content: u64) -> Self {
        Self { word: kind, content: content ^ u64::from(whom.0) << 32 }
    }
}

/// Armed timers: each arming has a greater generation, and an expiry of an older generation is
/// ignored.
type TimerGenerations<T> = BTreeMap<(NodeId, T), u64>;

struct Simulation<'a, M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> {
    config: &'a Config,
    plan: FaultPlan,
    now: Time,
    /// The measured time is after `begin` and up to `end`.
    begin: Time,
    end: Time,
    /// Whether the warm-up is over.
    warm: bool,
    queue: Q,
    mutexes: Vec<M>,
    detectors: Vec<D>,
    alive: FixedBitSet,
    /// The numbers of permanent crashes and of restarts.
    crashed: u32,
    recoveries: u32,
    awareness: Awareness,
    /// The stable storage of each process.
    stored: BTreeMap<NodeId, M::Durable>,
    /// Messages kept for processes that are down.
    held_messages: BTreeMap<NodeId, Vec<(NodeId, M::Message)>>,
    /// The processes that are down and will restart; true if the client asks after the restart.
    down: BTreeMap<NodeId, bool>,
    /// The number of restarts of each process.
    incarnations: BTreeMap<NodeId, u32>,
    /// When the last notification reaches each process, where notifications come in one order.
    last_notification: BTreeMap<NodeId, Time>,
    /// The processes whose client has a request scheduled.
    due: FixedBitSet,
    /// The grants in use, with their weights. Only a process with numbered slots can have several.
    held: BTreeMap<(NodeId, GrantId), u32>,
    pending_requests: PendingRequests,
    membership: Incarnations,
    log: AgreedLog,
    permits: Permits,
    recovery: Recovery,
    /// The deferred events of each paused process, in order.
    paused: BTreeMap<NodeId, Vec<EventOf<M, D>>>,
    disturbed: DisturbanceCounts,
    /// The detector's events in the queue; a detector never stops.
    probes: usize,
    network: Network,
    checkers: Checkers,
    stats: Stats,
    hash: RunHash,
    trace: RunTrace<'a>,
    /// Whether clients still ask: until the measured time is over.
    asking: bool,
    timer_rng: Rng,
    think_rng: Rng,
    notification_rng: Rng,
    generations: u64,
    mutex_timers: TimerGenerations<M::Timer>,
    detector_timers: TimerGenerations<D::Timer>,
    mutex_out: Outbox<M>,
    detector_out: Outbox<D>,
}

/// Disarms a timer if it is armed in that generation; false if it is not.
#[inline]
fn disarm_if_current<T: Ord>(
    timers: &mut TimerGenerations<T>,
    timer: &(NodeId, T),
    generation: u64,
) -> bool {
    let current = timers.get(timer) == Some(&generation);
    if current {
        timers.remove(timer);
    }
    current
}

/// The processes of a set, in the order of ids.
fn node_ids(set: &FixedBitSet) -> impl Iterator<Item = NodeId> + '_ {
    set.ones().map(|index| NodeId(u32::try_from(index).expect("a node's index")))
}

impl<'a, M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'a, M, D, Q> {
    fn new(config: &'a Config, plan: FaultPlan, trace: RunTrace<'a>) -> Self {
        let nodes = config.nodes as usize;
        let mut alive = FixedBitSet::with_capacity(nodes);
        alive.insert_range(..);
        Self {
            config,
            plan,
            now: Time::ZERO,
            begin: Time::ZERO + config.warmup,
            end: Time::ZERO + config.duration,
            warm: config.warmup == Span::ZERO,
            queue: Q::new(network::typical_delay(config)),
            mutexes: Vec::with_capacity(nodes),
            detectors: Vec::with_capacity(nodes),
            alive,
            crashed: 0,
            recoveries: 0,
            awareness: Awareness::default(),
            stored: BTreeMap::new(),
            held_messages: BTreeMap::new(),
            down: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            last_notification: BTreeMap::new(),
            due: FixedBitSet::with_capacity(config.load.requesters as usize),
            held: BTreeMap::new(),
            pending_requests: PendingRequests::new(config),
            membership: Incarnations::new(config),
            log: AgreedLog::new(config),
            permits: Permits::new(config),
            recovery: Recovery::new(config),
            paused: BTreeMap::new(),
            disturbed: DisturbanceCounts::default(),
            probes: 0,
            network: Network::new(config),
            checkers: Checkers::new::<M>(config),
            stats: Stats::new::<M, D>(config),
            hash: RunHash::new(),
            trace,
            asking: true,
            timer_rng: Rng::fork(config.seed, "timers"),
            think_rng: Rng::fork(config.seed, "think"),
            notification_rng: Rng::fork(config.seed, "news"),
            generations: 0,
            mutex_timers: BTreeMap::new(),
            detector_timers: BTreeMap::new(),
            mutex_out: Outbox::new(),
            detector_out: Outbox::new(),
        }
    }

    fn start(&mut self) {
        for node in (0..self.config.nodes).map(NodeId) {
            let setup = self.log.setup(self.config.setup(node));
            self.mutexes.push(M::start(&setup, None, &mut self.mutex_out));
            self.carry_out_mutex(node);
            self.detectors.push(D::start(&setup, None, &mut self.detector_out));
            self.carry_out_detector(node);
        }
        let first = Time::ZERO + self.config.load.first_request;
        if self.config.load.entries != Some(0) {
            for node in
                (0..self.config.load.requesters).map(NodeId).filter(|&node| self.config.asks(node))
            {
                for _ in 0..self.config.load.clients {
                    let pause = self.config.load.first_pause(&mut self.think_rng);
                    self.schedule_request(first + pause, node);
                }
            }
        }
        if self.config.claims.follows_log {
            self.plan_log();
        } else if !self.config.resizes.is_empty() {
            (0..self.config.nodes).map(NodeId).for_each(|node| self.announce_resizes(node));
        }
        self.scramble_all();
    }

    /// Runs the measured time with its faults.
    #[allow(clippy::disallowed_methods)] // Wall-clock time is reported; no run depends on it.
    fn measure(&mut self) -> (Stats, f64) {
        let started = Instant::now();
        for (at, node, change) in self.plan.changes.clone() {
            self.warm_up(at);
            self.run_until(at);
            self.now = at;
            match change {
                FaultEvent::Crash => self.crash(node),
                FaultEvent::Down => self.go_down(node),
                FaultEvent::Restart => self.come_back(node),
                FaultEvent::Corrupt => self.corrupt(node),
                FaultEvent::Pause => self.pause(node),
                FaultEvent::Resume => self.resume(node),
            }
        }
        self.warm_up(self.end);
        self.run_until(self.end);
        self.check_detection();
        self.asking = false;
        (self.stats.clone(), started.elapsed().as_secs_f64())
    }

    /// If the warm-up ends before `until`, runs up to its end and resets the metrics.
    fn warm_up(&mut self, until: Time) {
        if !self.warm && self.begin < until {
            self.run_until(self.begin);
            self.stats.begin();
            self.warm = true;
        }
    }

    /// Whether an event at that time is measured.
    #[inline]
    fn measured(&self, at: Time) -> bool {
        at <= self.end && (at > self.begin || self.begin == Time::ZERO)
    }

    fn run_until(&mut self, until: Time) {
        while let Some((at, event)) = self.queue.pop(until) {
            self.step(at, event);
        }
    }

    /// Every process but `node`, in the order of ids.
    #[inline(always)]
    fn others(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<M, D, Q> {
        (0..self.config.nodes).map(NodeId).filter(move |&other| other != node)
    }

    /// The live processes, in the order of ids.
    fn live(&self) -> Vec<NodeId> {
        node_ids(&self.alive).collect()
    }

    fn push_probe(&mut self, at: Time, event: EventOf<M, D>) {
        self.probes += 1;
        self.queue.push(at, event);
    }

    /// Whether only the detector's events are left in the queue.
    fn only_probes_left(&self) -> bool {
        self.queue.len() == self.probes
    }

    /// Handles one event.
    #[inline]
    fn step(&mut self, at: Time, event: EventOf<M, D>) {
        self.now = at;
        if !self.paused.is_empty() && self.defer_if_paused(&event) {
            return;
        }
        self.dispatch(event);
        if self.recovery.pending() {
            self.check_settled();
        }
    }

    #[inline(always)]
    fn dispatch(&mut self, event: EventOf<M, D>) {
        match event {
            Event::Deliver { from, to, message } => {
                let content = RunHash::of(&message);
                self.deliver(from, to, message, content);
            }
            Event::DeliverAll { from, message } => {
                let content = RunHash::of(&*message);
                for to in self.others(from) {
                    self.deliver(from, to, M::Message::clone(&message), content);
                }
            }
            Event::Arrive(arrived) => {
                let (from, to, message) = *arrived;
                self.enter_receive_queue(from, to, message);
            }
            Event::Probe { from, to, message } => {
                self.probes -= 1;
                self.probe(from, to, message);
            }
            Event::ProbeAll { from, message } => {
                self.probes -= 1;
                for to in self.others(from) {
                    self.probe(from, to, D::Message::clone(&message));
                }
            }
            Event::Timer { node, generation, timer } => {
                let key = (node, timer);
                if disarm_if_current(&mut self.mutex_timers, &key, generation) {
                    self.mutex_input(node, Label::bare(3), Input::Expire(key.1));
                }
            }
            Event::ProbeTimer { node, generation, timer } => {
                self.probes -= 1;
                let key = (node, timer);
                if disarm_if_current(&mut self.detector_timers, &key, generation) {
                    self.detector_input(node, Label::bare(4), Input::Expire(key.1));
                }
            }
            Event::Acquire { node, incarnation } => self.acquire(node, incarnation),
            Event::Release { node, grant } => self.release(node, grant),
            Event::CrashNotice { node, crashed, incarnation } => {
                if self.incarnation_of(node) == incarnation {
                    self.notify_crash(node, crashed);
                }
            }
            Event::MembershipNotice { node, incarnation, place } => {
                self.on_membership_notice(node, incarnation, place)
            }
            Event::ResizeNotice { node, incarnation, place } => {
                self.on_resize_notice(node, incarnation, place)
            }
            Event::Client(client) => self.on_client(client.0, client.1),
            Event::Confirm { node, grant } => self.confirm(node, grant),
            Event::SessionEnd { node, grant } => self.on_session_end(node, grant),
            Event::Decide { place } => self.decide(place),
            Event::Apply { node, start, place } => self.apply(node, start, place),
            Event::Withdraw { node, number } => self.withdraw_if_waiting(node, number),
            Event::Received(received) => {
                let (from, to, message, incarnation) = *received;
                if self.incarnation_of(to) == incarnation {
                    let content = RunHash::of(&message);
                    self.deliver(from, to, message, content);
                }
            }
        }
    }

    /// A message has arrived where receives wait for each other.
    fn enter_receive_queue(&mut self, from: NodeId, to: NodeId, message: M::Message) {
        let restarts = self.config.claims.recovers || self.config.claims.returns;
        if restarts && !self.alive.contains(to.index()) {
            return self.keep(from, to, message);
        }
        let received = self.network.receive(to, self.now);
        let event = if restarts {
            Event::Received(Box::new((from, to, message, self.incarnation_of(to))))
        } else {
            Event::Deliver { from, to, message }
        };
        self.queue.push(received, event);
    }

    #[inline(always)]
    fn deliver(&mut self, from: NodeId, to: NodeId, message: M::Message, content: u64) {
        if !self.alive.contains(to.index()) {
            self.keep(from, to, message);
            return;
        }
        self.stats.delivered += 1;
        self.stats.traffic[to.index()].received += 1;
        if self.trace.is_on() {
            let (kind, text) = described(&message);
            self.write(
                to,
                &trace::Event::Deliver { kind: kind.into(), from, message: text.into() },
            );
        }
        if M::MECHANISM == Mechanism::Permissions && self.checkers.audit.is_active() {
            self.checkers.audit.delivered(from, to, message.carried());
        }
        self.live_mutex_input(to, Label::of(1, from, content), Input::Deliver { from, message });
    }

    #[inline]
    fn probe(&mut self, from: NodeId, to: NodeId, message: D::Message) {
        if !self.alive.contains(to.index()) {
            return;
        }
        let content = RunHash::of(&message);
        if self.trace.is_on() {
            let (kind, text) = described(&message);
            self.write(
                to,
                &trace::Event::Deliver { kind: kind.into(), from, message: text.into() },
            );
        }
        self.detector_input(to, Label::of(2, from, content), Input::Deliver { from, message });
    }

    /// Hands one input to a mutex protocol and applies its effects. `label` identifies the input in
    /// the hash.
    #[inline]
    fn mutex_input(&mut self, node: NodeId, label: Label, input: InputOf<M>) {
        if self.alive.contains(node.index()) {
            self.live_mutex_input(node, label, input);
        }
    }

    #[inline(always)]
    fn live_mutex_input(&mut self, node: NodeId, label: Label, input: InputOf<M>) {
        self.count(node, label);
        let before = self.checkers.watches_queue().then(|| self.mutexes[node.index()].observe());
        if let Err(refusal) =
            self.mutexes[node.index()].handle(self.now, input, &mut self.mutex_out)
        {
            self.checkers.refused(node, self.now, refusal);
        }
        if let Some(before) = before {
            let after = self.mutexes[node.index()].observe();
            self.checkers.decided(&before, &after, node, self.now);
        }
        if !self.mutex_out.is_empty() {
            self.carry_out_mutex(node);
        }
        if M::MECHANISM == Mechanism::Tokens && self.checkers.audit.observes_inputs() {
            self.check_tokens(node);
        }
    }

    /// Reports a sent token to the checker of tokens. A token is sent to one process at a time.
    #[inline(never)]
    fn check_sent_token(&mut self, to: &To, carried: Option<Carried>) {
        if let To::One(to) = to {
            let violation = self.checkers.audit.sent(*to, carried, self.now);
            self.checkers.report(violation);
        }
    }

    /// Reports the tokens that a process holds to the checker of tokens.
    #[inline(never)]
    fn check_tokens(&mut self, node: NodeId) {
        let held = self.mutexes[node.index()].observe().tokens;
        let violation = self.checkers.audit.holds(node, held, self.now);
        self.checkers.report(violation);
    }

    /// The stamp of a process, where a checker or the trace needs it.
    fn stamp_of(&self, node: NodeId) -> Option<Stamp> {
        let wanted = M::MECHANISM == Mechanism::Permissions
            && (self.checkers.audit.is_active() || self.trace.is_on());
        wanted.then(|| self.mutexes[node.index()].observe().stamp).flatten()
    }

    #[inline]
    fn detector_input(&mut self, node: NodeId, label: Label, input: InputOf<D>) {
        if !self.alive.contains(node.index()) {
            return;
        }
        self.count(node, label);
        if let Err(refusal) =
            self.detectors[node.index()].handle(self.now, input, &mut self.detector_out)
        {
            self.checkers.refused(node, self.now, refusal);
        }
        if !self.detector_out.is_empty() {
            self.carry_out_detector(node);
        }
    }

    #[inline]
    fn count(&mut self, node: NodeId, label: Label) {
        self.stats.events += 1;
        self.hash.add_three(self.now.0, u64::from(node.0) << 32 | label.word, label.content);
    }

    fn carry_out_mutex(&mut self, node: NodeId) {
        while let Some(effect) = self.mutex_out.pop() {
            match effect {
                Effect::Send { to, message } => {
                    if M::MECHANISM == Mechanism::Tokens && self.checkers.audit.observes_inputs() {
                        self.check_sent_token(&to, message.carried());
                    }
                    self.send(node, to, message);
                }
                Effect::Notify(notice) => self.noted(node, &notice),
                Effect::Arm { timer, least, most } => {
                    let (at, generation) = self.arm(least, most);
                    self.mutex_timers.insert((node, timer.clone()), generation);
                    self.queue.push(at, Event::Timer { node, generation, timer });
                }
                Effect::Disarm(timer) => {
                    self.mutex_timers.remove(&(node, timer));
                }
                Effect::Persist(durable) => {
                    if self.config.claims.recovers {
                        self.stored.insert(node, durable);
                    }
                }
            }
        }
    }

    fn carry_out_detector(&mut self, node: NodeId) {
        let mut notices = Vec::new();
        while let Some(effect) = self.detector_out.pop() {
            match effect {
                Effect::Send { to, message } => self.send_probe(node, to, message),
                Effect::Notify(notice) => match *notice {
                    Notice::Suspected { node: whom, .. } => notices.push(whom),
                    Notice::Granted { .. }
                    | Notice::Asked
                    | Notice::Lost { .. }
                    | Notice::Adopted { .. }
                    | Notice::AdoptionRefused { .. }
                    | Notice::TooLarge { .. } => {}
                },
                Effect::Arm { timer, least, most } => {
                    let (at, generation) = self.arm(least, most);
                    self.detector_timers.insert((node, timer.clone()), generation);
                    self.push_probe(at, Event::ProbeTimer { node, generation, timer });
                }
                Effect::Disarm(timer) => {
                    self.detector_timers.remove(&(node, timer));
                }
                Effect::Persist(_) => {}
            }
        }
        for crashed in notices {
            self.stats.suspicions += 1;
            self.notify_crash(node, crashed);
        }
    }

    fn arm(&mut self, least: Span, most: Span) -> (Time, u64) {
        let after =
            if least == most { least } else { Span(self.timer_rng.within(least.0, most.0)) };
        self.generations += 1;
        (self.now + after, self.generations)
    }

    /// Writes violations found since the last call to the trace.
    fn write_violations(&mut self) {
        self.trace.write_violations(self.now, self.checkers.violations());
    }

    #[inline]
    fn write(&mut self, node: NodeId, event: &trace::Event<'_>) {
        self.trace.write(self.now, node, event);
    }
}
