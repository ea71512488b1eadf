//! The run as its judges see it: requests, grants, releases and crashes, with their times.

use kgate_core::{Fence, NodeId, Protocol, Refusal, Span, Stamp, Time};
use kgate_spec::{
    Accuracy, AtMostK, Completeness, Convergence, EveryoneServed, GRANTED_IN_TIME, Loss, NOT_REFUSED,
    NoDeadlock, SlotFences, SometimesK, Violation,
};

use super::audit::Audit;
use crate::config::Config;
use crate::stats::Requester;

/// Violations beyond these are not listed, unless they are the first of their property: the first ones tell the story.
const LISTED: usize = 8;

pub(super) struct Judges {
    inside: AtMostK,
    served: EveryoneServed,
    fences: SlotFences,
    deadlock: NoDeadlock,
    some: SometimesK,
    convergence: Convergence,
    pub(super) audit: Audit,
    /// A transient fault has struck and the run has not recovered: what is unsafe now is no violation.
    excused: bool,
    /// The most inside before it had recovered.
    before: usize,
    requesters: Vec<Requester>,
    violations: Vec<Violation>,
}

impl Judges {
    pub(super) fn new<M: Protocol>(config: &Config) -> Self {
        Self {
            inside: AtMostK::new(config.permits),
            served: EveryoneServed::default(),
            fences: SlotFences::default(),
            deadlock: NoDeadlock::default(),
            some: SometimesK::new(config.permits),
            convergence: Convergence::default(),
            audit: Audit::new::<M>(config),
            excused: false,
            before: 0,
            requesters: vec![Requester::default(); config.load.requesters as usize],
            violations: Vec::new(),
        }
    }

    pub(super) fn asked(&mut self, node: NodeId, now: Time) {
        let requester = &mut self.requesters[node.index()];
        requester.asked_for = now;
        requester.requests += 1;
        self.served.ask(node, now);
    }

    pub(super) fn broadcast(&mut self, node: NodeId, now: Time) {
        self.requesters[node.index()].broadcast = now;
    }

    /// The obtaining times from the request and from its broadcast.
    pub(super) fn granted(
        &mut self,
        node: NodeId,
        now: Time,
        slots: Option<&[u32]>,
        fence: Option<Fence>,
        stamp: Option<Stamp>,
    ) -> (Span, Span) {
        self.served.end(node);
        let violation = self.inside.enter(node, now);
        self.some.see(self.inside.now());
        let reopened = self.convergence.see(false, violation.is_none(), now.0);
        self.note(violation.filter(|_| !self.excused));
        self.note(reopened);
        if self.audit.sits() {
            self.audit.granted(node, stamp, now).into_iter().for_each(|violation| self.note(violation));
        }
        for &slot in slots.unwrap_or_default() {
            let violation = self.fences.grant(slot, fence, node, now);
            self.note(violation);
        }
        let requester = &self.requesters[node.index()];
        (now.since(requester.asked_for), now.since(requester.broadcast))
    }

    /// The client came out, or is gone with its process.
    pub(super) fn released(&mut self, node: NodeId) {
        self.inside.leave(node);
        self.fences.leave(node);
    }

    /// The client gives up.
    pub(super) fn withdrawn(&mut self, node: NodeId) {
        self.audit.withdrawn(node);
        self.served.end(node);
    }

    pub(super) fn is_waiting(&self, node: NodeId) -> bool {
        self.served.is_waiting(node)
    }

    /// A transient fault has struck.
    pub(super) fn excuse(&mut self, now: Time) {
        self.excused = true;
        self.convergence.fault(now.0);
    }

    /// The run has recovered.
    pub(super) fn be_strict(&mut self, now: Time) {
        self.excused = false;
        self.convergence.see(true, true, now.0);
        self.before = self.before.max(self.inside.most());
        self.inside.forget_most();
        self.some.forget();
        self.some.see(self.inside.now());
    }

    /// The run was given all the time it could use, and has not recovered.
    pub(super) fn never_recovered(&mut self, now: Time) {
        self.note(self.convergence.verdict(now.0, true));
    }

    pub(super) fn crashed(&mut self, node: NodeId) {
        self.audit.crashed(node);
        self.released(node);
        self.served.end(node);
    }

    pub(super) fn requests_of(&self, node: NodeId) -> u32 {
        self.requesters[node.index()].requests
    }

    pub(super) fn waiting(&self) -> usize {
        self.served.waiting()
    }

    /// Nothing is under way: is it a deadlock?
    pub(super) fn quiet(&mut self, now: Time) {
        let violation = self.deadlock.quiet(self.inside.now(), self.served.who(), now);
        self.note(violation);
    }

    /// All who wait, in the order of ids.
    pub(super) fn who_waits(&self) -> Vec<NodeId> {
        self.served.who().collect()
    }

    /// What was found, in order.
    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Those who wait will wait for ever.
    pub(super) fn starved(&mut self, now: Time) {
        let violation = self.served.verdict(now);
        self.note(violation);
    }

    /// Something is still under way, but nobody has been granted anything for longer than any grant can take.
    pub(super) fn stalled(&mut self, now: Time) {
        let waiting = self.served.verdict(now);
        self.note(waiting.map(|violation| Violation { property: GRANTED_IN_TIME, ..violation }));
    }

    /// A detector suspects somebody.
    pub(super) fn suspected(&mut self, by: NodeId, whom: NodeId, lives: bool, now: Time) {
        self.note(Accuracy::suspected(by, whom, lives, now));
    }

    /// The measured time is over: were all crashes known in time?
    pub(super) fn detected(&mut self, losses: &[Loss], bound: Span, now: Time) {
        let judge = Completeness::new(bound);
        losses.iter().for_each(|loss| self.note(judge.verdict(loss, now)));
    }

    /// No correct process sends what another must refuse.
    pub(super) fn refused(&mut self, node: NodeId, now: Time, refusal: Refusal) {
        self.note(Some(Violation {
            property: NOT_REFUSED,
            at_ns: now,
            nodes: vec![node],
            text: format!("{node} refused an input: {refusal}"),
        }));
    }

    pub(super) fn note(&mut self, violation: Option<Violation>) {
        let Some(violation) = violation else { return };
        let listed = |property| self.violations.iter().any(|other| other.property == property);
        if self.violations.len() < LISTED || !listed(violation.property) {
            self.violations.push(violation);
        }
    }

    pub(super) fn k_inside_seen(&self) -> bool {
        self.some.seen()
    }

    pub(super) fn most_inside(&self) -> usize {
        self.inside.most()
    }

    pub(super) fn most_inside_overall(&self) -> usize {
        self.inside.most().max(self.before)
    }

    pub(super) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }
}
