//! Clients of the log model: what they are told, and what they do with their permits.

use kgate_core::{
    Adoption, Explorable, Fence, GrantId, Incarnation, Input, LogIndex, NodeId, Notice,
};
use kgate_spec::WithinK;
use kgate_spec::history::NOTHING_FROM_NOTHING;
use smallvec::SmallVec;

use super::permit::{Durable, Permit, Session};
use super::properties::{FENCES_GROW, ONE_HOLDER};
use super::state::LogState;
use super::{LogModel, small};
use crate::client;

impl<P: Explorable> LogModel<P> {
    /// A process tells a client something.
    pub(super) fn notified(&self, state: &mut LogState<P>, node: NodeId, notice: &Notice) {
        match notice {
            Notice::Granted { grant, slots, fence } => {
                let slots = slots.as_deref().unwrap_or_default();
                let fence = fence.unwrap_or(Fence(0));
                granted(state, node, *grant, slots, fence);
            }
            Notice::Lost { grant } => {
                state.permits.iter_mut().for_each(|permit| permit.forget(node, *grant));
            }
            Notice::TooLarge { weight, .. } => {
                let waiting = &mut state.nodes[node.index()].waiting;
                match waiting.iter().position(|other| u32::from(*other) == *weight) {
                    Some(place) => drop(waiting.remove(place)),
                    None => state.breaks(NOTHING_FROM_NOTHING),
                }
            }
            Notice::Adopted { grant, fence, attempt } => {
                adopted(state, node, *grant, *fence, small(*attempt));
            }
            Notice::AdoptionRefused { fence, attempt } => {
                let answered = (node, small(*attempt));
                for permit in state.permits.iter_mut().filter(|permit| permit.fence == *fence) {
                    permit.asks.retain(|ask| *ask != answered);
                }
            }
            Notice::Asked | Notice::Suspected { .. } => {}
        }
    }

    /// The client of a permit releases, or the log holds its slots from now on.
    pub(super) fn release(&self, state: &mut LogState<P>, place: usize) {
        let permit = &mut state.permits[place];
        let Session { node, grant, .. } = permit.by;
        permit.forget(node, grant);
        self.handle(state, node, Input::Release { grant });
    }

    /// The client of a permit asks a node, under a lease that lasts (H18).
    pub(super) fn ask(&self, state: &mut LogState<P>, place: usize, node: NodeId) {
        let permit = &mut state.permits[place];
        permit.attempt += 1;
        permit.asked |= 1 << node.0;
        permit.asks.retain(|ask| ask.0 != node);
        permit.asks.push((node, permit.attempt));
        permit.asks.sort_unstable();
        let adoption = Adoption {
            slots: (0..32).filter(|slot| permit.slots & 1 << slot != 0).collect(),
            fence: permit.fence,
            attempt: permit.attempt.into(),
            from: permit.by.node,
            incarnation: Incarnation(permit.by.incarnation.into()),
            after: LogIndex(permit.by.after),
        };
        self.handle(state, node, Input::Adopt(Box::new(adoption)));
    }

    /// The client of a permit goes on at the node that it asked last; false if the node refuses.
    pub(super) fn confirm(&self, state: &mut LogState<P>, place: usize, node: NodeId) -> bool {
        let permit = &state.permits[place];
        let Some(session) = permit.at(node).copied() else { return false };
        let others = state.permits.iter().enumerate();
        let mut others = others.filter(|(other, permit)| *other != place && permit.believes());
        let shared = others.any(|(_, other)| other.slots & permit.slots != 0);
        if !self.try_handle(state, node, Input::Confirm { grant: session.grant }) {
            return false;
        }
        if shared {
            state.breaks(ONE_HOLDER);
        }
        let permit = &mut state.permits[place];
        permit.forget(node, session.grant);
        permit.by = Session { unconfirmed: None, ..session };
        permit.remember(permit.by);
        (permit.confirmed, permit.asked) = (permit.attempt, 0);
        true
    }

    /// A node lets go of a session whose deadline has passed.
    pub(super) fn lapse(
        &self,
        state: &mut LogState<P>,
        place: usize,
        node: NodeId,
        grant: GrantId,
    ) {
        state.permits[place].forget(node, grant);
        self.handle(state, node, Input::Lapse { grant });
    }

    /// A permit is to be held by the log. H14: its node keeps it until it has applied the entry.
    pub(super) fn propose(&self, state: &mut LogState<P>, place: usize) {
        state.spent.durable += 1;
        state.permits[place].durable = Durable::Proposed;
        if self.bounds.omissions.held {
            self.release(state, place);
        }
    }
}

/// P1, P2, P6: a client is let in.
fn granted<P: Explorable>(
    state: &mut LogState<P>,
    node: NodeId,
    grant: GrantId,
    slots: &[u32],
    fence: Fence,
) {
    let waiting = &mut state.nodes[node.index()].waiting;
    let asked = waiting.iter().position(|weight| usize::from(*weight) == slots.len());
    let Some((place, bits)) = asked.zip(client::bits(slots)) else {
        return state.breaks(NOTHING_FROM_NOTHING);
    };
    waiting.remove(place);
    let believing = state.permits.iter().filter(|permit| permit.believes());
    if believing.fold(0, |all, permit| all | permit.slots) & bits != 0 {
        state.breaks(ONE_HOLDER);
    }
    // H15: by what the node knows, or by what the home knows from later entries.
    let applied = state.node(node).applied;
    let known = state.log.iter().filter(|view| view.value.index.0 >= applied);
    let most = known.map(|view| view.value.k).max().unwrap_or_default();
    if WithinK::beyond(slots, most).is_some() {
        state.breaks(WithinK::NAME);
    }
    for slot in slots.iter().filter_map(|slot| usize::try_from(*slot).ok()) {
        if state.fences.len() <= slot {
            state.fences.resize(slot + 1, None);
        }
        if Some(fence) <= state.fences[slot] {
            state.breaks(FENCES_GROW);
        }
        state.fences[slot] = state.fences[slot].max(Some(fence));
    }
    let session = session(state, node, grant, None);
    state.permits.push(Permit::new(bits, fence, session));
}

/// A node has the slots of an adoption.
fn adopted<P: Explorable>(
    state: &mut LogState<P>,
    node: NodeId,
    grant: GrantId,
    fence: Fence,
    attempt: u8,
) {
    let session = session(state, node, grant, Some(attempt));
    let Some(permit) = state.permits.iter_mut().find(|permit| permit.fence == fence) else {
        return state.breaks(NOTHING_FROM_NOTHING);
    };
    permit.asks.retain(|ask| *ask != (node, attempt));
    permit.sessions.retain(|session| session.node != node);
    // The deadline is the one that the client stated, and may have passed.
    let ended = permit.ended.filter(|_| attempt > permit.confirmed);
    permit.remember(Session { ended, ..session });
}

fn session<P: Explorable>(
    state: &LogState<P>,
    node: NodeId,
    grant: GrantId,
    unconfirmed: Option<u8>,
) -> Session {
    let known = state.known(node);
    let incarnation = known.directory.incarnation(node).unwrap_or_default();
    let incarnation = small(incarnation.0);
    Session { node, incarnation, grant, after: known.index.0, unconfirmed, ended: None }
}

impl<P: Explorable> LogState<P> {
    /// The places of the permits that the log holds, as far as a node has applied it, and that the
    /// node holds still.
    pub(super) fn handed_over(&self, node: NodeId) -> SmallVec<[usize; 2]> {
        let applied = self.node(node).applied;
        let is_held = |permit: &Permit| {
            permit.by.node == node
                && permit.own_session().is_some()
                && matches!(permit.durable, Durable::Held(since) if since <= applied)
        };
        (0..self.permits.len()).filter(|place| is_held(&self.permits[*place])).collect()
    }
}
