//! Losses and duplicates of messages, crashes, restarts, notifications and timers.

use std::sync::Arc;

use kgate_core::{Explorable, Incarnation, Input, NodeId, Outbox};
use kgate_spec::Fate;
use smallvec::SmallVec;

use super::{ProtocolModel, Transition};
use crate::bounds::CrashNotifications;
use crate::client::Client;
use crate::state::{Process, State};

impl<P: Explorable> ProtocolModel<P> {
    pub(super) fn move_message(&self, state: &mut State<P>, place: usize, fate: Fate) {
        let in_flight = state.in_flight.remove(place);
        match fate {
            Fate::Arrives if state.down.contains(&in_flight.to) => {}
            Fate::Arrives => {
                let (from, message) = (in_flight.from, in_flight.message);
                self.handle(state, in_flight.to, Input::Deliver { from, message });
            }
            Fate::Lost => state.spent.losses += 1,
            Fate::Duplicated => {
                state.spent.duplicates += 1;
                state.in_flight.insert(place, in_flight.clone());
                self.send(state, in_flight.from, in_flight.to, in_flight.message);
            }
        }
    }

    pub(super) fn expire(&self, state: &mut State<P>, node: NodeId, timer: P::Timer) {
        state.timers.retain(|running| *running != (node, timer.clone()));
        if self.bounds.expiries.is_some() {
            state.spent.expiries += 1;
        }
        self.handle(state, node, Input::Expire(timer));
    }

    /// Crashes a process permanently: its client, its timers and the messages to it are gone.
    /// Messages that it has sent still arrive.
    pub(super) fn crash(&self, state: &mut State<P>, node: NodeId) {
        self.leave(state, node);
        state.note(|ghost| ghost.crashed(node));
        state.crashed.push(node);
        if self.bounds.notifications != CrashNotifications::InOrder {
            state.crashed.sort_unstable();
        }
        state.in_flight.retain(|in_flight| in_flight.to != node);
        state.pending.retain(|notifications| notifications.0 != node);
        self.schedule_notifications(state, node);
    }

    /// Crashes a process that will restart.
    pub(super) fn go_down(&self, state: &mut State<P>, node: NodeId) {
        state.spent.restarts += 1;
        self.leave(state, node);
        state.down.push(node);
        state.down.sort_unstable();
        if self.bounds.returns {
            self.schedule_notifications(state, node);
        }
    }

    /// Restarts a process: with what it had stored; or without state, as another incarnation that
    /// receives every notification anew.
    pub(super) fn restart(&self, state: &mut State<P>, node: NodeId) {
        state.down.retain(|down| *down != node);
        let stored = state.processes[node.index()].stored().cloned();
        if self.bounds.returns {
            state.clients[node.index()].incarnation += 1;
            match self.bounds.notifications {
                CrashNotifications::Log => {
                    state.clients[node.index()].notified = 0;
                    state.add(node);
                }
                CrashNotifications::AnyOrder => notify_of_down(state, node),
                CrashNotifications::None | CrashNotifications::InOrder => {}
            }
        }
        let mut out = Outbox::new();
        let setup = self.setup_of(node, state.clients[node.index()].incarnation);
        let protocol = P::start(&setup, stored.clone(), &mut out);
        self.apply_effects(state, node, &Transition::new(protocol, stored, out));
    }

    pub(super) fn notify_crash(
        &self,
        state: &mut State<P>,
        node: NodeId,
        of: NodeId,
        incarnation: u8,
    ) {
        if self.bounds.notifications == CrashNotifications::Log {
            return self.notify_entry(state, node);
        }
        state.pending.retain(|notifications| *notifications != (node, of, incarnation));
        self.handle(
            state,
            node,
            Input::Crashed { node: of, incarnation: Incarnation(u32::from(incarnation)) },
        );
    }

    /// Notifies a process of the next entry of the log.
    pub(super) fn notify_entry(&self, state: &mut State<P>, node: NodeId) {
        let entry = state.next_entry(node).expect("a log entry is pending");
        state.clients[node.index()].notified += 1;
        self.handle(state, node, entry.input::<P>());
        self.truncate_log(state);
    }

    /// Ends the part of a process: its client and its timers are gone, and its state where it keeps
    /// nothing.
    fn leave(&self, state: &mut State<P>, node: NodeId) {
        state.timers.retain(|timer| timer.0 != node);
        let client = &mut state.clients[node.index()];
        client.inside.clear();
        if self.bounds.returns {
            let Client { asked, incarnation, added, .. } = *client;
            *client = Client { asked, incarnation, added, ..Client::default() };
            state.processes[node.index()] = self.gone(node);
        }
    }

    /// The state of a crashed process that keeps nothing.
    fn gone(&self, node: NodeId) -> Arc<Process<P>> {
        let blank = |node| {
            let blank = P::start(&self.setup_of(node, 0), None, &mut Outbox::new());
            Arc::new(Process::new(blank, None))
        };
        let gone = self.gone.get_or_init(|| (0..self.setup.nodes).map(NodeId).map(blank).collect());
        gone[node.index()].clone()
    }

    /// Schedules the notifications that this incarnation of a process has ended.
    fn schedule_notifications(&self, state: &mut State<P>, node: NodeId) {
        match self.bounds.notifications {
            CrashNotifications::None => {}
            CrashNotifications::Log => {
                state.evict(node);
                self.truncate_log(state);
            }
            CrashNotifications::AnyOrder | CrashNotifications::InOrder => {
                let incarnation = state.clients[node.index()].incarnation;
                let others =
                    state.ids().filter(|other| *other != node && !state.crashed.contains(other));
                let notifications =
                    others.map(|other| (other, node, incarnation)).collect::<SmallVec<[_; 4]>>();
                state.pending.extend(notifications);
                state.pending.sort_unstable();
            }
        }
    }

    fn truncate_log(&self, state: &mut State<P>) {
        if state.down.is_empty() && u32::from(state.spent.restarts) == self.bounds.restarts {
            state.truncate_log();
        }
    }
}

/// Schedules the notifications of a restarted process: about the processes that are down now. A
/// detector that starts anew knows of no earlier incarnations.
fn notify_of_down<P: Explorable>(state: &mut State<P>, node: NodeId) {
    state.pending.retain(|notifications| notifications.0 != node);
    let down: SmallVec<[NodeId; 4]> =
        state.ids().filter(|&other| other != node && !state.is_up(other)).collect();
    for other in down {
        state.pending.push((node, other, state.clients[other.index()].incarnation));
    }
    state.pending.sort_unstable();
}
