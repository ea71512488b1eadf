//! The actions that are enabled in a state.

use kgate_core::{Explorable, NodeId, Phase};
use kgate_spec::Fate;

use super::ProtocolModel;
use crate::action::{Action, ActionOf};
use crate::bounds::{Channels, CrashNotifications, Down};
use crate::client::Client;
use crate::state::State;

impl<P: Explorable> ProtocolModel<P> {
    /// Appends every action that is enabled in `state`.
    pub(super) fn enabled_actions(&self, state: &State<P>, actions: &mut Vec<ActionOf<P>>) {
        for node in state.ids() {
            if state.is_up(node) {
                self.client_actions(state, node, actions);
                self.fault_actions(state, node, actions);
            } else if state.down.contains(&node) {
                actions.push(Action::Restart(node));
            }
        }
        self.message_actions(state, actions);
        if self.bounds.expiries.is_none_or(|most| u32::from(state.spent.expiries) < most) {
            actions.extend(
                state.timers.iter().map(|(node, timer)| Action::Expire(*node, timer.clone())),
            );
        }
        self.notifications(state, actions);
    }

    /// The k of a process's last notification.
    pub(super) fn known(&self, client: &Client) -> u32 {
        match client.resized {
            0 => self.setup.k,
            notified => self.bounds.resizes[usize::from(notified) - 1],
        }
    }

    /// Whether another client of a process may ask.
    fn may_ask(&self, client: &Client, phase: Phase) -> bool {
        let (bounds, waiting) = (&self.bounds, client.waiting.len());
        if bounds.clients > 1 {
            let inside = if bounds.asks_inside { 0 } else { client.inside.len() };
            return waiting + inside < bounds.clients as usize;
        }
        waiting == 0 && (phase == Phase::Idle || bounds.asks_inside && phase == Phase::Holding)
    }

    /// The actions of clients of a process that is up.
    fn client_actions(&self, state: &State<P>, node: NodeId, actions: &mut Vec<ActionOf<P>>) {
        let (bounds, client) = (&self.bounds, &state.clients[node.index()]);
        let phase = state.phase(node);
        if u32::from(client.asked) < bounds.entries_of(node.index()) && self.may_ask(client, phase)
        {
            // No request can be granted more slots than the widest lane has.
            let most = bounds.weight_max.min(self.known(client).div_ceil(self.setup.slots.lanes));
            actions.extend((1..=most).map(|weight| Action::Acquire(node, small(weight))));
        }
        if phase == Phase::Waiting && u32::from(state.spent.withdrawals) < bounds.withdrawals {
            actions.push(Action::Withdraw(node));
        }
        actions.extend(client.inside.iter().map(|held| Action::Release(node, held.grant)));
    }

    /// The crashes and changes of k of a process that is up.
    fn fault_actions(&self, state: &State<P>, node: NodeId, actions: &mut Vec<ActionOf<P>>) {
        let (bounds, client) = (&self.bounds, &state.clients[node.index()]);
        if let Some(&k) = bounds.resizes.get(usize::from(client.resized)) {
            actions.push(Action::Resize(node, k));
        }
        let lost = u32::try_from(state.crashed.len()).expect("few");
        if lost < bounds.crashes && lost + 1 < self.setup.nodes && self.may_go_down(state, node) {
            actions.push(Action::Crash(node));
        }
        if u32::from(state.spent.restarts) < bounds.restarts && self.may_go_down(state, node) {
            actions.push(Action::Down(node));
        }
    }

    /// Whether a process may go down: where a restarted process learns from others, one that was
    /// always up must remain.
    fn may_go_down(&self, state: &State<P>, node: NodeId) -> bool {
        let always_up =
            |other: NodeId| state.is_up(other) && state.clients[other.index()].incarnation == 0;
        !self.bounds.returns
            || self.bounds.notifications != CrashNotifications::AnyOrder
            || state.ids().any(|other| other != node && always_up(other))
    }

    /// The actions of messages in flight.
    fn message_actions(&self, state: &State<P>, actions: &mut Vec<ActionOf<P>>) {
        let mut first = 0;
        for (place, in_flight) in state.in_flight.iter().enumerate() {
            if in_flight.channel() != state.in_flight[first].channel() {
                first = place;
            }
            if self.bounds.channels == Channels::Fifo && place > first
                || !state.down.is_empty()
                    && self.bounds.down == Down::Kept
                    && state.down.contains(&in_flight.to)
                // Equal messages are interchangeable.
                || state.in_flight[first..place].contains(in_flight)
            {
                continue;
            }
            let mut may = |fate| {
                let message = in_flight.message.clone();
                actions.push(Action::Message(place, fate, (in_flight.from, in_flight.to, message)));
            };
            may(Fate::Arrives);
            if u32::from(state.spent.losses) < self.bounds.losses {
                may(Fate::Lost);
            }
            if u32::from(state.spent.duplicates) < self.bounds.duplicates {
                may(Fate::Duplicated);
            }
        }
    }

    /// The pending notifications.
    fn notifications(&self, state: &State<P>, actions: &mut Vec<ActionOf<P>>) {
        if self.bounds.notifications == CrashNotifications::Log {
            for node in state.ids().filter(|&node| state.is_up(node)) {
                actions.extend(state.next_entry(node).map(|entry| match entry.adds {
                    true => Action::NotifyReturn(node, entry.node),
                    false => Action::NotifyCrash(node, entry.node, entry.incarnation),
                }));
            }
            return;
        }
        let is_next = |node: NodeId, of: NodeId| {
            let pending = |crashed: &NodeId| {
                state
                    .pending
                    .iter()
                    .any(|notifications| (notifications.0, notifications.1) == (node, *crashed))
            };
            self.bounds.notifications != CrashNotifications::InOrder
                || state.crashed.iter().find(|crashed| pending(crashed)) == Some(&of)
        };
        let notifications =
            state.pending.iter().filter(|&&(node, of, _)| state.is_up(node) && is_next(node, of));
        actions.extend(
            notifications
                .map(|&(node, of, incarnation)| Action::NotifyCrash(node, of, incarnation)),
        );
    }
}

fn small(number: u32) -> u8 {
    u8::try_from(number).expect("bounds are small")
}
