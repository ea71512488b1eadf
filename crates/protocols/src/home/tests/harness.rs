//! A whole system under test: processes, the log that each applies at its own time, clients that
//! believe in slots, and the oracle.
//!
//! A run is a list of steps, each three numbers, so that a failing run can be shortened by leaving
//! steps out. Real time is abstract: a client stops believing when the run says so, and a node is
//! evicted only when no client believes by its lease (H18). After the steps all faults end, and
//! then every waiting request must be served and nothing may be left behind.

/// Records an event of a run, if the run is traced.
macro_rules! trace {
    ($harness:expr, $($what:tt)*) => {
        if let Some(trace) = &mut $harness.trace { trace.push(alloc::format!($($what)*)); }
    };
}

mod adoptions;
mod cuts;
mod healing;
mod log;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use kgate_core::{
    Defects, Fence, GrantId, Incarnation, Input, LogIndex, LogView, NodeId, Notice, SlotOptions,
    Span,
};

use crate::harness::{Net, setup};
use crate::home::Home;

/// The possible steps of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) nodes: u32,
    pub(super) k: u32,
    pub(super) keep: bool,
    pub(super) cohort: u16,
    pub(super) pass: bool,
    pub(super) witness: bool,
    pub(super) defects: Defects,
    pub(super) omissions: Omissions,
    /// The least share of steps that deliver a message, in percent.
    pub(super) haste: u32,
    pub(super) crashes: bool,
    pub(super) moves: bool,
    pub(super) adoptions: bool,
    /// Clients mostly ask for adoptions, again and again, of nodes that lag in the log.
    pub(super) restless: bool,
    pub(super) withdrawals: bool,
    pub(super) resizes: bool,
    pub(super) leases: bool,
    pub(super) durable: bool,
    pub(super) doubles: bool,
    pub(super) losses: bool,
    /// Processes stop cleanly and resume, where messages may be lost.
    pub(super) suspends: bool,
    /// Links between two processes are cut, to the end of the run, where messages may be lost.
    pub(super) cuts: bool,
    /// The number of changes of the directory before the gate was created.
    pub(super) before: u32,
}

/// Rules of the driver that are left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Omissions {
    /// H13: a lapse is passed on at once.
    pub(super) barrier: bool,
    /// H14: a grant is released when its durable permit is proposed.
    pub(super) held: bool,
    /// H18: a node is evicted while clients believe by it,
    pub(super) evict: bool,
    /// or have asked it for an adoption.
    pub(super) evict_asked: bool,
}

/// The kind of step, and two numbers for its choices.
pub(super) type Step = [u32; 3];

/// A violation.
pub(super) type Verdict = Result<(), String>;

/// Greatest k of any run.
pub(super) const MOST: u32 = 3;

/// A client that was let in.
#[derive(Clone, Debug)]
struct Permit {
    slots: Vec<u32>,
    fence: Fence,
    /// Whether the client uses the slots.
    believes: bool,
    /// The session by which it does so.
    by: usize,
    /// The last attempt that it made, and the nodes that it has asked since it was confirmed: it
    /// believes by the leases of all of them (H18).
    attempt: u32,
    asked: Vec<(u32, Incarnation)>,
    /// It has asked elsewhere, and speaks no more to the node of its session.
    moved: bool,
    durable: Durable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durable {
    No,
    Proposed,
    /// The log holds it since this entry.
    Held(LogIndex),
}

/// What a node knows of a permit.
#[derive(Clone, Debug)]
struct Session {
    permit: usize,
    node: u32,
    /// The start of the process.
    start: u32,
    incarnation: Incarnation,
    grant: GrantId,
    /// What the node had applied when it let the client in.
    after: LogIndex,
    /// The attempt by which the slots came here, until the client confirms.
    unconfirmed: Option<u32>,
    /// The session by which the client believed when it asked.
    asked_by: usize,
    /// The deadline has passed, when the log had this length.
    ended: Option<LogIndex>,
    /// The process has forgotten it.
    gone: bool,
}

/// The whole system under test.
pub(super) struct Harness {
    config: Config,
    pub(super) net: Net<Home>,
    /// What the log says after each entry.
    log: Vec<Arc<LogView>>,
    /// The number of entries that each process has applied.
    applied: Vec<usize>,
    leases: Vec<bool>,
    /// The number of starts of each process.
    starts: Vec<u32>,
    /// The processes that have stopped cleanly.
    suspended: Vec<bool>,
    /// The weights of the waiting clients of each process.
    waiting: Vec<VecDeque<u32>>,
    permits: Vec<Permit>,
    sessions: Vec<Session>,
    /// The greatest fence of each slot.
    fences: BTreeMap<u32, Fence>,
    /// The number of notices that were checked.
    checked: usize,
    pub(super) trace: Option<Vec<String>>,
    pub(super) grants: u32,
    pub(super) adopted: u32,
    pub(super) terms: u32,
}

impl Harness {
    pub(super) fn new(config: Config) -> Self {
        let mut known = setup(config.nodes, config.k, config.defects);
        known.slots = SlotOptions {
            keep: config.keep,
            cohort: config.cohort,
            ask_again: config.losses.then_some(Span::UNIT),
            pass: config.pass,
            witness: config.witness,
            ..SlotOptions::default()
        };
        let count = config.nodes as usize;
        let mut first = LogView::initial(config.nodes, config.k);
        for node in 0..config.before {
            let directory = Arc::make_mut(&mut first.directory);
            directory.set_fit(NodeId(node % config.nodes), Incarnation(0), false);
        }
        first.created = first.directory.changes();
        let first = Arc::new(first);
        known.log = Some(first.clone());
        Self {
            config,
            net: Net::with(known),
            log: vec![first],
            applied: vec![0; count],
            leases: vec![true; count],
            starts: vec![0; count],
            suspended: vec![false; count],
            waiting: vec![VecDeque::new(); count],
            permits: Vec::new(),
            sessions: Vec::new(),
            fences: BTreeMap::new(),
            checked: 0,
            trace: None,
            grants: 0,
            adopted: 0,
            terms: 0,
        }
    }

    /// Performs all steps, then ends all faults.
    pub(super) fn run(&mut self, steps: &[Step]) -> Verdict {
        for step in steps {
            self.act(*step)?;
        }
        self.heal()
    }

    fn act(&mut self, [kind, a, b]: Step) -> Verdict {
        let config = self.config;
        let node = a % config.nodes;
        let kind = kind % 100;
        if kind < config.haste {
            return self.deliver(a);
        }
        match (kind - config.haste) * 100 / (100 - config.haste) {
            10..22 | 90..95 if config.restless => self.ask(a, b),
            30..36 if config.restless => self.confirm(a),
            0..22 => self.acquire(node, b),
            22..40 => self.release(a),
            40..52 => self.apply(node, if b.is_multiple_of(4) { 3 } else { 1 }),
            52..55 if config.withdrawals => self.withdraw(node),
            55..57 if config.resizes => self.resize(1 + b % MOST),
            57..60 if config.leases => self.lease(node, !b.is_multiple_of(3)),
            60..64 if config.moves => self.flip(node),
            64..66 if config.crashes => self.crash(node, b),
            66..69 if config.crashes => self.evict(node),
            69..74 if config.crashes => self.come_back(node, b),
            74..79 if config.adoptions => self.ask(a, b),
            79..82 if config.adoptions => self.confirm(a),
            82..85 => self.expire(a),
            85..90 => self.lapse(a),
            90..92 if config.durable => self.propose(a),
            92..94 if config.durable => self.hold(a),
            94..95 if config.durable => self.free(a),
            95..96 if config.doubles => self.double(a),
            96..97 if config.cuts && b.is_multiple_of(2) => self.cut(node, b / 2),
            96..97 if config.suspends => self.suspend(node),
            97..98 if config.losses => self.lose(a),
            98..100 if config.losses => self.fire(a),
            _ => self.deliver(a),
        }
    }

    fn is_up(&self, node: u32) -> bool {
        self.net.is_up(node)
    }

    fn input(&mut self, node: u32, input: kgate_core::InputOf<Home>) -> Verdict {
        if let Err(refusal) = self.net.input(node, input.clone()) {
            return Err(format!("p{node} refuses {input:?}: {refusal}"));
        }
        self.check()
    }

    fn deliver(&mut self, a: u32) -> Verdict {
        if self.net.flights.is_empty() {
            return Ok(());
        }
        let place = a as usize % self.net.flights.len();
        if self.trace.is_some() {
            let copy = self.net.flights.values().nth(place).expect("below the length");
            trace!(self, "deliver p{} -> p{}: {:?}", copy.from.0, copy.to.0, copy.message);
        }
        self.net.deliver_nth(place);
        self.check()
    }

    fn double(&mut self, a: u32) -> Verdict {
        if !self.net.flights.is_empty() {
            self.net.double_nth(a as usize % self.net.flights.len());
        }
        Ok(())
    }

    fn lose(&mut self, a: u32) -> Verdict {
        if !self.net.flights.is_empty() {
            trace!(self, "lose one");
            self.net.lose_nth(a as usize % self.net.flights.len());
        }
        Ok(())
    }

    fn fire(&mut self, a: u32) -> Verdict {
        let timers: Vec<_> = self.net.timers.keys().cloned().collect();
        if !timers.is_empty() {
            let (node, timer) = timers[a as usize % timers.len()];
            trace!(self, "{node}: timer");
            self.net.expire(node.0, timer);
        }
        self.check()
    }

    fn acquire(&mut self, node: u32, b: u32) -> Verdict {
        if !self.is_up(node) || self.waiting[node as usize].len() > 2 {
            return Ok(());
        }
        let weight = 1 + b % self.view(node).k;
        trace!(self, "p{node} acquires {weight}");
        self.waiting[node as usize].push_back(weight);
        self.input(node, Input::Acquire { weight })
    }

    fn withdraw(&mut self, node: u32) -> Verdict {
        if !self.is_up(node) || self.waiting[node as usize].pop_back().is_none() {
            return Ok(());
        }
        trace!(self, "p{node} withdraws");
        self.input(node, Input::Withdraw)
    }

    fn lease(&mut self, node: u32, valid: bool) -> Verdict {
        let latest = self.latest().directory.incarnation(NodeId(node));
        let known = self.view(node).directory.incarnation(NodeId(node));
        // A lease is one of this incarnation.
        if !self.is_up(node)
            || self.leases[node as usize] == valid
            || valid && (latest.is_none() || latest != known)
        {
            return Ok(());
        }
        trace!(self, "p{node} has a lease: {valid}");
        self.leases[node as usize] = valid;
        self.input(node, Input::Lease(valid))
    }

    /// The permits that may be released: inside, at a live node to which the client still speaks.
    fn in_hand(&self) -> Vec<usize> {
        let may = |place: &usize| {
            let permit = &self.permits[*place];
            permit.believes
                && !permit.moved
                && permit.durable == Durable::No
                && self.is_live(&self.sessions[permit.by])
        };
        (0..self.permits.len()).filter(may).collect()
    }

    /// Whether the process of a session is the one that made it, and remembers it.
    fn is_live(&self, session: &Session) -> bool {
        !session.gone
            && self.is_up(session.node)
            && self.starts[session.node as usize] == session.start
    }

    fn release(&mut self, a: u32) -> Verdict {
        let in_hand = self.in_hand();
        if in_hand.is_empty() {
            return Ok(());
        }
        let permit = in_hand[a as usize % in_hand.len()];
        self.release_permit(permit)
    }

    fn release_permit(&mut self, place: usize) -> Verdict {
        let permit = &mut self.permits[place];
        permit.believes = false;
        let session = &mut self.sessions[permit.by];
        session.gone = true;
        let (node, grant) = (session.node, session.grant);
        trace!(self, "p{node}: release {:?}", self.permits[place].slots);
        self.input(node, Input::Release { grant })
    }

    /// The deadline of a session passes. The client stops, if it believed by it.
    fn expire(&mut self, a: u32) -> Verdict {
        let open = |place: &usize| self.sessions[*place].ended.is_none();
        let open: Vec<usize> = (0..self.sessions.len()).filter(open).collect();
        if !open.is_empty() {
            self.end_session(open[a as usize % open.len()]);
        }
        Ok(())
    }

    fn end_session(&mut self, place: usize) {
        let now = self.latest().index;
        let session = &mut self.sessions[place];
        if session.ended.is_some() {
            return;
        }
        session.ended = Some(now);
        let by = if session.unconfirmed.is_some() { session.asked_by } else { place };
        let permit = &mut self.permits[session.permit];
        if permit.by == by && !matches!(permit.durable, Durable::Held(_)) {
            (permit.believes, permit.durable) = (false, Durable::No);
        }
        let session = &self.sessions[place];
        trace!(self, "p{}: deadline of permit {} passes", session.node, session.permit);
    }

    /// The node lets go of a session whose deadline has passed, behind the barrier (H13).
    fn lapse(&mut self, a: u32) -> Verdict {
        let ripe: Vec<usize> = self.ripe();
        if ripe.is_empty() {
            return Ok(());
        }
        self.lapse_session(ripe[a as usize % ripe.len()])
    }

    fn ripe(&self) -> Vec<usize> {
        let ripe = |place: &usize| {
            let session = &self.sessions[*place];
            let barrier =
                |at: LogIndex| self.config.omissions.barrier || self.view(session.node).index >= at;
            self.is_live(session)
                && session.ended.is_some_and(barrier)
                && (self.permits[session.permit].durable == Durable::No
                    || self.permits[session.permit].by != *place)
        };
        (0..self.sessions.len()).filter(ripe).collect()
    }

    fn lapse_session(&mut self, place: usize) -> Verdict {
        let session = &mut self.sessions[place];
        session.gone = true;
        let (node, grant) = (session.node, session.grant);
        trace!(self, "p{node}: lapse of permit {}", self.sessions[place].permit);
        self.input(node, Input::Lapse { grant })
    }

    /// Everything that was told since the last check.
    fn check(&mut self) -> Verdict {
        while let Some((_, node, notice)) = self.net.notices.get(self.checked) {
            self.checked += 1;
            let (node, notice) = (node.0, notice.clone());
            match notice {
                Notice::Granted { grant, slots: Some(slots), fence: Some(fence) } => {
                    self.granted(node, grant, &slots, fence)?;
                }
                Notice::Granted { .. } => return Err("a grant without slots".into()),
                Notice::Adopted { grant, fence, attempt } => {
                    self.on_adopted(node, grant, fence, attempt)?;
                }
                Notice::AdoptionRefused { .. } => {}
                Notice::Lost { grant } => {
                    let start = self.starts[node as usize];
                    let of = |session: &&mut Session| {
                        (session.node, session.start, session.grant) == (node, start, grant)
                    };
                    self.sessions.iter_mut().filter(of).for_each(|session| session.gone = true);
                }
                Notice::TooLarge { weight, most } => {
                    let waiting = &mut self.waiting[node as usize];
                    let place = waiting.iter().position(|other| *other == weight);
                    waiting.remove(place.ok_or("nobody waits who wants so many")?);
                    if weight <= most {
                        return Err(format!("p{node}: {weight} is too large for {most}"));
                    }
                }
                Notice::Asked => {}
                Notice::Suspected { .. } => return Err("a suspicion".into()),
            }
        }
        Ok(())
    }

    /// P1, P2, P6: a client is let in.
    fn granted(&mut self, node: u32, grant: GrantId, slots: &[u32], fence: Fence) -> Verdict {
        trace!(self, "p{node} is granted {slots:?} by {fence:?} {:?}", fence.stamp());
        self.grants += 1;
        let waiting = &mut self.waiting[node as usize];
        let place = waiting.iter().position(|weight| *weight as usize == slots.len());
        waiting.remove(place.ok_or("nobody waits who wants so many")?);
        if !self.leases[node as usize] {
            return Err(format!("p{node} lets a client in without a lease"));
        }
        self.nobody_else(None, slots)?;
        for &slot in slots {
            if self.fences.insert(slot, fence).is_some_and(|former| former >= fence) {
                return Err(format!("slot {slot}: the fence does not grow"));
            }
            // H15: by what the node knows, or by what the home knows from later entries.
            let known = &self.log[self.applied[node as usize]..];
            if known.iter().all(|view| slot >= view.k) {
                return Err(format!("slot {slot}: there are only {}", self.view(node).k));
            }
        }
        let (permit, session) = (self.permits.len(), self.sessions.len());
        self.permits.push(Permit {
            slots: slots.into(),
            fence,
            believes: true,
            by: session,
            attempt: 0,
            asked: Vec::new(),
            moved: false,
            durable: Durable::No,
        });
        self.open_session(permit, node, grant, None)
    }

    fn open_session(
        &mut self,
        permit: usize,
        node: u32,
        grant: GrantId,
        unconfirmed: Option<u32>,
    ) -> Verdict {
        let view = self.view(node);
        let incarnation = view.directory.incarnation(NodeId(node));
        let incarnation = incarnation.ok_or("a process that is no member lets a client in")?;
        self.sessions.push(Session {
            permit,
            node,
            start: self.starts[node as usize],
            incarnation,
            grant,
            after: view.index,
            unconfirmed,
            asked_by: self.permits[permit].by,
            ended: None,
            gone: false,
        });
        Ok(())
    }

    /// P1: no client but this one believes in any of the slots.
    fn nobody_else(&self, but: Option<usize>, slots: &[u32]) -> Verdict {
        for (place, permit) in self.permits.iter().enumerate() {
            let shared = permit.slots.iter().find(|slot| slots.contains(slot));
            if let Some(slot) = shared.filter(|_| permit.believes && Some(place) != but) {
                return Err(format!("slot {slot}: permit {place} has it, too"));
            }
        }
        Ok(())
    }
}
