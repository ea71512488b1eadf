//! The actions a1 .. a5 of the root.

use alloc::vec::Vec;

use kgate_core::{NodeId, Step, View};

use super::defects::{C1, C8, C14};
use super::macros::{children, first, is_elsewhere, next};
use super::state::{Phase, State, pauses};

/// The actions that are enabled; each value of T has its own, so there is never more than one.
pub(super) fn enabled(view: View<'_, State>, steps: &mut Vec<Step<State>>) {
    let k = view.setup.k;
    let to = |phase| State { phase, ..*view.own };
    let send = |token| {
        let to = if token == 0 { first(view) } else { next(view) };
        State { phase: Phase::Sending(token), sent: to.map(|(id, _)| id), ..*view.own }
    };
    let all = |fits: fn(&State) -> bool| view.around().all(|(_, state)| fits(state));
    let is_clean = |state: &State| state.phase == Phase::Clean;
    let mut can = |guard: bool, name, next, privileged| {
        if guard {
            steps.push(Step { name, next, privileged });
        }
    };
    match view.own.phase {
        Phase::Clean => can(all(is_clean), "a1", send(0), true),
        Phase::Sending(token) if token + 1 < k && pauses(view.setup) => {
            can(taken(view), "a2g", to(Phase::Between(token)), false);
        }
        Phase::Sending(token) if token + 1 < k => {
            can(taken(view) && free(view), "a2", send(token + 1), true);
        }
        Phase::Between(token) => can(free(view), "a2", send(token + 1), true),
        Phase::Sending(_) => {
            let calm = all(|state| matches!(state.phase, Phase::Token | Phase::Clean));
            can(calm && taken(view), "a3", to(Phase::Ready), false);
        }
        Phase::Ready => can(all(is_clean), "a4", to(Phase::Broadcast), false),
        Phase::Broadcast => can(answered(view), "a5", to(Phase::Clean), false),
        Phase::Feedback | Phase::Token => unreachable!("no state of a root"),
    }
}

/// `S_p = q => T_q = Tok`, in a2 and a3: the token last sent was taken, or is lost.
fn taken(view: View<'_, State>) -> bool {
    let defects = view.setup.defects;
    view.own.sent.and_then(|sent| view.of(sent)).is_none_or(|state| {
        // C8: a Tok of another parent's token says nothing about the root's.
        let taken = state.phase == Phase::Token && (is_child(view.me(), state) || defects.has(C8));
        // C14: another process's child takes only the first token of a wave.
        let lost =
            view.own.phase != Phase::Sending(0) && is_elsewhere(view, state) && !defects.has(C14);
        taken || lost
    })
}

/// `T_Next = C`, in a2: the next receiver can take the token.
fn free(view: View<'_, State>) -> bool {
    next(view).is_none_or(|(_, state)| {
        // C8: another process's child may wait for the root to move on; it is clean soon after.
        state.phase == Phase::Clean || !is_child(view.me(), state) && !view.setup.defects.has(C8)
    })
}

/// Cleaning, the guard of a5: the broadcast has reached all processes and returned.
fn answered(view: View<'_, State>) -> bool {
    let is_back = |state: &State| state.phase == Phase::Feedback;
    if view.setup.defects.has(C1) {
        // C1: as printed all neighbours must answer, even those that no token has made a child,
        // which no broadcast reaches.
        return view.around().all(|(_, state)| is_back(state));
    }
    children(view).all(is_back)
}

fn is_child(me: NodeId, state: &State) -> bool {
    state.parent == Some(me)
}
