//! The search: all states within the bounds, and the schedule that leads to a violation.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::time::Duration;

use kgate_core::{Explorable, Setup};
use kgate_spec::scenario::Act;
use serde::Serialize;
use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::action::{self, Action, ActionOf};
use crate::bounds::Bounds;
use crate::fair;
use crate::limits::{LimitGuard, Limits, Stopped};
use crate::model::ProtocolModel;
use crate::state::State;
use crate::symmetry;

/// The order in which states are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchOrder {
    /// Depth first: little memory.
    Depth,
    /// Breadth first: the shortest schedule.
    Breadth,
}

/// A step of a schedule with the content of its message, if it has one; in the state model, with
/// the states of the movers afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScheduleStep {
    /// The step, in the notation of schedules.
    #[serde(serialize_with = "as_text")]
    pub step: Event,
    /// The content of the message; in the state model, the new states of the movers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What happens in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something that a scenario can express.
    Act(Act),
    /// A step of the log model, in words.
    Words(String),
}

impl Event {
    /// The step of a scenario, if it can express this.
    pub fn act(&self) -> Option<&Act> {
        match self {
            Self::Act(act) => Some(act),
            Self::Words(_) => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Act(act) => write!(f, "{act}"),
            Self::Words(words) => f.write_str(words),
        }
    }
}

fn as_text<S: serde::Serializer>(step: &Event, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(step)
}

/// The result for one property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the property.
    pub name: &'static str,
    /// Whether the property holds in all visited states; for a property that must be reached,
    /// whether it was reached.
    pub holds: bool,
    /// A schedule that violates the property.
    pub counterexample: Option<Vec<ScheduleStep>>,
    /// Why the property was not checked, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Where the counterexample repeats forever: from this step on, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle: Option<usize>,
    /// The initial state of the counterexample, if not the only one: one line per process. The
    /// counterexample may have no step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Vec<String>>,
}

impl Finding {
    /// The property holds in all visited states.
    pub(crate) fn holds(name: &'static str) -> Self {
        Self { name, holds: true, counterexample: None, cycle: None, from: None, note: None }
    }
}

/// The results of a search.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// States generated, with repetitions; in the state model, steps of all daemons.
    pub states: usize,
    /// Distinct states; in the state model, configurations.
    pub unique: usize,
    /// The longest schedule visited; in the state model, the most rounds until normal (0 if
    /// unbounded).
    pub depth: usize,
    /// Whether every state within the bounds was visited.
    pub complete: bool,
    /// Why the search stopped early, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// In the state model: the most processes that are ever inside at once, after a clean start of
    /// a wave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside_max: Option<u32>,
    /// The result for each property.
    pub properties: Vec<Finding>,
    /// The duration of the search in seconds.
    pub seconds: f64,
}

impl Outcome {
    /// Whether some property is shown to be violated.
    pub fn is_wrong(&self) -> bool {
        let shown = |finding: &Finding| finding.counterexample.is_some() || self.complete;
        self.properties.iter().any(|finding| !finding.holds && shown(finding))
    }
}

/// Explores the protocol `P` in that setting.
pub fn explore<P: Explorable>(
    setup: Setup,
    bounds: Bounds,
    limits: Limits,
    order: SearchOrder,
) -> Outcome {
    explore_model(ProtocolModel::<P>::new(setup, bounds).with_limits(limits), order)
}

/// Explores a model, for example one that checks some properties only. Symmetry reduction works
/// depth first only: the search library has none in breadth.
pub fn explore_model<P: Explorable>(model: ProtocolModel<P>, order: SearchOrder) -> Outcome {
    let symmetric = model.renamings.is_some();
    let builder = model.checker().threads(1).finish_when(HasDiscoveries::AnyFailures);
    let builder =
        if symmetric { builder.symmetry_fn(symmetry::representative::<P>) } else { builder };
    match order {
        SearchOrder::Depth => outcome(&builder.spawn_dfs().join()),
        SearchOrder::Breadth => outcome(&builder.spawn_bfs().join()),
    }
}

/// Explores a model, then searches for infinite schedules that starve a process if no other
/// violation was found.
pub fn explore_fair<P: Explorable>(model: ProtocolModel<P>, order: SearchOrder) -> Outcome {
    let (again, limits) = (model.anew(), model.guard.limits());
    let mut outcome = explore_model(model, order);
    if outcome.stopped.is_none() {
        // Both searches share the time limit.
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

/// A model that can be searched.
pub(crate) trait Explored: Model {
    /// The limits of the search.
    fn guard(&self) -> &LimitGuard;
    /// A path as a schedule.
    fn schedule(&self, actions: Vec<Self::Action>) -> Vec<ScheduleStep>;
}

impl<P: Explorable> Explored for ProtocolModel<P> {
    fn guard(&self) -> &LimitGuard {
        &self.guard
    }

    fn schedule(&self, actions: Vec<ActionOf<P>>) -> Vec<ScheduleStep> {
        schedule_of(self, actions)
    }
}

/// The results of a search that has ended.
pub(crate) fn outcome<M: Explored>(checker: &impl Checker<M>) -> Outcome
where
    M::State: Clone + Debug + Hash + PartialEq,
    M::Action: Clone + Debug + PartialEq,
{
    let guard = checker.model().guard();
    let (limit, seconds) = (guard.stopped(), guard.seconds());
    guard.release();
    let mut properties = Vec::new();
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        let (holds, found) = match property.expectation {
            Expectation::Always | Expectation::Eventually => (found.is_none(), found),
            Expectation::Sometimes => (found.is_some(), None),
        };
        let counterexample = found.map(|path| checker.model().schedule(path.into_actions()));
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

/// A path as a schedule. Schedules count messages in the order of sending, so the path is replayed
/// in that order.
pub(crate) fn schedule_of<P: Explorable>(
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
            *place = same.expect("the message is in flight");
        }
        schedule.push(schedule_step(&state, &action));
        state = model.next_state(&state, action).expect("the action was enabled");
    }
    schedule
}

/// One action as a step of a schedule.
fn schedule_step<P: Explorable>(before: &State<P>, action: &ActionOf<P>) -> ScheduleStep {
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
    ScheduleStep { step: Event::Act(Act::Step(action::step(before, action))), message }
}

/// Serves stateright's Explorer on that address, for exploration by hand. Returns when the server
/// ends.
pub fn serve<P: Explorable>(setup: Setup, bounds: Bounds, address: std::net::SocketAddr) {
    ProtocolModel::<P>::new(setup, bounds).interactive().checker().serve(address);
}
