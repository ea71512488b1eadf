//! Requests of others: what they are told, what they are owed, and the relays of the tree.

use alloc::boxed::Box;
use alloc::vec::Vec;

use kgate_core::NodeId;
use smallvec::SmallVec;

use super::debts::Debt;
use super::defects::{S1, S8, S12, S15, SP2, SP3};
use super::message::{About, Answers, Report, Scope, SlotsMessage};
use super::pending::Heed;
use super::relay::Relay;
use super::stamp::Stamp;
use super::{Out, Slots, SlotsTimer};

impl Slots {
    /// The snapshot: what of this process stands in the way of a request.
    fn report(&self, stamp: Stamp) -> Report {
        let mut holds = self.grants.older_than(stamp);
        if !self.defects.has(SP3) {
            holds.extend(&self.reserved); // Decided before any request that is out, by whomever.
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
            self.clock = self.clock.max(about.stamp.clock); // What is asked from here on comes behind.
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
            self.debts.call(root); // Not answered once more, so nothing else counts as told.
            return;
        }
        let report = self.report(about.stamp);
        let puts_off = self.options.defer && self.flat() && report.ahead;
        self.owe(about, weight, &report, !puts_off, called);
        if !puts_off {
            self.pass_down(parent, (about, weight, scope), report, out);
        }
    }

    /// Whether a newer request of the same process is known here: nobody waits for an answer to
    /// this one.
    fn moved_on(&self, about: About) -> bool {
        let owed = self.debts.of(about.stamp.node);
        owed.is_some_and(|debt| debt.about.stamp > about.stamp) || self.relays.has_newer(about)
    }

    /// A relay that waits for an answer gets an empty one. Whoever asks for itself has moved on.
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

    /// Passes a request on to the children, if it has any; without, the answer goes back at once.
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

    fn heed(&self) -> Heed {
        Heed { newest: !self.defects.has(S1), incarnations: !self.defects.has(S12) }
    }

    pub(super) fn on_agg(
        &mut self,
        from: NodeId,
        about: About,
        mut answers: Answers,
        out: &mut Out,
    ) {
        // Of a higher view there may be some that nobody here has asked; whoever this is passed on
        // to may not know them either.
        answers.cut(self.fleet.nodes);
        if about.stamp.node != self.me {
            self.relays.answered(about, self.me, from, &answers);
            self.flush(out);
            return;
        }
        let heed = self.heed();
        let Some(pending) = self.pending.as_mut().filter(|pending| pending.stamp == about.stamp)
        else {
            return;
        };
        pending.take(answers, &self.fleet, heed);
        pending.wait.remove(from);
        self.cover(out);
        self.settle(out);
    }

    pub(super) fn on_update(&mut self, about: About, report: Report, out: &mut Out) {
        let heed = self.heed();
        let Some(pending) = self.pending.as_mut().filter(|pending| pending.stamp == about.stamp)
        else {
            return;
        };
        pending.take_report(report, &self.fleet, heed);
        self.settle(out);
    }

    /// Answers that are complete go up the tree.
    pub(super) fn flush(&mut self, out: &mut Out) {
        for relay in self.relays.take(|relay| relay.wait.is_empty()) {
            self.send_answers(relay.about, relay.parent, relay.answers(self.me), out);
            if self.relays.is_empty() && self.options.ask_again.is_some() {
                out.disarm(SlotsTimer::PassOn);
            }
        }
    }

    /// On links that lose messages: what has come goes up if nothing more has for a while; the root
    /// asks the rest itself.
    pub(super) fn pass_on(&mut self, out: &mut Out) {
        for relay in self.relays.take(|relay| core::mem::replace(&mut relay.aged, true)) {
            self.send_answers(relay.about, relay.parent, relay.answers(self.me), out);
        }
        if !self.relays.is_empty() {
            self.arm(SlotsTimer::PassOn, out);
        }
    }

    /// Something has changed: whoever was told otherwise is told now, if it can make use of that;
    /// first whoever has waited longest.
    pub(super) fn update(&mut self, out: &mut Out) {
        if self.debts.is_empty() {
            return;
        }
        let mut debts = core::mem::take(&mut self.debts);
        let mut news = Vec::new();
        debts.retain(|debt| {
            let report = self.report(debt.about.stamp);
            let same = (report.ahead, &report.holds) == (debt.ahead, &debt.holds);
            // That something is kept must be known to whoever may need it; that it is used again,
            // it learns when it asks for it.
            let known = debt.sent && same && (debt.idle || !report.idle);
            // Who waits for this process to be decided waits on, whatever else has changed.
            let waits_on = report.ahead && (debt.ahead || !debt.sent);
            // Decided, and nothing is left for anybody: nobody can use that.
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
