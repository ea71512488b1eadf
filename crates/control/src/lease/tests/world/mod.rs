//! A world with clocks that err: six nodes with real [`Leases`], one of them (p) with a client and
//! its child, a log that is a total order, and everything that may go wrong. Real time is known to
//! the checker alone.

mod chaos;
mod checker;
mod client;
mod clock;
mod flaw;
mod knobs;
mod log;
mod replication;
mod sessions;

use std::collections::BTreeMap;

use kgate_core::{Incarnation, NodeId, Time};

use crate::lease::{LeaseEffect, LeaseMessage, Leases, Proposal};
use crate::membership::{LeaseTerms, MembershipChange, StoreId};
use checker::Checker;
pub(super) use checker::Verdict;
use client::{Client, Desk, Killer, Plea, Word};
use clock::{Machine, Real};
pub(super) use flaw::Flaw;
use kgate_testkit::Rng;
pub(super) use knobs::LEASE;
use knobs::{Knobs, NODES};
use log::Log;

/// p's one incarnation.
const INCARNATION: Incarnation = Incarnation(1);
/// A run lasts so long.
const END: Real = 10 * LEASE;
/// Dead for good.
const FOR_EVER: Real = Real::MAX / 4;

#[derive(Clone, Debug)]
enum Event {
    Wake(NodeId),
    Message {
        from: NodeId,
        to: NodeId,
        message: LeaseMessage,
    },
    Propose(Proposal),
    Replicate(NodeId),
    Apply(NodeId),
    Mishap,
    /// A voter is killed.
    Kill(NodeId),
    Up(NodeId),
    /// p is cut off from some.
    Cut,
    /// A node appends, or applies, nothing for a while.
    Stall(NodeId),
    /// The next step of a change of voters.
    ChangeVoters,
    /// p's desk looks whether it may grant.
    Serve,
    /// p's desk looks whether the client is gone.
    Count,
    Plea(Plea),
    Word(Word),
    Renew,
    Look(Killer),
    Death,
}

struct Node {
    leases: Leases,
    applied: usize,
    paused_until: Real,
    down_until: Real,
    /// Nothing is appended, or applied, until then.
    append_stalled_until: Real,
    apply_stalled_until: Real,
    /// Nothing goes between p and this node until then.
    cut_until: Real,
    /// The wake-up that counts; others are outdated.
    wake: Option<Real>,
    /// Of this node to p, for those who promise too early.
    last_answer: Time,
}

pub(super) struct World {
    flaw: Option<Flaw>,
    knobs: Knobs,
    rng: Rng,
    now: Real,
    events: BTreeMap<(Real, u64), Event>,
    counter: u64,
    /// One a node, and the client's own.
    machines: Vec<Machine>,
    nodes: Vec<Node>,
    log: Log,
    /// When each entry was committed.
    committed_at: Vec<Real>,
    client: Client,
    desk: Desk,
    /// p's newest ping.
    newest_ping: u64,
    checker: Checker,
}

impl World {
    /// Runs the world of that seed.
    pub(super) fn run(seed: u64, flaw: Option<Flaw>) -> Verdict {
        let mut world = Self::new(seed, flaw);
        while let Some(((now, _), event)) = world.events.pop_first() {
            let over = world.checker.evicted.is_some_and(|evicted| now > evicted + 2 * LEASE);
            if now > END || over || world.checker.verdict.violation.is_some() {
                break;
            }
            world.now = now;
            world.happen(event);
        }
        if let Some(child) = world.client.child {
            let now = world.now;
            world.checker.child_ends(now, child.grant, world.slept());
        }
        world.checker.verdict
    }

    fn new(seed: u64, flaw: Option<Flaw>) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x5851_F42D_4C95_7F2D);
        let knobs = Knobs::draw(&mut rng);
        let machines = knobs
            .rates
            .iter()
            .map(|rate| Machine::new(rng.below(30 * LEASE), *rate))
            .collect::<Vec<_>>();
        let log =
            Log::new(NODES, knobs.first.clone(), (knobs.p, INCARNATION, terms(&knobs, flaw)), flaw);
        let session = Client { session: 1, deadline: Time::ZERO, child: None, frozen_until: 0 };
        let desk = Desk { session: 0, open: false, grant: None, grants: 0, gone_at: Time::ZERO };
        let mut world = Self {
            flaw,
            rng,
            now: 0,
            events: BTreeMap::new(),
            counter: 0,
            nodes: Vec::new(),
            committed_at: vec![0; log.committed()],
            machines,
            log,
            knobs,
            client: session,
            desk,
            newest_ping: 0,
            checker: Checker::default(),
        };
        for node in (0..NODES).map(node_id) {
            let leases = world.start(node, 0, None);
            world.nodes.push(leases);
            world.feed(node, 2);
            world.settle(node);
            world.later(world.knobs.replication, Event::Replicate(node));
            world.later(world.knobs.replication, Event::Apply(node));
        }
        for event in [Event::Mishap, Event::Serve, Event::Renew] {
            world.later(LEASE / 10, event);
        }
        world.plot();
        world
    }

    /// A node that starts, with what its store has kept.
    fn start(&mut self, node: NodeId, applied: usize, former: Option<&Leases>) -> Node {
        let now = self.local(node);
        let born = if self.flaw == Some(Flaw::AgeForgotten) { Time::ZERO } else { now };
        let mut leases =
            Leases::new(born, node, INCARNATION, StoreId(node.0.into()), self.knobs.timing);
        for (member, incarnation) in former.iter().flat_map(|former| former.membership().iter()) {
            leases.membership_changed(
                now,
                MembershipChange::Added(member, incarnation.incarnation, incarnation.terms),
            );
            if let (Some(at), false) =
                (incarnation.suspected, self.flaw == Some(Flaw::ForgetSuspicion))
            {
                leases.membership_changed(
                    now,
                    MembershipChange::Suspected(member, incarnation.incarnation, at),
                );
            }
        }
        if applied > 0 {
            leases.voters_applied(self.since_voters(now), self.log.voters_within(applied).clone());
            leases.applied(now, applied as u64);
        }
        Node {
            leases,
            applied,
            paused_until: 0,
            down_until: 0,
            append_stalled_until: 0,
            apply_stalled_until: 0,
            cut_until: 0,
            wake: None,
            last_answer: Time::ZERO,
        }
    }

    fn local(&self, node: NodeId) -> Time {
        self.machines[node.index()].local(self.now)
    }

    fn at(&mut self, real: Real, event: Event) {
        self.counter += 1;
        self.events.insert((real.max(self.now), self.counter), event);
    }

    /// Within that time.
    fn later(&mut self, within: u64, event: Event) {
        let after = self.rng.below(within + 1);
        self.at(self.now + after, event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake(node) => self.wake(node),
            Event::Message { from, to, message } => self.deliver(from, to, message),
            Event::Propose(proposal) => self.on_proposal(proposal),
            Event::Replicate(node) => self.replicate(node),
            Event::Apply(node) => self.apply(node),
            Event::Mishap => self.mishap(),
            Event::Kill(node) => self.restart(node),
            Event::Up(node) => self.up(node),
            Event::Cut => self.cut(),
            Event::Stall(node) => self.stall(node),
            Event::ChangeVoters => self.change_voters(),
            Event::Serve => self.serve(),
            Event::Count => self.count(),
            Event::Plea(plea) => self.on_plea(plea),
            Event::Word(word) => self.on_word(word),
            Event::Renew => self.renew(),
            Event::Look(killer) => self.look(killer),
            Event::Death => self.death(),
        }
    }

    /// When that node runs again; now, if it does.
    fn runs_at(&self, node: NodeId) -> Real {
        let (state, machine) = (&self.nodes[node.index()], &self.machines[node.index()]);
        state.paused_until.max(machine.asleep_until).max(self.now)
    }

    fn is_down(&self, node: NodeId) -> bool {
        self.nodes[node.index()].down_until > self.now
    }

    /// Whether the node runs; if not, the event comes when it does. What comes to a dead node is
    /// lost.
    fn ready(&mut self, node: NodeId, event: impl FnOnce() -> Event) -> bool {
        let runs = self.runs_at(node);
        if self.is_down(node) {
            return false;
        }
        if runs > self.now {
            self.at(runs, event());
            return false;
        }
        true
    }

    fn wake(&mut self, node: NodeId) {
        if self.nodes[node.index()].wake != Some(self.now) || !self.ready_to_wake(node) {
            return;
        }
        let (now, mut effects) = (self.local(node), Vec::new());
        self.nodes[node.index()].leases.tick(now, &mut effects);
        self.carry_out(node, effects);
        if self.flaw == Some(Flaw::SelfAnswer) && node == self.knobs.p {
            self.answer_itself(now);
        }
    }

    /// A flaw: p counts its own vote whatever it has applied.
    fn answer_itself(&mut self, now: Time) {
        let p = self.knobs.p;
        let voters = self.log.voters_within(self.nodes[p.index()].applied).clone();
        let (seq, store) = (self.newest_ping, StoreId(p.0.into()));
        let answer =
            LeaseMessage::Answer { incarnation: INCARNATION, seq, store, voters, committed: 0 };
        self.nodes[p.index()].leases.on_message(now, p, answer, &mut Vec::new());
    }

    fn ready_to_wake(&mut self, node: NodeId) -> bool {
        let runs = self.runs_at(node);
        if runs > self.now {
            self.nodes[node.index()].wake = Some(runs);
        }
        self.ready(node, || Event::Wake(node))
    }

    fn carry_out(&mut self, node: NodeId, effects: Vec<LeaseEffect>) {
        for effect in effects {
            match effect {
                LeaseEffect::Send(to, message) => self.send(node, to, message),
                LeaseEffect::Propose(proposal) => self.propose(proposal),
            }
        }
        self.settle(node);
    }

    /// Sets the next wake-up.
    fn settle(&mut self, node: NodeId) {
        let local = self.local(node);
        let state = &self.nodes[node.index()];
        let Some(due) = state.leases.next_due(local) else { return };
        let real = self.machines[node.index()].real(due).max(self.now);
        if state.wake != Some(real) || real == self.now {
            self.nodes[node.index()].wake = Some(real);
            self.at(real, Event::Wake(node));
        }
    }

    /// A proposal reaches the log, late or never.
    fn propose(&mut self, proposal: Proposal) {
        if self.knobs.mute && matches!(proposal, Proposal::Unsuspect { .. }) {
            return;
        }
        if !self.rng.percent(self.knobs.loss / 2) {
            let within = if self.rng.percent(10) { 2 * LEASE } else { self.knobs.delay };
            self.later(within, Event::Propose(proposal));
        }
    }

    fn on_proposal(&mut self, proposal: Proposal) {
        self.log.propose(proposal);
        self.note_commits();
        // Just now somebody changes the voters.
        if matches!(proposal, Proposal::Evict { .. }) && self.rng.percent(30) {
            self.later(LEASE / 10, Event::ChangeVoters);
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: LeaseMessage) {
        let p = self.knobs.p;
        if let LeaseMessage::Ping { seq, .. } = message {
            if from != p {
                return; // The others hold nothing: their leases are not looked at.
            }
            self.newest_ping = self.newest_ping.max(seq);
        }
        if let (LeaseMessage::Answer { .. }, true) = (&message, to == p) {
            self.nodes[from.index()].last_answer = self.local(from);
        }
        if to.index() < NODES && !self.is_lost(from, to) {
            let within = self.delay();
            self.later(within, Event::Message { from, to, message });
        }
    }

    fn is_lost(&mut self, from: NodeId, to: NodeId) -> bool {
        let p = self.knobs.p;
        let other = if from == p { to } else { from };
        let cut = (from == p || to == p) && self.nodes[other.index()].cut_until > self.now;
        cut || self.rng.percent(self.knobs.loss)
    }

    fn delay(&mut self) -> u64 {
        if self.rng.percent(self.knobs.late) { LEASE + LEASE / 5 } else { self.knobs.delay }
    }

    fn deliver(&mut self, from: NodeId, to: NodeId, message: LeaseMessage) {
        if !self.ready(to, || Event::Message { from, to, message: message.clone() }) {
            return;
        }
        let (now, mut effects) = (self.local(to), Vec::new());
        let message = self.tampered(to, message);
        self.nodes[to.index()].leases.on_message(now, from, message, &mut effects);
        self.carry_out(to, effects);
    }

    /// What some flaws make of an answer.
    fn tampered(&self, to: NodeId, mut message: LeaseMessage) -> LeaseMessage {
        if let LeaseMessage::Answer { seq, voters, .. } = &mut message {
            if self.flaw == Some(Flaw::LeaseFromArrival) {
                *seq = self.newest_ping;
            }
            if self.flaw == Some(Flaw::OwnVoters) {
                *voters = self.log.voters_within(self.nodes[to.index()].applied).clone();
            }
        }
        message
    }
}

fn terms(knobs: &Knobs, flaw: Option<Flaw>) -> LeaseTerms {
    let mut terms = knobs.timing.terms();
    if flaw == Some(Flaw::OneClockErrs) {
        // (1 + e)/(1 - e) = 1 + eps
        let eps = u64::from(terms.clock_error);
        terms.clock_error =
            u32::try_from(eps * 1_000_000 / (2_000_000 + eps)).expect("less than eps");
    }
    terms
}

fn node_id(index: usize) -> NodeId {
    NodeId(u32::try_from(index).expect("few"))
}
