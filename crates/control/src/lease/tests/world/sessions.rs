//! The client, its child and its two killers, and p's desk: S1 to S4 as the product does them.

use kgate_core::{Span, Time};

use super::client::{Child, Killer, Plea, Word};
use super::clock::Real;
use super::{Event, Flaw, LEASE, NODES, World};

impl World {
    fn client_machine(&self) -> usize {
        if self.knobs.client_at_node { self.knobs.p.index() } else { NODES }
    }

    fn client_now(&self) -> Time {
        self.machines[self.client_machine()].local(self.now)
    }

    fn client_real(&self, local: Time) -> Real {
        self.machines[self.client_machine()].real(local)
    }

    /// When the client's machine last slept.
    pub(super) fn slept(&self) -> (Real, Real) {
        let machine = &self.machines[self.client_machine()];
        (machine.asleep_from, machine.asleep_until)
    }

    /// Whether that process of the client runs; else the event comes when it does.
    fn client_ready(&mut self, who: Killer, event: Event) -> bool {
        let freezes = self.knobs.front_freezes == (who == Killer::Front);
        let frozen = if freezes { self.client.frozen_until } else { 0 };
        let runs = self.machines[self.client_machine()].asleep_until.max(frozen);
        if runs > self.now {
            self.at(runs, event);
        }
        runs <= self.now
    }

    fn plead(&mut self, plea: Plea) {
        if !self.rng.percent(self.knobs.loss) {
            let within = self.delay();
            self.later(within, Event::Plea(plea));
        }
    }

    fn say(&mut self, word: Word, within: u64) {
        if !self.rng.percent(self.knobs.loss) {
            self.later(within, Event::Word(word));
        }
    }

    /// S1: the guard renews each I_s.
    pub(super) fn renew(&mut self) {
        // Without a guard the front does everything.
        let who = if self.flaw == Some(Flaw::NoGuard) { Killer::Front } else { Killer::Guard };
        if !self.client_ready(who, Event::Renew) {
            return;
        }
        let now = self.client_now();
        if self.client.child.is_none()
            && self.client.deadline > Time::ZERO
            && now >= self.client.deadline
        {
            self.new_session();
        }
        self.plead(Plea::Renew { session: self.client.session, sent: now });
        let next = self.client_real(now + self.knobs.timing.session_ping);
        self.at(next, Event::Renew);
    }

    fn new_session(&mut self) {
        self.client.session += 1;
        self.client.deadline = Time::ZERO;
    }

    /// p's side of a session.
    pub(super) fn on_plea(&mut self, plea: Plea) {
        let p = self.knobs.p;
        if !self.ready(p, || Event::Plea(plea)) {
            return;
        }
        match plea {
            Plea::Renew { session, sent } => {
                if session > self.desk.session && self.desk.grant.is_none() {
                    self.desk.session = session;
                    self.desk.open = true;
                    self.desk.gone_at = self.local(p) + Span(LEASE);
                }
                if session == self.desk.session && self.desk.open {
                    self.extend(session, sent);
                } else if session == self.desk.session {
                    let within = self.delay();
                    self.say(Word::Lost { session }, within);
                }
            }
            Plea::Release { grant } => {
                if self.desk.grant == Some(grant) {
                    self.free();
                }
            }
        }
    }

    /// S1: what is left of p's lease, at most L. S4: the client is gone so much later.
    fn extend(&mut self, session: u64, sent: Time) {
        let Some(valid_for) = self.valid_for() else { return };
        let p = self.knobs.p;
        let eps = u64::from(self.knobs.timing.clock_error);
        let stretched = u128::from(valid_for.0) * u128::from(1_000_000 + eps);
        let stretched = stretched.div_ceil(u128::from(1_000_000 - eps));
        let gone = self.local(p) + Span(u64::try_from(stretched).expect("short") + 2);
        self.desk.gone_at = self.desk.gone_at.max(gone);
        let count = self.machines[p.index()].real(self.desk.gone_at);
        self.at(count, Event::Count);
        let within = self.delay();
        self.say(Word::Valid { session, sent, valid_for }, within);
    }

    fn valid_for(&self) -> Option<Span> {
        let leases = &self.nodes[self.knobs.p.index()].leases;
        let (now, length) = (self.local(self.knobs.p), Span(LEASE));
        if self.flaw == Some(Flaw::SessionNotCut) {
            return Some(length);
        }
        leases.holds(now).then(|| leases.end().since(now).min(length))
    }

    /// N5: grants, if the lease allows it at this very instant.
    pub(super) fn serve(&mut self) {
        let p = self.knobs.p;
        if !self.ready(p, || Event::Serve) {
            return;
        }
        self.later(LEASE / 10, Event::Serve);
        let now = self.local(p);
        let may = self.nodes[p.index()].leases.may_grant(now);
        if may && self.desk.open && self.desk.grant.is_none() {
            self.desk.grants += 1;
            self.desk.grant = Some(self.desk.grants);
            let (session, grant) = (self.desk.session, self.desk.grants);
            let valid_for = self.valid_for().unwrap_or(Span::ZERO);
            // p may freeze between the look at the clock and the sending.
            let within = if self.rng.percent(10) { 2 * LEASE } else { self.delay() };
            self.say(Word::Grant { session, grant, valid_for }, within);
        }
    }

    /// S4 (b).
    pub(super) fn count(&mut self) {
        let p = self.knobs.p;
        if self.ready(p, || Event::Count) && self.desk.open && self.local(p) >= self.desk.gone_at {
            self.desk.open = false;
            self.free();
        }
    }

    /// p counts its grant as given back.
    pub(super) fn free(&mut self) {
        if let Some(grant) = self.desk.grant.take() {
            self.checker.freed(self.now, grant);
        }
    }

    /// The client's side.
    pub(super) fn on_word(&mut self, word: Word) {
        let who = if self.flaw == Some(Flaw::NoGuard) { Killer::Front } else { Killer::Guard };
        if !self.client_ready(who, Event::Word(word)) {
            return;
        }
        match word {
            Word::Valid { session, sent, valid_for } => {
                if session == self.client.session {
                    let from = if self.flaw == Some(Flaw::SessionFromArrival) {
                        self.client_now()
                    } else {
                        sent
                    };
                    self.extend_deadline(from + valid_for);
                }
            }
            Word::Grant { session, grant, valid_for } => {
                if session == self.client.session && self.client.child.is_none() {
                    if self.flaw == Some(Flaw::GrantTrusted) {
                        self.extend_deadline(self.client_now() + valid_for);
                    }
                    self.on_grant(grant);
                }
            }
            Word::Lost { session } => {
                if session == self.client.session {
                    match self.client.child {
                        Some(_) => self.kill(),
                        None => self.new_session(),
                    }
                }
            }
        }
    }

    /// S2: a grant that comes too late is given back.
    fn on_grant(&mut self, grant: u64) {
        let (now, timing) = (self.client_now(), &self.knobs.timing);
        if now + timing.grace + timing.kill >= self.client.deadline {
            self.plead(Plea::Release { grant });
            return;
        }
        self.client.child = Some(Child { grant, killed: false });
        self.checker.child_starts(self.now, grant);
        self.watch();
        // Some children end by themselves.
        if self.rng.percent(15) {
            self.later(LEASE, Event::Death);
        }
    }

    fn extend_deadline(&mut self, deadline: Time) {
        if deadline > self.client.deadline {
            self.client.deadline = deadline;
            self.watch();
        }
    }

    /// S3: both killers look at D - K.
    fn watch(&mut self) {
        let kill_at = Time(self.client.deadline.0.saturating_sub(self.knobs.timing.kill.0));
        let real = self.client_real(kill_at);
        self.at(real, Event::Look(Killer::Front));
        if self.flaw != Some(Flaw::NoGuard) {
            self.at(real, Event::Look(Killer::Guard));
        }
    }

    pub(super) fn look(&mut self, killer: Killer) {
        if self.client.child.is_none_or(|child| child.killed)
            || !self.client_ready(killer, Event::Look(killer))
        {
            return;
        }
        if self.client_now() + self.knobs.timing.kill >= self.client.deadline {
            self.kill();
        }
    }

    /// Dead within K; a machine that slept past D kills as soon as it wakes.
    fn kill(&mut self) {
        let Some(child) = &mut self.client.child else { return };
        if child.killed {
            return;
        }
        child.killed = true;
        let now = self.client_now();
        let kill = self.knobs.timing.kill.0;
        let takes = if self.rng.percent(50) { kill } else { self.rng.below(kill) };
        let dead = (now + Span(takes)).min(now.max(self.client.deadline));
        self.at(self.client_real(dead), Event::Death);
    }

    pub(super) fn death(&mut self) {
        let asleep = self.machines[self.client_machine()].asleep_until;
        if asleep > self.now {
            self.at(asleep, Event::Death);
            return;
        }
        if let Some(child) = self.client.child.take() {
            self.checker.child_ends(self.now, child.grant, self.slept());
            self.plead(Plea::Release { grant: child.grant });
        }
    }
}
