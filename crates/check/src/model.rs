//! The world of a few processes, and what can happen in it next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kgate_core::{
    Effect, Incarnation, Input, InputOf, Means, NodeId, Notice, Outbox, Phase, Protocol, Setup, Stamp, Time,
    To,
};
use kgate_spec::Fate;
use smallvec::SmallVec;
use stateright::{Model, Property};

use crate::action::{Action, ActionOf};
use crate::bounds::{Bounds, Channels, Down, News};
use crate::brake::{Brake, Limits};
use crate::ghost::Ghost;
use crate::properties;
use crate::state::{Aside, Client, Hashed, Process, Row, Spent, State};
use crate::symmetry::{self, NoSymmetry, Renamings};

/// What is explored: a protocol, its setting, and how often what may happen.
#[derive(Debug)]
pub struct World<P> {
    /// What every process knows; `me` is filled in for each.
    pub setup: Setup,
    /// How often what may happen.
    pub bounds: Bounds,
    /// The names of the properties that are judged; all, if none. The search stops at the first that is broken.
    pub judged: Option<Vec<&'static str>>,
    /// Renamings that make no difference, if the search is to use them.
    pub(crate) renamings: Option<Renamings>,
    pub(crate) brake: Brake,
    /// What was seen already, a bit a property. A search writes down where it saw something each time that it does: only the first one is
    /// the nearest, and of what is right there are millions.
    seen: AtomicU32,
    /// Whether properties are shown for single states, each as often as somebody looks at it.
    shown: bool,
    _protocol: std::marker::PhantomData<fn() -> P>,
}

impl<P: Protocol> World<P> {
    /// A world of that setting.
    pub fn new(setup: Setup, bounds: Bounds) -> Self {
        let brake = Brake::new(Limits::default());
        let seen = AtomicU32::new(0);
        Self {
            setup,
            bounds,
            judged: None,
            renamings: None,
            brake,
            seen,
            shown: false,
            _protocol: std::marker::PhantomData,
        }
    }

    /// The same, judged by these properties alone.
    pub fn judging(self, names: impl Into<Vec<&'static str>>) -> Self {
        Self { judged: Some(names.into()), ..self }
    }

    /// The same, with states that differ in names only taken for one.
    pub fn with_symmetry(self) -> Result<Self, NoSymmetry> {
        let renamings = Some(symmetry::of(&self)?);
        Ok(Self { renamings, ..self })
    }

    /// How it begins.
    pub(crate) fn first_state(&self) -> State<P> {
        self.init_states().swap_remove(0)
    }

    /// The same, searched only within limits.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { brake: Brake::new(limits), ..self }
    }

    /// The same, for another search.
    pub fn anew(&self) -> Self {
        let fresh = Self::new(self.setup.clone(), self.bounds.clone()).with_limits(self.brake.limits());
        Self { judged: self.judged.clone(), renamings: self.renamings.clone(), shown: self.shown, ..fresh }
    }

    /// The same, for somebody who walks through it by hand.
    pub fn shown(self) -> Self {
        Self { shown: true, ..self }
    }

    /// Whether `it` is so, for the first time; `bit` tells apart what is looked for.
    pub(crate) fn first(&self, bit: u32, it: bool) -> bool {
        it && (self.shown || self.seen.fetch_or(1 << bit, Ordering::Relaxed) & 1 << bit == 0)
    }

    /// The most units that anybody still believes in. A grant must fit into that; when k shrinks later, whoever is inside stays.
    fn permits(&self, state: &State<P>) -> u32 {
        let known = |client: &Client| match client.resized {
            0 => self.setup.permits,
            heard => self.bounds.resizes[usize::from(heard) - 1],
        };
        state.clients.iter().map(known).max().unwrap_or(self.setup.permits)
    }

    fn handle(&self, state: &mut State<P>, node: NodeId, input: InputOf<P>) {
        let mut out = Outbox::new();
        if Ghost::minds::<P>(&input) {
            state.note(|ghost| ghost.input::<P>(node, &input));
        }
        let before = &state.processes[node.index()];
        let mut protocol = before.protocol().clone();
        if let Err(refusal) = protocol.handle(Time::ZERO, input, &mut out) {
            state.refused = Some((node, refusal));
        }
        let stored = before.stored().cloned();
        self.carry_out(state, node, protocol, stored, out);
    }

    /// Process `node` has become `protocol`: does what it wants done.
    fn carry_out(
        &self,
        state: &mut State<P>,
        node: NodeId,
        protocol: P,
        mut stored: Option<P::Durable>,
        mut out: Outbox<P>,
    ) {
        while let Some(effect) = out.pop() {
            match effect {
                Effect::Send { to: To::One(to), message } => state.send(node, to, message),
                Effect::Send { to: To::Many(nodes), message } => {
                    nodes.iter().for_each(|&to| state.send(node, to, message.clone()));
                }
                Effect::Send { to: To::All, message } => {
                    let others = (0..self.setup.nodes).map(NodeId).filter(|&to| to != node);
                    others.for_each(|to| state.send(node, to, message.clone()));
                }
                Effect::Arm { timer, .. } => arm(state, (node, timer)),
                Effect::Disarm(timer) => state.timers.retain(|running| *running != (node, timer.clone())),
                Effect::Notify(notice) => match *notice {
                    Notice::Granted { grant, .. } => {
                        let client = &mut state.clients[node.index()];
                        client.waiting = false;
                        let twice = client.inside.replace(grant).is_some();
                        state.crowded |= twice || state.units() > self.permits(state);
                        self.note_grant(state, node, &protocol);
                    }
                    Notice::Lost { .. } => state.clients[node.index()].inside = None,
                    Notice::TooLarge { .. } => state.clients[node.index()].waiting = false,
                    Notice::Asked => {
                        state.note(|ghost| ghost.asked(protocol.observe().stamp));
                    }
                    Notice::Suspected(of, _) => state.note(|ghost| ghost.told(node, of)),
                },
                Effect::Persist(durable) => stored = Some(durable),
            }
        }
        state.processes[node.index()] = Arc::new(Process::new(protocol, stored));
    }

    /// Tells the judges' memory of a grant, with the stamps of those that live and wait.
    fn note_grant(&self, state: &mut State<P>, node: NodeId, protocol: &P) {
        if P::MEANS == Means::Permissions {
            let stamp = protocol.observe().stamp;
            let others = state.ids().filter(|&other| other != node && state.waits(other));
            let stamps: Row<Stamp> =
                others.filter_map(|other| state.processes[other.index()].seen.stamp).collect();
            state.note(|ghost| ghost.granted(node, stamp, stamps.into_iter(), self.setup.permits));
        }
    }

    /// What clients and fate may do to a process that takes part.
    fn actions_of(&self, state: &State<P>, node: NodeId, actions: &mut Vec<ActionOf<P>>) {
        let (bounds, client) = (&self.bounds, &state.clients[node.index()]);
        let phase = state.phase(node);
        let may_ask = phase == Phase::Idle || bounds.asks_inside && phase == Phase::Holding;
        if may_ask && !client.waiting && u32::from(client.asked) < bounds.entries_of(node.index()) {
            actions.extend((1..=bounds.weight_max).map(|weight| Action::Acquire(node, small(weight))));
        }
        if phase == Phase::Waiting && u32::from(state.spent.withdrawals) < bounds.withdrawals {
            actions.push(Action::Withdraw(node));
        }
        if client.inside.is_some() {
            actions.push(Action::Release(node));
        }
        if let Some(&k) = bounds.resizes.get(usize::from(client.resized)) {
            actions.push(Action::Resize(node, k));
        }
        let lost = u32::try_from(state.crashed.len()).expect("few");
        if lost < bounds.crashes && lost + 1 < self.setup.nodes {
            actions.push(Action::Crash(node));
        }
        if u32::from(state.spent.restarts) < bounds.restarts {
            actions.push(Action::Down(node));
        }
    }

    /// What may happen to messages on their way.
    fn actions_in_flight(&self, state: &State<P>, actions: &mut Vec<ActionOf<P>>) {
        let mut first = 0;
        for (place, flying) in state.flying.iter().enumerate() {
            if flying.way() != state.flying[first].way() {
                first = place;
            }
            if self.bounds.channels == Channels::Fifo && place > first
                || !state.down.is_empty()
                    && self.bounds.down == Down::Kept
                    && state.down.contains(&flying.to)
                // Of equal messages any is as good as another.
                || state.flying[first..place].contains(flying)
            {
                continue;
            }
            let mut may = |fate| {
                actions.push(Action::Fly(place, fate, (flying.from, flying.to, flying.message.clone())));
            };
            may(Fate::Arrives);
            if u32::from(state.spent.losses) < self.bounds.losses {
                may(Fate::Lost);
            }
            if u32::from(state.spent.duplicates) < self.bounds.duplicates {
                may(Fate::Doubled);
            }
        }
    }

    fn news(&self, state: &State<P>, actions: &mut Vec<ActionOf<P>>) {
        let is_next = |node: NodeId, of: NodeId| {
            let first = state.crashed.iter().find(|&&crashed| state.untold.contains(&(node, crashed)));
            self.bounds.news != News::InOrder || first == Some(&of)
        };
        let news = state.untold.iter().filter(|&&(node, of)| state.is_up(node) && is_next(node, of));
        actions.extend(news.map(|&(node, of)| Action::Tell(node, of)));
    }

    fn fly(&self, state: &mut State<P>, place: usize, fate: Fate) {
        let flying = state.flying.remove(place);
        match fate {
            Fate::Arrives if state.down.contains(&flying.to) => {}
            Fate::Arrives => {
                let (from, message) = (flying.from, flying.message);
                self.handle(state, flying.to, Input::Deliver { from, message });
            }
            Fate::Lost => state.spent.losses += 1,
            Fate::Doubled => {
                state.spent.duplicates += 1;
                state.flying.insert(place, flying.clone());
                state.send(flying.from, flying.to, flying.message);
            }
        }
    }

    fn restart(&self, state: &mut State<P>, node: NodeId) {
        state.down.retain(|down| *down != node);
        let stored = state.processes[node.index()].stored().cloned();
        let mut out = Outbox::new();
        let protocol = P::start(&Setup { me: node, ..self.setup.clone() }, stored.clone(), &mut out);
        self.carry_out(state, node, protocol, stored, out);
    }

    /// The process is gone for good: its client, its timers, what is on its way to it. What it has sent still arrives.
    fn crash(&self, state: &mut State<P>, node: NodeId) {
        leave(state, node);
        state.note(|ghost| ghost.crashed(node));
        state.crashed.push(node);
        if self.bounds.news != News::InOrder {
            state.crashed.sort_unstable();
        }
        state.flying.retain(|flying| flying.to != node);
        state.untold.retain(|news| news.0 != node);
        if self.bounds.news != News::None {
            let others =
                state.ids().filter(|other| !state.crashed.contains(other)).map(|other| (other, node));
            state.untold.extend(others.collect::<SmallVec<[_; 4]>>());
            state.untold.sort_unstable();
        }
    }
}

fn small(number: u32) -> u8 {
    u8::try_from(number).expect("bounds are small")
}

fn arm<P: Protocol>(state: &mut State<P>, timer: (NodeId, P::Timer)) {
    if let Err(place) = state.timers.binary_search(&timer) {
        state.timers.insert(place, timer);
    }
}

/// The process no longer takes part: its client and its timers are gone.
fn leave<P: Protocol>(state: &mut State<P>, node: NodeId) {
    state.clients[node.index()].inside = None;
    state.timers.retain(|timer| timer.0 != node);
}

impl<P: Protocol> Model for World<P> {
    type State = State<P>;
    type Action = ActionOf<P>;

    fn init_states(&self) -> Vec<State<P>> {
        let ids = || (0..self.setup.nodes).map(NodeId);
        let starts = ids().map(|me| {
            let mut out = Outbox::new();
            (me, P::start(&Setup { me, ..self.setup.clone() }, None, &mut out), out)
        });
        let starts: Vec<_> = starts.collect();
        let mut state = State {
            processes: starts.iter().map(|start| Arc::new(Process::new(start.1.clone(), None))).collect(),
            clients: ids().map(|_| Client::default()).collect(),
            flying: Vec::new(),
            timers: Vec::new(),
            crashed: SmallVec::new(),
            down: SmallVec::new(),
            untold: SmallVec::new(),
            spent: Spent::default(),
            crowded: false,
            refused: None,
            ghost: Arc::new(Hashed::new(Ghost::new::<P>(&self.setup))),
            renamings: Aside(self.renamings.clone()),
        };
        for (me, protocol, out) in starts {
            self.carry_out(&mut state, me, protocol, None, out);
        }
        vec![state]
    }

    fn actions(&self, state: &State<P>, actions: &mut Vec<Self::Action>) {
        if !self.brake.allows() {
            return;
        }
        for node in state.ids() {
            if state.is_up(node) {
                self.actions_of(state, node, actions);
            } else if state.down.contains(&node) {
                actions.push(Action::Restart(node));
            }
        }
        self.actions_in_flight(state, actions);
        actions.extend(state.timers.iter().map(|(node, timer)| Action::Expire(*node, timer.clone())));
        self.news(state, actions);
    }

    fn next_state(&self, before: &State<P>, action: Self::Action) -> Option<State<P>> {
        let mut state = before.clone();
        match action {
            Action::Acquire(node, weight) => {
                let client = &mut state.clients[node.index()];
                (client.asked, client.weight, client.waiting) = (client.asked + 1, weight, true);
                self.handle(&mut state, node, Input::Acquire { weight: u32::from(weight) });
            }
            Action::Withdraw(node) => {
                state.spent.withdrawals += 1;
                state.clients[node.index()].waiting = false;
                self.handle(&mut state, node, Input::Withdraw);
            }
            Action::Release(node) => {
                let grant = state.clients[node.index()].inside.take()?;
                self.handle(&mut state, node, Input::Release { grant });
            }
            Action::Fly(place, fate, _) => self.fly(&mut state, place, fate),
            Action::Expire(node, timer) => {
                state.timers.retain(|running| *running != (node, timer.clone()));
                self.handle(&mut state, node, Input::Expire(timer));
            }
            Action::Crash(node) => self.crash(&mut state, node),
            Action::Down(node) => {
                state.spent.restarts += 1;
                leave(&mut state, node);
                state.down.push(node);
                state.down.sort_unstable();
            }
            Action::Restart(node) => self.restart(&mut state, node),
            Action::Tell(node, of) => {
                state.untold.retain(|news| *news != (node, of));
                self.handle(&mut state, node, Input::Crashed(of, Incarnation::default()));
            }
            Action::Resize(node, k) => {
                state.clients[node.index()].resized += 1;
                self.handle(&mut state, node, Input::Resize(k));
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = properties::all();
        all.retain(|property| self.judged.as_ref().is_none_or(|names| names.contains(&property.name)));
        all
    }

    fn within_boundary(&self, state: &State<P>) -> bool {
        !self.bounds.responsive || !properties::suspects_the_living(state)
    }
}
