//! The properties: what must hold in every reachable state, and what must be reached.

use kgate_core::{Carried, Explorable, Mechanism, Message, NodeId};
pub use kgate_spec::NOT_REFUSED;
use kgate_spec::history::NOTHING_FROM_NOTHING;
use kgate_spec::{
    AtMostK, EntryOrder, EveryoneServed, NoResidue, NotLeftLying, OneToken, Permissions,
    SlotFences, SometimesK, StrictOrder, WithinK,
};
use stateright::Property;

use crate::model::ProtocolModel;
use crate::state::State;

/// Non-vacuity: some schedule has k inside at once.
pub const K_INSIDE: &str = SometimesK::NAME;

/// Slots are not left unused: in a state in which nothing is in flight, the first waiting request
/// wants more slots than are free. A holder may keep a slot as long as it likes, so a request that
/// waits without cause is found even if the next release would wake it (`slots`, P4).
pub const NOT_LEFT_LYING: &str = NotLeftLying::NAME;

/// All properties: those of every protocol, and those of its mechanism of exclusion. Only the first
/// state counts that violates a property (or that reaches it, for what must be reached).
pub fn all<P: Explorable>() -> Vec<Property<ProtocolModel<P>>> {
    let mut all = every_protocol();
    match P::MECHANISM {
        Mechanism::Permissions => all.extend([
            Property::always(Permissions::NAME, |model: &ProtocolModel<P>, state: &State<P>| {
                !model.first(4, state.ghost.value.has_broken(Permissions::NAME))
            }),
            // Promised for k = 1 only, which the ghost state observes.
            Property::always(EntryOrder::NAME, |model, state: &State<P>| {
                !model.first(5, state.ghost.value.has_broken(EntryOrder::NAME))
            }),
        ]),
        Mechanism::Tokens => all.push(Property::always(
            OneToken::NAME,
            |model: &ProtocolModel<P>, state: &State<P>| !model.first(6, two_of_a_token(state)),
        )),
        Mechanism::Slots => all.extend(slot_properties()),
        Mechanism::Other => {}
    }
    all
}

fn slot_properties<P: Explorable>() -> [Property<ProtocolModel<P>>; 6] {
    [
        Property::always(NOT_LEFT_LYING, |model: &ProtocolModel<P>, state: &State<P>| {
            !model.first(12, has_unused_slots(model, state))
        }),
        Property::always(NOTHING_FROM_NOTHING, |model: &ProtocolModel<P>, state: &State<P>| {
            !model.first(11, state.ghost.value.has_broken(NOTHING_FROM_NOTHING))
        }),
        Property::always(SlotFences::NAME, |model: &ProtocolModel<P>, state: &State<P>| {
            !model.first(7, state.ghost.value.has_broken(SlotFences::NAME))
        }),
        Property::always(StrictOrder::NAME, |model, state: &State<P>| {
            !model.first(8, state.ghost.value.has_broken(StrictOrder::NAME))
        }),
        Property::always(WithinK::NAME, |model, state: &State<P>| {
            !model.first(9, state.ghost.value.has_broken(WithinK::NAME))
        }),
        Property::always(NoResidue::NAME, |model, state: &State<P>| {
            !model.first(10, has_residue(model, state))
        }),
    ]
}

fn every_protocol<P: Explorable>() -> Vec<Property<ProtocolModel<P>>> {
    vec![
        Property::always(AtMostK::NAME, |model, state: &State<P>| {
            !model.first(0, state.over_capacity)
        }),
        Property::always(EveryoneServed::NAME, |model, state| !model.first(1, stuck(model, state))),
        Property::always(NOT_REFUSED, |model, state: &State<P>| {
            !model.first(2, state.refused.is_some())
        }),
        Property::sometimes(K_INSIDE, |model, state: &State<P>| {
            model.first(
                3,
                SometimesK::shown(model.setup.k, state.slots_in_use(model.setup.k) as usize),
            )
        }),
    ]
}

/// Liveness by quiescence: a request that waits when nothing can happen any more waits forever. As
/// every schedule is explored, that is a deadlock; starvation while others enter and leave is an
/// infinite schedule, for [`fair`](crate::fair).
fn stuck<P: Explorable>(model: &ProtocolModel<P>, state: &State<P>) -> bool {
    is_quiet(model, state)
        && is_tolerated(model, state)
        && state.ids().any(|node| state.waits(node))
}

/// Whether nothing is in flight and no client is inside: a request that waits now waits forever.
fn is_quiet<P: Explorable>(model: &ProtocolModel<P>, state: &State<P>) -> bool {
    is_still(model, state) && state.clients.iter().all(|client| client.inside.is_empty())
}

/// Whether no message is in flight, no timer armed, no process down and no notification pending:
/// the next event is a client's or a crash.
fn is_still<P: Explorable>(model: &ProtocolModel<P>, state: &State<P>) -> bool {
    state.in_flight.is_empty()
        && state.timers.is_empty()
        && state.pending.is_empty()
        && state.down.is_empty()
        && state.ids().all(|node| !state.is_up(node) || is_notified(model, state, node))
}

/// Whether the first waiting request could be granted although nothing is in flight. (Each lane has
/// a first one of its own.)
fn has_unused_slots<P: Explorable>(model: &ProtocolModel<P>, state: &State<P>) -> bool {
    if model.setup.slots.lanes > 1 || !is_still(model, state) || !is_tolerated(model, state) {
        return false;
    }
    let waiting = state.ids().filter(|&node| state.is_up(node) && state.waits(node));
    // A request without a stamp was not broadcast, for whatever reason, and comes last.
    let first = waiting.min_by_key(|node| {
        let stamp = state.processes[node.index()].seen.stamp;
        (stamp.is_none(), stamp)
    });
    let k = model.bounds.resizes.last().copied().unwrap_or(model.setup.k);
    first.is_some_and(|node| {
        let wanted = u32::from(state.clients[node.index()].waiting[0]);
        state.slots_in_use(k) + wanted <= k
    })
}

/// Whether a process has received every notification.
fn is_notified<P: Explorable>(model: &ProtocolModel<P>, state: &State<P>, node: NodeId) -> bool {
    let client = &state.clients[node.index()];
    usize::from(client.notified) == state.log.len()
        && usize::from(client.resized) == model.bounds.resizes.len()
}

/// Whether a process keeps state in a quiet state in which no client waits.
fn has_residue<P: Explorable>(model: &ProtocolModel<P>, state: &State<P>) -> bool {
    let live = state.ids().filter(|&node| state.is_up(node));
    is_quiet(model, state)
        && is_tolerated(model, state)
        && !state.ids().any(|node| state.waits(node))
        && NoResidue::left(live.map(|node| (node, &state.processes[node.index()].seen))).is_some()
}

/// Whether a token exists twice, with live processes or in flight.
fn two_of_a_token<P: Explorable>(state: &State<P>) -> bool {
    let live = state.ids().filter(|node| !state.crashed.contains(node));
    let held = live.flat_map(|node| {
        let tokens = state.processes[node.index()].seen.tokens.iter();
        tokens.map(move |token| (node, *token))
    });
    let in_flight =
        state.in_flight.iter().filter_map(|in_flight| match in_flight.message.value.carried() {
            Some(Carried::Token(token)) => Some((in_flight.to, token)),
            Some(Carried::Permission { .. }) | None => None,
        });
    OneToken::doubled(held, in_flight).is_some()
}

/// Whether no more has failed than the protocol claims to tolerate.
pub fn is_tolerated<P: Explorable>(model: &ProtocolModel<P>, state: &State<P>) -> bool {
    let tolerates = &model.bounds.tolerates;
    state.crashed.len() <= tolerates.crashes as usize
        && (tolerates.loss || state.spent.losses == 0)
        && (tolerates.duplicates || state.spent.duplicates == 0)
}

/// Whether a process suspects a live one.
pub fn suspects_the_living<P: Explorable>(state: &State<P>) -> bool {
    let suspects = |process: &crate::state::Process<P>| {
        process.seen.crashed.iter().any(|suspect| !state.crashed.contains(suspect))
    };
    state.processes.iter().any(|process| suspects(process))
}
