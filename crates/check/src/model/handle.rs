//! How a process handles an input, and how its effects are applied.

use kgate_core::{Effect, Explorable, Fence, GrantId, Mechanism, NodeId, Notice, Phase, Stamp, To};

use super::{ProtocolModel, SharedInput, Transition};
use crate::client;
use crate::ghost::{Ghost, SlotGrant};
use crate::state::{InFlight, PerProcess, Process, Sent, State};

impl<P: Explorable> ProtocolModel<P> {
    pub(super) fn handle(&self, state: &mut State<P>, node: NodeId, input: SharedInput<P>) {
        if let Some(change) = Ghost::change_by::<P>(node, &input) {
            state.note(|ghost| ghost.apply(change));
        }
        let transition = self.memo.make(&state.processes[node.index()], input);
        if let Some(refusal) = transition.refused {
            state.refused = Some((node, refusal));
        }
        self.apply_effects(state, node, &transition);
    }

    /// Applies the effects of a transition of `node`.
    pub(super) fn apply_effects(
        &self,
        state: &mut State<P>,
        node: NodeId,
        transition: &Transition<P>,
    ) {
        for effect in &transition.effects {
            match effect {
                Effect::Send { to: To::One(to), message } => {
                    self.send(state, node, *to, message.clone())
                }
                Effect::Send { to: To::Many(nodes), message } => {
                    nodes.iter().for_each(|&to| self.send(state, node, to, message.clone()));
                }
                Effect::Send { to: To::All, message } => {
                    let others = state.ids().filter(|&to| to != node);
                    others.for_each(|to| self.send(state, node, to, message.clone()));
                }
                Effect::Arm { timer, .. } => arm(state, (node, timer.clone())),
                Effect::Disarm(timer) => {
                    state.timers.retain(|(whose, running)| *whose != node || running != timer);
                }
                Effect::Notify(notice) => self.notified(state, node, &transition.after, notice),
                Effect::Persist(_) => {}
            }
        }
        if P::MECHANISM == Mechanism::Slots && shows_shared_slot(state, node, &transition.after) {
            state.note(Ghost::shown_twice);
        }
        state.processes[node.index()] = transition.after.clone();
        if self.drops_outdated() {
            let after = transition.after.protocol();
            state.in_flight.retain(|in_flight| {
                in_flight.to != node || !after.is_outdated(in_flight.from, &in_flight.message.value)
            });
        }
    }

    fn notified(&self, state: &mut State<P>, node: NodeId, after: &Process<P>, notice: &Notice) {
        let client = &mut state.clients[node.index()];
        match notice {
            Notice::Granted { grant, slots, fence } => {
                self.granted(
                    state,
                    node,
                    after,
                    *grant,
                    slots.as_deref().unwrap_or_default(),
                    *fence,
                );
            }
            Notice::Lost { grant } => drop(client.leave(*grant)),
            // The first waiting request ends.
            Notice::TooLarge { .. } if !client.waiting.is_empty() => drop(client.waiting.remove(0)),
            Notice::TooLarge { .. } => {}
            // No client of the model asks for an adoption.
            Notice::Adopted { .. } | Notice::AdoptionRefused { .. } => {}
            Notice::Asked if P::MECHANISM == Mechanism::Permissions => {
                state.note(|ghost| ghost.asked(after.seen.stamp));
            }
            Notice::Asked => {}
            Notice::Suspected { node: of, .. } => {
                state.note(|ghost| ghost.crash_notified(node, *of))
            }
        }
    }

    fn granted(
        &self,
        state: &mut State<P>,
        node: NodeId,
        after: &Process<P>,
        grant: GrantId,
        slots: &[u32],
        fence: Option<Fence>,
    ) {
        let numbered = P::MECHANISM == Mechanism::Slots;
        if numbered {
            self.note_slots(state, node, slots, fence);
        }
        let client = &mut state.clients[node.index()];
        let twice = !numbered && !client.inside.is_empty();
        client.enter(grant, if numbered { client::bits(slots).unwrap_or(0) } else { 0 });
        let k = self.k(state);
        state.over_capacity |= twice || state.slots_in_use(k) > k;
        if P::MECHANISM == Mechanism::Permissions {
            let stamp = after.seen.stamp;
            let others = state.ids().filter(|&other| other != node && state.waits(other));
            let stamps: PerProcess<Stamp> =
                others.filter_map(|other| state.processes[other.index()].seen.stamp).collect();
            state.note(|ghost| ghost.granted(node, stamp, stamps.into_iter(), self.setup.k));
        }
    }

    /// Records a grant of numbered slots in the ghost state, before the grant takes effect.
    fn note_slots(&self, state: &mut State<P>, node: NodeId, slots: &[u32], fence: Option<Fence>) {
        let held = state.clients.iter().flat_map(|client| &client.inside);
        let held = held.fold(0, |all, held| all | held.slots);
        let waiting = state.ids().filter(|&other| other != node && state.is_up(other));
        let waiting = waiting.map(|other| &state.processes[other.index()].seen);
        let waiting: PerProcess<Stamp> = waiting
            .filter(|seen| seen.phase == Phase::Waiting)
            .filter_map(|seen| seen.stamp)
            .collect();
        let client = &state.clients[node.index()];
        let grant = SlotGrant {
            slots,
            fence,
            asked: client.waiting.first().map(|weight| u32::from(*weight)),
            held,
            known: self.known(client),
            // Each lane has an order of its own.
            waiting: if self.setup.slots.lanes > 1 { &[] } else { &waiting },
        };
        state.note(|ghost| ghost.slots_granted(&grant));
    }

    /// The largest k that any process which is up believes in. A grant must fit into it; when k
    /// shrinks later, existing grants stay.
    fn k(&self, state: &State<P>) -> u32 {
        let up = state.ids().filter(|&node| state.is_up(node));
        up.map(|node| self.known(&state.clients[node.index()])).max().unwrap_or(self.setup.k)
    }

    /// Sends a message, behind those of its channel.
    pub(super) fn send(&self, state: &mut State<P>, from: NodeId, to: NodeId, message: Sent<P>) {
        // Messages to crashed processes are lost.
        if state.crashed.contains(&to) {
            return;
        }
        if self.drops_outdated()
            && state.processes[to.index()].protocol().is_outdated(from, &message.value)
        {
            return;
        }
        let place = if self.keeps_order() {
            state.in_flight.partition_point(|in_flight| in_flight.channel() <= (from, to))
        } else {
            let here = (from, to, message.digest);
            state.in_flight.partition_point(|in_flight| {
                (in_flight.from, in_flight.to, in_flight.message.digest) <= here
            })
        };
        state.in_flight.insert(place, InFlight { from, to, message });
    }
}

fn arm<P: Explorable>(state: &mut State<P>, timer: (NodeId, P::Timer)) {
    if let Err(place) = state.timers.binary_search(&timer) {
        state.timers.insert(place, timer);
    }
}

/// Whether two processes that are up show the same slot as theirs, or one shows a slot twice.
fn shows_shared_slot<P: Explorable>(state: &State<P>, node: NodeId, process: &Process<P>) -> bool {
    let mine = &process.seen.slots;
    let shows = |other: NodeId, slot: u32| {
        state.processes[other.index()].seen.slots.iter().any(|(theirs, _)| *theirs == slot)
    };
    let twice_here =
        |(place, slot): (usize, &(u32, Fence))| mine[..place].iter().any(|other| other.0 == slot.0);
    mine.iter().enumerate().any(twice_here)
        || mine.iter().any(|(slot, _)| {
            state.ids().any(|other| other != node && state.is_up(other) && shows(other, *slot))
        })
}
