//! The clients inside, where a permit can outlive its process (`Claims::follows_log`).
//!
//! A client believes in its slots by one process, in a *session* that it renews all the time. Once
//! its process is silent, or it has asked another to adopt its permit, it renews no more: it
//! believes until a deadline, unless an adoption is confirmed before. The driver of `home` keeps
//! three of its rules here:
//!
//! - H13: a process lets a session lapse only after it has applied all that the log had decided at
//!   the session's deadline;
//! - H14: a grant whose slots a durable permit holds is released after the log's entry is applied;
//! - H18: a process passes an adoption request on only if its own lease outlasts the client's
//!   deadline, and a process is evicted only when no client believes by it.
//!
//! What a client believes is what the checkers see: the grant by which it was let in is its name
//! from then on, whichever process it goes on at.

use std::collections::BTreeMap;

use kgate_core::{
    Adoption, Defects, Fence, GrantId, Incarnation, Input, LogIndex, NodeId, Protocol, Span, Time,
    TransientFaults,
};

use super::event::{Event, EventOf};
use super::{Label, Simulation};
use crate::config::Config;
use crate::queue::EventQueue;
use crate::rng::Rng;

/// The process and the grant by which a client was let in.
pub(super) type PermitId = (NodeId, GrantId);

/// The permits of clients inside, and the sessions that processes know.
pub(super) struct Permits {
    permits: BTreeMap<PermitId, Permit>,
    by_fence: BTreeMap<Fence, PermitId>,
    sessions: BTreeMap<(NodeId, GrantId), Session>,
    rng: Rng,
}

/// A permit of a client that believes in it.
#[derive(Clone, Debug)]
struct Permit {
    slots: Box<[u32]>,
    fence: Fence,
    /// How often the process that let it in had been started.
    start: u32,
    /// The session by which the client believes, the incarnation of its process, and what that had
    /// applied when the session began.
    by: (NodeId, GrantId),
    incarnation: Incarnation,
    after: LogIndex,
    /// The number of its last adoption request; while it waits for an answer, it speaks to no other
    /// process.
    attempt: u32,
    moved: bool,
    /// Greater after each of its requests and confirmations.
    turn: u32,
    /// Until when it believes, once it does not renew its session any more.
    deadline: Option<Time>,
    durable: Durable,
}

/// Whether the log holds the slots of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durable {
    No,
    Proposed,
    Held,
}

/// What a live process knows of a client.
#[derive(Clone, Debug)]
struct Session {
    permit: PermitId,
    fence: Fence,
    /// The attempt by which the slots came here, and the session by which the client believed then,
    /// until it confirms.
    unconfirmed: Option<(u32, (NodeId, GrantId))>,
    deadline: Option<Time>,
    /// The entry by which the log holds the slots: once it is applied, they are released here.
    held: Option<LogIndex>,
    /// The length of the log at the deadline, once that has passed (H13).
    barrier: Option<LogIndex>,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientStep {
    /// It asks a process to adopt its permit, if nothing has happened since that turn.
    AskOther { turn: u32 },
    /// Its deadline may have passed.
    Stop,
    /// It dies.
    Die,
    /// It wants the log to hold its slots.
    Propose,
}

impl Permits {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            permits: BTreeMap::new(),
            by_fence: BTreeMap::new(),
            sessions: BTreeMap::new(),
            rng: Rng::fork(config.seed, "permits"),
        }
    }
}

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// A client was let in.
    pub(super) fn let_in(&mut self, id: PermitId, slots: &[u32], fence: Fence) {
        let (node, _) = id;
        let view = self.log.view(node);
        let permit = Permit {
            slots: slots.into(),
            fence,
            start: self.incarnation_of(node),
            by: id,
            incarnation: view.directory.incarnation(node).unwrap_or_default(),
            after: view.index,
            attempt: 0,
            moved: false,
            turn: 0,
            deadline: None,
            durable: Durable::No,
        };
        self.permits.by_fence.insert(fence, id);
        self.permits.permits.insert(id, permit);
        self.open_session(id, id, fence, None);
        let (hold, agreement) = (self.config.load.hold, &self.config.agreement);
        let rng = &mut self.permits.rng;
        let steps = [
            (agreement.dying_clients, ClientStep::Die),
            (agreement.adopt, ClientStep::AskOther { turn: 0 }),
            (agreement.durable, ClientStep::Propose),
        ];
        for (chance, step) in steps {
            if chance.happens(rng) {
                let at = self.now + Span(rng.within(0, hold.0));
                self.queue.push(at, Event::Client(Box::new(((node, id.1), step))));
            }
        }
    }

    fn open_session(
        &mut self,
        session: (NodeId, GrantId),
        permit: PermitId,
        fence: Fence,
        unconfirmed: Option<(u32, (NodeId, GrantId))>,
    ) {
        let opened =
            Session { permit, fence, unconfirmed, deadline: None, held: None, barrier: None };
        self.permits.sessions.insert(session, opened);
    }

    /// A client acts, if it is still inside.
    pub(super) fn on_client(&mut self, id: PermitId, step: ClientStep) {
        let Some(permit) = self.permits.permits.get(&id) else { return };
        let is_held = permit.durable == Durable::Held;
        match step {
            ClientStep::AskOther { turn } => {
                if permit.durable == Durable::No && permit.turn == turn {
                    self.ask(id);
                }
            }
            ClientStep::Stop => {
                if !is_held && permit.deadline.is_some_and(|deadline| deadline <= self.now) {
                    self.believe_no_more(id);
                }
            }
            ClientStep::Die => {
                if !is_held {
                    let by = permit.by;
                    if permit.deadline.is_none() {
                        let at = self.now + self.config.agreement.session;
                        self.end_session_at(by, at);
                    }
                    self.believe_no_more(id);
                }
            }
            ClientStep::Propose => {
                if permit.durable == Durable::No && !permit.moved && self.is_open(permit.by) {
                    self.propose(id);
                }
            }
        }
    }

    /// Whether a process that takes part knows that session.
    fn is_open(&self, session: (NodeId, GrantId)) -> bool {
        self.permits.sessions.contains_key(&session)
            && self.alive.contains(session.0.index())
            && !self.paused.contains_key(&session.0)
    }

    /// The client believes no more. It asks again at its process, if that has not crashed since.
    fn believe_no_more(&mut self, id: PermitId) {
        let Some(permit) = self.permits.permits.remove(&id) else { return };
        if self.permits.by_fence.get(&permit.fence) == Some(&id) {
            self.permits.by_fence.remove(&permit.fence);
        }
        let (node, grant) = id;
        self.end_grant(node, grant);
        let same = self.alive.contains(node.index()) && self.incarnation_of(node) == permit.start;
        if same && !self.config.load.ask_inside {
            self.schedule_next_request(node);
        }
    }

    /// A client is done with its slots.
    pub(super) fn finish(&mut self, id: PermitId) {
        let Some(permit) = self.permits.permits.get(&id) else { return };
        let (by, durable) = (permit.by, permit.durable);
        let speaks = !permit.moved && self.permits.sessions.contains_key(&by);
        match durable {
            // It waits for the entry, or for its process.
            Durable::Proposed => self.finish_later(id),
            Durable::No if speaks && self.paused.contains_key(&by.0) => self.finish_later(id),
            Durable::Held => {
                let slots = permit.slots.clone();
                self.append(|view| {
                    let reserved = view.reserved.iter().filter(|slot| !slots.contains(slot));
                    view.reserved = reserved.copied().collect();
                });
                self.believe_no_more(id);
            }
            Durable::No => {
                self.believe_no_more(id);
                if speaks {
                    self.permits.sessions.remove(&by);
                    self.mutex_input(by.0, Label::bare(6), Input::Release { grant: by.1 });
                }
            }
        }
    }

    fn finish_later(&mut self, (node, grant): PermitId) {
        self.queue.push(self.now + Span::UNIT, Event::Release { node, grant });
    }

    /// From now on a client does not renew its session; it believes until the deadline.
    fn stop_renewing(&mut self, id: PermitId) -> Option<Time> {
        let at = self.now + self.config.agreement.session;
        let permit = self.permits.permits.get_mut(&id)?;
        let deadline = *permit.deadline.get_or_insert(at);
        let by = permit.by;
        self.queue.push(deadline, Event::Client(Box::new((id, ClientStep::Stop))));
        self.end_session_at(by, deadline);
        Some(deadline)
    }

    fn end_session_at(&mut self, session: (NodeId, GrantId), at: Time) {
        if let Some(known) = self.permits.sessions.get_mut(&session) {
            known.deadline = Some(at);
            let (node, grant) = session;
            self.queue.push(at, Event::SessionEnd { node, grant });
        }
    }

    /// A client asks some process to adopt its permit, and another one if that takes long.
    fn ask(&mut self, id: PermitId) {
        let Some(deadline) = self.stop_renewing(id) else { return };
        let nodes = u64::from(self.config.nodes);
        let node = NodeId(u32::try_from(self.permits.rng.below(nodes)).expect("a process"));
        let session = self.config.agreement.session.0;
        let again = self.now + Span(self.permits.rng.within(session / 16 + 1, session));
        let may = self.may_ask(node, deadline);
        let Some(permit) = self.permits.permits.get_mut(&id) else { return };
        permit.attempt += u32::from(may);
        permit.moved |= may;
        permit.turn += 1;
        let (attempt, turn) = (permit.attempt, permit.turn);
        let adoption = Adoption {
            slots: permit.slots.clone(),
            fence: permit.fence,
            attempt,
            from: permit.by.0,
            incarnation: permit.incarnation,
            after: permit.after,
        };
        if again < deadline {
            let step = ClientStep::AskOther { turn };
            self.queue.push(again, Event::Client(Box::new((id, step))));
        }
        if may {
            self.stats.adoption_requests += 1;
            let label = Label::of(19, id.0, u64::from(attempt));
            self.mutex_input(node, label, Input::Adopt(Box::new(adoption)));
        }
    }

    /// H18: a process passes an adoption request on only if its lease outlasts the client.
    fn may_ask(&self, node: NodeId, deadline: Time) -> bool {
        let lasts = |from: Span| {
            let from = Time::ZERO + from;
            from < self.now || deadline <= from
        };
        let agreement = &self.config.agreement;
        let ends = agreement.evictions.iter().chain(&agreement.leaseless);
        let lasts = ends.filter(|period| period.node == node).all(|period| lasts(period.from));
        self.alive.contains(node.index())
            && !self.paused.contains_key(&node)
            && self.has_lease(node)
            && (lasts || self.config.printed.has(Defects::EVICTS_EARLY))
    }

    /// The slots of a client are at another process now.
    pub(super) fn adopted(&mut self, node: NodeId, grant: GrantId, fence: Fence, attempt: u32) {
        self.permits.sessions.retain(|(at, _), known| *at != node || known.fence != fence);
        let session = (node, grant);
        let Some(&id) = self.permits.by_fence.get(&fence) else {
            // The client is gone: the session ends at once.
            self.open_session(session, session, fence, Some((attempt, session)));
            return self.end_session_at(session, self.now);
        };
        let permit = &self.permits.permits[&id];
        let (by, deadline) = (permit.by, permit.deadline.unwrap_or(self.now));
        self.open_session(session, id, fence, Some((attempt, by)));
        self.end_session_at(session, deadline);
        let at = self.now + Span(self.permits.rng.within(0, self.config.agreement.session.0 / 4));
        self.queue.push(at, Event::Confirm { node, grant });
    }

    /// A client goes on at the process that it asked last.
    pub(super) fn confirm(&mut self, node: NodeId, grant: GrantId) {
        let session = (node, grant);
        if !self.is_open(session) {
            return;
        }
        let known = &self.permits.sessions[&session];
        let id = known.permit;
        let Some(permit) = self.permits.permits.get_mut(&id) else { return };
        let expects = known.unconfirmed == Some((permit.attempt, permit.by));
        let in_time = known.deadline.is_some_and(|deadline| self.now < deadline);
        if !expects || !in_time || permit.durable != Durable::No {
            return;
        }
        self.hash.add_three(self.now.0, u64::from(node.0) << 32 | 20, grant.0);
        let process = &mut self.mutexes[node.index()];
        if process.handle(self.now, Input::Confirm { grant }, &mut self.mutex_out).is_err() {
            return; // It has no lease, or the client has asked it again.
        }
        let view = self.log.view(node);
        (permit.by, permit.moved, permit.deadline) = (session, false, None);
        permit.incarnation = view.directory.incarnation(node).unwrap_or_default();
        permit.after = view.index;
        permit.turn += 1;
        let turn = permit.turn;
        let known = self.permits.sessions.get_mut(&session).expect("it is open");
        (known.unconfirmed, known.deadline) = (None, None);
        self.stats.adoptions += 1;
        self.carry_out_mutex(node);
        if self.config.agreement.adopt.happens(&mut self.permits.rng) {
            let at = self.now + Span(self.permits.rng.within(0, self.config.load.hold.0));
            let step = ClientStep::AskOther { turn };
            self.queue.push(at, Event::Client(Box::new((id, step))));
        }
    }

    /// The deadline of a session may have passed (H13).
    pub(super) fn on_session_end(&mut self, node: NodeId, grant: GrantId) {
        let Some(known) = self.permits.sessions.get_mut(&(node, grant)) else { return };
        let is_due = known.deadline.is_some_and(|deadline| deadline <= self.now);
        if !is_due || known.barrier.is_some() {
            return;
        }
        known.barrier = Some(self.log.length());
        self.lapse_behind_barrier(node);
    }

    /// Lets the sessions of a process lapse that may.
    pub(super) fn lapse_behind_barrier(&mut self, node: NodeId) {
        let applied = self.log.view(node).index;
        let early = self.config.printed.has(Defects::LAPSES_EARLY);
        let all = self.permits.sessions.range((node, GrantId(0))..=(node, GrantId(u64::MAX)));
        let ripe = all.filter(|(session, known)| {
            let permit = self.permits.permits.get(&known.permit);
            // A durable permit ends its session by its entry.
            let is_proposed = permit.is_some_and(|permit| {
                permit.by == **session && permit.durable == Durable::Proposed
            });
            !is_proposed
                && known.held.is_none()
                && known.barrier.is_some_and(|barrier| early || barrier <= applied)
        });
        for (node, grant) in ripe.map(|(session, _)| *session).collect::<Vec<_>>() {
            self.permits.sessions.remove(&(node, grant));
            self.mutex_input(node, Label::bare(21), Input::Lapse { grant });
        }
    }

    /// A client asks the log to hold its slots.
    fn propose(&mut self, id: PermitId) {
        let Some(permit) = self.permits.permits.get_mut(&id) else { return };
        permit.durable = Durable::Proposed;
        let by = permit.by;
        let at = self.now + Span(self.permits.rng.within(0, Span::UNIT.times(2).0));
        self.plan_hold(at, id);
        if self.config.printed.has(Defects::RELEASES_EARLY) {
            self.permits.sessions.remove(&by);
            self.mutex_input(by.0, Label::bare(6), Input::Release { grant: by.1 });
        }
    }

    /// The log decides whether it holds the slots of a permit: void if the incarnation that
    /// proposed it is no member, or if the client is gone.
    pub(super) fn decide_hold(&mut self, id: PermitId) {
        let Some(permit) = self.permits.permits.get_mut(&id) else { return };
        if !self.log.is_member(permit.by.0, permit.incarnation) {
            permit.durable = Durable::No;
            return;
        }
        let next = LogIndex(self.log.length().0 + 1);
        (permit.durable, permit.deadline) = (Durable::Held, None);
        let (slots, by) = (permit.slots.clone(), permit.by);
        if let Some(known) = self.permits.sessions.get_mut(&by) {
            known.held = Some(next);
        }
        self.append(|view| {
            let mut reserved = view.reserved.to_vec();
            reserved.extend(slots);
            reserved.sort_unstable();
            view.reserved = reserved.into();
        });
    }

    /// A process has applied more of the log: it releases what that holds, and lets lapse what it
    /// may.
    pub(super) fn after_apply(&mut self, node: NodeId) {
        let applied = self.log.view(node).index;
        let all = self.permits.sessions.range((node, GrantId(0))..=(node, GrantId(u64::MAX)));
        let held = all.filter(|(_, known)| known.held.is_some_and(|since| since <= applied));
        for (node, grant) in held.map(|(session, _)| *session).collect::<Vec<_>>() {
            self.permits.sessions.remove(&(node, grant));
            self.mutex_input(node, Label::bare(6), Input::Release { grant });
        }
        self.lapse_behind_barrier(node);
    }

    /// A process has crashed: its clients believe until their deadlines, and ask others.
    pub(super) fn silence_permits(&mut self, node: NodeId) {
        self.permits.sessions.retain(|(at, _), _| *at != node);
        for id in self.permits_by(node) {
            self.stop_renewing(id);
            if self.config.agreement.adopt > crate::disturbance::Chance::NEVER {
                let turn = self.permits.permits[&id].turn;
                let patience = self.config.agreement.session.0 / 2;
                let at = self.now + Span(self.permits.rng.within(0, patience));
                let step = ClientStep::AskOther { turn };
                self.queue.push(at, Event::Client(Box::new((id, step))));
            }
        }
    }

    /// The lease of a process has ended: no client believes by it any more.
    pub(super) fn end_permits(&mut self, node: NodeId) {
        for id in self.permits_by(node) {
            self.believe_no_more(id);
        }
    }

    /// The lease of a process has ended, and its incarnation goes on: all sessions end.
    pub(super) fn end_sessions(&mut self, node: NodeId) {
        let all = self.permits.sessions.range((node, GrantId(0))..=(node, GrantId(u64::MAX)));
        for session in all.map(|(session, _)| *session).collect::<Vec<_>>() {
            self.end_session_at(session, self.now);
        }
    }

    /// The permits of clients that believe by a process, unless the log holds them.
    fn permits_by(&self, node: NodeId) -> Vec<PermitId> {
        let by = |(_, permit): &(&PermitId, &Permit)| {
            permit.by.0 == node && permit.durable != Durable::Held
        };
        self.permits.permits.iter().filter(by).map(|(id, _)| *id).collect()
    }

    /// A process says that a grant of its is lost.
    pub(super) fn lost_permit(&mut self, node: NodeId, grant: GrantId) {
        let Some(known) = self.permits.sessions.remove(&(node, grant)) else { return };
        let id = known.permit;
        let permit = self.permits.permits.get(&id);
        let ends = permit
            .is_some_and(|permit| permit.by == (node, grant) && permit.durable != Durable::Held);
        if ends {
            self.believe_no_more(id);
        }
    }
}
