//! How the log reaches the nodes: late, in pieces, applied later still.

use kgate_core::{NodeId, Span, Time};

use super::{Event, Flaw, INCARNATION, NODES, World, node_id};
use crate::lease::LeaseMessage;
use crate::membership::MembershipChange;

impl World {
    /// The log reaches a node.
    pub(super) fn replicate(&mut self, node: NodeId) {
        self.later(2 * self.knobs.replication, Event::Replicate(node));
        let here = self.now < self.nodes[node.index()].append_stalled_until;
        let untold = self.knobs.untold
            && self.knobs.first.contains(&node)
            && node != self.knobs.p
            && !self.log.voters_within(self.log.len()).has(node);
        if here || untold || self.is_down(node) || self.runs_at(node) > self.now {
            return;
        }
        let (had, all) = (self.log.appended[node.index()], self.log.len());
        let some = had + usize::try_from(self.rng.below((all - had) as u64 + 1)).expect("short");
        self.log.appended[node.index()] = if self.rng.percent(80) { all } else { some };
        self.tell_appended(node);
        self.log.commit();
        self.note_commits();
        if self.flaw == Some(Flaw::AppendedForApplied) {
            self.promise_early(node);
        }
    }

    pub(super) fn tell_appended(&mut self, node: NodeId) {
        let (now, state) = (self.local(node), &mut self.nodes[node.index()]);
        let length = if self.flaw == Some(Flaw::AppliedShown) {
            state.applied
        } else {
            self.log.appended[node.index()]
        };
        if length > 0 {
            state.leases.voters_appended(now, self.log.voters_within(length).clone());
        }
        self.settle(node);
    }

    pub(super) fn note_commits(&mut self) {
        self.committed_at.resize(self.log.committed(), self.now);
    }

    /// A flaw: a node promises what it has appended, not applied, and goes on answering.
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
        let here = self.now < self.nodes[node.index()].apply_stalled_until;
        if here || self.is_down(node) || self.runs_at(node) > self.now {
            return;
        }
        self.feed(node, self.log.appended[node.index()].min(self.log.committed()));
        self.settle(node);
    }

    /// A node applies the log up to there.
    pub(super) fn feed(&mut self, node: NodeId, upto: usize) {
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
            self.note(node, index, outcome.change);
        }
        self.tell_appended(node);
    }

    pub(super) fn note(&mut self, node: NodeId, index: usize, change: Option<MembershipChange>) {
        match change {
            Some(MembershipChange::Gone(..)) => {
                self.checker.evicted(self.now, self.log.voters_within(index).at > 1);
            }
            Some(MembershipChange::Suspected(_, _, at))
                if self.flaw == Some(Flaw::WaitFromCommit) =>
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

    /// When a node believes to have applied its voters.
    pub(super) fn since_voters(&self, now: Time) -> Time {
        if self.flaw == Some(Flaw::WaitBeforeVoters) { Time::ZERO } else { now }
    }
}
