//! The client, its child and its two watchdogs, and p's side of the session: S1 to S4 as in the
//! product.

use kgate_core::{Span, Time};

use super::client::{Child, ClientRequest, NodeReply, Watchdog};
use super::clock::Real;
use super::{Event, Harness, LEASE, Mutation, NODES};

impl Harness {
    fn client_machine(&self) -> usize {
        if self.knobs.client_at_node { self.knobs.p.index() } else { NODES }
    }

    fn client_now(&self) -> Time {
        self.machines[self.client_machine()].local(self.now)
    }

    fn client_real(&self, local: Time) -> Real {
        self.machines[self.client_machine()].real(local)
    }

    /// When the client's machine last fell asleep and woke.
    pub(super) fn slept(&self) -> (Real, Real) {
        let machine = &self.machines[self.client_machine()];
        (machine.asleep_from, machine.asleep_until)
    }

    /// Whether that process of the client runs. If not, the event is postponed until it does.
    fn client_ready(&mut self, who: Watchdog, event: Event) -> bool {
        let freezes = self.knobs.front_freezes == (who == Watchdog::Front);
        let frozen = if freezes { self.client.frozen_until } else { 0 };
        let runs = self.machines[self.client_machine()].asleep_until.max(frozen);
        if runs > self.now {
            self.at(runs, event);
        }
        runs <= self.now
    }

    fn send_to_node(&mut self, request: ClientRequest) {
        if !self.rng.percent(self.knobs.loss) {
            let within = self.delay();
            self.later(within, Event::ClientRequest(request));
        }
    }

    fn send_to_client(&mut self, reply: NodeReply, within: u64) {
        if !self.rng.percent(self.knobs.loss) {
            self.later(within, Event::NodeReply(reply));
        }
    }

    /// S1: the guard renews each I_s.
    pub(super) fn renew(&mut self) {
        // [`Mutation::NoGuard`]: the front does everything.
        let who = if self.mutation == Some(Mutation::NoGuard) {
            Watchdog::Front
        } else {
            Watchdog::Guard
        };
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
        self.send_to_node(ClientRequest::Renew { session: self.client.session, sent: now });
        let next = self.client_real(now + self.knobs.timing.session_ping);
        self.at(next, Event::Renew);
    }

    fn new_session(&mut self) {
        self.client.session += 1;
        self.client.deadline = Time::ZERO;
    }

    /// A message of the client reaches p.
    pub(super) fn on_client_request(&mut self, request: ClientRequest) {
        let p = self.knobs.p;
        if !self.ready(p, || Event::ClientRequest(request)) {
            return;
        }
        match request {
            ClientRequest::Renew { session, sent } => {
                if session > self.server.session && self.server.grant.is_none() {
                    self.server.session = session;
                    self.server.open = true;
                    self.server.gone_at = self.local(p) + Span(LEASE);
                }
                if session == self.server.session && self.server.open {
                    self.extend(session, sent);
                } else if session == self.server.session {
                    let within = self.delay();
                    self.send_to_client(NodeReply::Lost { session }, within);
                }
            }
            ClientRequest::Release { grant } => {
                if self.server.grant == Some(grant) {
                    self.free();
                }
            }
        }
    }

    /// S1: the session is extended by what is left of p's lease, at most L. S4: the client counts
    /// as gone only (1+eps)/(1-eps) times that later.
    fn extend(&mut self, session: u64, sent: Time) {
        let Some(valid_for) = self.valid_for() else { return };
        let p = self.knobs.p;
        let eps = u64::from(self.knobs.timing.clock_error);
        let stretched = u128::from(valid_for.0) * u128::from(1_000_000 + eps);
        let stretched = stretched.div_ceil(u128::from(1_000_000 - eps));
        let gone = self.local(p) + Span(u64::try_from(stretched).expect("short") + 2);
        self.server.gone_at = self.server.gone_at.max(gone);
        let count = self.machines[p.index()].real(self.server.gone_at);
        self.at(count, Event::SessionTimeout);
        let within = self.delay();
        self.send_to_client(NodeReply::Valid { session, sent, valid_for }, within);
    }

    fn valid_for(&self) -> Option<Span> {
        let leases = &self.nodes[self.knobs.p.index()].leases;
        let (now, length) = (self.local(self.knobs.p), Span(LEASE));
        if self.mutation == Some(Mutation::SessionNotCut) {
            return Some(length);
        }
        leases.holds(now).then(|| leases.end().since(now).min(length))
    }

    /// N5: grants, if the lease allows it at this instant.
    pub(super) fn serve(&mut self) {
        let p = self.knobs.p;
        if !self.ready(p, || Event::Serve) {
            return;
        }
        self.later(LEASE / 10, Event::Serve);
        let now = self.local(p);
        let may = self.nodes[p.index()].leases.may_grant(now);
        if may && self.server.open && self.server.grant.is_none() {
            self.server.grants += 1;
            self.server.grant = Some(self.server.grants);
            let (session, grant) = (self.server.session, self.server.grants);
            let valid_for = self.valid_for().unwrap_or(Span::ZERO);
            // p may freeze between checking the lease and sending the grant.
            let within = if self.rng.percent(10) { 2 * LEASE } else { self.delay() };
            self.send_to_client(NodeReply::Grant { session, grant, valid_for }, within);
        }
    }

    /// S4 (b): the client counts as gone when its session has timed out.
    pub(super) fn on_session_timeout(&mut self) {
        let p = self.knobs.p;
        if self.ready(p, || Event::SessionTimeout)
            && self.server.open
            && self.local(p) >= self.server.gone_at
        {
            self.server.open = false;
            self.free();
        }
    }

    /// p counts its grant as returned.
    pub(super) fn free(&mut self) {
        if let Some(grant) = self.server.grant.take() {
            self.checker.freed(self.now, grant);
        }
    }

    /// A message of p reaches the client.
    pub(super) fn on_node_reply(&mut self, reply: NodeReply) {
        let who = if self.mutation == Some(Mutation::NoGuard) {
            Watchdog::Front
        } else {
            Watchdog::Guard
        };
        if !self.client_ready(who, Event::NodeReply(reply)) {
            return;
        }
        match reply {
            NodeReply::Valid { session, sent, valid_for } => {
                if session == self.client.session {
                    let from = if self.mutation == Some(Mutation::SessionFromArrival) {
                        self.client_now()
                    } else {
                        sent
                    };
                    self.extend_deadline(from + valid_for);
                }
            }
            NodeReply::Grant { session, grant, valid_for } => {
                if session == self.client.session && self.client.child.is_none() {
                    if self.mutation == Some(Mutation::GrantTrusted) {
                        self.extend_deadline(self.client_now() + valid_for);
                    }
                    self.on_grant(grant);
                }
            }
            NodeReply::Lost { session } => {
                if session == self.client.session {
                    match self.client.child {
                        Some(_) => self.kill(),
                        None => self.new_session(),
                    }
                }
            }
        }
    }

    /// S2: a grant that comes too late is returned.
    fn on_grant(&mut self, grant: u64) {
        let (now, timing) = (self.client_now(), &self.knobs.timing);
        if now + timing.grace + timing.kill >= self.client.deadline {
            self.send_to_node(ClientRequest::Release { grant });
            return;
        }
        self.client.child = Some(Child { grant, killed: false });
        self.checker.child_starts(self.now, grant);
        self.watch();
        // Some children exit by themselves.
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

    /// S3: both watchdogs check the deadline at D - K.
    fn watch(&mut self) {
        let kill_at = Time(self.client.deadline.0.saturating_sub(self.knobs.timing.kill.0));
        let real = self.client_real(kill_at);
        self.at(real, Event::Watchdog(Watchdog::Front));
        if self.mutation != Some(Mutation::NoGuard) {
            self.at(real, Event::Watchdog(Watchdog::Guard));
        }
    }

    pub(super) fn check_deadline(&mut self, watchdog: Watchdog) {
        if self.client.child.is_none_or(|child| child.killed)
            || !self.client_ready(watchdog, Event::Watchdog(watchdog))
        {
            return;
        }
        if self.client_now() + self.knobs.timing.kill >= self.client.deadline {
            self.kill();
        }
    }

    /// The child is dead within K. A machine that slept past D kills it as soon as it wakes.
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
            self.send_to_node(ClientRequest::Release { grant: child.grant });
        }
    }
}
