//! stabilizing-2014.

pub mod defects;
mod macros;
mod others;
pub mod refined;
mod root;
mod state;
mod survey;

pub use state::{Phase, State};

use alloc::vec::Vec;

use kgate_core::{Rules, Setup, Step, Survey, View};

/// Algorithm 3.1, corrected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exclusion;

impl Rules for Exclusion {
    const NAME: &'static str = "stabilizing";
    type State = State;

    fn clean(setup: &Setup) -> State {
        state::clean(setup)
    }

    fn arbitrary(setup: &Setup, below: &mut dyn FnMut(u64) -> u64) -> State {
        state::arbitrary(setup, below)
    }

    fn in_domain(setup: &Setup, state: &State) -> bool {
        state::in_domain(setup, state)
    }

    fn enabled(view: View<'_, State>, steps: &mut Vec<Step<State>>) {
        if view.me() == view.graph().root() {
            root::enabled(view, steps);
        } else {
            others::enabled(view, steps);
        }
    }

    fn survey(setups: &[Setup], states: &[State]) -> Survey {
        survey::survey(setups, states)
    }
}
