//! The run as its checkers see it: requests, grants, releases and crashes, with their times.

use fixedbitset::FixedBitSet;
use kgate_core::{
    Fence, GrantId, NodeId, Observation, Refusal, Span, Stamp, Time, TransientFaults,
};
use kgate_spec::history::NOTHING_FROM_NOTHING;
use kgate_spec::{
    Accuracy, AtMostK, Completeness, Convergence, EveryoneServed, GRANTED_IN_TIME, Loss,
    NOT_REFUSED, NoDeadlock, NoResidue, QueueOrder, SlotFences, SometimesK, Violation, WithinK,
};

use super::audit::Audit;
use crate::config::Config;
use crate::stats::Requester;

/// The number of violations listed. Further ones are listed only if they are the first of their
/// property.
const VIOLATIONS_MAX: usize = 8;

pub(super) struct Checkers {
    inside: AtMostK,
    served: EveryoneServed,
    fences: SlotFences,
    deadlock: NoDeadlock,
    some: SometimesK,
    convergence: Convergence,
    pub(super) audit: Audit,
    /// A transient fault has happened and the run has not recovered: safety is not checked now.
    excused: bool,
    /// The most slots in use before the run had recovered.
    max_inside_before: usize,
    requesters: Vec<Requester>,
    /// The k of each process's last notification, where slots are numbered; and whether it ever
    /// differed.
    known: Vec<u32>,
    k_changes: bool,
    gates: u32,
    /// Whether the queue of a process that decides is checked, and the k of the run.
    watched_k: Option<u32>,
    violations: Vec<Violation>,
}

/// A grant of numbered slots.
pub(super) struct Numbered<'a> {
    pub(super) node: NodeId,
    pub(super) grant: GrantId,
    /// The request that it grants: its place among those that wait at the process, and its weight;
    /// none if there is none.
    pub(super) request: Option<(usize, u32)>,
    pub(super) slots: Option<&'a [u32]>,
    pub(super) fence: Option<Fence>,
    /// The k that bounds its slots, unless it is the one that the process knows.
    pub(super) k: Option<u32>,
}

impl Numbered<'_> {
    /// The weight of the grant.
    pub(super) fn weight(&self) -> u32 {
        let shown = self.slots.map(|slots| u32::try_from(slots.len()).unwrap_or(u32::MAX));
        shown.or(self.request.map(|(_, weight)| weight)).unwrap_or(1)
    }
}

impl Checkers {
    pub(super) fn new<M: TransientFaults>(config: &Config) -> Self {
        Self {
            inside: AtMostK::new(config.all_slots(config.k)),
            served: EveryoneServed::default(),
            fences: SlotFences::default(),
            deadlock: NoDeadlock::default(),
            some: SometimesK::new(config.all_slots(config.k)),
            convergence: Convergence::default(),
            audit: Audit::new::<M>(config),
            excused: false,
            max_inside_before: 0,
            requesters: vec![Requester::default(); config.load.requesters as usize],
            known: if config.claims.slots {
                vec![config.k; config.nodes as usize]
            } else {
                Vec::new()
            },
            k_changes: false,
            gates: config.gates,
            watched_k: config.has_steady_queue().then_some(config.k),
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

    /// Checks a grant. Returns the obtaining times from the request and from its broadcast.
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
        self.report(violation.filter(|_| !self.excused));
        self.report(reopened);
        if self.audit.is_active() {
            self.audit
                .granted(node, stamp, now)
                .into_iter()
                .for_each(|violation| self.report(violation));
        }
        for &slot in slots.unwrap_or_default() {
            let violation = self.fences.grant(slot, fence, (node, None), now);
            self.report(violation);
        }
        let requester = &self.requesters[node.index()];
        (now.since(requester.asked_for), now.since(requester.broadcast))
    }

    /// Checks a grant of numbered slots. `live` are the live processes, and `shown` their observed
    /// states, if audited.
    pub(super) fn granted_slots(
        &mut self,
        now: Time,
        of: &Numbered<'_>,
        live: &FixedBitSet,
        shown: &[(NodeId, Observation)],
    ) -> (Span, Span) {
        let (node, slots) = (of.node, of.slots.unwrap_or_default());
        let since = of.request.and_then(|(place, _)| self.served.end_at(node, place));
        if of.request.is_none_or(|(_, weight)| weight != of.weight()) {
            let asked = of.request.map_or("nothing".into(), |(_, weight)| weight.to_string());
            self.report_unrequested(
                node,
                now,
                format!("{node} was granted {} slots and had asked for {asked}", of.weight()),
            );
        }
        if self.k_changes {
            let known = live.ones().map(|at| self.known[at] * self.gates).chain(of.k);
            self.inside.resize(known.max().unwrap_or(0));
        }
        let k = of.k.unwrap_or(self.known[node.index()]);
        self.report(WithinK::verdict(slots, k, node, now));
        let violation = self.inside.enter_with(node, of.grant, of.weight(), slots, now);
        self.report(violation);
        self.some.see(self.inside.now());
        for &slot in slots {
            let violation = self.fences.grant(slot, of.fence, (node, Some(of.grant)), now);
            self.report(violation);
        }
        let seen = self.audit.granted_slots(node, of.fence, shown, now);
        seen.into_iter().for_each(|violation| self.report(violation));
        let since = since.unwrap_or(now);
        let broadcast = self.requesters[node.index()].broadcast;
        (now.since(since), now.since(since.max(broadcast)))
    }

    /// The client of that grant released it.
    pub(super) fn released_slots(&mut self, node: NodeId, grant: GrantId) {
        self.inside.leave_with(node, grant);
        self.fences.leave_with(node, grant);
    }

    /// A request is refused because k, now `most`, is smaller than its weight.
    pub(super) fn too_large(
        &mut self,
        node: NodeId,
        request: Option<(usize, u32)>,
        (weight, most): (u32, u32),
        now: Time,
    ) {
        request.and_then(|(place, _)| self.served.end_at(node, place));
        if request.is_none_or(|(_, wanted)| wanted != weight) || weight <= most {
            self.report_unrequested(
                node,
                now,
                format!(
                    "{node} was refused weight {weight} of {most} slots, and no request \
                exceeds them"
                ),
            );
        }
    }

    /// A process is notified of a new k, or restarts with the first one.
    pub(super) fn resized(&mut self, node: NodeId, k: u32) {
        if let Some(known) = self.known.get_mut(node.index()) {
            self.k_changes |= *known != k;
            *known = k;
        }
    }

    /// The k of the last notification of a process; none where k cannot change.
    pub(super) fn known(&self, node: NodeId) -> Option<u32> {
        self.known.get(node.index()).copied()
    }

    /// Nothing is in flight, no client waits or is inside: is any state left?
    pub(super) fn check_residue(&mut self, live: &[(NodeId, Observation)], now: Time) {
        let left = NoResidue::left(live.iter().map(|(node, shown)| (*node, shown)));
        self.report(left.map(|node| Violation {
            property: NoResidue::NAME,
            at_ns: now,
            nodes: vec![node],
            text: format!("no request is left, and {node} still owes or assembles an answer"),
        }));
    }

    fn report_unrequested(&mut self, node: NodeId, now: Time, text: String) {
        self.report(Some(Violation {
            property: NOTHING_FROM_NOTHING,
            at_ns: now,
            nodes: vec![node],
            text,
        }));
    }

    /// The client released its grant, or is gone with its process.
    pub(super) fn released(&mut self, node: NodeId) {
        self.inside.leave(node);
        self.fences.leave(node);
    }

    /// The client withdraws; of several, the last one to ask.
    pub(super) fn withdrawn(&mut self, node: NodeId) {
        self.audit.withdrawn(node);
        self.served.end_last(node);
    }

    pub(super) fn waiting_of(&self, node: NodeId) -> i64 {
        i64::try_from(self.served.waiting_of(node)).expect("few")
    }

    pub(super) fn is_waiting(&self, node: NodeId) -> bool {
        self.served.is_waiting(node)
    }

    /// A transient fault happened: safety is not checked until the run has recovered.
    pub(super) fn excuse(&mut self, now: Time) {
        self.excused = true;
        self.convergence.fault(now.0);
    }

    /// The run has recovered: safety is checked again.
    pub(super) fn be_strict(&mut self, now: Time) {
        self.excused = false;
        self.convergence.see(true, true, now.0);
        self.max_inside_before = self.max_inside_before.max(self.inside.most());
        self.inside.forget_most();
        self.some.forget();
        self.some.see(self.inside.now());
    }

    /// The run had all the time it could use and has not recovered.
    pub(super) fn never_recovered(&mut self, now: Time) {
        self.report(self.convergence.verdict(now.0, true));
    }

    pub(super) fn crashed(&mut self, node: NodeId) {
        self.audit.crashed(node);
        self.released(node);
        self.served.end(node);
    }

    /// The waiting clients of a process are gone with it; those inside are not.
    pub(super) fn stopped_waiting(&mut self, node: NodeId) {
        self.served.end(node);
    }

    /// Whether each process is observed before and after each input.
    #[inline]
    pub(super) fn watches_queue(&self) -> bool {
        self.watched_k.is_some()
    }

    /// What a process showed before and after an input.
    pub(super) fn decided(
        &mut self,
        before: &Observation,
        after: &Observation,
        node: NodeId,
        now: Time,
    ) {
        let verdict = self.watched_k.and_then(|k| QueueOrder::verdict(before, after, k, node, now));
        self.report(verdict);
    }

    pub(super) fn requests_of(&self, node: NodeId) -> u32 {
        self.requesters[node.index()].requests
    }

    pub(super) fn waiting(&self) -> usize {
        self.served.waiting()
    }

    /// Nothing is in flight: is it a deadlock?
    pub(super) fn quiet(&mut self, now: Time) {
        let violation = self.deadlock.quiet(self.inside.now(), self.served.who(), now);
        self.report(violation);
    }

    /// The waiting processes, in the order of ids.
    pub(super) fn waiting_nodes(&self) -> Vec<NodeId> {
        self.served.who().collect()
    }

    /// The violations found, in order.
    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The waiting requests will never be granted.
    pub(super) fn starved(&mut self, now: Time) {
        let violation = self.served.verdict(now);
        self.report(violation);
    }

    /// Events are left, but no request has been granted for longer than any grant can take.
    pub(super) fn stalled(&mut self, now: Time) {
        let waiting = self.served.verdict(now);
        self.report(waiting.map(|violation| Violation { property: GRANTED_IN_TIME, ..violation }));
    }

    /// A detector suspects a process.
    pub(super) fn suspected(&mut self, by: NodeId, whom: NodeId, alive: bool, now: Time) {
        self.report(Accuracy::suspected(by, whom, alive, now));
    }

    /// The measured time is over: were all crashes known in time?
    pub(super) fn detected(&mut self, losses: &[Loss], bound: Span, now: Time) {
        let checker = Completeness::new(bound);
        losses.iter().for_each(|loss| self.report(checker.verdict(loss, now)));
    }

    /// No correct process sends what another must refuse.
    pub(super) fn refused(&mut self, node: NodeId, now: Time, refusal: Refusal) {
        self.report(Some(Violation {
            property: NOT_REFUSED,
            at_ns: now,
            nodes: vec![node],
            text: format!("{node} refused an input: {refusal}"),
        }));
    }

    pub(super) fn report(&mut self, violation: Option<Violation>) {
        let Some(violation) = violation else { return };
        let listed = |property| self.violations.iter().any(|other| other.property == property);
        if self.violations.len() < VIOLATIONS_MAX || !listed(violation.property) {
            self.violations.push(violation);
        }
    }

    pub(super) fn k_in_use_seen(&self) -> bool {
        self.some.seen()
    }

    pub(super) fn most_inside(&self) -> usize {
        self.inside.most()
    }

    pub(super) fn most_inside_overall(&self) -> usize {
        self.inside.most().max(self.max_inside_before)
    }

    pub(super) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }
}
