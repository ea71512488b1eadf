//! A run in which every step is prescribed, on the same simulator with the same checkers.
//!
//! Only its event queue differs from that of other runs: events there have no time. Each message
//! sent, each armed timer, each notification and each client inside waits until a step of the
//! [`Script`] picks it. Step number i happens at time i, in time units. After the last step, if so
//! configured, the run goes on in a fixed order, round after round: the messages in flight at the
//! start of the round arrive, the oldest first; clients inside release; pending notifications are
//! delivered. Timers expire only in a round in which nothing else is left to do while a request
//! waits. So a request that waits at the end waits forever.
//!
//! - `queue.rs`: what is in flight, and which steps are possible next;
//! - `error.rs`: why a step is refused.

mod error;
mod queue;

use kgate_core::{
    Incarnation, Input, InputOf, Mechanism, Never, NodeId, Observation, Outbox, TransientFaults,
    ViewId,
};
use kgate_core::{Protocol, Refusal, Setup, Span, Time};
use kgate_spec::{Fate, Step, Violation, trace};

use super::event::{Event, EventOf};
use super::{Label, OpenTrace, RunError, Simulation};
use crate::config::{Config, ConfigError, Detector};
use crate::cost::{Cost, ReceiveCost, SendCost};
use crate::faults::{Down, FaultPlan};
use crate::hash::RunHash;
use crate::latency::Latency;
use crate::load::Load;
use crate::run_trace::{RunTrace, described};
pub use error::{ImpossibleStep, StartError, StepError};
use queue::StepQueue;

#[cfg(test)]
mod tests;

/// A scripted run.
#[derive(Clone, Debug)]
pub struct Script<'a> {
    /// The configuration. Its costs, load, times and faults are ignored: the script prescribes
    /// them.
    pub config: Config,
    /// The steps.
    pub steps: &'a [Step],
    /// Whether channels are FIFO: only the oldest message of a channel can arrive.
    pub fifo: bool,
    /// Whether a step that is not possible is skipped instead of ending the run.
    pub lenient: bool,
    /// Whether the run goes on after the last step until nothing is left to happen, so that
    /// starvation can be checked.
    pub run_to_rest: bool,
}

/// The results of a scripted run.
#[derive(Clone, Debug)]
pub struct Played {
    /// The violated properties, in the order of detection.
    pub violations: Vec<Violation>,
    /// The live processes that wait at the end.
    pub waiting: Vec<NodeId>,
    /// The processes that are inside at the end.
    pub inside: Vec<NodeId>,
    /// The indices of skipped steps, starting at 0.
    pub skipped: Vec<usize>,
    /// The number of steps after the script's last one.
    pub steps_after: u64,
    /// Whether nothing was left to happen at the end, apart from timers of processes that want
    /// nothing.
    pub quiet: bool,
    /// The hash of every step, including those after the script's last one.
    pub hash: u64,
}

/// Why a script was not played to its end.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The run cannot start, or its trace cannot be written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The initial states of a state-model script are invalid.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A step is not enabled at its position in the script.
    #[error(transparent)]
    Impossible(ImpossibleStep),
}

impl From<ConfigError> for PlayError {
    fn from(error: ConfigError) -> Self {
        Self::Run(error.into())
    }
}

/// The number of steps without a grant, after the last one of the script, after which a run counts
/// as endless. If all processes ask all others, one round alone has n² steps; the bound keeps the
/// trace of an endless run in memory.
fn patience(nodes: u32) -> u64 {
    let nodes = u64::from(nodes);
    10_000 + (100 * nodes * nodes).min(10_000_000)
}

/// Plays a script with the protocol `M`, named `name`. With `trace` set, a trace is written.
pub fn play<M: TransientFaults>(
    name: &str,
    script: &Script<'_>,
    trace: Option<OpenTrace<'_>>,
) -> Result<Played, PlayError> {
    let config = script.config();
    config.validate()?;
    let plan = FaultPlan::generate(&config)?;
    let header = serde_json::json!({ "protocol": name, "n": config.nodes, "k": config.k });
    let trace = RunTrace::open(trace, &header)?;
    let mut run = Simulation::<M, NoDetector, ScriptQueue<M>>::new(&config, plan, trace);
    run.start();
    let mut skipped = Vec::new();
    for (index, step) in script.steps.iter().enumerate() {
        run.now += Span::UNIT;
        match run.take(name, step, &script.steps[index + 1..], script.fifo) {
            Ok(()) => run.write_violations(),
            Err(_) if script.lenient => skipped.push(index),
            Err(reason) => {
                let (text, possible) = (step.to_string(), run.possible(script.fifo));
                return Err(PlayError::Impossible(ImpossibleStep {
                    step: index,
                    text,
                    reason,
                    possible,
                }));
            }
        }
    }
    if M::MECHANISM == Mechanism::Slots && run.is_idle() {
        run.check_unused_slots();
        run.write_violations();
    }
    let steps_after = if script.run_to_rest { run.run_to_rest() } else { 0 };
    run.write_violations();
    let (waiting, inside) = (run.checkers.waiting_nodes(), run.inside_nodes());
    let quiet = run.is_quiet();
    run.trace.finish()?;
    Ok(Played {
        waiting,
        inside,
        skipped,
        steps_after,
        quiet,
        hash: run.hash.value(),
        violations: run.checkers.into_violations(),
    })
}

impl Script<'_> {
    /// The configuration of a run in which nothing happens by itself.
    fn config(&self) -> Config {
        let mut config = self.config.clone();
        let zero = Span::ZERO;
        config.cost = Cost {
            send: zero,
            latency: Latency::Constant(zero),
            receive: zero,
            send_cost: SendCost::Flat,
            receive_cost: ReceiveCost::Parallel,
            fifo: false,
        };
        config.load =
            Load { requesters: config.nodes, hold: Span::UNIT, entries: Some(0), ..Load::PLAIN };
        (config.only, config.warmup) = (Vec::new(), zero);
        config.resizes = Vec::new();
        // Notifications wait for their steps as everything else does.
        config.detection.oracle = config.claims.detector.map(|_| zero);
        config.detection.interval = config.detection.interval.max(Span::UNIT);
        (config.crashes, config.random_crashes, config.random_recoveries) = (Vec::new(), 0, 0);
        config.transient = crate::Transient::default();
        config.duration = Span::UNIT.times(1 << 20);
        config
    }
}

/// The event queue of a scripted run of `M`.
type ScriptQueue<M> = StepQueue<EventOf<M, NoDetector>>;

impl<M: TransientFaults> Simulation<'_, M, NoDetector, ScriptQueue<M>> {
    /// Takes one step, or leaves the run unchanged.
    fn take(
        &mut self,
        name: &str,
        step: &Step,
        later: &[Step],
        fifo: bool,
    ) -> Result<(), StepError> {
        match step {
            Step::Acquire { node, weight } => self.take_acquire(*node, *weight),
            Step::Withdraw(node) => self.take_withdraw(*node),
            Step::Release(node) => self.take_release(*node, 1),
            Step::ReleaseOne { node, which } => self.take_release(*node, *which),
            Step::Message { from, to, kind, which, fate } => {
                self.take_message((*from, *to), kind, *which, *fate, fifo)
            }
            Step::Expire { node, timer } => self.take_expire(*node, timer),
            Step::Crash(node) => self.take_crash(*node, later.contains(&Step::Restart(*node))),
            Step::Restart(node) => self.take_restart(*node),
            Step::NotifyCrash { node, of } => self.take_crash_notice(name, *node, *of),
            Step::NotifyReturn { node, of } => self.take_return_notice(*node, *of),
            Step::Resize { node, k } => self.take_resize(*node, *k),
        }
    }

    fn take_acquire(&mut self, node: NodeId, weight: u32) -> Result<(), StepError> {
        self.check_up(node)?;
        if self.config.claims.slots {
            let most = self.weight_limit(node);
            if weight == 0 || weight > most {
                return Err(StepError::Weight { node, weight, most });
            }
            self.request(node, weight);
            return Ok(());
        }
        if self.checkers.is_waiting(node) {
            return Err(StepError::AlreadyWaiting(node));
        }
        if self.is_inside(node) && !self.config.claims.asks_inside {
            return Err(StepError::AlreadyInside(node));
        }
        self.request(node, weight);
        Ok(())
    }

    fn take_withdraw(&mut self, node: NodeId) -> Result<(), StepError> {
        self.check_up(node)?;
        if !self.checkers.is_waiting(node) {
            return Err(StepError::NotWaiting(node));
        }
        self.withdraw(node);
        Ok(())
    }

    /// Releases the grant number `which` of those of `node`, starting at 1.
    fn take_release(&mut self, node: NodeId, which: usize) -> Result<(), StepError> {
        self.check_up(node)?;
        let grant =
            self.grants_of(node).nth(which - 1).ok_or(StepError::NotInside { node, which })?;
        let ends = (node, grant);
        self.queue.remove_where(
            |event| matches!(event, Event::Release { node, grant } if (*node, *grant) == ends),
        );
        self.release(node, grant);
        Ok(())
    }

    fn take_message(
        &mut self,
        (from, to): (NodeId, NodeId),
        kind: &str,
        which: usize,
        fate: Fate,
        fifo: bool,
    ) -> Result<(), StepError> {
        self.check_exists(from)?;
        self.check_exists(to)?;
        let channel = self.channel(from, to);
        let mut alike = channel.iter().copied().filter(|&place| self.kind_at(place) == Some(kind));
        let place = alike.nth(which - 1).ok_or_else(|| {
            let kind = kind.to_owned();
            StepError::NoSuchMessage { from, to, kind, which }
        })?;
        if fate == Fate::Arrives {
            if fifo && channel.first() != Some(&place) {
                return Err(StepError::OutOfOrder { from, to });
            }
            if self.config.down == Down::Kept && self.down.contains_key(&to) {
                return Err(StepError::KeptWhileDown(to));
            }
        }
        let event = self.queue.remove(place);
        let Event::Deliver { message, .. } = &event else { unreachable!("a place in a channel") };
        match fate {
            Fate::Arrives => self.step(self.now, event),
            Fate::Lost => {
                self.disturbed.lost += 1;
                self.count(to, Label::of(13, from, RunHash::of(message)));
                self.write_lost(from, to, message);
            }
            Fate::Duplicated => {
                self.count(to, Label::of(14, from, RunHash::of(message)));
                let (kind, text) = described(message);
                self.write(
                    from,
                    &trace::Event::Duplicated { kind: kind.into(), to, message: text.into() },
                );
                self.queue.insert(place, event.clone());
                self.queue.insert(self.queue.events().len(), event);
            }
        }
        Ok(())
    }

    fn take_expire(&mut self, node: NodeId, timer: &str) -> Result<(), StepError> {
        self.check_up(node)?;
        let place =
            self.timers().into_iter().find(|(_, whose, name)| *whose == node && name == timer);
        let (place, ..) =
            place.ok_or_else(|| StepError::NoSuchTimer { node, timer: timer.to_owned() })?;
        let event = self.queue.remove(place);
        self.step(self.now, event);
        Ok(())
    }

    /// Crashes a process: permanently, unless a later step restarts it.
    fn take_crash(&mut self, node: NodeId, comes_back: bool) -> Result<(), StepError> {
        self.check_up(node)?;
        if comes_back && (self.config.claims.recovers || self.config.claims.returns) {
            self.go_down(node)
        } else {
            self.crash(node)
        }
        Ok(())
    }

    fn take_restart(&mut self, node: NodeId) -> Result<(), StepError> {
        self.check_exists(node)?;
        if !self.down.contains_key(&node) {
            let down = !self.alive.contains(node.index());
            return Err(match (down, self.config.claims.recovers || self.config.claims.returns) {
                (false, _) => StepError::IsUp(node),
                (true, false) => StepError::NoRestart,
                (true, true) => StepError::CrashedForGood(node),
            });
        }
        self.come_back(node);
        Ok(())
    }

    fn take_crash_notice(&mut self, name: &str, node: NodeId, of: NodeId) -> Result<(), StepError> {
        self.check_up(node)?;
        self.check_exists(of)?;
        if self.config.claims.returns {
            return self.take_notice(node, &Step::NotifyCrash { node, of });
        }
        let Some(detector) = self.config.claims.detector else {
            return Err(StepError::NoDetector { protocol: name.to_owned() });
        };
        let notices = self.crash_notices_for(node);
        if let Some(&(place, _)) = notices.iter().find(|(_, crashed)| *crashed == of) {
            if detector == Detector::Log && notices[0].1 != of {
                return Err(StepError::CrashOutOfOrder { node, first: notices[0].1 });
            }
            let event = self.queue.remove(place);
            self.step(self.now, event);
            return Ok(());
        }
        let incarnations = self.alive.contains(of.index()) || self.down.contains_key(&of);
        match (incarnations, detector) {
            (false, _) => Err(StepError::AlreadyNotified { node, of }),
            (true, Detector::Log) => Err(StepError::NotCrashedForGood(of)),
            // A false suspicion, which a checker will report.
            (true, Detector::Sparse | Detector::AllToAll) => {
                self.notify_crash(node, of);
                Ok(())
            }
        }
    }

    fn take_return_notice(&mut self, node: NodeId, of: NodeId) -> Result<(), StepError> {
        self.check_up(node)?;
        self.check_exists(of)?;
        if self.config.claims.returns {
            return self.take_notice(node, &Step::NotifyReturn { node, of });
        }
        self.check_up(of)?;
        let incarnation = Incarnation(self.incarnation_of(of));
        self.mutex_input(
            node,
            Label::of(15, of, 0),
            Input::Joined { node: of, incarnation, view: ViewId(incarnation.0) },
        );
        Ok(())
    }

    /// Notifies a process that restarts without state: in one order from a log; without a log, of
    /// crashes in any order.
    fn take_notice(&mut self, node: NodeId, step: &Step) -> Result<(), StepError> {
        let notices = self.membership_notices_for(node);
        let place = if self.membership.is_ordered() {
            let (place, first) = notices.first().ok_or(StepError::LogExhausted(node))?;
            if first != step {
                return Err(StepError::LogOutOfOrder { first: first.clone() });
            }
            *place
        } else if matches!(step, Step::NotifyReturn { .. }) {
            return Err(StepError::NoReturnNotices);
        } else {
            let found = notices.iter().find(|(_, other)| other == step);
            found.ok_or(StepError::NoSuchNotice(node))?.0
        };
        let event = self.queue.remove(place);
        self.step(self.now, event);
        Ok(())
    }

    fn take_resize(&mut self, node: NodeId, k: u32) -> Result<(), StepError> {
        self.check_up(node)?;
        if k == 0 {
            return Err(StepError::ZeroSlots);
        }
        self.resize(node, k);
        Ok(())
    }

    /// Runs on, round after round; the number of steps that took.
    fn run_to_rest(&mut self) -> u64 {
        let begun = self.now;
        let (mut grants, mut since) = (self.stats.grants, self.now);
        let patience = Span::UNIT.times(patience(self.config.nodes));
        let mut stalled = false;
        while !self.is_finished() && !stalled {
            self.round();
            if grants != self.stats.grants {
                (grants, since) = (self.stats.grants, self.now);
            }
            stalled = self.now.since(since) > patience;
        }
        let steps = self.now.since(begun).0 / Span::UNIT.0;
        self.now += Span::UNIT; // The verdict is not part of the last step.
        if self.checkers.waiting() > 0 && self.crashed <= self.config.claims.tolerates {
            if stalled { self.checkers.stalled(self.now) } else { self.checkers.starved(self.now) }
        }
        if M::MECHANISM == Mechanism::Slots && self.is_quiet() {
            self.check_residue();
        }
        steps
    }

    /// Whether the run is over. A self-stabilising protocol never rests: it is over when no request
    /// waits and no client is inside.
    fn is_finished(&self) -> bool {
        let nobody_asks = self.checkers.waiting() == 0 && self.held.is_empty();
        self.is_quiet() || self.config.claims.heals && nobody_asks
    }

    /// One round: the events pending at its start happen, in order.
    fn round(&mut self) {
        let all = self.queue.remove_where(|_| true);
        let rank = |event: &EventOf<M, NoDetector>| match event {
            Event::Deliver { .. } => 0,
            Event::Release { .. } => 1,
            Event::CrashNotice { .. }
            | Event::MembershipNotice { .. }
            | Event::Decide { .. }
            | Event::Client(_)
            | Event::Confirm { .. }
            | Event::SessionEnd { .. }
            | Event::Apply { .. } => 2,
            Event::Timer { .. } => 3,
            Event::DeliverAll { .. }
            | Event::Arrive(_)
            | Event::Probe { .. }
            | Event::ProbeAll { .. }
            | Event::ProbeTimer { .. }
            | Event::Acquire { .. }
            | Event::ResizeNotice { .. }
            | Event::Withdraw { .. }
            | Event::Received(_) => unreachable!("not in a script"),
        };
        let only_timers = all.iter().all(|event| rank(event) == 3 || !self.is_live(event));
        for turn in 0..4 {
            for event in all.iter().filter(|event| rank(event) == turn) {
                if turn == 3 && !only_timers {
                    self.queue.insert(self.queue.events().len(), event.clone());
                } else if self.is_live(event) {
                    self.now += Span::UNIT;
                    self.step(self.now, event.clone());
                    self.write_violations();
                }
            }
        }
    }
}

/// Replaces the detector: the script's steps notify of crashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NoDetector;

impl Protocol for NoDetector {
    const NAME: &'static str = "none";
    type Message = Never;
    type Timer = Never;
    type Durable = Never;

    fn start(_setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        Self
    }

    fn handle(
        &mut self,
        _now: Time,
        _input: InputOf<Self>,
        _out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    fn observe(&self) -> Observation {
        Observation::default()
    }
}
