//! Requests of others: the snapshots that they get, the changes that they are owed, and the relays
//! of the tree.

use alloc::boxed::Box;
use alloc::vec::Vec;

use kgate_core::NodeId;
use smallvec::SmallVec;

use super::debts::Debt;
use super::defects::{S1, S8, S12, S15, SP2, SP3};
use super::message::{About, Answers, Report, Scope, SlotsMessage};
use super::pending::Checks;
use super::relay::Relay;
use super::stamp::Stamp;
use super::{Out, Slots, SlotsTimer};

impl Slots {
    /// The snapshot: the obstacles at this process to a request.
    fn report(&self, stamp: Stamp) -> Report {
        let mut holds = self.grants.older_than(stamp);
        if !self.defects.has(SP3) {
            // Held in the log: decided before any request that is out.
            holds.extend(&self.reserved);
        }
        Report {
            node: self.me,
            incarnation: self.incarnation.unwrap_or_default(),
            version: self.version,
            holds,
            ahead: self.pending.as_ref().is_some_and(|pending| pending.stamp < stamp),
            idle: self.grants.keeps_older_than(stamp),
        }
    }

    pub(super) fn on_request(
        &mut self,
        parent: NodeId,
        about: About,
        weight: u32,
        scope: Scope,
        out: &mut Out,
    ) {
        let root = about.stamp.node;
        if self.moved_on(about) {
            self.answer_nothing(about, parent, out);
            return;
        }
        if !self.defects.has(SP2) {
            // Every later request of this process is ordered behind.
            self.clock = self.clock.max(about.stamp.clock);
        }
        let older =
            |relay: &mut Relay| relay.about.stamp.node == root && relay.about.stamp < about.stamp;
        for relay in self.relays.take(older) {
            self.answer_nothing(relay.about, relay.parent, out);
        }
        let called = self.debts.of(root).is_some_and(|debt| debt.about == about && debt.sent);
        if called || !self.is_roomy(weight) {
            self.drop_kept(|_| true, out);
        }
        if self.relays.has(about, parent) {
            self.debts.call(root); // Not answered again, so no other answer counts as sent.
            return;
        }
        let report = self.report(about.stamp);
        let puts_off = self.options.defer && self.flat() && report.ahead;
        self.owe(about, weight, &report, !puts_off, called);
        if !puts_off {
            self.pass_down(parent, (about, weight, scope), report, out);
        }
    }

    /// Whether a newer request of the same process is known here: no process waits for an answer to
    /// this one.
    fn moved_on(&self, about: About) -> bool {
        let owed = self.debts.of(about.stamp.node);
        owed.is_some_and(|debt| debt.about.stamp > about.stamp) || self.relays.has_newer(about)
    }

    /// Sends an empty answer to a relay that waits for one. A process that requests for itself does
    /// not wait any more.
    pub(super) fn answer_nothing(&self, about: About, parent: NodeId, out: &mut Out) {
        if parent != about.stamp.node && !self.defects.has(S8) {
            self.send_answers(about, parent, Answers::default(), out);
        }
    }

    fn send_answers(&self, about: About, to: NodeId, answers: Answers, out: &mut Out) {
        out.send(to, SlotsMessage::Agg { head: self.head(), about, answers: Box::new(answers) });
    }

    fn owe(&mut self, about: About, weight: u32, report: &Report, sent: bool, called: bool) {
        if report.is_empty() {
            self.debts.clear(about.stamp.node);
        } else {
            let (holds, ahead, idle) = (report.holds.clone(), report.ahead, report.idle);
            self.debts.set(Debt { about, holds, ahead, idle, weight, called, sent });
        }
    }

    /// Forwards a request to the children; without children the answer goes back at once.
    fn pass_down(
        &mut self,
        parent: NodeId,
        (about, weight, scope): (About, u32, Scope),
        report: Report,
        out: &mut Out,
    ) {
        let mut wait = SmallVec::new();
        if let Scope::Clusters(height) = scope {
            let head = self.head();
            let neighbours = self.fleet.neighbours(self.me, height).into_iter();
            for (child, cluster) in neighbours.filter(|(child, _)| *child != about.stamp.node) {
                let scope = Scope::Clusters(cluster - 1);
                out.send(child, SlotsMessage::Request { head, about, weight, scope });
                wait.push(child);
            }
        }
        if wait.is_empty() {
            self.send_answers(about, parent, Answers::of(report), out);
            return;
        }
        if self.relays.is_empty() {
            self.arm(SlotsTimer::PassOn, out);
        }
        self.relays.push(Relay::new(about, parent, wait, report));
    }

    fn checks(&self) -> Checks {
        Checks { newest: !self.defects.has(S1), incarnations: !self.defects.has(S12) }
    }

    pub(super) fn on_agg(
        &mut self,
        from: NodeId,
        about: About,
        mut answers: Answers,
        out: &mut Out,
    ) {
        // In a higher view there may be members to which no process here has sent the request; the
        // children may not know them either.
        answers.cut(self.fleet.nodes);
        if about.stamp.node != self.me {
            self.relays.answered(about, self.me, from, &answers);
            self.flush(out);
            return;
        }
        let checks = self.checks();
        let Some(pending) = self.pending.as_mut().filter(|pending| pending.stamp == about.stamp)
        else {
            return;
        };
        pending.take(answers, &self.fleet, checks);
        pending.wait.remove(from);
        self.cover(out);
        self.settle(out);
    }

    pub(super) fn on_update(&mut self, about: About, report: Report, out: &mut Out) {
        let checks = self.checks();
        let Some(pending) = self.pending.as_mut().filter(|pending| pending.stamp == about.stamp)
        else {
            return;
        };
        pending.take_report(report, &self.fleet, checks);
        self.settle(out);
    }

    /// Sends complete answers up the tree.
    pub(super) fn flush(&mut self, out: &mut Out) {
        for relay in self.relays.take(|relay| relay.wait.is_empty()) {
            self.send_answers(relay.about, relay.parent, relay.answers(self.me), out);
            if self.relays.is_empty() && self.options.ask_again.is_some() {
                out.disarm(SlotsTimer::PassOn);
            }
        }
    }

    /// On links that lose messages: the answers so far go up if no more have arrived for a while;
    /// the root sends the request to the remaining processes itself.
    pub(super) fn pass_on(&mut self, out: &mut Out) {
        for relay in self.relays.take(|relay| core::mem::replace(&mut relay.aged, true)) {
            self.send_answers(relay.about, relay.parent, relay.answers(self.me), out);
        }
        if !self.relays.is_empty() {
            self.arm(SlotsTimer::PassOn, out);
        }
    }

    /// The state has changed: every process that was told otherwise gets an update if it can use
    /// it; the one that has waited longest comes first.
    pub(super) fn update(&mut self, out: &mut Out) {
        if self.debts.is_empty() {
            return;
        }
        let mut debts = core::mem::take(&mut self.debts);
        let mut news = Vec::new();
        debts.retain(|debt| {
            let report = self.report(debt.about.stamp);
            let same = (report.ahead, &report.holds) == (debt.ahead, &debt.holds);
            // A process that may need a slot must learn that it is cached. That it is in use again,
            // the process learns when it repeats its request.
            let known = debt.sent && same && (debt.idle || !report.idle);
            // A requester that waits for the decision of this process keeps waiting, whatever else
            // has changed.
            let waits_on = report.ahead && (debt.ahead || !debt.sent);
            // Decided, and no slot is left for others: no process can use that news.
            let was_ahead = debt.ahead || !debt.sent;
            let all = report.holds.covers(self.k)
                || self.defects.has(S15) && report.holds.len() >= self.k;
            let useless = self.options.quiet && !report.ahead && was_ahead && all;
            if known || waits_on || useless {
                return true;
            }
            let (head, about) = (self.head(), debt.about);
            (debt.holds, debt.ahead, debt.idle) = (report.holds.clone(), report.ahead, report.idle);
            let owed = !report.is_empty();
            let message = if debt.sent {
                SlotsMessage::Update { head, about, report: Box::new(report) }
            } else {
                SlotsMessage::Agg { head, about, answers: Box::new(Answers::of(report)) }
            };
            debt.sent = true;
            news.push((about.stamp, message));
            owed
        });
        self.debts = debts;
        news.sort_unstable_by_key(|(stamp, _)| *stamp);
        news.into_iter().for_each(|(stamp, message)| out.send(stamp.node, message));
    }
}
