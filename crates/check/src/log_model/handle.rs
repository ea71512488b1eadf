//! How a process handles an input in the log model, and what becomes of messages and timers.

use kgate_core::{Effect, Explorable, Input, NodeId, To};
use kgate_spec::{Fate, QueueOrder};

use super::LogModel;
use super::properties;
use super::state::LogState;
use crate::model::{SharedInput, Transition};
use crate::state::{InFlight, Process, Sent};

impl<P: Explorable> LogModel<P> {
    /// A process handles an input, which it must not refuse.
    pub(super) fn handle(&self, state: &mut LogState<P>, node: NodeId, input: SharedInput<P>) {
        let transition = self.memo.make(&state.processes[node.index()], input);
        if let Some(refusal) = transition.refused {
            state.refused = Some((node, refusal));
        }
        self.apply_effects(state, node, &transition);
    }

    /// A process handles an input, or refuses it.
    pub(super) fn try_handle(
        &self,
        state: &mut LogState<P>,
        node: NodeId,
        input: SharedInput<P>,
    ) -> bool {
        let transition = self.memo.make(&state.processes[node.index()], input);
        self.apply_effects(state, node, &transition);
        transition.refused.is_none()
    }

    /// Applies the effects of a transition of `node`.
    pub(super) fn apply_effects(
        &self,
        state: &mut LogState<P>,
        node: NodeId,
        transition: &Transition<P>,
    ) {
        if overtakes(state, node, &transition.after) {
            state.breaks(QueueOrder::NAME);
        }
        for effect in &transition.effects {
            match effect {
                Effect::Send { to: To::One(to), message } => {
                    self.send(state, node, *to, message.clone());
                }
                Effect::Send { to: To::Many(nodes), message } => {
                    nodes.iter().for_each(|&to| self.send(state, node, to, message.clone()));
                }
                Effect::Send { to: To::All, message } => {
                    let others = state.ids().filter(|&to| to != node);
                    others.for_each(|to| self.send(state, node, to, message.clone()));
                }
                Effect::Arm { timer, .. } => {
                    let armed = (node, timer.clone());
                    if let Err(place) = state.timers.binary_search(&armed) {
                        state.timers.insert(place, armed);
                    }
                }
                Effect::Disarm(timer) => {
                    state.timers.retain(|(whose, running)| *whose != node || running != timer);
                }
                Effect::Notify(notice) => self.notified(state, node, notice),
                Effect::Persist(_) => {}
            }
        }
        state.processes[node.index()] = transition.after.clone();
        let after = transition.after.protocol();
        state.in_flight.retain(|in_flight| {
            in_flight.to != node
                || self.keeps_outdated
                || !after.is_outdated(in_flight.from, &in_flight.message.value)
        });
    }

    /// Sends a message. On links that lose messages, where processes repeat them, one that is in
    /// flight is not sent again.
    fn send(&self, state: &mut LogState<P>, from: NodeId, to: NodeId, message: Sent<P>) {
        let receiver = state.processes[to.index()].protocol();
        let is_outdated = receiver.is_outdated(from, &message.value) && !self.keeps_outdated;
        if !state.is_up(to) || state.is_cut(from, to) || is_outdated {
            return;
        }
        let in_flight = InFlight { from, to, message };
        if self.setup.slots.ask_again.is_none() || !state.in_flight.contains(&in_flight) {
            insert(state, in_flight);
        }
    }

    pub(super) fn move_message(&self, state: &mut LogState<P>, place: usize, fate: Fate) {
        let in_flight = state.in_flight.remove(place);
        match fate {
            Fate::Arrives => {
                let InFlight { from, to, message } = in_flight;
                self.handle(state, to, Input::Deliver { from, message });
            }
            Fate::Lost => state.spent.losses += 1,
            Fate::Duplicated => {
                state.spent.duplicates += 1;
                insert(state, in_flight.clone());
                insert(state, in_flight);
            }
        }
    }

    pub(super) fn expire(&self, state: &mut LogState<P>, node: NodeId, timer: P::Timer) {
        state.timers.retain(|running| *running != (node, timer.clone()));
        state.spent.expiries += u8::from(!state.is_idle(node));
        self.handle(state, node, Input::Expire(timer));
    }
}

/// A link is cut: what is on its way there is lost, too.
pub(super) fn cut<P: Explorable>(state: &mut LogState<P>, from: NodeId, to: NodeId) {
    let place = state.cuts.partition_point(|other| *other < (from, to));
    state.cuts.insert(place, (from, to));
    state.in_flight.retain(|in_flight| (in_flight.from, in_flight.to) != (from, to));
}

/// Inserts a message at a place that depends on the messages only.
fn insert<P: Explorable>(state: &mut LogState<P>, in_flight: InFlight<P>) {
    let key = |it: &InFlight<P>| (it.from, it.to, it.message.digest);
    let place = state.in_flight.partition_point(|other| key(other) <= key(&in_flight));
    state.in_flight.insert(place, in_flight);
}

/// P3. Among requests of older terms the order is that of stamps.
fn overtakes<P: Explorable>(state: &LogState<P>, node: NodeId, after: &Process<P>) -> bool {
    let stamp = |node: NodeId| state.processes[node.index()].seen.stamp;
    let is_earlier = |one, other| match (stamp(one), stamp(other)) {
        (Some(one), Some(other)) => one < other,
        // The request is withdrawn, or its process has crashed.
        (None, _) | (_, None) => true,
    };
    let before = &state.processes[node.index()];
    properties::overtakes(before, after, state.known(node).k, is_earlier)
}
