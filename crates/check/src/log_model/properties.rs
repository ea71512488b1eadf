//! The properties of the log model. P1 to P6 are those of `docs/internals/home.md`.

use kgate_core::{Assigned, Explorable, NodeId};
use kgate_spec::Fate;
use kgate_spec::history::NOTHING_FROM_NOTHING;
use kgate_spec::{EveryoneServed, NoResidue, QueueOrder, SometimesK, WithinK};
use stateright::{Model, Property};

use super::action::{LogAction, LogActionOf};
use super::state::{LogState, Run};
use super::{LogModel, small};
use crate::properties::{K_INSIDE, NOT_REFUSED};
use crate::state::{InFlight, Process};

/// P1: no two clients believe in the same slot.
pub const ONE_HOLDER: &str = "a slot has one holder";
/// P2: each grant of a slot has a greater fence than the grants before it.
pub const FENCES_GROW: &str = "the fences of a slot increase";

/// All properties. Only the first state counts that violates a property (or that reaches it, for
/// what must be reached).
pub(super) fn all<P: Explorable>() -> Vec<Property<LogModel<P>>> {
    vec![
        Property::always(ONE_HOLDER, |model: &LogModel<P>, state: &LogState<P>| {
            !model.first(0, state.has_broken(ONE_HOLDER))
        }),
        Property::always(FENCES_GROW, |model, state: &LogState<P>| {
            !model.first(1, state.has_broken(FENCES_GROW))
        }),
        Property::always(QueueOrder::NAME, |model, state: &LogState<P>| {
            !model.first(2, state.has_broken(QueueOrder::NAME))
        }),
        Property::always(EveryoneServed::NAME, |model, state| {
            !model.first(3, is_calm(state) && waits(state) && waits(&rest(model, state).0))
        }),
        Property::always(NoResidue::NAME, |model, state| {
            !model.first(4, is_calm(state) && !waits(state) && has_residue(model, state))
        }),
        Property::always(WithinK::NAME, |model, state: &LogState<P>| {
            !model.first(5, state.has_broken(WithinK::NAME))
        }),
        Property::always(NOTHING_FROM_NOTHING, |model, state: &LogState<P>| {
            !model.first(6, state.has_broken(NOTHING_FROM_NOTHING))
        }),
        Property::always(NOT_REFUSED, |model, state: &LogState<P>| {
            !model.first(7, state.refused.is_some())
        }),
        Property::sometimes(K_INSIDE, |model, state: &LogState<P>| {
            let k = model.setup.k;
            model.first(8, SometimesK::shown(k, state.slots_in_use(k) as usize))
        }),
    ]
}

/// Whether nothing is left that must happen, but that timers expire: what is possible otherwise are
/// new requests and new faults. Not where a relay that a cut needs has crashed.
fn is_calm<P: Explorable>(state: &LogState<P>) -> bool {
    let is_settled = |node| {
        let at = state.node(node);
        match at.run {
            Run::Up => {
                at.applied == state.length() && at.lease && !at.is_new && state.is_member(node)
            }
            Run::Down => false,
            Run::Crashed => !state.is_member(node),
        }
    };
    let up = || state.ids().filter(|node| state.is_up(*node)).collect::<Vec<_>>();
    state.in_flight.is_empty()
        && state.ids().all(is_settled)
        && state.permits.iter().all(|permit| !permit.believes() && permit.sessions.is_empty())
        && (state.cuts.is_empty() || state.are_connected(&up()))
}

fn waits<P: Explorable>(state: &LogState<P>) -> bool {
    state.nodes.iter().any(|node| node.run == Run::Up && !node.waiting.is_empty())
}

/// P5: whether something of an ended request is left that can be in the way of another. What a home
/// counts as taken since an older term is found out about when somebody waits; so somebody does.
fn has_residue<P: Explorable>(model: &LogModel<P>, state: &LogState<P>) -> bool {
    if !state.timers.is_empty() {
        return !rest(model, state).1;
    }
    let up = || state.ids().filter(|node| state.is_up(*node));
    let inventory = |node: NodeId| state.processes[node.index()].protocol().inventory();
    let seen = |node: NodeId| (node, &state.processes[node.index()].seen);
    NoResidue::left(up().map(seen)).is_some()
        || up().any(|node| inventory(node).pending > 0)
        || up().any(|node| !is_served(model, state, node))
}

/// More steps than a request takes to be served.
const MOST_STEPS: usize = 1000;

/// Whether a request for all slots is served, if nothing else happens.
fn is_served<P: Explorable>(model: &LogModel<P>, state: &LogState<P>, node: NodeId) -> bool {
    let asked = model.next_state(state, LogAction::Acquire(node, small(state.latest().k)));
    asked.is_some_and(|asked| rest(model, &asked).0.node(node).waiting.is_empty())
}

/// What becomes of a state if nothing happens but what must: messages arrive, clients release, and
/// timers expire in turn. True if that comes to an end.
fn rest<P: Explorable>(model: &LogModel<P>, state: &LogState<P>) -> (LogState<P>, bool) {
    let (mut state, mut last) = (state.clone(), None);
    for _ in 0..MOST_STEPS {
        let Some(action) = next_due(&state, &mut last) else { return (state, true) };
        let Some(next) = model.next_state(&state, action) else { break };
        state = next;
    }
    (state, false)
}

/// What must happen next; `last` is the timer that has expired last.
fn next_due<P: Explorable>(
    state: &LogState<P>,
    last: &mut Option<(NodeId, P::Timer)>,
) -> Option<LogActionOf<P>> {
    if let Some(InFlight { from, to, message }) = state.in_flight.first() {
        let named = (*from, *to, message.clone());
        return Some(LogAction::Message(0, Fate::Arrives, named));
    }
    if let Some(place) = state.permits.iter().position(|permit| permit.believes()) {
        return Some(LogAction::Release(place, state.permits[place].by.node));
    }
    let later = |timer: &&(NodeId, P::Timer)| Some(*timer) > last.as_ref();
    *last = state.timers.iter().find(later).or(state.timers.first()).cloned();
    last.clone().map(|(node, timer)| LogAction::Expire(node, timer))
}

impl<P: Explorable> LogState<P> {
    /// A transition violates a property.
    pub(super) fn breaks(&mut self, property: &'static str) {
        if !self.has_broken(property) {
            self.broken.push(property);
        }
    }

    /// Whether a transition has violated that property.
    pub fn has_broken(&self, property: &str) -> bool {
        self.broken.contains(&property)
    }
}

/// P3: whether a transition of the process that decides has granted a request although one that
/// was before it in the queue, and is not too large, still waits. `is_earlier` tells whether a
/// request that arrived with the transition belongs before that one.
pub(super) fn overtakes<P: Explorable>(
    before: &Process<P>,
    after: &Process<P>,
    k: u32,
    is_earlier: impl Fn(NodeId, NodeId) -> bool,
) -> bool {
    let (queue, left) = (&before.seen.queue, &after.seen.queue);
    if after.seen.decided <= before.seen.decided || left.is_empty() {
        return false;
    }
    let former = before.protocol().inventory().assigned;
    let assigned = after.protocol().inventory().assigned;
    let is_new = |line: &&Assigned| {
        let same = |other: &Assigned| (other.node, other.ticket) == (line.node, line.ticket);
        line.ticket.is_some() && !former.iter().any(same)
    };
    let mut granted = assigned.iter().filter(is_new);
    granted.any(|line| {
        let place =
            queue.iter().position(|other| (other.0, Some(other.1)) == (line.node, line.ticket));
        let passes = |(at, other): (usize, &(NodeId, u64, u32))| {
            other.2 <= k
                && left.contains(other)
                && place.map_or(!is_earlier(line.node, other.0), |place| at < place)
        };
        queue.iter().enumerate().any(passes)
    })
}
