//! What must hold in every state that can be reached, and what must be reached at all.

use kgate_core::Protocol;
use kgate_spec::{AtMostK, EveryoneServed};
use stateright::Property;

use crate::model::{State, World};

/// Non-vacuity: some schedule has k inside at once.
pub const K_INSIDE: &str = "sometimes k inside";
/// No correct process sends what another must refuse.
pub const NOT_REFUSED: &str = "no input is refused";

/// All properties.
pub fn all<P: Protocol>() -> Vec<Property<World<P>>> {
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
        Property::always(NOT_REFUSED, |_, state: &State<P>| state.refused.is_none()),
        Property::sometimes(K_INSIDE, |world: &World<P>, state: &State<P>| {
            state.inside.len() == world.setup.permits as usize
        }),
    ]
}
