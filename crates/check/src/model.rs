//! The world of a few processes, and what can happen in it next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kgate_core::{
    Effect, GrantId, Incarnation, Input, InputOf, Means, NodeId, Notice, Outbox, Phase, Protocol, Refusal,
    Setup, Stamp, Time, To,
};
use stateright::{Model, Property};

use crate::explore::{Bounds, News};
use crate::ghost::Ghost;
use crate::properties;

/// Whether messages of one process to another keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// They do.
    Fifo,
    /// Any of them may arrive next.
    Unordered,
}

/// What is explored: a protocol, its setting, and how often what may happen.
#[derive(Clone, Debug)]
pub struct World<P> {
    /// What every process knows; `me` is filled in for each.
    pub setup: Setup,
    /// How often what may happen.
    pub bounds: Bounds,
    /// The names of the properties that are judged; all, if none. The search stops at the first that is broken.
    pub judged: Option<&'static [&'static str]>,
    _protocol: std::marker::PhantomData<fn() -> P>,
}

/// Everything at one moment.
#[derive(Clone, Debug)]
pub struct State<P: Protocol> {
    /// The processes; shared with the states before in which they were the same.
    pub nodes: Vec<Arc<P>>,
    /// What is on its way, for each pair with anything.
    pub channels: BTreeMap<(NodeId, NodeId), VecDeque<P::Message>>,
    /// Timers that run.
    pub timers: BTreeSet<(NodeId, P::Timer)>,
    /// How often each client has asked.
    pub asked: Vec<u32>,
    /// The grants that are inside.
    pub inside: BTreeMap<NodeId, GrantId>,
    /// Who has crashed; in that order where news come in order, else in the order of ids.
    pub crashed: Vec<NodeId>,
    /// Who does not know of which crash yet.
    pub untold: BTreeSet<(NodeId, NodeId)>,
    /// How many requests were withdrawn.
    pub withdrawn: u32,
    /// An input that a process refused.
    pub refused: Option<(NodeId, Refusal)>,
    /// What judges remember of the schedule.
    pub ghost: Ghost,
}

impl<P: Protocol> PartialEq for State<P> {
    fn eq(&self, other: &Self) -> bool {
        self.nodes == other.nodes
            && self.channels == other.channels
            && (&self.timers, &self.asked, &self.inside) == (&other.timers, &other.asked, &other.inside)
            && (&self.crashed, &self.untold, self.withdrawn)
                == (&other.crashed, &other.untold, other.withdrawn)
            && self.refused == other.refused
            && self.ghost == other.ghost
    }
}

impl<P: Protocol> Hash for State<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nodes.iter().for_each(|node| node.hash(state));
        self.channels.hash(state);
        (&self.timers, &self.asked, &self.inside).hash(state);
        (&self.crashed, &self.untold, self.withdrawn, &self.refused).hash(state);
        self.ghost.hash(state);
    }
}

/// One thing that can happen.
#[derive(Clone, PartialEq, Eq)]
pub enum Action<M, T> {
    /// A client wants in.
    Acquire(NodeId),
    /// A client that waits gives up.
    Withdraw(NodeId),
    /// A client comes out.
    Release(NodeId),
    /// The message at that place of a channel arrives.
    Deliver(NodeId, NodeId, usize, M),
    /// A timer runs out.
    Expire(NodeId, T),
    /// A process crashes.
    Crash(NodeId),
    /// A process learns of a crash.
    Tell(NodeId, NodeId),
}

impl<M: fmt::Debug, T: fmt::Debug> fmt::Debug for Action<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire(node) => write!(f, "{node} asks"),
            Self::Withdraw(node) => write!(f, "{node} gives up"),
            Self::Release(node) => write!(f, "{node} comes out"),
            Self::Deliver(from, to, 0, message) => write!(f, "{from} -> {to}: {message:?}"),
            Self::Deliver(from, to, place, message) => {
                write!(f, "{from} -> {to}: {message:?}, before {place} earlier ones")
            }
            Self::Expire(node, timer) => write!(f, "{node}: {timer:?} runs out"),
            Self::Crash(node) => write!(f, "{node} crashes"),
            Self::Tell(node, of) => write!(f, "{node} learns that {of} has crashed"),
        }
    }
}

impl<P: Protocol> State<P> {
    /// Whether a client of `node` waits.
    pub fn waits(&self, node: NodeId) -> bool {
        !self.crashed.contains(&node) && self.nodes[node.index()].observe().phase == Phase::Waiting
    }

    /// Tells the ghost of a grant, with the stamps of those that live and wait.
    fn note_grant(&mut self, node: NodeId, permits: u32) {
        if P::MEANS == Means::Permissions {
            let stamp = self.nodes[node.index()].observe().stamp;
            let waiting = self.ids().filter(|&other| self.waits(other));
            let stamps: Vec<Stamp> =
                waiting.filter_map(|other| self.nodes[other.index()].observe().stamp).collect();
            self.ghost.granted(node, stamp, stamps.into_iter(), permits);
        }
    }

    /// The processes, in order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<P> {
        (0..u32::try_from(self.nodes.len()).expect("few")).map(NodeId)
    }
}

impl<P: Protocol> World<P> {
    /// A world of that setting.
    pub fn new(setup: Setup, bounds: Bounds) -> Self {
        Self { setup, bounds, judged: None, _protocol: std::marker::PhantomData }
    }

    /// The same world, judged by these properties alone.
    pub fn judging(self, names: &'static [&'static str]) -> Self {
        Self { judged: Some(names), ..self }
    }

    fn handle(&self, state: &mut State<P>, node: NodeId, input: InputOf<P>) {
        let mut out = Outbox::new();
        state.ghost.input::<P>(node, &input);
        let mut process = P::clone(&state.nodes[node.index()]);
        if let Err(refusal) = process.handle(Time::ZERO, input, &mut out) {
            state.refused = Some((node, refusal));
        }
        state.nodes[node.index()] = Arc::new(process);
        self.carry_out(state, node, out);
    }

    fn carry_out(&self, state: &mut State<P>, from: NodeId, mut out: Outbox<P>) {
        while let Some(effect) = out.pop() {
            match effect {
                Effect::Send { to: To::One(to), message } => send(state, from, to, message),
                Effect::Send { to: To::Many(nodes), message } => {
                    nodes.iter().for_each(|&to| send(state, from, to, message.clone()));
                }
                Effect::Send { to: To::All, message } => {
                    let others = (0..self.setup.nodes).map(NodeId).filter(|&to| to != from);
                    others.for_each(|to| send(state, from, to, message.clone()));
                }
                Effect::Arm { timer, .. } => drop(state.timers.insert((from, timer))),
                Effect::Disarm(timer) => drop(state.timers.remove(&(from, timer))),
                Effect::Notify(notice) => match *notice {
                    Notice::Granted { grant, .. } => {
                        state.inside.insert(from, grant);
                        state.note_grant(from, self.setup.permits);
                    }
                    Notice::Asked => state.ghost.asked(state.nodes[from.index()].observe().stamp),
                    Notice::Suspected(of, _) => state.ghost.told(from, of),
                    Notice::Lost { .. } => {}
                },
                Effect::Persist(_) => {}
            }
        }
    }

    /// Which messages of a channel of that length may arrive next.
    fn next(&self, length: usize) -> usize {
        match self.bounds.channels {
            Channels::Fifo => length.min(1),
            Channels::Unordered => length,
        }
    }
}

/// What is sent to the dead is lost.
fn send<P: Protocol>(state: &mut State<P>, from: NodeId, to: NodeId, message: P::Message) {
    if !state.crashed.contains(&to) {
        state.channels.entry((from, to)).or_default().push_back(message);
    }
}

impl<P: Protocol> Model for World<P> {
    type State = State<P>;
    type Action = Action<P::Message, P::Timer>;

    fn init_states(&self) -> Vec<State<P>> {
        let nodes = self.setup.nodes as usize;
        let mut state = State {
            nodes: Vec::with_capacity(nodes),
            channels: BTreeMap::new(),
            timers: BTreeSet::new(),
            asked: vec![0; nodes],
            inside: BTreeMap::new(),
            crashed: Vec::new(),
            untold: BTreeSet::new(),
            withdrawn: 0,
            refused: None,
            ghost: Ghost::new::<P>(&self.setup),
        };
        for me in (0..self.setup.nodes).map(NodeId) {
            let mut out = Outbox::new();
            state.nodes.push(Arc::new(P::start(&Setup { me, ..self.setup.clone() }, None, &mut out)));
            self.carry_out(&mut state, me, out);
        }
        vec![state]
    }

    fn actions(&self, state: &State<P>, actions: &mut Vec<Self::Action>) {
        let bounds = &self.bounds;
        for node in state.ids().filter(|node| !state.crashed.contains(node)) {
            let phase = state.nodes[node.index()].observe().phase;
            if phase == Phase::Idle && state.asked[node.index()] < bounds.entries {
                actions.push(Action::Acquire(node));
            }
            if phase == Phase::Waiting && state.withdrawn < bounds.withdrawals {
                actions.push(Action::Withdraw(node));
            }
            if state.inside.contains_key(&node) {
                actions.push(Action::Release(node));
            }
            let lost = u32::try_from(state.crashed.len()).expect("few");
            if lost < bounds.crashes && lost + 1 < self.setup.nodes {
                actions.push(Action::Crash(node));
            }
        }
        for (&(from, to), channel) in &state.channels {
            for place in 0..self.next(channel.len()) {
                // Of equal messages any is as good as another.
                if !channel.iter().take(place).any(|earlier| *earlier == channel[place]) {
                    actions.push(Action::Deliver(from, to, place, channel[place].clone()));
                }
            }
        }
        actions.extend(state.timers.iter().map(|(node, timer)| Action::Expire(*node, timer.clone())));
        let is_next = |node: NodeId, of: NodeId| {
            let first = state.crashed.iter().find(|&&crashed| state.untold.contains(&(node, crashed)));
            bounds.news != News::InOrder || first == Some(&of)
        };
        let news = state.untold.iter().filter(|&&(node, of)| is_next(node, of));
        actions.extend(news.map(|&(node, of)| Action::Tell(node, of)));
    }

    fn next_state(&self, before: &State<P>, action: Self::Action) -> Option<State<P>> {
        let (mut state, bounds) = (before.clone(), &self.bounds);
        match action {
            Action::Acquire(node) => {
                state.asked[node.index()] += 1;
                self.handle(&mut state, node, Input::Acquire { weight: 1 });
            }
            Action::Withdraw(node) => {
                state.withdrawn += 1;
                self.handle(&mut state, node, Input::Withdraw);
            }
            Action::Release(node) => {
                let grant = state.inside.remove(&node)?;
                self.handle(&mut state, node, Input::Release { grant });
            }
            Action::Deliver(from, to, place, message) => {
                let channel = state.channels.get_mut(&(from, to))?;
                channel.remove(place)?;
                if channel.is_empty() {
                    state.channels.remove(&(from, to));
                }
                self.handle(&mut state, to, Input::Deliver { from, message });
            }
            Action::Expire(node, timer) => {
                state.timers.remove(&(node, timer.clone()));
                self.handle(&mut state, node, Input::Expire(timer));
            }
            Action::Crash(node) => crash(&mut state, node, bounds.news),
            Action::Tell(node, of) => {
                state.untold.remove(&(node, of));
                self.handle(&mut state, node, Input::Crashed(of, Incarnation::default()));
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = properties::all();
        all.retain(|property| self.judged.is_none_or(|names| names.contains(&property.name)));
        all
    }
}

/// The process is gone: its client, its timers, what is on its way to it. What it has sent still arrives.
fn crash<P: Protocol>(state: &mut State<P>, node: NodeId, news: News) {
    state.crashed.push(node);
    if news != News::InOrder {
        state.crashed.sort_unstable();
    }
    state.inside.remove(&node);
    state.ghost.crashed(node);
    state.timers.retain(|timer| timer.0 != node);
    state.channels.retain(|way, _| way.1 != node);
    state.untold.retain(|news| news.0 != node);
    if news == News::None {
        return;
    }
    let others: Vec<NodeId> = state.ids().filter(|other| !state.crashed.contains(other)).collect();
    state.untold.extend(others.into_iter().map(|other| (other, node)));
}
