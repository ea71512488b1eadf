//! A whole protocol in one file: p0 keeps the queue, and everybody asks it. The book's chapter
//! "Write your own protocol" goes through it.
//!
//! Whoever wants in sends ASK to p0, waits for ENTER, and sends DONE when it is out. p0 counts who
//! is inside and lets in at most k, in the order in which they asked. It needs channels that keep
//! their order, and it tolerates no crash: that of p0 stops everybody.
//!
//! Invariant: whoever is inside, or has an ENTER on its way that it will heed, is in `inside` at
//! p0, and there are never more than k of those.
//!
//! Cost: 3 messages and 2 delays an entry, none for p0 itself.

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

/// What the processes say. Each of its requests has a number, from 1 on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Said {
    /// To p0: I want in. Answered by `Enter`, sooner or later.
    Ask(u64),
    /// From p0: this request may go in.
    Enter(u64),
    /// To p0: this request is out again, or no longer wants in. Nobody answers.
    Done(u64),
}
kgate_core::kinds!(Said { Ask => "ask", Enter => "enter", Done => "done" });

/// Who keeps the queue.
const DESK: NodeId = NodeId(0);

/// One process. With `NAMED` it heeds only an ENTER for its present request. Without, it takes any:
/// the bug that the explorer finds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Coordinator<const NAMED: bool> {
    me: NodeId,
    nodes: u32,
    phase: Phase,
    /// The number of the present request, or of the last one.
    request: u64,
    /// What p0 knows; the others have none.
    desk: Option<Desk>,
}

/// The queue, and who is inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Desk {
    k: usize,
    inside: Vec<(NodeId, u64)>,
    queue: VecDeque<(NodeId, u64)>,
}

impl Desk {
    /// The next one to be let in, if there is room.
    fn next(&mut self) -> Option<(NodeId, u64)> {
        if self.inside.len() == self.k {
            return None;
        }
        let next = self.queue.pop_front()?;
        self.inside.push(next);
        Some(next)
    }

    fn knows(&self, node: NodeId) -> bool {
        self.inside.iter().chain(&self.queue).any(|&(other, _)| other == node)
    }

    fn forget(&mut self, done: (NodeId, u64)) {
        self.inside.retain(|&other| other != done);
        self.queue.retain(|&other| other != done);
    }
}

impl<const NAMED: bool> Protocol for Coordinator<NAMED> {
    const NAME: &'static str = "coordinator";
    type Message = Said;
    type Timer = Never;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        let desk = Desk { k: setup.k as usize, inside: Vec::new(), queue: VecDeque::new() };
        Self {
            me: setup.me,
            nodes: setup.nodes,
            phase: Phase::Idle,
            request: 0,
            desk: (setup.me == DESK).then_some(desk),
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
        self.tell_desk(Said::Ask(self.request), out)
    }

    /// The client comes out, or gives up.
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
        self.tell_desk(Said::Done(request), out)
    }

    /// p0 needs no message to speak to itself.
    fn tell_desk(&mut self, said: Said, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        if self.me == DESK {
            return self.at_desk(self.me, said, out);
        }
        out.send(DESK, said);
        Ok(())
    }

    fn on_enter(&mut self, request: u64, out: &mut Outbox<Self>) {
        // It may come too late: the client has given up, and perhaps asked again since.
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
        said: Said,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if from == self.me || from.0 >= self.nodes {
            return Err(Refusal::UnknownNode(from));
        }
        match said {
            Said::Enter(request) if from == DESK => {
                self.on_enter(request, out);
                Ok(())
            }
            Said::Enter(_) => Err(Refusal::Malformed("only p0 lets in")),
            Said::Ask(_) | Said::Done(_) => self.at_desk(from, said, out),
        }
    }

    fn at_desk(&mut self, from: NodeId, said: Said, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        let Some(desk) = &mut self.desk else { return Err(Refusal::Malformed("only p0 is asked")) };
        match said {
            Said::Ask(_) if desk.knows(from) => {
                return Err(Refusal::Malformed("one request at a time"));
            }
            Said::Ask(request) => desk.queue.push_back((from, request)),
            Said::Done(request) => desk.forget((from, request)),
            Said::Enter(_) => return Err(Refusal::Malformed("p0 is not let in by others")),
        }
        let mut own = None;
        while let Some((to, request)) = desk.next() {
            match to {
                DESK => own = Some(request),
                _ => out.send(to, Said::Enter(request)),
            }
        }
        if let Some(request) = own {
            self.on_enter(request, out);
        }
        Ok(())
    }
}

/// Every schedule of three processes that share one unit: each asks twice, and one request may be
/// withdrawn.
pub(crate) fn explored<const NAMED: bool>() -> Outcome {
    let bounds = Bounds { withdrawals: 1, ..Bounds::new(2) };
    explore::<Coordinator<NAMED>>(Setup::new(3, 1), bounds, Limits::default(), SearchOrder::Breadth)
}

/// Sixteen processes share three units; the first `requesters` ask, again and again, for 1000 time
/// units.
pub(crate) fn simulated(requesters: u32) -> Report {
    let mut config = Config::new(16, 3);
    config.load.requesters = requesters;
    run::<Coordinator<true>, NoDetector, Bucket>("coordinator", &config, None)
        .expect("a setting that can run")
}

/// What both drivers say, as it stands in the book.
pub(crate) fn story() -> String {
    let mut text = String::new();
    for (how, outcome) in
        [("without numbers", explored::<false>()), ("with numbers", explored::<true>())]
    {
        let verdict = match (outcome.is_wrong(), outcome.complete) {
            (true, _) => "wrong",
            (false, true) => "right in every schedule",
            (false, false) => "right so far",
        };
        writeln!(text, "explored, {how}: {} states, {verdict}", outcome.unique)
            .expect("a string takes it");
        for finding in outcome.properties.iter().filter(|finding| !finding.holds) {
            let Some(schedule) = &finding.counterexample else { continue };
            writeln!(text, "  violated: {}", finding.name).expect("a string takes it");
            for told in schedule {
                writeln!(text, "    {}", told.step).expect("a string takes it");
            }
        }
    }
    for (load, requesters) in [("low", 3), ("high", 16)] {
        let report = simulated(requesters);
        let per_grant = report.messages_per_grant.expect("somebody entered");
        let obtaining = report.obtaining.mean.expect("somebody entered");
        let wrong = report.violations.len();
        writeln!(
            text,
            "simulated, {load} load: {} grants, {per_grant:.2} messages a grant, obtaining {obtaining:.2}, {wrong} violations, {} unanswered",
            report.grants, report.unanswered
        )
        .expect("a string takes it");
    }
    text
}

#[allow(dead_code)] // The test of the book has this file as a module.
fn main() {
    print!("{}", story());
}
