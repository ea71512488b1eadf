//! What must hold in every state that can be reached, and what must be reached at all.

use kgate_core::Protocol;
use kgate_spec::{AtMostK, EveryoneServed};
use stateright::Property;

use crate::model::World;
use crate::state::State;

/// Non-vacuity: some schedule has k inside at once.
pub const K_INSIDE: &str = "sometimes k inside";
/// No correct process sends what another must refuse.
pub const NOT_REFUSED: &str = "no input is refused";

/// All properties. Of each, only the first state counts in which it is broken (or, of what is to be reached, reached).
pub fn all<P: Protocol>() -> Vec<Property<World<P>>> {
    vec![
        Property::always(AtMostK::NAME, |world, state: &State<P>| !world.first(0, state.crowded)),
        Property::always(EveryoneServed::NAME, |world, state| !world.first(1, stuck(world, state))),
        Property::always(NOT_REFUSED, |world, state: &State<P>| !world.first(2, state.refused.is_some())),
        Property::sometimes(K_INSIDE, |world, state: &State<P>| {
            world.first(3, state.units() == world.setup.permits)
        }),
    ]
}

/// Liveness by quiescence: whoever waits when nothing can happen any more waits for ever.
fn stuck<P: Protocol>(world: &World<P>, state: &State<P>) -> bool {
    state.is_quiet() && is_borne(world, state) && state.ids().any(|node| state.waits(node))
}

/// Whether no more has failed than the protocol claims to bear.
pub fn is_borne<P: Protocol>(world: &World<P>, state: &State<P>) -> bool {
    let bears = &world.bounds.bears;
    state.crashed.len() <= bears.crashes as usize
        && (bears.loss || state.spent.losses == 0)
        && (bears.duplicates || state.spent.duplicates == 0)
}

/// Whether somebody holds another for crashed that is not.
pub fn suspects_the_living<P: Protocol>(state: &State<P>) -> bool {
    let suspects = |process: &crate::state::Process<P>| {
        process.seen.crashed.iter().any(|suspect| !state.crashed.contains(suspect))
    };
    state.processes.iter().any(|process| suspects(process))
}
