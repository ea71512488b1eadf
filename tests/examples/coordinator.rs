//! A whole protocol in one file: p0 keeps a queue that all processes send their requests to. The
//! book's chapter "Write your own protocol" goes through it.
//!
//! A process that wants to enter sends REQUEST to p0, waits for GRANT, and sends RELEASE when it
//! leaves. p0 counts the holders and grants to at most k, in the order of the requests. The
//! protocol needs channels that keep their order, and it tolerates no crash: without p0 no process
//! enters.
//!
//! Invariant: every process that holds, or has a GRANT on its way that it will accept, is in
//! `holders` at p0, and there are never more than k of those.
//!
//! Cost: 3 messages and 2 delays per entry, none for p0 itself.

use std::collections::VecDeque;
use std::fmt::Write;

use kgate_check::{Bounds, Limits, Outcome, SearchOrder, explore};
use kgate_core::{
    Explorable, GrantId, Input, InputOf, Never, NodeId, Notice, Observation, Outbox, Phase,
    Protocol, Refusal, Setup, Time, TransientFaults,
};
use kgate_protocols::detect::NoDetector;
use kgate_sim::{Bucket, Config, Report, run};
use serde::{Deserialize, Serialize};

/// The messages. The requests of a process are numbered, from 1 on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum CoordinatorMessage {
    /// To p0: the sender wants to enter. Answered by `Grant`.
    Request(u64),
    /// From p0: this request is granted.
    Grant(u64),
    /// To p0: this request has ended, by a release or a withdrawal. There is no answer.
    Release(u64),
}
kgate_core::kinds!(CoordinatorMessage {
    Request => "request",
    Grant => "grant",
    Release => "release",
});

/// The process that keeps the queue.
const SERVER: NodeId = NodeId(0);

/// One process. With `NAMED` it accepts only a GRANT for its present request. Without, it accepts
/// any: the bug that the model checker finds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Coordinator<const NAMED: bool> {
    me: NodeId,
    nodes: u32,
    phase: Phase,
    /// The number of the present request, or of the last one.
    request: u64,
    /// The queue, at p0 only.
    queue: Option<Queue>,
}

/// The waiting requests and the holders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Queue {
    k: usize,
    holders: Vec<(NodeId, u64)>,
    waiting: VecDeque<(NodeId, u64)>,
}

impl Queue {
    /// The next request to grant, if fewer than k hold.
    fn next(&mut self) -> Option<(NodeId, u64)> {
        if self.holders.len() == self.k {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.holders.push(next);
        Some(next)
    }

    fn knows(&self, node: NodeId) -> bool {
        self.holders.iter().chain(&self.waiting).any(|&(other, _)| other == node)
    }

    fn remove(&mut self, ended: (NodeId, u64)) {
        self.holders.retain(|&other| other != ended);
        self.waiting.retain(|&other| other != ended);
    }
}

impl<const NAMED: bool> Protocol for Coordinator<NAMED> {
    const NAME: &'static str = "coordinator";
    type Message = CoordinatorMessage;
    type Timer = Never;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        let queue = Queue { k: setup.k as usize, holders: Vec::new(), waiting: VecDeque::new() };
        Self {
            me: setup.me,
            nodes: setup.nodes,
            phase: Phase::Idle,
            request: 0,
            queue: (setup.me == SERVER).then_some(queue),
        }
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        let unsupported = |what| Err(Refusal::Unsupported { protocol: Self::NAME, what });
        match input {
            Input::Acquire { weight } => self.on_acquire(weight, out),
            Input::Withdraw => self.on_end(Phase::Waiting, self.request, out),
            Input::Release { grant } => self.on_end(Phase::Holding, grant.0, out),
            Input::Deliver { from, message } => self.on_message(from, message, out),
            Input::Expire(never) => match never {},
            Input::Resize(_) => unsupported("another k"),
            Input::Reserved(_) => unsupported("reserved slots"),
            Input::Lease(_) => unsupported("leases"),
            Input::Applied(_) => unsupported("snapshots of a log"),
            Input::Lapse { .. } => unsupported("clients that leave without a release"),
            Input::Adopt(_) | Input::Confirm { .. } => unsupported("adoptions"),
            Input::Crashed { .. } | Input::Joined { .. } => unsupported("crashes"),
        }
    }

    fn observe(&self) -> Observation {
        let grant = (self.phase == Phase::Holding).then_some(GrantId(self.request));
        Observation { phase: self.phase, grant, ..Observation::default() }
    }
}

impl<const NAMED: bool> Explorable for Coordinator<NAMED> {}
impl<const NAMED: bool> TransientFaults for Coordinator<NAMED> {}

impl<const NAMED: bool> Coordinator<NAMED> {
    fn on_acquire(&mut self, weight: u32, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        if weight != 1 {
            return Err(Refusal::Weight { weight, most: 1 });
        }
        if self.phase != Phase::Idle {
            return Err(Refusal::Busy);
        }
        self.phase = Phase::Waiting;
        self.request += 1;
        self.send_to_server(CoordinatorMessage::Request(self.request), out)
    }

    /// The client releases, or withdraws.
    fn on_end(
        &mut self,
        phase: Phase,
        request: u64,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if (self.phase, self.request) != (phase, request) {
            return Err(Refusal::NoSuchRequest);
        }
        self.phase = Phase::Idle;
        self.send_to_server(CoordinatorMessage::Release(request), out)
    }

    /// p0 handles its own requests without a message.
    fn send_to_server(
        &mut self,
        message: CoordinatorMessage,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if self.me == SERVER {
            return self.serve(self.me, message, out);
        }
        out.send(SERVER, message);
        Ok(())
    }

    fn on_grant(&mut self, request: u64, out: &mut Outbox<Self>) {
        // It may be late: the client has withdrawn, and perhaps requested again since.
        if self.phase == Phase::Waiting && (!NAMED || request == self.request) {
            self.phase = Phase::Holding;
            out.notify(Notice::Granted { grant: GrantId(self.request), slots: None, fence: None });
        }
    }
}

impl<const NAMED: bool> Coordinator<NAMED> {
    fn on_message(
        &mut self,
        from: NodeId,
        message: CoordinatorMessage,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if from == self.me || from.0 >= self.nodes {
            return Err(Refusal::UnknownNode(from));
        }
        match message {
            CoordinatorMessage::Grant(request) if from == SERVER => {
                self.on_grant(request, out);
                Ok(())
            }
            CoordinatorMessage::Grant(_) => Err(Refusal::Malformed("only p0 grants")),
            CoordinatorMessage::Request(_) | CoordinatorMessage::Release(_) => {
                self.serve(from, message, out)
            }
        }
    }

    fn serve(
        &mut self,
        from: NodeId,
        message: CoordinatorMessage,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        let Some(queue) = &mut self.queue else {
            return Err(Refusal::Malformed("only p0 keeps a queue"));
        };
        match message {
            CoordinatorMessage::Request(_) if queue.knows(from) => {
                return Err(Refusal::Malformed("one request at a time"));
            }
            CoordinatorMessage::Request(request) => queue.waiting.push_back((from, request)),
            CoordinatorMessage::Release(request) => queue.remove((from, request)),
            CoordinatorMessage::Grant(_) => return Err(Refusal::Malformed("p0 needs no grant")),
        }
        let mut own = None;
        while let Some((to, request)) = queue.next() {
            match to {
                SERVER => own = Some(request),
                _ => out.send(to, CoordinatorMessage::Grant(request)),
            }
        }
        if let Some(request) = own {
            self.on_grant(request, out);
        }
        Ok(())
    }
}

/// Every schedule of three processes that share one slot: each requests twice, and one request may
/// be withdrawn.
pub(crate) fn explored<const NAMED: bool>() -> Outcome {
    let bounds = Bounds { withdrawals: 1, ..Bounds::new(2) };
    explore::<Coordinator<NAMED>>(Setup::new(3, 1), bounds, Limits::default(), SearchOrder::Breadth)
}

/// Sixteen processes share three slots; the first `requesters` request, again and again, for 1000
/// time units.
pub(crate) fn simulated(requesters: u32) -> Report {
    let mut config = Config::new(16, 3);
    config.load.requesters = requesters;
    run::<Coordinator<true>, NoDetector, Bucket>("coordinator", &config, None)
        .expect("a setting that can run")
}

/// The results of both drivers, as the book prints them.
pub(crate) fn results() -> String {
    let mut text = String::new();
    for (how, outcome) in
        [("any grant accepted", explored::<false>()), ("grants named", explored::<true>())]
    {
        let verdict = match (outcome.is_wrong(), outcome.complete) {
            (true, _) => "wrong",
            (false, true) => "correct in every schedule",
            (false, false) => "correct so far",
        };
        writeln!(text, "explored, {how}: {} states, {verdict}", outcome.unique)
            .expect("writing to a string");
        for finding in outcome.properties.iter().filter(|finding| !finding.holds) {
            let Some(schedule) = &finding.counterexample else { continue };
            writeln!(text, "  violated: {}", finding.name).expect("writing to a string");
            for step in schedule {
                writeln!(text, "    {}", step.step).expect("writing to a string");
            }
        }
    }
    for (load, requesters) in [("low", 3), ("high", 16)] {
        let report = simulated(requesters);
        let per_grant = report.messages_per_grant.expect("there are grants");
        let obtaining = report.obtaining.mean.expect("there are grants");
        let wrong = report.violations.len();
        writeln!(
            text,
            "simulated, {load} load: {} grants, {per_grant:.2} messages per grant, obtaining \
             time {obtaining:.2}, {wrong} violations, {} unanswered",
            report.grants, report.unanswered
        )
        .expect("writing to a string");
    }
    text
}

#[allow(dead_code)] // The test of the book has this file as a module.
fn main() {
    print!("{}", results());
}
