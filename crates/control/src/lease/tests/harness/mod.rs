//! A simulation with clocks that err: six nodes with the real [`Leases`], one of which (p) has a
//! client with a child process; a log that is a total order; and faults. Only the checker knows
//! real time.

mod checker;
mod client;
mod clock;
mod faults;
mod knobs;
mod log;
mod mutation;
mod replication;
mod sessions;

use std::collections::BTreeMap;

use kgate_core::{Incarnation, NodeId, Time};

use crate::lease::{LeaseEffect, LeaseMessage, Leases, Proposal};
use crate::membership::{LeaseTerms, MembershipChange, StoreId};
use checker::Checker;
pub(super) use checker::Verdict;
use client::{Client, ClientRequest, NodeReply, Server, Watchdog};
use clock::{Machine, Real};
use kgate_testkit::Rng;
pub(super) use knobs::LEASE;
use knobs::{Knobs, NODES};
use log::Log;
pub(super) use mutation::Mutation;

/// The only incarnation of p.
const INCARNATION: Incarnation = Incarnation(1);
/// The length of a run.
const END: Real = 10 * LEASE;
/// Until after the run.
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
    Fault,
    /// A voter is killed.
    Kill(NodeId),
    Up(NodeId),
    /// p is cut off from some nodes.
    Cut,
    /// A node appends nothing, or applies nothing, for a while.
    Stall(NodeId),
    /// The next step of a change of voters.
    ChangeVoters,
    /// p checks whether it may grant.
    Serve,
    /// p checks whether the client counts as gone (S4).
    SessionTimeout,
    ClientRequest(ClientRequest),
    NodeReply(NodeReply),
    Renew,
    Watchdog(Watchdog),
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
    /// p and this node exchange no messages until then.
    cut_until: Real,
    /// The wake-up that is scheduled; earlier events are outdated.
    wake: Option<Real>,
    /// The last answer of this node to p, for [`Mutation::AppendedForApplied`].
    last_answer: Time,
}

pub(super) struct Harness {
    mutation: Option<Mutation>,
    knobs: Knobs,
    rng: Rng,
    now: Real,
    events: BTreeMap<(Real, u64), Event>,
    counter: u64,
    /// One per node, and one for the client.
    machines: Vec<Machine>,
    nodes: Vec<Node>,
    log: Log,
    /// When each entry was committed.
    committed_at: Vec<Real>,
    client: Client,
    server: Server,
    /// The number of p's newest ping.
    newest_ping: u64,
    checker: Checker,
}

impl Harness {
    /// Runs the simulation of that seed.
    pub(super) fn run(seed: u64, mutation: Option<Mutation>) -> Verdict {
        let mut harness = Self::new(seed, mutation);
        while let Some(((now, _), event)) = harness.events.pop_first() {
            let over = harness.checker.evicted.is_some_and(|evicted| now > evicted + 2 * LEASE);
            if now > END || over || harness.checker.verdict.violation.is_some() {
                break;
            }
            harness.now = now;
            harness.handle(event);
        }
        if let Some(child) = harness.client.child {
            let now = harness.now;
            harness.checker.child_ends(now, child.grant, harness.slept());
        }
        harness.checker.verdict
    }

    fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x5851_F42D_4C95_7F2D);
        let knobs = Knobs::draw(&mut rng);
        let machines = knobs
            .rates
            .iter()
            .map(|rate| Machine::new(rng.below(30 * LEASE), *rate))
            .collect::<Vec<_>>();
        let log = Log::new(
            NODES,
            knobs.first.clone(),
            (knobs.p, INCARNATION, terms(&knobs, mutation)),
            mutation,
        );
        let session = Client { session: 1, deadline: Time::ZERO, child: None, frozen_until: 0 };
        let server =
            Server { session: 0, open: false, grant: None, grants: 0, gone_at: Time::ZERO };
        let mut harness = Self {
            mutation,
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
            server,
            newest_ping: 0,
            checker: Checker::default(),
        };
        for node in (0..NODES).map(node_id) {
            let leases = harness.start(node, 0, None);
            harness.nodes.push(leases);
            harness.apply_upto(node, 2);
            harness.schedule_wake(node);
            harness.later(harness.knobs.replication, Event::Replicate(node));
            harness.later(harness.knobs.replication, Event::Apply(node));
        }
        for event in [Event::Fault, Event::Serve, Event::Renew] {
            harness.later(LEASE / 10, event);
        }
        harness.schedule_faults();
        harness
    }

    /// Starts a node with what its store has.
    fn start(&mut self, node: NodeId, applied: usize, former: Option<&Leases>) -> Node {
        let now = self.local(node);
        let born = if self.mutation == Some(Mutation::AgeForgotten) { Time::ZERO } else { now };
        let mut leases =
            Leases::new(born, node, INCARNATION, StoreId(node.0.into()), self.knobs.timing);
        for (member, incarnation) in former.iter().flat_map(|former| former.membership().iter()) {
            leases.membership_changed(
                now,
                MembershipChange::Added(member, incarnation.incarnation, incarnation.terms),
            );
            if let (Some(at), false) =
                (incarnation.suspected, self.mutation == Some(Mutation::ForgetSuspicion))
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

    /// Schedules the event at a random time within that span.
    fn later(&mut self, within: u64, event: Event) {
        let after = self.rng.below(within + 1);
        self.at(self.now + after, event);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Wake(node) => self.wake(node),
            Event::Message { from, to, message } => self.deliver(from, to, message),
            Event::Propose(proposal) => self.on_proposal(proposal),
            Event::Replicate(node) => self.replicate(node),
            Event::Apply(node) => self.apply(node),
            Event::Fault => self.inject_fault(),
            Event::Kill(node) => self.restart(node),
            Event::Up(node) => self.up(node),
            Event::Cut => self.cut(),
            Event::Stall(node) => self.stall(node),
            Event::ChangeVoters => self.change_voters(),
            Event::Serve => self.serve(),
            Event::SessionTimeout => self.on_session_timeout(),
            Event::ClientRequest(request) => self.on_client_request(request),
            Event::NodeReply(reply) => self.on_node_reply(reply),
            Event::Renew => self.renew(),
            Event::Watchdog(watchdog) => self.check_deadline(watchdog),
            Event::Death => self.death(),
        }
    }

    /// When that node runs again; now, if it runs.
    fn runs_at(&self, node: NodeId) -> Real {
        let (state, machine) = (&self.nodes[node.index()], &self.machines[node.index()]);
        state.paused_until.max(machine.asleep_until).max(self.now)
    }

    fn is_down(&self, node: NodeId) -> bool {
        self.nodes[node.index()].down_until > self.now
    }

    /// Whether the node runs. If not, the event is postponed until it does; events of a dead node
    /// are lost.
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
        self.perform(node, effects);
        if self.mutation == Some(Mutation::SelfAnswer) && node == self.knobs.p {
            self.answer_self(now);
        }
    }

    /// [`Mutation::SelfAnswer`]: p counts its own vote whatever it has applied.
    fn answer_self(&mut self, now: Time) {
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

    fn perform(&mut self, node: NodeId, effects: Vec<LeaseEffect>) {
        for effect in effects {
            match effect {
                LeaseEffect::Send(to, message) => self.send(node, to, message),
                LeaseEffect::Propose(proposal) => self.propose(proposal),
            }
        }
        self.schedule_wake(node);
    }

    /// Schedules the next wake-up.
    fn schedule_wake(&mut self, node: NodeId) {
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
        if self.knobs.unsuspect_lost && matches!(proposal, Proposal::Unsuspect { .. }) {
            return;
        }
        if !self.rng.percent(self.knobs.loss / 2) {
            let within = if self.rng.percent(10) { 2 * LEASE } else { self.knobs.delay };
            self.later(within, Event::Propose(proposal));
        }
    }

    fn on_proposal(&mut self, proposal: Proposal) {
        self.log.propose(proposal);
        self.record_commits();
        // An operator changes the voters at that moment.
        if matches!(proposal, Proposal::Evict(_)) && self.rng.percent(30) {
            self.later(LEASE / 10, Event::ChangeVoters);
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, message: LeaseMessage) {
        let p = self.knobs.p;
        if let LeaseMessage::Ping { seq, .. } = message {
            if from != p {
                return; // The other nodes hold nothing, so their leases do not matter.
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
        self.perform(to, effects);
    }

    /// How some mutations change an answer.
    fn tampered(&self, to: NodeId, mut message: LeaseMessage) -> LeaseMessage {
        if let LeaseMessage::Answer { seq, voters, .. } = &mut message {
            if self.mutation == Some(Mutation::LeaseFromArrival) {
                *seq = self.newest_ping;
            }
            if self.mutation == Some(Mutation::OwnVoters) {
                *voters = self.log.voters_within(self.nodes[to.index()].applied).clone();
            }
        }
        message
    }
}

fn terms(knobs: &Knobs, mutation: Option<Mutation>) -> LeaseTerms {
    let mut terms = knobs.timing.terms();
    if mutation == Some(Mutation::OneClockErrs) {
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
