//! The log model: a few processes that follow an agreed log, their clients and channels, for
//! protocols that take [`Input::Applied`].
//!
//! The log is a part of the state. Which entry it decides next is a choice: a suspicion, true or
//! false, cleared or not, a drain, an eviction, a process that is added again, another k, a durable
//! permit. Every process applies the entries in order, each at any time. Messages arrive in any
//! order. A link between two processes may be cut, in one direction or in both: to the end of the
//! run, so that liveness is checked across it.
//!
//! Clients believe. A client that was let in uses its slots until it releases or its deadline
//! passes, whatever the processes think; it may ask another node to go on there, also while its
//! own is up, and several one after the other. What a driver owes to the protocol is a part of the
//! model, and can be left out ([`Omissions`]): a node lets go of a session only behind the barrier
//! (H13), a durable permit is released only when the log holds it (H14), and a node is evicted
//! only when no client believes by its lease (H18).
//!
//! - `bounds.rs`: how often each event may happen;
//! - `state.rs`, `permit.rs`, `action.rs`: states and actions; `enabled.rs`: what can happen next;
//! - `clients.rs`, `log.rs`, `handle.rs`: transitions;
//! - `properties.rs`: what must hold, at every transition and in every quiet state.

mod action;
mod bounds;
mod clients;
mod enabled;
mod handle;
mod log;
mod permit;
mod properties;
mod state;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use kgate_core::{Explorable, Input, NodeId, Outbox, Setup};
use smallvec::SmallVec;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::explore::{self, Outcome, ScheduleStep, SearchOrder};
use crate::limits::{LimitGuard, Limits};
use crate::model::{Memo, Transition};
use crate::state::{Hashed, PerProcess, Process};
use action::{LogAction, LogActionOf};
use handle::cut;
use state::{Node, Run, Spent};

pub use bounds::{LogBounds, Omissions};
pub use properties::{FENCES_GROW, ONE_HOLDER};
pub use state::LogState;

/// The subject of an exploration: a protocol, its setup, and the bounds.
#[derive(Debug)]
pub struct LogModel<P: Explorable> {
    /// The setup of every process; `me` is filled in per process.
    setup: Setup,
    /// How often each event may happen.
    bounds: LogBounds,
    /// The names of the checked properties; all of them if none.
    checked: Option<Vec<&'static str>>,
    /// Whether outdated messages stay in flight, to check that they are.
    keeps_outdated: bool,
    guard: LimitGuard,
    /// The properties already reported, one bit each.
    seen: AtomicU32,
    /// The processes of nodes that do not run.
    blank: OnceLock<PerProcess<Arc<Process<P>>>>,
    memo: Memo<P>,
}

impl<P: Explorable> LogModel<P> {
    /// A model of that setting, which checks all properties.
    pub fn new(setup: Setup, bounds: LogBounds) -> Self {
        let log = Some(Arc::new(log::first_view(setup.nodes, setup.k)));
        Self {
            setup: Setup { log, ..setup },
            bounds,
            checked: None,
            keeps_outdated: false,
            guard: LimitGuard::new(Limits::default()),
            seen: AtomicU32::new(0),
            blank: OnceLock::new(),
            memo: Memo::new(),
        }
    }

    /// The same model, with these properties only.
    pub fn checking(self, names: impl Into<Vec<&'static str>>) -> Self {
        Self { checked: Some(names.into()), ..self }
    }

    /// The same model with limits.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { guard: LimitGuard::new(limits), ..self }
    }

    /// The same model, in which outdated messages stay in flight.
    #[cfg(test)]
    pub(crate) fn with_outdated(self) -> Self {
        Self { keeps_outdated: true, ..self }
    }

    /// The names of all properties.
    pub fn property_names() -> Vec<&'static str> {
        properties::all::<P>().iter().map(|property| property.name).collect()
    }

    /// Whether `it` holds for the first time; `bit` identifies the property.
    fn first(&self, bit: u32, it: bool) -> bool {
        it && self.seen.fetch_or(1 << bit, Ordering::Relaxed) & 1 << bit == 0
    }
}

impl<P: Explorable> Model for LogModel<P> {
    type State = LogState<P>;
    type Action = LogActionOf<P>;

    fn init_states(&self) -> Vec<LogState<P>> {
        let view = self.setup.log.as_deref().expect("set").clone();
        let mut outs = Vec::new();
        let mut starts = |me| {
            let mut out = Outbox::new();
            let protocol = P::start(&Setup { me, ..self.setup.clone() }, None, &mut out);
            outs.push(Transition::new(protocol, None, out));
            outs.last().expect("pushed").after.clone()
        };
        let up = Node { lease: true, ..Node::default() };
        let mut state = LogState {
            processes: (0..self.setup.nodes).map(NodeId).map(&mut starts).collect(),
            nodes: (0..self.setup.nodes).map(|_| up.clone()).collect(),
            log: SmallVec::from_iter([Arc::new(Hashed::new(view))]),
            permits: Vec::new(),
            in_flight: Vec::new(),
            cuts: SmallVec::new(),
            timers: Vec::new(),
            spent: Spent::default(),
            fences: SmallVec::new(),
            broken: Vec::new(),
            refused: None,
        };
        for (me, transition) in (0..).map(NodeId).zip(&outs) {
            self.apply_effects(&mut state, me, transition);
        }
        vec![state]
    }

    fn actions(&self, state: &LogState<P>, actions: &mut Vec<Self::Action>) {
        if self.guard.allows() {
            self.enabled_actions(state, actions);
        }
    }

    fn next_state(&self, before: &LogState<P>, action: Self::Action) -> Option<LogState<P>> {
        let mut state = before.clone();
        match action {
            LogAction::Acquire(node, weight) => {
                let at = &mut state.nodes[node.index()];
                at.asked += 1;
                at.waiting.push(weight);
                self.handle(&mut state, node, Input::Acquire { weight: weight.into() });
            }
            LogAction::Withdraw(node) => {
                state.spent.withdrawals += 1;
                state.nodes[node.index()].waiting.pop();
                self.handle(&mut state, node, Input::Withdraw);
            }
            LogAction::Release(place, _) => {
                let now = state.length();
                state.permits[place].ended = Some(now);
                self.release(&mut state, place);
            }
            LogAction::Message(place, fate, _) => self.move_message(&mut state, place, fate),
            LogAction::Cut(from, to) => cut(&mut state, from, to),
            LogAction::Expire(node, timer) => self.expire(&mut state, node, timer),
            LogAction::Apply(node) => self.apply(&mut state, node),
            LogAction::Append(entry) => self.append(&mut state, entry),
            LogAction::Crash(node) => {
                state.spent.crashes += 1;
                self.crash(&mut state, node, Run::Crashed);
            }
            LogAction::Down(node) => {
                state.spent.restarts += 1;
                self.crash(&mut state, node, Run::Down);
            }
            LogAction::Restart(node) => self.restart(&mut state, node),
            LogAction::Lease(node, valid) => {
                let at = &mut state.nodes[node.index()];
                (at.lease, at.has_lost) = (valid, !valid);
                state.spent.lost_leases += u8::from(!valid);
                self.handle(&mut state, node, Input::Lease(valid));
            }
            LogAction::Adopt(place, node) => {
                state.spent.adoptions += 1;
                self.ask(&mut state, place, node);
            }
            LogAction::Confirm(place, node) => {
                if !self.confirm(&mut state, place, node) {
                    return None;
                }
            }
            LogAction::Die(place, _) => {
                let now = state.length();
                state.spent.deaths += 1;
                state.permits[place].end(now);
            }
            LogAction::Deadline(place) => {
                let now = state.length();
                state.permits[place].end(now);
            }
            LogAction::LeftDeadline(place, node) => {
                let now = state.length();
                let mut sessions = state.permits[place].sessions.iter_mut();
                let left = sessions.find(|session| session.node == node).expect("enabled");
                left.ended = Some(now);
            }
            LogAction::Lapse(place, node, grant) => self.lapse(&mut state, place, node, grant),
            LogAction::Propose(place, _) => self.propose(&mut state, place),
        }
        state.normalize();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = properties::all();
        all.retain(|property| {
            self.checked.as_ref().is_none_or(|names| names.contains(&property.name))
        });
        all
    }
}

impl<P: Explorable> explore::Explored for LogModel<P> {
    fn guard(&self) -> &LimitGuard {
        &self.guard
    }

    fn schedule(&self, actions: Vec<LogActionOf<P>>) -> Vec<ScheduleStep> {
        let step = |action: LogActionOf<P>| action.step();
        actions.into_iter().map(step).collect()
    }
}

/// Explores a protocol in the log model.
pub fn explore_log<P: Explorable>(model: LogModel<P>, order: SearchOrder) -> Outcome {
    let builder = model.checker().threads(1).finish_when(HasDiscoveries::AnyFailures);
    match order {
        SearchOrder::Depth => explore::outcome(&builder.spawn_dfs().join()),
        SearchOrder::Breadth => explore::outcome(&builder.spawn_bfs().join()),
    }
}

fn small(number: u32) -> u8 {
    u8::try_from(number).expect("bounds are small")
}
