//! The actions that are enabled in a state of the log model.

use kgate_core::{Explorable, NodeId, Phase};
use kgate_spec::Fate;

use super::action::{Entry, LogAction, LogActionOf};
use super::permit::{Durable, Permit, Session};
use super::state::{LogState, Run};
use super::{LogModel, small};

impl<P: Explorable> LogModel<P> {
    /// Appends every action that is enabled in `state`.
    pub(super) fn enabled_actions(&self, state: &LogState<P>, actions: &mut Vec<LogActionOf<P>>) {
        for node in state.ids() {
            match state.node(node).run {
                Run::Up => {
                    self.client_actions(state, node, actions);
                    self.fault_actions(state, node, actions);
                }
                Run::Down => actions.push(LogAction::Restart(node)),
                Run::Crashed => {}
            }
            self.membership_entries(state, node, actions);
        }
        for (place, permit) in state.permits.iter().enumerate() {
            self.permit_actions(state, place, permit, actions);
        }
        if let Some(&k) = self.bounds.resizes.get(usize::from(state.spent.resizes)) {
            actions.push(LogAction::Append(Entry::Resize(k)));
        }
        let whole = self.bounds.cuts.iter().filter(|(from, to)| !state.is_cut(*from, *to));
        actions.extend(whole.map(|(from, to)| LogAction::Cut(*from, *to)));
        self.message_actions(state, actions);
    }

    /// The requests of a process that is up, and the next entry that it applies.
    fn client_actions(&self, state: &LogState<P>, node: NodeId, actions: &mut Vec<LogActionOf<P>>) {
        let (bounds, at) = (&self.bounds, state.node(node));
        let inside = |permit: &&Permit| permit.believes() && permit.by.node == node;
        let clients = at.waiting.len() + state.permits.iter().filter(inside).count();
        if u32::from(at.asked) < bounds.entries_of(node) && clients < bounds.clients as usize {
            let most = bounds.weight_max.min(state.known(node).k);
            actions.extend((1..=most).map(|weight| LogAction::Acquire(node, small(weight))));
        }
        if state.phase(node) == Phase::Waiting
            && u32::from(state.spent.withdrawals) < bounds.withdrawals
        {
            actions.push(LogAction::Withdraw(node));
        }
        if at.applied < state.length() {
            actions.push(LogAction::Apply(node));
        }
    }

    /// The crashes of a process that is up, and the ends of its leases.
    fn fault_actions(&self, state: &LogState<P>, node: NodeId, actions: &mut Vec<LogActionOf<P>>) {
        let (bounds, at) = (&self.bounds, state.node(node));
        let others_up = state.ids().any(|other| other != node && state.is_up(other));
        let faulty = bounds.is_faulty(node);
        if faulty && others_up && u32::from(state.spent.crashes) < bounds.crashes {
            actions.push(LogAction::Crash(node));
        }
        if faulty && u32::from(state.spent.restarts) < bounds.restarts {
            actions.push(LogAction::Down(node));
        }
        // A node has a lease as the incarnation that the log has, and that it knows of.
        let latest = state.latest().directory.incarnation(node);
        let is_present = latest.is_some()
            && state.known(node).directory.incarnation(node) == latest
            && !at.is_new;
        if faulty && at.lease && is_present && u32::from(state.spent.lost_leases) < bounds.evictions
        {
            actions.push(LogAction::Lease(node, false));
        }
        if !at.lease && is_present {
            actions.push(LogAction::Lease(node, true));
        }
    }

    /// What the log may decide about a process.
    fn membership_entries(
        &self,
        state: &LogState<P>,
        node: NodeId,
        actions: &mut Vec<LogActionOf<P>>,
    ) {
        let (bounds, spent, at) = (&self.bounds, &state.spent, state.node(node));
        let mut may = |entry| actions.push(LogAction::Append(entry));
        let is_alive = at.run == Run::Up && !at.is_new;
        if !state.is_member(node) {
            if at.run == Run::Up {
                may(Entry::Add(node));
            }
            return;
        }
        if !is_alive || at.has_lost {
            may(Entry::Evict(node));
        }
        if at.suspected {
            if is_alive && !at.drained {
                may(Entry::Clear(node));
            }
            return;
        }
        let faulty = bounds.is_faulty(node);
        if !is_alive || faulty && u32::from(spent.suspicions) < bounds.suspicions {
            may(Entry::Suspect(node));
        }
        if is_alive && faulty && u32::from(spent.drains) < bounds.drains {
            may(Entry::Drain(node));
        }
    }

    /// What the client of a permit and the nodes that know of it may do.
    fn permit_actions(
        &self,
        state: &LogState<P>,
        place: usize,
        permit: &Permit,
        actions: &mut Vec<LogActionOf<P>>,
    ) {
        let bounds = &self.bounds;
        let by = permit.by.node;
        if permit.believes() {
            match permit.durable {
                Durable::No => self.free_client(state, place, permit, actions),
                Durable::Proposed => {
                    let latest = state.latest().directory.incarnation(by);
                    if latest.is_some_and(|latest| latest.0 == u32::from(permit.by.incarnation)) {
                        actions.push(LogAction::Append(Entry::Hold(place)));
                    }
                }
                Durable::Held(_) => actions.push(LogAction::Append(Entry::Free(place))),
            }
        }
        for session in &permit.sessions {
            // H13: behind the barrier. What the log holds does not lapse.
            let reached =
                |ended: u64| bounds.omissions.barrier || ended <= state.node(session.node).applied;
            if permit.durable != Durable::No && permit.is_by(session) {
                continue;
            }
            if permit.is_left(session) {
                actions.push(LogAction::LeftDeadline(place, session.node));
            }
            if session.ended.is_some_and(reached) {
                actions.push(LogAction::Lapse(place, session.node, session.grant));
            }
        }
    }

    /// A client inside whose permit the log is not to hold.
    fn free_client(
        &self,
        state: &LogState<P>,
        place: usize,
        permit: &Permit,
        actions: &mut Vec<LogActionOf<P>>,
    ) {
        let (bounds, spent, by) = (&self.bounds, &state.spent, permit.by.node);
        if u32::from(spent.adoptions) < bounds.adoptions {
            let others = state.ids().filter(|node| *node != by && self.may_be_asked(state, *node));
            actions.extend(others.map(|node| LogAction::Adopt(place, node)));
        }
        if permit.has_moved() {
            actions.push(LogAction::Deadline(place));
            let is_ready = |session: &&Session| session.unconfirmed == Some(permit.attempt);
            let ready = permit.sessions.iter().find(is_ready);
            actions.extend(ready.map(|session| LogAction::Confirm(place, session.node)));
        } else if permit.own_session().is_some() {
            actions.push(LogAction::Release(place, by));
            if u32::from(spent.durable) < bounds.durable {
                actions.push(LogAction::Propose(place, by));
            }
            if u32::from(spent.deaths) < bounds.deaths {
                actions.push(LogAction::Die(place, by));
            }
        }
    }

    /// H18: only a node whose lease lasts passes an adoption request on.
    fn may_be_asked(&self, state: &LogState<P>, node: NodeId) -> bool {
        let latest = state.latest().directory.incarnation(node);
        let at = state.node(node);
        at.run == Run::Up
            && at.lease
            && !at.is_new
            && latest.is_some()
            && state.known(node).directory.incarnation(node) == latest
    }

    /// The messages in flight, in any order, and the timers.
    fn message_actions(&self, state: &LogState<P>, actions: &mut Vec<LogActionOf<P>>) {
        for (place, in_flight) in state.in_flight.iter().enumerate() {
            // Equal messages are interchangeable.
            if place > 0 && state.in_flight[place - 1] == *in_flight {
                continue;
            }
            let mut may = |fate| {
                let message = in_flight.message.clone();
                let named = (in_flight.from, in_flight.to, message);
                actions.push(LogAction::Message(place, fate, named));
            };
            may(Fate::Arrives);
            if u32::from(state.spent.losses) < self.bounds.losses {
                may(Fate::Lost);
            }
            if u32::from(state.spent.duplicates) < self.bounds.duplicates {
                may(Fate::Duplicated);
            }
        }
        for (node, timer) in &state.timers {
            if state.is_idle(*node) || u32::from(state.spent.expiries) < self.bounds.expiries {
                actions.push(LogAction::Expire(*node, timer.clone()));
            }
        }
    }
}
