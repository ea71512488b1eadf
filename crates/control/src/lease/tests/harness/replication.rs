//! Replication: the log reaches the nodes late and in pieces, and is applied later still.

use kgate_core::{NodeId, Span, Time};

use super::{Event, Harness, INCARNATION, Mutation, NODES, node_id};
use crate::lease::LeaseMessage;
use crate::membership::MembershipChange;

impl Harness {
    /// The log reaches a node.
    pub(super) fn replicate(&mut self, node: NodeId) {
        self.later(2 * self.knobs.replication, Event::Replicate(node));
        let stalled = self.now < self.nodes[node.index()].append_stalled_until;
        let forgotten_voters = self.knobs.forgotten_voters
            && self.knobs.first.contains(&node)
            && node != self.knobs.p
            && !self.log.voters_within(self.log.len()).has(node);
        if stalled || forgotten_voters || self.is_down(node) || self.runs_at(node) > self.now {
            return;
        }
        let (had, all) = (self.log.appended[node.index()], self.log.len());
        let some = had + usize::try_from(self.rng.below((all - had) as u64 + 1)).expect("short");
        self.log.appended[node.index()] = if self.rng.percent(80) { all } else { some };
        self.report_appended(node);
        self.log.commit();
        self.record_commits();
        if self.mutation == Some(Mutation::AppendedForApplied) {
            self.promise_early(node);
        }
    }

    pub(super) fn report_appended(&mut self, node: NodeId) {
        let (now, state) = (self.local(node), &mut self.nodes[node.index()]);
        let length = if self.mutation == Some(Mutation::AppliedShown) {
            state.applied
        } else {
            self.log.appended[node.index()]
        };
        if length > 0 {
            state.leases.voters_appended(now, self.log.voters_within(length).clone());
        }
        self.schedule_wake(node);
    }

    pub(super) fn record_commits(&mut self) {
        self.committed_at.resize(self.log.committed(), self.now);
    }

    /// [`Mutation::AppendedForApplied`]: a node promises when it has only appended the suspicion,
    /// and goes on answering.
    pub(super) fn promise_early(&mut self, node: NodeId) {
        let p = self.knobs.p;
        let suspected =
            self.log.membership().incarnation(p, INCARNATION).and_then(|member| member.suspected);
        let Some(at) = suspected.filter(|at| *at <= self.log.appended[node.index()] as u64) else {
            return;
        };
        let age = self.local(node).since(self.nodes[node.index()].last_answer);
        for to in (0..NODES).map(node_id) {
            self.send(
                node,
                to,
                LeaseMessage::Promise { node: p, incarnation: INCARNATION, at, age },
            );
        }
    }

    pub(super) fn apply(&mut self, node: NodeId) {
        self.later(2 * self.knobs.replication, Event::Apply(node));
        let stalled = self.now < self.nodes[node.index()].apply_stalled_until;
        if stalled || self.is_down(node) || self.runs_at(node) > self.now {
            return;
        }
        self.apply_upto(node, self.log.appended[node.index()].min(self.log.committed()));
        self.schedule_wake(node);
    }

    /// A node applies the log up to that entry.
    pub(super) fn apply_upto(&mut self, node: NodeId, upto: usize) {
        let now = self.local(node);
        for index in self.nodes[node.index()].applied + 1..=upto {
            let outcome = self.log.outcome(index).clone();
            let since = self.since_voters(now);
            let leases = &mut self.nodes[node.index()].leases;
            if let Some(change) = outcome.change {
                leases.membership_changed(now, change);
            }
            if let Some(voters) = outcome.voters {
                leases.voters_applied(since, voters);
            }
            leases.committed(self.log.committed() as u64);
            leases.applied(now, index as u64);
            self.nodes[node.index()].applied = index;
            self.observe(node, index, outcome.change);
        }
        self.report_appended(node);
    }

    pub(super) fn observe(&mut self, node: NodeId, index: usize, change: Option<MembershipChange>) {
        match change {
            Some(MembershipChange::Gone(..)) => {
                self.checker.evicted(self.now, self.log.voters_within(index).at > 1);
            }
            Some(MembershipChange::Suspected(_, _, at))
                if self.mutation == Some(Mutation::WaitFromCommit) =>
            {
                let age = Span(self.now - self.committed_at[index - 1]);
                let promise =
                    LeaseMessage::Promise { node: self.knobs.p, incarnation: INCARNATION, at, age };
                let now = self.local(node);
                for from in (0..NODES).map(node_id) {
                    self.nodes[node.index()].leases.on_message(
                        now,
                        from,
                        promise.clone(),
                        &mut Vec::new(),
                    );
                }
            }
            Some(MembershipChange::Unsuspected(..)) if node == self.knobs.p => {
                self.checker.verdict.cleared += 1
            }
            Some(
                MembershipChange::Added(..)
                | MembershipChange::Suspected(..)
                | MembershipChange::Unsuspected(..),
            )
            | None => {}
        }
    }

    /// When a node believes that it applied its voters.
    pub(super) fn since_voters(&self, now: Time) -> Time {
        if self.mutation == Some(Mutation::WaitBeforeVoters) { Time::ZERO } else { now }
    }
}
