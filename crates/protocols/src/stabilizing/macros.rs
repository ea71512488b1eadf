//! The paper's macros: Potential, Child, PotChild, Par and Next.

use kgate_core::{NodeId, View};

use super::defects::{C10, C14};
use super::state::{Phase, State, deepest};

/// A neighbour and its state.
pub(super) type Neighbour<'a> = (NodeId, &'a State);

/// Child_p: the neighbours whose parent p is.
pub(super) fn children<'a>(view: View<'a, State>) -> impl Iterator<Item = &'a State> {
    view.around().map(|(_, state)| state).filter(move |state| state.parent == Some(view.me()))
}

/// Potential_p: the neighbours that offer p a token.
///
/// C10: the offer of a process outside the tree does not count, nor does a process leave its parent
/// for any process but the root. C14: and for the root only with the first token of a wave, when no
/// other is out.
pub(super) fn potential<'a>(view: View<'a, State>) -> impl Iterator<Item = Neighbour<'a>> {
    let (me, own, root) = (view.me(), view.own, view.graph().root());
    let repaired = !view.setup.defects.has(C10);
    let any = view.setup.defects.has(C14);
    view.around().filter(move |&(id, state)| {
        let leaves = id == root && (any || state.phase == Phase::Sending(0));
        let parent = own.parent.is_none() || own.parent == Some(id) || leaves;
        state.sends()
            && state.sent == Some(me)
            && state.parent != Some(me)
            && (!repaired || state.parent.is_some() && parent)
            && state.level < deepest(view.setup)
    })
}

/// Par_p: the process whose token p takes: the root, or else its parent, or else the first one.
pub(super) fn chosen<'a>(view: View<'a, State>) -> Option<Neighbour<'a>> {
    let of = |wanted| potential(view).find(|&(id, _)| Some(id) == wanted);
    of(Some(view.graph().root())).or_else(|| of(view.own.parent)).or_else(|| potential(view).next())
}

/// Next_p: the next receiver of the token: around the circle of neighbours after S. The root sends
/// to any of them, another process to its children and to those without a parent (PotChild_p).
pub(super) fn next<'a>(view: View<'a, State>) -> Option<Neighbour<'a>> {
    let (me, root) = (view.me(), view.graph().root());
    after(view, |state| me == root || state.parent.is_none_or(|parent| parent == me))
}

/// The receiver of the first token of a wave. C14: a neighbour with another parent if there is one,
/// else the next.
pub(super) fn first<'a>(view: View<'a, State>) -> Option<Neighbour<'a>> {
    let taken = after(view, |state| is_elsewhere(view, state));
    taken.filter(|_| !view.setup.defects.has(C14)).or_else(|| next(view))
}

/// `P_q not in {p, bottom}`: it will take no token of p.
pub(super) fn is_elsewhere(view: View<'_, State>, state: &State) -> bool {
    state.parent.is_some_and(|parent| parent != view.me())
}

/// The first neighbour after S around the circle that fits.
fn after<'a>(view: View<'a, State>, fits: impl Fn(&State) -> bool) -> Option<Neighbour<'a>> {
    let is_after = |&(id, _): &Neighbour<'a>| view.own.sent.is_some_and(|sent| id > sent);
    let mut fit = view.around().filter(|(_, state)| fits(state));
    let first = fit.next()?;
    if is_after(&first) {
        return Some(first);
    }
    Some(fit.find(is_after).unwrap_or(first))
}
