//! The search: all states within the bounds, and the schedule that leads to a wrong one.

use std::time::Instant;

use kgate_core::{Protocol, Setup};
use serde::Serialize;
use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::model::{Channels, World};

/// How often what may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How often each client asks.
    pub entries: u32,
    /// How many processes crash.
    pub crashes: u32,
    /// How many requests are withdrawn.
    pub withdrawals: u32,
    /// How many crashes the protocol claims to bear.
    pub bears: u32,
    /// Whether processes are told of crashes.
    pub news: News,
    /// Whether messages keep their order.
    pub channels: Channels,
    /// After how many states to stop.
    pub max_states: Option<usize>,
}

/// Whether processes are told of crashes: perfectly, and each at any time after the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nobody is told.
    None,
    /// Everybody is, of several crashes in any order.
    AnyOrder,
    /// Everybody is, in the order of the crashes, as from an agreed log.
    InOrder,
}

/// In which order states are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The deepest first: little memory.
    Depth,
    /// The nearest first: the shortest schedule.
    Breadth,
}

/// What the search found of one property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The property.
    pub name: &'static str,
    /// Whether it holds in all that was visited.
    pub holds: bool,
    /// A schedule that shows that it does not; for what must be reached at all, one that reaches it.
    pub schedule: Option<Vec<String>>,
}

/// What the search found.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// States generated, the same ones each time.
    pub states: usize,
    /// Different states.
    pub unique: usize,
    /// The longest schedule visited.
    pub depth: usize,
    /// Whether every state within the bounds was visited.
    pub complete: bool,
    /// Each property.
    pub properties: Vec<Finding>,
    /// Seconds that took.
    pub seconds: f64,
}

/// Explores `P` in that setting.
pub fn explore<P: Protocol>(setup: Setup, bounds: Bounds, order: Order) -> Outcome {
    explore_world(World::<P>::new(setup, bounds), order)
}

/// Explores a world, for instance one that is judged by some properties alone.
#[allow(clippy::disallowed_methods)] // How long it took is told; nothing depends on it.
pub fn explore_world<P: Protocol>(world: World<P>, order: Order) -> Outcome {
    let started = Instant::now();
    let bounds = world.bounds;
    let builder = world.checker().threads(1).finish_when(HasDiscoveries::AnyFailures);
    let builder = match bounds.max_states {
        Some(most) => builder.target_state_count(most),
        None => builder,
    };
    match order {
        Order::Depth => outcome(builder.spawn_dfs().join(), bounds, started),
        Order::Breadth => outcome(builder.spawn_bfs().join(), bounds, started),
    }
}

fn outcome<P: Protocol>(checker: impl Checker<World<P>>, bounds: Bounds, started: Instant) -> Outcome {
    let mut properties = Vec::new();
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        let schedule = found
            .map(|path| path.into_actions().iter().map(|action| format!("{action:?}")).collect::<Vec<_>>());
        let holds = match property.expectation {
            Expectation::Always | Expectation::Eventually => schedule.is_none(),
            Expectation::Sometimes => schedule.is_some(),
        };
        properties.push(Finding { name: property.name, holds, schedule });
    }
    // The search stops at the first wrong state, or at the bound of states.
    let wrong = properties.iter().any(|finding| !finding.holds && finding.schedule.is_some());
    let stopped = wrong || bounds.max_states.is_some_and(|most| checker.state_count() >= most);
    Outcome {
        states: checker.state_count(),
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        complete: checker.is_done() && !stopped,
        properties,
        seconds: started.elapsed().as_secs_f64(),
    }
}
