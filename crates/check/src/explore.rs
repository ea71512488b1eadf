//! The search: all states within the bounds, and the schedule that leads to a wrong one.

use std::time::Duration;

use kgate_core::{Explorable, Setup};
use kgate_spec::scenario::Act;
use serde::Serialize;
use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::action::{self, Action, ActionOf};
use crate::bounds::Bounds;
use crate::fair;
use crate::limits::{Limits, Stopped};
use crate::model::ProtocolModel;
use crate::state::State;
use crate::symmetry;

/// In which order states are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The deepest first: little memory.
    Depth,
    /// The nearest first: the shortest schedule.
    Breadth,
}

/// A step of a schedule, and what the message says if it is about one; in the state model, what the
/// movers' states are then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScheduleStep {
    /// The step, in the words of a schedule.
    #[serde(serialize_with = "as_text")]
    pub step: Act,
    /// What the message says; in the state model, the states of those that have moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

fn as_text<S: serde::Serializer>(step: &Act, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(step)
}

/// What the search found of one property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The property.
    pub name: &'static str,
    /// Whether it holds in all that was visited; of what must be reached at all, whether it was
    /// reached.
    pub holds: bool,
    /// A schedule that shows that it does not hold.
    pub counterexample: Option<Vec<ScheduleStep>>,
    /// Where it was not checked, if anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Where the counterexample goes round for ever: the steps from this one on, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle: Option<usize>,
    /// Where the counterexample begins, if not at the one start: the state of each process, a line
    /// each. It may have no step at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<String>>,
}

impl Finding {
    /// It holds in all that was visited.
    pub(crate) fn holds(name: &'static str) -> Self {
        Self { name, holds: true, counterexample: None, cycle: None, from: None, note: None }
    }
}

/// What the search found.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// States generated, the same ones each time; in the state model, steps of all daemons.
    pub states: usize,
    /// Different states; in the state model, configurations.
    pub unique: usize,
    /// The longest schedule visited; in the state model, the most rounds until normal (0 if that
    /// may never be).
    pub depth: usize,
    /// Whether every state within the bounds was visited.
    pub complete: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// In the state model: the most that are ever inside at once, from a clean start of a wave on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside_max: Option<u32>,
    /// Each property.
    pub properties: Vec<Finding>,
    /// Seconds that took.
    pub seconds: f64,
}

impl Outcome {
    /// Whether something is shown to be wrong.
    pub fn is_wrong(&self) -> bool {
        let shown = |finding: &Finding| finding.counterexample.is_some() || self.complete;
        self.properties.iter().any(|finding| !finding.holds && shown(finding))
    }
}

/// Explores `P` in that setting.
pub fn explore<P: Explorable>(
    setup: Setup,
    bounds: Bounds,
    limits: Limits,
    order: Order,
) -> Outcome {
    explore_model(ProtocolModel::<P>::new(setup, bounds).with_limits(limits), order)
}

/// Explores a world, for instance one that is checked by some properties alone. With symmetry,
/// depth first only: the search library knows none in breadth.
pub fn explore_model<P: Explorable>(model: ProtocolModel<P>, order: Order) -> Outcome {
    let symmetric = model.renamings.is_some();
    let builder = model.checker().threads(1).finish_when(HasDiscoveries::AnyFailures);
    let builder =
        if symmetric { builder.symmetry_fn(symmetry::representative::<P>) } else { builder };
    match order {
        Order::Depth => outcome(&builder.spawn_dfs().join()),
        Order::Breadth => outcome(&builder.spawn_bfs().join()),
    }
}

/// The same, and then schedules without end if nothing else was wrong.
pub fn explore_fair<P: Explorable>(model: ProtocolModel<P>, order: Order) -> Outcome {
    let (again, limits) = (model.anew(), model.guard.limits());
    let mut outcome = explore_model(model, order);
    if outcome.stopped.is_none() {
        // Both searches together have the time that was given.
        let spent = Duration::from_secs_f64(outcome.seconds);
        let time = limits.time.map(|time| time.saturating_sub(spent));
        let (finding, stopped, seconds) =
            fair::search(&again.with_limits(Limits { time, ..limits }));
        outcome.complete &= stopped.is_none();
        outcome.stopped = stopped;
        outcome.properties.push(finding);
        outcome.seconds += seconds;
    } else {
        let note = Some("not searched: the search before it was stopped".into());
        outcome.properties.push(Finding { note, ..Finding::holds(fair::NAME) });
    }
    outcome
}

fn outcome<P: Explorable>(checker: &impl Checker<ProtocolModel<P>>) -> Outcome {
    let (limit, seconds) = (checker.model().guard.stopped(), checker.model().guard.seconds());
    checker.model().guard.release();
    let mut properties = Vec::new();
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        let (holds, found) = match property.expectation {
            Expectation::Always | Expectation::Eventually => (found.is_none(), found),
            Expectation::Sometimes => (found.is_some(), None),
        };
        let counterexample = found.map(|path| tell(checker.model(), path.into_actions()));
        properties.push(Finding {
            name: property.name,
            holds,
            counterexample,
            cycle: None,
            from: None,
            note: None,
        });
    }
    let wrong = properties.iter().any(|finding| finding.counterexample.is_some());
    let stopped = if wrong { Some(Stopped::Found) } else { limit };
    Outcome {
        states: checker.state_count(),
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        complete: checker.is_done() && stopped.is_none(),
        stopped,
        inside_max: None,
        properties,
        seconds,
    }
}

/// A path in the words of a schedule. These count messages in the order of sending, so that it is
/// gone once more, in that order.
pub(crate) fn tell<P: Explorable>(
    model: &ProtocolModel<P>,
    actions: Vec<ActionOf<P>>,
) -> Vec<ScheduleStep> {
    let model = model.as_sent();
    let mut state = model.first_state();
    let mut schedule = Vec::new();
    for mut action in actions {
        if let Action::Message(place, _, (from, to, message)) = &mut action {
            let mut all = state.in_flight.iter();
            let same =
                all.position(|other| other.channel() == (*from, *to) && other.message == *message);
            *place = same.expect("it is on its way");
        }
        schedule.push(told(&state, &action));
        state = model.next_state(&state, action).expect("it was possible");
    }
    schedule
}

/// One action in the words of a schedule.
fn told<P: Explorable>(before: &State<P>, action: &ActionOf<P>) -> ScheduleStep {
    let message = match action {
        Action::Message(_, _, (_, _, message)) => Some(format!("{:?}", message.value)),
        Action::Acquire(..)
        | Action::Withdraw(_)
        | Action::Release(..)
        | Action::Expire(..)
        | Action::Crash(_)
        | Action::Down(_)
        | Action::Restart(_)
        | Action::NotifyCrash(..)
        | Action::NotifyReturn(..)
        | Action::Resize(..) => None,
    };
    ScheduleStep { step: Act::Step(action::step(before, action)), message }
}

/// Serves stateright's Explorer on that address: walk through the states by hand. Returns when the
/// server ends.
pub fn serve<P: Explorable>(setup: Setup, bounds: Bounds, address: std::net::SocketAddr) {
    ProtocolModel::<P>::new(setup, bounds).shown().checker().serve(address);
}
