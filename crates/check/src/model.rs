//! The model of a few processes, their clients and channels, as `stateright` explores it.
//!
//! - `enabled.rs`: the actions that are possible in a state;
//! - `handle.rs`: how a process handles an input, and how its effects are applied;
//! - `faults.rs`: losses, duplicates, crashes, restarts, notifications and timers;
//! - `memo.rs`: transitions of processes, remembered.

mod enabled;
mod faults;
mod handle;
pub(crate) mod memo;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use kgate_core::{Explorable, Incarnation, Input, NodeId, Outbox, Setup};
use smallvec::SmallVec;
use stateright::{Model, Property};

use crate::action::{Action, ActionOf};
use crate::bounds::{Bounds, Channels};
use crate::client::Client;
use crate::ghost::Ghost;
use crate::limits::{LimitGuard, Limits};
use crate::log::Log;
use crate::properties;
use crate::state::{Hashed, NotCompared, PerProcess, Process, Spent, State};
use crate::symmetry::{self, NoSymmetry, Renamings};
pub(crate) use memo::{Memo, SharedInput, Transition};

/// The subject of an exploration: a protocol, its setup, and the bounds.
#[derive(Debug)]
pub struct ProtocolModel<P: Explorable> {
    /// The setup of every process; `me` is filled in per process.
    pub setup: Setup,
    /// How often each event may happen.
    pub bounds: Bounds,
    /// The names of the checked properties; all of them if none. The search stops at the first
    /// violation.
    pub checked: Option<Vec<&'static str>>,
    /// The renamings for symmetry reduction, if used.
    pub(crate) renamings: Option<Renamings>,
    pub(crate) guard: LimitGuard,
    /// The properties already reported, one bit each. A search records each state in which it sees
    /// something; only the first one is the nearest, and states that satisfy a property are in the
    /// millions.
    seen: AtomicU32,
    /// Whether each state reports its own properties, for exploration by hand.
    interactive: bool,
    /// Whether messages are kept in the order of sending even in unordered channels: schedules
    /// count messages in that order.
    as_sent: bool,
    /// The state of crashed processes that keep nothing: the same whatever it was before.
    gone: OnceLock<PerProcess<Arc<Process<P>>>>,
    memo: Memo<P>,
}

impl<P: Explorable> ProtocolModel<P> {
    /// A model of that setting, which checks all properties.
    pub fn new(setup: Setup, bounds: Bounds) -> Self {
        let guard = LimitGuard::new(Limits::default());
        let seen = AtomicU32::new(0);
        Self {
            setup,
            bounds,
            checked: None,
            renamings: None,
            guard,
            seen,
            interactive: false,
            as_sent: false,
            gone: OnceLock::new(),
            memo: Memo::new(),
        }
    }

    /// The same model, with these properties only.
    pub fn checking(self, names: impl Into<Vec<&'static str>>) -> Self {
        Self { checked: Some(names.into()), ..self }
    }

    /// The same model with symmetry reduction: states that differ only by a renaming count as one.
    pub fn with_symmetry(self) -> Result<Self, NoSymmetry> {
        let renamings = Some(symmetry::of(&self)?);
        // A renaming preserves the order of sending, but not an order by the messages' contents.
        Ok(Self { renamings, as_sent: true, ..self })
    }

    /// The initial state.
    pub(crate) fn first_state(&self) -> State<P> {
        self.init_states().swap_remove(0)
    }

    /// The same model with limits.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { guard: LimitGuard::new(limits), ..self }
    }

    /// The same model, fresh for another search.
    pub fn anew(&self) -> Self {
        let fresh =
            Self::new(self.setup.clone(), self.bounds.clone()).with_limits(self.guard.limits());
        let (interactive, as_sent) = (self.interactive, self.as_sent);
        Self {
            checked: self.checked.clone(),
            renamings: self.renamings.clone(),
            interactive,
            as_sent,
            ..fresh
        }
    }

    /// The same model, fresh, with messages in the order of sending.
    pub(crate) fn as_sent(&self) -> Self {
        Self { as_sent: true, ..self.anew() }
    }

    /// Whether the messages of a channel are kept in the order of sending.
    pub(crate) fn keeps_order(&self) -> bool {
        self.as_sent || self.bounds.channels == Channels::Fifo
    }

    /// Whether outdated messages are removed at once. Not where other messages wait behind them,
    /// nor where a schedule counts messages.
    fn drops_outdated(&self) -> bool {
        !self.keeps_order()
    }

    /// The setup of that incarnation of a process.
    fn setup_of(&self, me: NodeId, incarnation: u8) -> Setup {
        Setup { me, incarnation: Incarnation(u32::from(incarnation)), ..self.setup.clone() }
    }

    /// The same model, for exploration by hand.
    pub fn interactive(self) -> Self {
        Self { interactive: true, ..self }
    }

    /// Whether `it` holds for the first time; `bit` identifies the property.
    pub(crate) fn first(&self, bit: u32, it: bool) -> bool {
        it && (self.interactive || self.seen.fetch_or(1 << bit, Ordering::Relaxed) & 1 << bit == 0)
    }
}

impl<P: Explorable> Model for ProtocolModel<P> {
    type State = State<P>;
    type Action = ActionOf<P>;

    fn init_states(&self) -> Vec<State<P>> {
        let ids = || (0..self.setup.nodes).map(NodeId);
        let starts = ids().map(|me| {
            let mut out = Outbox::new();
            let protocol = P::start(&self.setup_of(me, 0), None, &mut out);
            (me, Transition::new(protocol, None, out))
        });
        let starts: Vec<_> = starts.collect();
        let mut state = State {
            processes: starts.iter().map(|(_, transition)| transition.after.clone()).collect(),
            clients: ids().map(|_| Client::default()).collect(),
            in_flight: Vec::new(),
            timers: Vec::new(),
            crashed: SmallVec::new(),
            down: SmallVec::new(),
            pending: SmallVec::new(),
            log: Log::new(),
            spent: Spent::default(),
            over_capacity: false,
            refused: None,
            ghost: Arc::new(Hashed::new(Ghost::new::<P>(&self.setup))),
            renamings: NotCompared(self.renamings.clone()),
        };
        for (me, transition) in starts {
            self.apply_effects(&mut state, me, &transition);
        }
        vec![state]
    }

    fn actions(&self, state: &State<P>, actions: &mut Vec<Self::Action>) {
        if self.guard.allows() {
            self.enabled_actions(state, actions);
        }
    }

    fn next_state(&self, before: &State<P>, action: Self::Action) -> Option<State<P>> {
        let mut state = before.clone();
        match action {
            Action::Acquire(node, weight) => {
                let client = &mut state.clients[node.index()];
                client.asked += 1;
                client.waiting.push(weight);
                self.handle(&mut state, node, Input::Acquire { weight: u32::from(weight) });
            }
            Action::Withdraw(node) => {
                state.spent.withdrawals += 1;
                state.clients[node.index()].waiting.pop();
                self.handle(&mut state, node, Input::Withdraw);
            }
            Action::Release(node, grant) => {
                if !state.clients[node.index()].leave(grant) {
                    return None;
                }
                self.handle(&mut state, node, Input::Release { grant });
            }
            Action::Message(place, fate, _) => self.move_message(&mut state, place, fate),
            Action::Expire(node, timer) => self.expire(&mut state, node, timer),
            Action::Crash(node) => self.crash(&mut state, node),
            Action::Down(node) => self.go_down(&mut state, node),
            Action::Restart(node) => self.restart(&mut state, node),
            Action::NotifyCrash(node, of, incarnation) => {
                self.notify_crash(&mut state, node, of, incarnation)
            }
            Action::NotifyReturn(node, _) => self.notify_entry(&mut state, node),
            Action::Resize(node, k) => {
                state.clients[node.index()].resized += 1;
                self.handle(&mut state, node, Input::Resize(k));
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = properties::all();
        all.retain(|property| {
            self.checked.as_ref().is_none_or(|names| names.contains(&property.name))
        });
        all
    }

    fn within_boundary(&self, state: &State<P>) -> bool {
        !self.bounds.responsive || !properties::suspects_the_living(state)
    }
}
