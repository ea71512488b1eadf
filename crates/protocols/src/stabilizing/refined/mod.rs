//! Guarded commands over messages: any algorithm of the state model ([`Rules`]) as an ordinary
//! protocol.
//!
//! In the state model a process reads its neighbours' states and changes its own in one atomic
//! step, while no neighbour does. Here it reads copies of them that came in messages. A clock for
//! each process makes the copies as good as the originals.
//!
//! # The algorithm
//!
//! A process has a clock, its state, and for each neighbour the newest (clock, state) that it has
//! received.
//!
//! - *Tick*: a process whose clock is smaller than all that it has received from its neighbours
//!   (ties go by id) takes at most one enabled step, advances its clock by 1 and sends its clock
//!   and state to all its neighbours. A state changes by ticks alone.
//! - *Receive*: a received pair replaces the one before, unless its clock is smaller. Channels may
//!   reorder, repeat and lose.
//! - *Catch up*: a process that has received a clock more than 1 ahead of its own adopts it,
//!   without a step, and sends its clock and state.
//! - *Resend*: every process sends its clock and state again once per interval, so that no single
//!   message is ever needed.
//!
//! A step that is `privileged` goes to the client first: if that waits, it is inside from this tick
//! until it releases, and the process ticks on without that step (other steps are taken as usual).
//! If no client waits, the step is taken at once. After a release it is taken at the next tick even
//! if the client waits again; otherwise a client that always waits would never pass it on.
//!
//! # Why it is correct
//!
//! Clocks never decrease. Let B be the greatest clock anywhere (own clocks, received ones, messages
//! in transit) when the last transient fault ends; after a clean start there are no forged values,
//! and B = -1. So a clock above B, wherever it stands, was really its owner's, together with that
//! state, at some time since.
//!
//! *Freshness: a tick at a clock above B sees the true present states of all neighbours.* Let p
//! tick at clock c > B, having received from q the clock c' with (c, p) < (c', q). Then c' >= c >
//! B, so q did have clock c' and the state that p sees. Had it changed its state since, it had
//! ticked at a clock c" >= c', and for that had received from p a clock d with (d, p) > (c", q) >=
//! (c', q) > (c, p), so d > c. But d > B was really p's clock, and p is only at c.
//!
//! *Exclusion.* Each tick sees the present, so the ticks, one after the other in any order in which
//! they could have happened, are an execution of the state model in which neighbours never act
//! together. All that a paper proves for its rules under a distributed daemon (or a central one)
//! holds from here on, from whatever states they are in.
//!
//! *Convergence: soon all clocks are above B.* Let E be the interval of resending plus the longest
//! delay, D the diameter. Within E all forged messages in transit have arrived; the greatest forged
//! clock is some process's own, or has been received by one, which has caught up to B-1 at least. A
//! process with a clock of x makes its neighbours catch up to x-1 within E, so after D more E every
//! process is at B-1-D or above. From then on the smallest clock m grows: after E every process has
//! received m or more from each neighbour, the first of those at m (by id) ticks, E later the
//! second can, and so on, so it is m+1 after n E at most. (A received clock may be too high: then
//! the process ticks too early, which is wrong but no delay. It is never too low for longer than
//! E.) So after (1 + D + n(D+2)) E every tick is right. This needs no bound on the number of forged
//! messages, FIFO or not, only that they arrive within E (those that get lost do not count for B).
//!
//! *Weak fairness: then every process ticks again and again.* Neighbours' clocks above B differ by
//! at most 1, since a process never gets more than 1 ahead of what it has received. So no process
//! is more than D ahead of the smallest clock, which passes it in n(D+1) E; before that it has
//! ticked.
//!
//! # Cost
//!
//! Every process sends one message to each neighbour per tick, whether a client requests or not,
//! and ticks as fast as its neighbours permit. State: a clock and a state for itself and each
//! neighbour. Ties go by *scattered* ids: the initial order of waiting is an acyclic orientation of
//! the edges that then reverses itself, and along a ring numbered in order only one process could
//! tick at a time, for ever.
//!
//! # Limits
//!
//! Clocks are unbounded in the proof and have 64 bits here. A transient fault can leave any clock
//! below 2^62 and messages are accepted below 2^63: the range between lasts for more than a century
//! of one tick per nanosecond. No process gets beyond 2^63, since a tick needs neighbours that are
//! ahead. A Byzantine process that claims 2^63 - 1 stops all others: this layer tolerates
//! accidents, not lies.
//!
//! # Sources
//!
//! This is an atomicity refinement by local mutual exclusion (Nesterenko and Arora,
//! "Stabilization-preserving atomicity refinement", 2002: a stabilizing algorithm stays so when a
//! stabilizing scheduler for neighbours is put below it). Clocks of neighbours that keep within 1
//! of each other are the asynchronous unison of Couvreur, Francez and Gouda (1992) and, before it,
//! Awerbuch's synchronizer (1985); that the smallest of a neighbourhood acts and then stands behind
//! all is Barbosa's and Gafni's edge reversal (1989). The combination and the argument above are
//! kgate's own.

mod message;

pub use message::{MessageOf, RefinedMessage};

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use kgate_core::{
    Explorable, GrantId, Input, InputOf, Never, NodeId, Notice, Observation, Outbox, Phase,
    Protocol, Refusal, Rules, Setup, Span, Suspend, Time, To, TransientFaults, View,
};

/// A transient fault leaves clocks below this.
const FAULTY: u64 = 1 << 62;
/// A message with a clock of this or more is malformed.
const LIMIT: u64 = 1 << 63;

/// The timers of [`Refined`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefinedTimer {
    /// Fires once per interval, for ever: armed at the start and whenever it fires, never disarmed.
    Resend,
}

/// The rules `R` at one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refined<R: Rules> {
    setup: Setup,
    clock: u64,
    state: R::State,
    /// The newest clock and state received from each neighbour, in the order of the graph.
    clocks: Box<[u64]>,
    states: Box<[R::State]>,
    phase: Phase,
    /// The client has used the present privilege: it passes on, even if the client waits again.
    spent: bool,
    /// The number of grants. The newest is named by this number.
    grants: u64,
    /// A planted bug, to validate the checker: neighbours with equal clocks tick both.
    #[cfg(test)]
    careless: bool,
}

impl<R: Rules> Refined<R> {
    fn neighbours(&self) -> &[NodeId] {
        neighbours(&self.setup)
    }

    fn on_acquire(&mut self, weight: u32, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        if weight != 1 {
            return Err(Refusal::Weight { weight, most: 1 });
        }
        if self.phase != Phase::Idle {
            return Err(Refusal::Busy);
        }
        self.phase = Phase::Waiting;
        out.notify(Notice::Asked);
        self.proceed(out);
        Ok(())
    }

    fn on_withdraw(&mut self) -> Result<(), Refusal> {
        if self.phase != Phase::Waiting {
            return Err(Refusal::NoSuchRequest);
        }
        self.phase = Phase::Idle;
        Ok(())
    }

    fn on_release(&mut self, grant: GrantId, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        if self.phase != Phase::Holding || grant.0 != self.grants {
            return Err(Refusal::NoSuchRequest);
        }
        self.phase = Phase::Idle;
        self.spent = true;
        self.proceed(out);
        Ok(())
    }

    fn on_state(
        &mut self,
        from: NodeId,
        told: MessageOf<R>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if from == self.setup.me || from.0 >= self.setup.nodes {
            return Err(Refusal::UnknownNode(from));
        }
        let Ok(at) = self.neighbours().binary_search(&from) else {
            return Err(Refusal::Malformed("a state of a process that is no neighbour"));
        };
        if told.clock >= LIMIT {
            return Err(Refusal::Malformed("a clock that nobody reaches in a century"));
        }
        if !R::in_domain(&at_node(&self.setup, from), &told.state) {
            return Err(Refusal::Malformed("a state that its sender cannot have"));
        }
        if told.clock >= self.clocks[at] {
            self.clocks[at] = told.clock;
            self.states[at] = told.state;
        }
        self.proceed(out);
        Ok(())
    }

    fn on_resend(&mut self, out: &mut Outbox<Self>) {
        out.arm(RefinedTimer::Resend, interval(&self.setup));
        if !self.proceed(out) {
            self.tell(out);
        }
    }

    /// Catches up and ticks if possible, and sends its clock and state; whether it did. It ticks
    /// once at most: while all clocks are within 1 of their neighbours' a second tick is never
    /// enabled, and otherwise the timer brings it.
    fn proceed(&mut self, out: &mut Outbox<Self>) -> bool {
        if !R::in_domain(&self.setup, &self.state) {
            // After a fault memory may hold anything; this is a part of the fault.
            self.state = R::clean(&self.setup);
        }
        let before = self.clock;
        let highest = self.clocks.iter().copied().max().unwrap_or(0);
        if highest > self.clock + 1 {
            self.clock = highest;
        }
        if self.comes_first() {
            self.tick(out);
        }
        let moved = self.clock != before;
        if moved {
            self.tell(out);
        }
        moved
    }

    /// Whether it may tick: it is behind all its neighbours.
    fn comes_first(&self) -> bool {
        let mine = (self.clock, scattered(self.setup.me));
        let behind = |(&clock, &node): (&u64, &NodeId)| {
            #[cfg(test)]
            if self.careless && self.clock == clock {
                return true;
            }
            mine < (clock, scattered(node))
        };
        self.clocks.iter().zip(self.neighbours()).all(behind)
    }

    /// One step of the state model, or none.
    fn tick(&mut self, out: &mut Outbox<Self>) {
        let mut steps = Vec::new();
        R::enabled(
            View { setup: &self.setup, own: &self.state, neighbours: &self.states },
            &mut steps,
        );
        let privileged = steps.iter().any(|step| step.privileged);
        self.spent &= privileged; // If not, that privilege has gone without its step.
        if privileged && self.phase == Phase::Waiting && !self.spent {
            self.phase = Phase::Holding;
            self.grants += 1;
            out.notify(Notice::Granted { grant: GrantId(self.grants), slots: None, fence: None });
        }
        let inside = self.phase == Phase::Holding;
        if let Some(step) = steps.into_iter().find(|step| !(inside && step.privileged)) {
            self.spent &= !step.privileged;
            self.state = step.next;
        }
        self.clock += 1;
    }

    /// Whether every cache holds its neighbour's present clock and state, or is behind this
    /// process, which then waits for an update.
    fn sees_the_truth(&self, processes: &[Self]) -> bool {
        self.neighbours().iter().enumerate().all(|(at, &node)| {
            let (clock, state, real) = (self.clocks[at], self.states[at], &processes[node.index()]);
            let behind = (clock, scattered(node)) < (self.clock, scattered(self.setup.me));
            behind || (clock, state) == (real.clock, real.state)
        })
    }

    /// Whether its client is outside, or inside with the privilege, by the neighbours' real states.
    fn is_inside_by_right(&self, processes: &[Self]) -> bool {
        if self.phase != Phase::Holding {
            return true;
        }
        let real: Vec<R::State> =
            self.neighbours().iter().map(|node| processes[node.index()].state).collect();
        let mut steps = Vec::new();
        R::enabled(View { setup: &self.setup, own: &self.state, neighbours: &real }, &mut steps);
        steps.iter().any(|step| step.privileged)
    }

    fn tell(&self, out: &mut Outbox<Self>) {
        if !self.clocks.is_empty() {
            let message = RefinedMessage { clock: self.clock, state: self.state };
            out.send_to(To::Many(self.neighbours().into()), message);
        }
    }
}

fn neighbours(setup: &Setup) -> &[NodeId] {
    setup.graph.as_ref().expect("rules run on a graph").neighbours(setup.me)
}

/// What another process has received.
fn at_node(setup: &Setup, me: NodeId) -> Setup {
    Setup { me, ..setup.clone() }
}

fn interval(setup: &Setup) -> Span {
    setup.refresh.unwrap_or(setup.detect_interval)
}

/// The ids in an order in which neighbours' ids, which are often in sequence, go up and down: a
/// bijection, since the factor (2^32 by the golden ratio) is odd.
fn scattered(node: NodeId) -> u32 {
    node.0.wrapping_mul(0x9E37_79B1)
}

/// Any clock that a fault may leave, most often one close to `near` or to an end of the range,
/// where mistakes show.
fn arbitrary_clock(near: u64, below: &mut dyn FnMut(u64) -> u64) -> u64 {
    let clock = match below(5) {
        0 => below(8),
        1 => below(FAULTY),
        2 => FAULTY - 1 - below(8),
        3.. => (near + below(9)).saturating_sub(4),
    };
    clock.min(FAULTY - 1)
}

impl<R: Rules> Protocol for Refined<R> {
    const NAME: &'static str = R::NAME;
    type Message = MessageOf<R>;
    type Timer = RefinedTimer;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, out: &mut Outbox<Self>) -> Self {
        let around = neighbours(setup);
        let mut this = Self {
            setup: setup.clone(),
            clock: 0,
            state: R::clean(setup),
            clocks: around.iter().map(|_| 0).collect(),
            states: around.iter().map(|&node| R::clean(&at_node(setup, node))).collect(),
            phase: Phase::Idle,
            spent: false,
            grants: 0,
            #[cfg(test)]
            careless: false,
        };
        out.arm(RefinedTimer::Resend, interval(setup));
        this.proceed(out);
        this
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        let unsupported = |what| Err(Refusal::Unsupported { protocol: Self::NAME, what });
        match input {
            Input::Deliver { from, message } => self.on_state(from, message, out),
            Input::Expire(RefinedTimer::Resend) => {
                self.on_resend(out);
                Ok(())
            }
            Input::Acquire { weight } => self.on_acquire(weight, out),
            Input::Withdraw => self.on_withdraw(),
            Input::Release { grant } => self.on_release(grant, out),
            Input::Resize(_) => unsupported("a change of k"),
            Input::Reserved(_) => unsupported("slots that a log holds"),
            Input::Lease(_) => unsupported("leases"),
            Input::Applied(_) => unsupported("snapshots of a log"),
            Input::Lapse { .. } => unsupported("clients that leave without a release"),
            Input::Adopt(_) | Input::Confirm { .. } => unsupported("adoptions"),
            Input::Crashed { .. } => unsupported("crashes: its faults are transient"),
            Input::Joined { .. } => unsupported("processes that come and go: its graph is fixed"),
        }
    }

    fn observe(&self) -> Observation {
        let grant = (self.phase == Phase::Holding).then_some(GrantId(self.grants));
        Observation { phase: self.phase, grant, ..Observation::default() }
    }
}

impl<R: Rules> TransientFaults for Refined<R> {
    fn scramble(&mut self, below: &mut dyn FnMut(u64) -> u64) -> bool {
        let near = self.clocks.iter().copied().max().unwrap_or(0);
        self.state = R::arbitrary(&self.setup, below);
        self.clock = arbitrary_clock(near, below);
        for at in 0..self.clocks.len() {
            self.clocks[at] = arbitrary_clock(near, below);
            self.states[at] = R::arbitrary(&at_node(&self.setup, self.neighbours()[at]), below);
        }
        self.spent = below(2) == 1;
        true
    }

    /// The layer has recovered (each cache is true, or unused until an update arrives), the rules'
    /// configuration is one from which they are correct, and every process inside has the
    /// privilege.
    fn settled(processes: &[Self]) -> bool {
        let fresh = processes.iter().all(|process| process.sees_the_truth(processes));
        if !fresh {
            return false;
        }
        let setups: Vec<Setup> = processes.iter().map(|process| process.setup.clone()).collect();
        let states: Vec<R::State> = processes.iter().map(|process| process.state).collect();
        let survey = R::survey(&setups, &states);
        survey.start
            && survey.joined
            && processes.iter().all(|process| process.is_inside_by_right(processes))
    }

    fn forge(
        setup: &Setup,
        from: NodeId,
        below: &mut dyn FnMut(u64) -> u64,
    ) -> Option<MessageOf<R>> {
        neighbours(setup).binary_search(&from).ok()?;
        let state = R::arbitrary(&at_node(setup, from), below);
        Some(RefinedMessage { clock: arbitrary_clock(0, below), state })
    }
}

impl<R: Rules> Explorable for Refined<R> {}
impl<R: Rules> Suspend for Refined<R> {}

/// Without the setup, which is the same in all states of a process.
impl<R: Rules> Hash for Refined<R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.setup.me, self.clock, self.state, &self.clocks, &self.states).hash(state);
        (self.phase, self.spent, self.grants).hash(state);
    }
}

#[cfg(test)]
mod tests;
