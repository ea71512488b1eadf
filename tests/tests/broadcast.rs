//! The broadcasts alone: every schedule of three and four processes with one crash, and random ones
//! of sixteen.
//!
//! A [`Broadcaster`] turns a broadcast into a protocol: `Acquire` broadcasts, `Asked` reports that
//! the broadcast has left, and a delivery is reported as a grant: the slot is the source, and the
//! grant's id is the clock. The checker `kgate_spec::Broadcast` sees only these effects. Every live
//! process is notified of a crash, each at any time after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use kgate_core::{
    Defects, Effect, GrantId, Incarnation, Input, InputOf, Never, NodeId, Notice, Observation,
    Outbox, Phase, Protocol, Refusal, Setup, Stamp, Time, To,
};
use kgate_protocols::broadcast::{Broadcast, Direct, Place, Sta, Tree};
use kgate_protocols::collections::NodeList;
use kgate_protocols::defects::{D1, D5, D7, D8};
use kgate_protocols::topology::Members;
use kgate_sim::Rng;
use kgate_spec::{Broadcast as BroadcastChecker, Violation};

/// A broadcast without a mutex.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Broadcaster<S: Broadcast> {
    me: NodeId,
    nodes: u32,
    printed: Defects,
    clock: u64,
    crashed: NodeList,
    broadcast: S,
}

impl<S: Broadcast> Protocol for Broadcaster<S> {
    const NAME: &'static str = "broadcaster";
    type Message = S::Message;
    type Timer = Never;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        let Setup { me, nodes, defects: printed, .. } = *setup;
        Self { me, nodes, printed, clock: 0, crashed: NodeList::default(), broadcast: S::default() }
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if let Input::Crashed { node, .. } = input {
            self.crashed.insert(node);
        }
        let Self { broadcast, crashed, .. } = self;
        let at = Place {
            me: self.me,
            members: Members::new(self.nodes, crashed),
            defects: self.printed,
        };
        match input {
            Input::Acquire { .. } => {
                self.clock += 1;
                out.notify(Notice::Asked);
                broadcast.broadcast(at, self.clock, &mut |to, message| out.send_to(to, message));
            }
            Input::Deliver { from, message } => {
                let fresh = broadcast.accept(at, from, &message);
                if let Some(Stamp { clock, node }) = fresh {
                    self.clock = self.clock.max(clock);
                    let slots = Some([node.0].into());
                    out.notify(Notice::Granted { grant: GrantId(clock), slots, fence: None });
                }
                broadcast.relay(at, from, message, fresh.is_some(), &mut |to, message| {
                    out.send_to(to, message)
                });
            }
            Input::Crashed { node, .. } => {
                broadcast.crashed(at, node, &mut |to, message| out.send_to(to, message))
            }
            Input::Withdraw
            | Input::Release { .. }
            | Input::Resize(_)
            | Input::Reserved(_)
            | Input::Applied(_)
            | Input::Lapse { .. }
            | Input::Adopt(_)
            | Input::Confirm { .. }
            | Input::Lease(_)
            | Input::Joined { .. } => {
                return Err(Refusal::Unsupported { protocol: Self::NAME, what: "that" });
            }
            Input::Expire(never) => match never {},
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        let phase = if self.broadcast.ready(self.me) { Phase::Idle } else { Phase::Waiting };
        let stamp = Some(Stamp { clock: self.clock, node: self.me });
        Observation { phase, stamp, ..Observation::default() }
    }
}

/// Everything at one moment.
#[derive(Clone, Hash)]
struct Run<S: Broadcast> {
    nodes: Vec<Broadcaster<S>>,
    /// How many broadcasts each has still to make.
    left: Vec<u32>,
    /// How many may still crash.
    crashes: u32,
    channels: BTreeMap<(NodeId, NodeId), VecDeque<S::Message>>,
    dead: BTreeSet<NodeId>,
    unaware: BTreeSet<(NodeId, NodeId)>,
    checker: BroadcastChecker,
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Broadcast(NodeId),
    Arrive(NodeId, NodeId, usize),
    Crash(NodeId),
    NotifyCrash(NodeId, NodeId),
}

impl<S: Broadcast> Run<S> {
    fn new(left: &[u32], crashes: u32, printed: Defects) -> Self {
        let nodes = u32::try_from(left.len()).expect("few");
        let setup = Setup { defects: printed, ..Setup::new(nodes, 1) };
        let start =
            |me| Broadcaster::start(&Setup { me, ..setup.clone() }, None, &mut Outbox::new());
        Self {
            nodes: (0..nodes).map(NodeId).map(start).collect(),
            left: left.to_vec(),
            crashes,
            channels: BTreeMap::new(),
            dead: BTreeSet::new(),
            unaware: BTreeSet::new(),
            checker: BroadcastChecker::default(),
        }
    }

    fn living(&self) -> Vec<NodeId> {
        self.nodes.iter().map(|node| node.me).filter(|node| !self.dead.contains(node)).collect()
    }

    fn is_busy(&self, node: NodeId) -> bool {
        self.nodes[node.index()].observe().phase == Phase::Waiting
    }

    fn steps(&self) -> Vec<Step> {
        let living = self.living();
        let able =
            living.iter().filter(|&&node| self.left[node.index()] > 0 && !self.is_busy(node));
        let mut steps: Vec<Step> = able.map(|&node| Step::Broadcast(node)).collect();
        for (&(from, to), channel) in &self.channels {
            steps.extend((0..channel.len()).map(|place| Step::Arrive(from, to, place)));
        }
        if self.crashes > 0 && living.len() > 1 {
            steps.extend(living.iter().map(|&node| Step::Crash(node)));
        }
        steps.extend(self.unaware.iter().map(|&(node, of)| Step::NotifyCrash(node, of)));
        steps
    }

    /// One step; what the checker says of it.
    fn take(&mut self, step: Step) -> Option<Violation> {
        match step {
            Step::Broadcast(node) => {
                self.left[node.index()] -= 1;
                self.input(node, Input::Acquire { weight: 1 })
            }
            Step::Arrive(from, to, place) => {
                let channel = self.channels.get_mut(&(from, to)).expect("a channel");
                let message = channel.remove(place).expect("a message");
                if channel.is_empty() {
                    self.channels.remove(&(from, to));
                }
                self.input(to, Input::Deliver { from, message })
            }
            Step::Crash(node) => {
                self.crashes -= 1;
                self.dead.insert(node);
                self.channels.retain(|way, _| way.1 != node);
                self.unaware.retain(|news| news.0 != node);
                self.unaware.extend(self.living().into_iter().map(|other| (other, node)));
                None
            }
            Step::NotifyCrash(node, of) => {
                self.unaware.remove(&(node, of));
                self.input(node, Input::Crashed { node: of, incarnation: Incarnation::default() })
            }
        }
    }

    fn input(&mut self, node: NodeId, input: InputOf<Broadcaster<S>>) -> Option<Violation> {
        let mut out = Outbox::new();
        self.nodes[node.index()].handle(Time::ZERO, input, &mut out).expect("taken");
        let mut wrong = None;
        while let Some(effect) = out.pop() {
            match effect {
                Effect::Send { to, message } => self.send(node, &to, message),
                Effect::Notify(notice) => match *notice {
                    Notice::Asked => self
                        .checker
                        .sent(self.nodes[node.index()].observe().stamp.expect("a stamp")),
                    Notice::Granted { grant, slots, .. } => {
                        let what =
                            Stamp { clock: grant.0, node: NodeId(slots.expect("a source")[0]) };
                        wrong = wrong.or(self.checker.delivered(node, what, Time::ZERO));
                    }
                    Notice::Lost { .. }
                    | Notice::TooLarge { .. }
                    | Notice::Adopted { .. }
                    | Notice::AdoptionRefused { .. }
                    | Notice::Suspected { .. } => {}
                },
                Effect::Persist(never) => match never {},
                Effect::Arm { timer: never, .. } | Effect::Disarm(never) => match never {},
            }
        }
        wrong
    }

    fn send(&mut self, from: NodeId, to: &To, message: S::Message) {
        let all = || self.nodes.iter().map(|node| node.me).filter(|&node| node != from).collect();
        let to: Vec<NodeId> = match to {
            To::One(to) => vec![*to],
            To::Many(nodes) => nodes.to_vec(),
            To::All => all(),
        };
        for to in to.into_iter().filter(|to| !self.dead.contains(to)) {
            self.channels.entry((from, to)).or_default().push_back(message);
        }
    }

    /// Nothing is under way.
    fn verdict(&self) -> Option<Violation> {
        let living = self.living();
        let busy: Vec<NodeId> = living.iter().copied().filter(|&node| self.is_busy(node)).collect();
        self.checker.verdict(&living, &busy, Time::ZERO)
    }
}

/// All that any schedule breaks, and how many states there are. The search goes on behind a broken
/// one.
fn everything<S: Broadcast>(
    left: &[u32],
    crashes: u32,
    printed: Defects,
) -> (BTreeSet<&'static str>, usize) {
    let (mut seen, mut broken) = (BTreeSet::new(), BTreeSet::new());
    let mut open = vec![Run::<S>::new(left, crashes, printed)];
    while let Some(run) = open.pop() {
        let steps = run.steps();
        // Only what can still crash is under way.
        if steps.iter().all(|step| matches!(step, Step::Crash(_))) {
            broken.extend(run.verdict().map(|violation| violation.property));
        }
        for step in steps {
            let mut next = run.clone();
            broken.extend(next.take(step).map(|violation| violation.property));
            let mut hasher = DefaultHasher::new();
            next.hash(&mut hasher);
            if seen.insert(hasher.finish()) {
                open.push(next);
            }
        }
    }
    (broken, seen.len())
}

/// vcube-2018 Lemmas 6.1 and 6.2, robust-2012 section 3.2: two broadcasts of p0 and one of p1, and
/// a crash of any process at any time; messages overtake each other.
#[test]
fn every_schedule_of_three() {
    for (broken, states) in [
        everything::<Direct>(&[2, 1, 0], 1, Defects::NONE),
        everything::<Tree>(&[2, 1, 0], 1, Defects::NONE),
        everything::<Sta>(&[2, 1, 0], 1, Defects::NONE),
    ] {
        assert!(broken.is_empty() && states > 1000, "{broken:?} in {states} states");
    }
}

/// The same of four with two broadcasts of p0.
#[test]
fn every_schedule_of_four() {
    for (broken, states) in [
        everything::<Direct>(&[1, 0, 0, 0], 1, Defects::NONE),
        everything::<Tree>(&[2, 0, 0, 0], 1, Defects::NONE),
        everything::<Sta>(&[2, 0, 0, 0], 1, Defects::NONE),
    ] {
        assert!(broken.is_empty() && states > 100, "{broken:?} in {states} states");
    }
}

/// D1 (vcube-2018): a clock that jumps is taken for an old one and dropped. D7 and D8
/// (robust-2012): the same request by another route, or an old one that comes late, is delivered
/// again. Found by the search alone.
#[test]
fn printed_broadcasts_break() {
    let broken =
        |(broken, _): (BTreeSet<&'static str>, usize)| broken.into_iter().collect::<Vec<_>>();
    assert_eq!(broken(everything::<Tree>(&[2, 1, 0], 0, D1)), [BroadcastChecker::VALIDITY]);
    assert_eq!(broken(everything::<Sta>(&[1, 0, 0, 0], 1, D7)), [BroadcastChecker::DUPLICATION]);
    assert_eq!(broken(everything::<Sta>(&[2, 0, 0, 0], 1, D8)), [BroadcastChecker::DUPLICATION]);
}

/// A random schedule; what it breaks.
fn random<S: Broadcast>(
    left: &[u32],
    crashes: u32,
    printed: Defects,
    seed: u64,
) -> Option<Violation> {
    let mut rng = Rng::fork(seed, "schedule");
    let mut run = Run::<S>::new(left, crashes, printed);
    loop {
        let steps = run.steps();
        if steps.is_empty() || steps.iter().all(|step| matches!(step, Step::Crash(_))) {
            return run.verdict();
        }
        let step = steps[usize::try_from(rng.below(steps.len() as u64)).expect("small")];
        // Crashes in the midst of things, and news of them late.
        let patience = match step {
            Step::Broadcast(_) | Step::Arrive(..) => 1,
            Step::NotifyCrash(..) => 4,
            Step::Crash(_) => 40,
        };
        if rng.below(patience) > 0 {
            continue;
        }
        if let Some(violation) = run.take(step) {
            return Some(violation);
        }
    }
}

/// At random with sixteen processes and up to eight crashes.
#[test]
fn random_schedules_of_sixteen() {
    let left: Vec<u32> = (0..16).map(|node| u32::from(node < 3)).collect();
    for seed in 1..=1000 {
        assert_eq!(random::<Direct>(&left, 8, Defects::NONE, seed), None, "direct, seed {seed}");
        assert_eq!(random::<Tree>(&left, 8, Defects::NONE, seed), None, "tree, seed {seed}");
        assert_eq!(random::<Sta>(&left, 8, Defects::NONE, seed), None, "sta, seed {seed}");
    }
}

/// D5 (vcube-2018, Algorithm 6.1 lines 28-29; `crates/protocols/src/broadcast/tests.rs` has the
/// schedule): two parents wait for one ACK, and a broadcast that has reached every process never
/// ends.
#[test]
fn d5_never_ends() {
    fn verdict(printed: Defects) -> Option<&'static str> {
        let mut left = [0; 16];
        left[0] = 1;
        let mut run = Run::<Tree>::new(&left, 2, printed);
        let (arrive, tell) = (
            |a, b| Step::Arrive(NodeId(a), NodeId(b), 0),
            |a, b| Step::NotifyCrash(NodeId(a), NodeId(b)),
        );
        let crash = |node| Step::Crash(NodeId(node));
        let steps = [
            Step::Broadcast(NodeId(0)),
            arrive(0, 8),
            arrive(8, 12),
            arrive(12, 14),
            crash(8),
            crash(13),
            tell(9, 13),
            tell(0, 8),
            tell(9, 8),
            arrive(0, 9),
            arrive(9, 12),
            arrive(12, 14),
        ];
        for step in steps {
            assert_eq!(run.take(step), None);
        }
        let arrives_first = |step: &Step| matches!(step, Step::NotifyCrash(..));
        while let Some(step) = run.steps().into_iter().min_by_key(arrives_first) {
            assert_eq!(run.take(step), None);
        }
        run.verdict().map(|violation| violation.property)
    }
    assert_eq!(verdict(Defects::NONE), None);
    assert_eq!(verdict(D5), Some(BroadcastChecker::TERMINATION));
}
