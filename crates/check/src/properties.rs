//! What must hold in every state that can be reached, and what must be reached at all.

use kgate_core::{Cargo, Means, Message, Protocol};
use kgate_spec::{AtMostK, EntryOrder, EveryoneServed, NoDeadlock, OneToken, Permissions, SometimesK};
use stateright::Property;

use crate::model::{State, World};

/// Non-vacuity: some schedule has k inside at once.
pub const K_INSIDE: &str = SometimesK::NAME;
/// No correct process sends what another must refuse.
pub const NOT_REFUSED: &str = "no input is refused";

/// All properties: those of every protocol, and those that its means of exclusion call for.
pub fn all<P: Protocol>() -> Vec<Property<World<P>>> {
    let mut all = of_every_protocol();
    match P::MEANS {
        Means::Permissions => all.extend([
            Property::always(Permissions::NAME, |_, state: &State<P>| {
                !state.ghost.has_broken(Permissions::NAME)
            }),
            // Promised for k = 1 alone; the ghost knows.
            Property::always(EntryOrder::NAME, |_, state: &State<P>| {
                !state.ghost.has_broken(EntryOrder::NAME)
            }),
        ]),
        Means::Tokens => {
            all.push(Property::always(OneToken::NAME, |_, state: &State<P>| !two_of_a_token(state)));
        }
        Means::Other => {}
    }
    all
}

/// Whether there is a token twice: with the living, or on its way.
fn two_of_a_token<P: Protocol>(state: &State<P>) -> bool {
    let live = state.ids().filter(|node| !state.crashed.contains(node));
    let held = live.flat_map(|node| {
        let tokens = state.nodes[node.index()].observe().tokens;
        tokens.into_iter().map(move |token| (node, token))
    });
    let messages = state.channels.iter().flat_map(|(&(_, to), channel)| channel.iter().map(move |m| (to, m)));
    let flying = messages.filter_map(|(to, message)| match message.cargo() {
        Some(Cargo::Token(token)) => Some((to, token)),
        Some(Cargo::Permission { .. }) | None => None,
    });
    OneToken::doubled(held, flying).is_some()
}

fn of_every_protocol<P: Protocol>() -> Vec<Property<World<P>>> {
    vec![
        Property::always(AtMostK::NAME, |world: &World<P>, state: &State<P>| {
            state.inside.len() <= world.setup.permits as usize
        }),
        // Liveness by quiescence: nothing is on its way, nobody is inside, all news are told; then whoever waits does so for ever.
        Property::always(EveryoneServed::NAME, |world: &World<P>, state: &State<P>| {
            let quiet = state.channels.is_empty() && state.timers.is_empty() && state.untold.is_empty();
            let borne = state.crashed.len() <= world.bounds.bears as usize;
            !(quiet && borne && state.inside.is_empty() && state.ids().any(|node| state.waits(node)))
        }),
        Property::always(NoDeadlock::NAME, |world: &World<P>, state: &State<P>| {
            let under_way =
                !(state.channels.is_empty() && state.timers.is_empty() && state.untold.is_empty());
            let waiting = state.ids().filter(|&node| state.waits(node)).count();
            let borne = state.crashed.len() <= world.bounds.bears as usize;
            !borne || NoDeadlock::holds(under_way, state.inside.len(), waiting)
        }),
        Property::always(NOT_REFUSED, |_, state: &State<P>| state.refused.is_none()),
        Property::sometimes(K_INSIDE, |world: &World<P>, state: &State<P>| {
            SometimesK::shown(world.setup.permits, state.inside.len())
        }),
    ]
}
