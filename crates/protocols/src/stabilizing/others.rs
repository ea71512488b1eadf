//! The actions a6 .. a11 of a process that is not the root.

use alloc::vec::Vec;

use kgate_core::{Step, View};

use super::defects::{C3, C5, C7, C11};
use super::macros::{children, chosen, is_elsewhere, next};
use super::state::{Phase, State, deepest};

/// The actions that are enabled.
pub(super) fn enabled(view: View<'_, State>, steps: &mut Vec<Step<State>>) {
    let to = |phase| State { phase, ..*view.own };
    let mut can = |name, next, privileged| steps.push(Step { name, next, privileged });
    if !is_normal(view) {
        let path = is_path_abnormal(view);
        if path {
            can("a10", State { parent: None, ..*view.own }, false);
        }
        // C5: as printed a process without a parent always has an abnormal path, and an abnormal
        // phase too.
        if !path || view.setup.defects.has(C5) && view.own.parent.is_none() {
            can("a11", to(Phase::Clean), false);
        }
        return;
    }
    if let Some(next) = token(view) {
        can("a6", next, true);
    }
    if broadcast(view) {
        can("a7", to(Phase::Broadcast), false);
    }
    if feedback(view) {
        can("a8", to(Phase::Feedback), false);
    }
    if cleaning(view) {
        can("a9", to(Phase::Clean), false);
    }
}

/// The state of p's parent; none outside the tree.
fn parent<'a>(view: View<'a, State>) -> Option<&'a State> {
    view.own.parent.and_then(|parent| view.of(parent))
}

/// Normal(p).
fn is_normal(view: View<'_, State>) -> bool {
    goes_with(view.own, parent(view))
}

/// Normal(p), from p's state and its parent's: the two go together (C13: their levels differ by 1).
pub(super) fn goes_with(own: &State, parent: Option<&State>) -> bool {
    let Some(parent) = parent else { return own.phase == Phase::Clean };
    let together = match own.phase {
        Phase::Clean => true,
        Phase::Broadcast => parent.phase == Phase::Broadcast,
        Phase::Feedback => {
            matches!(parent.phase, Phase::Broadcast | Phase::Feedback | Phase::Clean)
        }
        Phase::Token => !matches!(parent.phase, Phase::Broadcast | Phase::Feedback),
        Phase::Sending(_) | Phase::Between(_) | Phase::Ready => unreachable!("the root's alone"),
    };
    parent.parent.is_some() && own.level == parent.level + 1 && together
}

/// AbnPath(p), of a process that is not normal: its parents do not lead to the root. C5: it has a
/// parent.
fn is_path_abnormal(view: View<'_, State>) -> bool {
    match parent(view) {
        Some(parent) => parent.parent.is_none() || view.own.level != parent.level + 1,
        None => view.setup.defects.has(C5),
    }
}

/// Token(p), the guard of a6, and the state after it: p takes a token and offers it to the next
/// one.
pub(super) fn token(view: View<'_, State>) -> Option<State> {
    if view.own.phase != Phase::Clean || !is_normal(view) {
        return None;
    }
    let (from, sender) = chosen(view)?;
    let next = next(view);
    // C11: a token must not come between a child and the end of its broadcast.
    let calm = view.setup.defects.has(C11)
        || children(view).all(|child| matches!(child.phase, Phase::Clean | Phase::Token));
    let free = next.is_none_or(|(_, state)| state.phase == Phase::Clean);
    let sent = next.map(|(id, _)| id);
    let after = State { phase: Phase::Token, sent, parent: Some(from), level: sender.level + 1 };
    (calm && free).then_some(after)
}

/// Broadcast(p), the guard of a7: it follows the tokens and does not meet them.
fn broadcast(view: View<'_, State>) -> bool {
    view.own.phase == Phase::Clean
        && parent(view).is_some_and(|parent| parent.phase == Phase::Broadcast)
        && children(view).all(|child| child.phase == Phase::Clean)
}

/// Feedback(p), the guard of a8; C2: all children are in F.
fn feedback(view: View<'_, State>) -> bool {
    view.own.phase == Phase::Broadcast && children(view).all(|child| child.phase == Phase::Feedback)
}

/// Cleaning(p), the guard of a9. C3: only the rest of a feedback or a token is cleaned.
fn cleaning(view: View<'_, State>) -> bool {
    let parent = parent(view);
    let is_in = |fits: fn(Phase) -> bool| parent.is_some_and(|parent| fits(parent.phase));
    match view.own.phase {
        Phase::Feedback => is_in(|phase| matches!(phase, Phase::Feedback | Phase::Clean)),
        Phase::Token => {
            let offered = parent.is_some_and(|parent| parent.sent == Some(view.me()));
            let over =
                is_in(|phase| matches!(phase, Phase::Ready | Phase::Clean | Phase::Between(_)));
            (!offered || over) && passed_on(view)
        }
        Phase::Clean | Phase::Broadcast => view.setup.defects.has(C3),
        Phase::Sending(_) | Phase::Between(_) | Phase::Ready => unreachable!("the root's alone"),
    }
}

/// `S_p = q => (T_q = Tok or L_p = D)`, in a9: the token that p had is gone.
fn passed_on(view: View<'_, State>) -> bool {
    let Some(sent) = view.own.sent.and_then(|sent| view.of(sent)) else { return true };
    // C7: another process's child will not take it; as printed p waits for ever.
    let elsewhere = is_elsewhere(view, sent) && !view.setup.defects.has(C7);
    sent.phase == Phase::Token || view.own.level == deepest(view.setup) || elsewhere
}
