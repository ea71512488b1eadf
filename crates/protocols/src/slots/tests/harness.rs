//! A random harness for `slots`, with a checker that shares no code with it.
//!
//! A run is a list of steps, each three numbers, so that a failing run can be shortened by leaving
//! steps out. The clients, the log, the detector and the checker are here; the processes and the
//! network are a [`Net`]. After the steps all faults end: every outstanding notification is
//! delivered, and then every waiting request must be served.

/// Records an event of a run, if the run is traced.
macro_rules! trace {
    ($harness:expr, $($what:tt)*) => {
        if let Some(trace) = &mut $harness.trace { trace.push(alloc::format!($($what)*)); }
    };
}

mod held;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use kgate_core::{
    Defects, Fence, GrantId, Input, MembershipSource, NodeId, Notice, Protocol, SlotOptions, Span,
};

use crate::harness::{Net, setup};
use crate::slots::{Slots, SuspendedLane};
pub(super) use held::Holds;
use held::Permit;

/// The possible steps of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) nodes: u32,
    pub(super) k: u32,
    pub(super) options: SlotOptions,
    pub(super) defects: Defects,
    /// The least share of steps that deliver a message, in percent.
    pub(super) haste: u32,
    pub(super) crashes: bool,
    pub(super) evictions: bool,
    pub(super) withdrawals: bool,
    pub(super) resizes: bool,
    pub(super) leases: bool,
    pub(super) doubles: bool,
    pub(super) losses: bool,
    pub(super) suspends: Suspensions,
    pub(super) holds: Holds,
}

/// Whether processes stop cleanly and resume, and the planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspensions {
    /// No process is suspended.
    Never,
    /// Suspended correctly.
    Whole,
    /// Planted: resumed processes have lost their clients' grants.
    WithoutGrants,
    /// Planted: the clocks of resumed processes start again.
    WithoutClock,
    /// Planted: processes resume from the state of their first stop.
    Twice,
}

/// The kind of step, and two numbers for its choices.
pub(super) type Step = [u32; 3];

/// An entry of the log.
#[derive(Clone, Copy, Debug)]
enum Entry {
    Evict(u32, u32),
    Add(u32, u32),
    /// A durable permit, by its number, is held.
    Held(usize),
    /// It is no longer held.
    Freed(usize),
}

/// Greatest k of any run.
pub(super) const MOST: u32 = 4;

/// The clients of one process.
#[derive(Clone, Debug, Default)]
struct Clients {
    /// The weights of the waiting clients, in order.
    waiting: VecDeque<u32>,
    holding: Vec<(GrantId, Vec<u32>)>,
}

/// The state of a process according to the log and the detector.
#[derive(Clone, Debug)]
struct Place {
    /// The incarnation in which it is a member at the end of the log.
    member: Option<u32>,
    /// The incarnation that has ended, as long as the log does not say so.
    over: Option<u32>,
    /// The number of times it was added (log) or returned (JOIN).
    returns: u32,
    /// The number of log entries that it has applied.
    told: usize,
    /// Crashes that its detector has not reported (JOIN), each with whether it has run since
    /// before.
    news: Vec<(u32, u32, bool)>,
    /// The k that it knows.
    k: u32,
    leased: bool,
    /// It has stopped cleanly, and its clients continue.
    suspended: bool,
}

/// The whole system under test.
pub(super) struct Harness {
    config: Config,
    net: Net<Slots>,
    clients: Vec<Clients>,
    places: Vec<Place>,
    log: Vec<Entry>,
    /// The durable permits that the log holds, has held, or is to hold.
    k: Vec<Permit>,
    adds: u32,
    /// The greatest fence of each slot.
    fences: BTreeMap<u32, Fence>,
    /// The number of notices that were checked.
    checked: usize,
    /// The trace of events, if the run is traced.
    pub(super) trace: Option<Vec<String>>,
    /// Decisions and re-uses of slots: a run without any tests nothing.
    pub(super) grants: u32,
}

/// A violation.
type Verdict = Result<(), String>;

impl Harness {
    pub(super) fn new(config: Config) -> Self {
        let mut known = setup(config.nodes, config.k, config.defects);
        known.slots = config.options;
        let place = Place {
            member: Some(0),
            over: None,
            returns: 0,
            told: 0,
            news: Vec::new(),
            k: config.k,
            leased: true,
            suspended: false,
        };
        let count = config.nodes as usize;
        Self {
            config,
            net: Net::with(known),
            clients: vec![Clients::default(); count],
            places: vec![place; count],
            log: Vec::new(),
            k: Vec::new(),
            adds: 0,
            fences: BTreeMap::new(),
            checked: 0,
            trace: None,
            grants: 0,
        }
    }

    /// Performs all steps, then ends all faults.
    pub(super) fn run(&mut self, steps: &[Step]) -> Verdict {
        for step in steps {
            self.act(*step)?;
        }
        self.put_right()
    }

    fn joins(&self) -> bool {
        self.config.options.membership == MembershipSource::Join
    }

    fn act(&mut self, [kind, a, b]: Step) -> Verdict {
        let config = self.config;
        let node = a % config.nodes;
        let kind = kind % 100;
        if kind < config.haste {
            return self.deliver(a);
        }
        match (kind - config.haste) * 100 / (100 - config.haste) {
            10..22 if config.holds != Holds::Never => self.propose(a, b),
            22..27 if config.holds != Holds::Never => self.resume_from(a),
            27..32 if config.holds != Holds::Never => {
                self.free(a);
                Ok(())
            }
            32..46 if config.holds != Holds::Never => self.tell(node, b),
            50..53 if config.suspends != Suspensions::Never => self.suspend(node),
            53..58 if config.suspends != Suspensions::Never => self.resume(node),
            0..30 => self.acquire(node, b),
            30..58 => self.release(a, b),
            58..63 if config.withdrawals => self.withdraw(node),
            63..68 if config.resizes => self.resize(node, 1 + b % MOST),
            68..71 if config.crashes => self.crash(node, b),
            71..74 if config.crashes => self.confirm_dead(node),
            74..78 if config.crashes => self.come_back(node),
            78..82 if config.crashes => self.add(node),
            82..91 => self.tell(node, b),
            91..93 if config.leases => self.lease(node, b % 3 > 0),
            93..94 if config.evictions => self.evict(node),
            94..96 if config.doubles => self.double(a),
            96..98 if config.losses => self.lose(a),
            98..100 => self.expire(a),
            _ => self.deliver(a),
        }
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

    fn acquire(&mut self, node: u32, b: u32) -> Verdict {
        let at = node as usize;
        if !self.net.is_up(node) || self.clients[at].waiting.len() > 2 {
            return Ok(());
        }
        let weight = 1 + b % self.places[at].k;
        trace!(self, "p{node} acquires {weight}");
        self.clients[at].waiting.push_back(weight);
        self.net.input(node, Input::Acquire { weight }).unwrap();
        self.check()
    }

    fn release(&mut self, a: u32, b: u32) -> Verdict {
        let in_hand = |node: u32, grant| !self.is_proposed(node, grant);
        let mut holders: Vec<(u32, GrantId)> = Vec::new();
        for node in self.net.live() {
            let holding = self.clients[node as usize].holding.iter();
            holders.extend(
                holding.filter(|(grant, _)| in_hand(node, *grant)).map(|(grant, _)| (node, *grant)),
            );
        }
        let mut nodes: Vec<u32> = holders.iter().map(|(node, _)| *node).collect();
        nodes.dedup();
        if nodes.is_empty() {
            return Ok(());
        }
        let node = nodes[a as usize % nodes.len()];
        holders.retain(|(other, _)| *other == node);
        let (_, grant) = holders[b as usize % holders.len()];
        let holding = &mut self.clients[node as usize].holding;
        let place = holding.iter().position(|(held, _)| *held == grant).expect("just seen");
        let (grant, slots) = holding.swap_remove(place);
        trace!(self, "p{node} releases {slots:?}");
        self.net.input(node, Input::Release { grant }).unwrap();
        self.check()
    }

    fn withdraw(&mut self, node: u32) -> Verdict {
        if self.net.is_up(node) && self.clients[node as usize].waiting.pop_back().is_some() {
            trace!(self, "p{node} withdraws");
            self.net.input(node, Input::Withdraw).unwrap();
        }
        self.check()
    }

    fn resize(&mut self, node: u32, k: u32) -> Verdict {
        if self.net.is_up(node) {
            trace!(self, "p{node} hears that k is {k}");
            self.places[node as usize].k = k;
            self.net.input(node, Input::Resize(k)).unwrap();
        }
        self.check()
    }

    fn lease(&mut self, node: u32, valid: bool) -> Verdict {
        if self.net.is_up(node) && self.places[node as usize].leased != valid {
            trace!(self, "p{node} has a lease: {valid}");
            self.places[node as usize].leased = valid;
            self.net.input(node, Input::Lease(valid)).unwrap();
        }
        self.check()
    }

    /// The process stops with its clients. Without a log, one process must remain that remembers.
    fn crash(&mut self, node: u32, b: u32) -> Verdict {
        let remembers = |other: u32| {
            other != node && self.net.is_up(other) && self.net.nodes[other as usize].is_member()
        };
        if !self.net.is_up(node) || self.joins() && !(0..self.config.nodes).any(remembers) {
            return Ok(());
        }
        trace!(self, "p{node} crashes");
        if b.is_multiple_of(2) {
            self.net.keep_sent(node, |sent| (b / 2) as usize % (sent + 1));
        }
        self.net.crash(node);
        self.clients[node as usize] = Clients::default();
        if self.joins() {
            let crash = self.places[node as usize].returns;
            for other in self.net.live() {
                self.places[other as usize].news.push((node, crash, true));
            }
        } else {
            let place = &mut self.places[node as usize];
            place.over = place.member.take().or(place.over);
        }
        Ok(())
    }

    /// R1: the process stops, its clients do not.
    fn suspend(&mut self, node: u32) -> Verdict {
        let suspends = self.config.suspends;
        let former = self.net.stored.get(&NodeId(node)).cloned();
        let change = |suspended: &mut alloc::boxed::Box<SuspendedLane>| match (suspends, former) {
            (Suspensions::Never | Suspensions::Whole, _) | (Suspensions::Twice, None) => {}
            (Suspensions::WithoutGrants, _) => suspended.forget_grants(),
            (Suspensions::WithoutClock, _) => suspended.forget_clock(),
            (Suspensions::Twice, Some(former)) => *suspended = former,
        };
        if self.net.is_up(node) && self.net.suspend(node, change) {
            trace!(self, "p{node} is suspended");
            self.places[node as usize].suspended = true;
        }
        Ok(())
    }

    /// The process resumes, without a lease. An evicted process learns of that before it gets one.
    fn resume(&mut self, node: u32) -> Verdict {
        let place = &mut self.places[node as usize];
        if !core::mem::take(&mut place.suspended) {
            return Ok(());
        }
        trace!(self, "p{node} goes on");
        (place.k, place.leased) = (self.config.k, false);
        let stored = self.net.stored.get(&NodeId(node)).cloned();
        self.net.resume(node);
        if self.config.suspends == Suspensions::Twice {
            self.net.stored.extend(stored.map(|stored| (NodeId(node), stored)));
        }
        self.check()?;
        while self.places[node as usize].member.is_none()
            && self.places[node as usize].told < self.log.len()
        {
            self.tell(node, 0)?;
        }
        Ok(())
    }

    /// The log evicts a crashed process.
    fn confirm_dead(&mut self, node: u32) -> Verdict {
        if let Some(incarnation) = self.places[node as usize].over.take() {
            trace!(self, "log: p{node} of incarnation {incarnation} is gone");
            self.log.push(Entry::Evict(node, incarnation));
        }
        Ok(())
    }

    fn come_back(&mut self, node: u32) -> Verdict {
        if self.net.is_up(node) || self.places[node as usize].suspended {
            return Ok(());
        }
        trace!(self, "p{node} is back");
        let place = &mut self.places[node as usize];
        (place.told, place.k, place.leased) = (0, self.config.k, true);
        if self.config.options.membership == MembershipSource::Join {
            place.returns += 1;
            let incarnation = place.returns;
            self.net.return_in(node, incarnation);
            // A detector that starts again reports processes that are down, and only while they
            // are.
            let down = (0..self.config.nodes).filter(|&other| !self.net.is_up(other));
            let news =
                down.map(|other| (other, self.places[other as usize].returns, false)).collect();
            self.places[node as usize].news = news;
            for place in &mut self.places {
                place.news.retain(|(dead, _, since)| *dead != node || *since);
            }
        } else {
            let incarnation = place.returns + 1;
            self.net.return_in(node, incarnation);
        }
        self.check()
    }

    /// The log adds a process that is up again, or was evicted.
    fn add(&mut self, node: u32) -> Verdict {
        if self.joins() || !self.net.is_up(node) {
            return Ok(());
        }
        let place = &mut self.places[node as usize];
        if (place.member, place.over) == (None, None) {
            self.adds += 1;
            (place.member, place.returns) = (Some(self.adds), place.returns + 1);
            trace!(self, "log: p{node} takes part in incarnation {}", self.adds);
            self.log.push(Entry::Add(node, self.adds));
        }
        Ok(())
    }

    /// A live process is evicted. It learns of it first: that is what leases are for.
    fn evict(&mut self, node: u32) -> Verdict {
        let suspended = self.places[node as usize].suspended;
        if self.joins() || !self.net.is_up(node) && !suspended {
            return Ok(());
        }
        let Some(incarnation) = self.places[node as usize].member.take() else { return Ok(()) };
        trace!(self, "log: p{node} of incarnation {incarnation} is thrown out");
        self.log.push(Entry::Evict(node, incarnation));
        if suspended {
            // No lease is renewed any more.
            self.clients[node as usize].holding.clear();
            return Ok(());
        }
        while self.places[node as usize].told < self.log.len() {
            self.tell(node, 0)?;
        }
        Ok(())
    }

    /// A process applies the next entry of the log, or a report of its detector.
    fn tell(&mut self, node: u32, b: u32) -> Verdict {
        let at = node as usize;
        if !self.net.is_up(node) {
            return Ok(());
        }
        if self.joins() {
            let news = &mut self.places[at].news;
            if !news.is_empty() {
                let (dead, incarnation, _) = news.swap_remove(b as usize % news.len());
                trace!(self, "p{node} hears that p{dead} of incarnation {incarnation} is gone");
                self.net.notify_gone([node], dead, incarnation);
            }
            return self.check();
        }
        if self.places[at].told < self.log.len() {
            let several = self.config.holds != Holds::Never;
            self.hear(node, if several { 1 + b as usize % 5 } else { 1 })?;
        }
        self.check()
    }

    fn double(&mut self, a: u32) -> Verdict {
        if !self.net.flights.is_empty() {
            trace!(self, "a message is doubled");
            self.net.double_nth(a as usize % self.net.flights.len());
        }
        Ok(())
    }

    fn lose(&mut self, a: u32) -> Verdict {
        if !self.net.flights.is_empty() && self.config.options.ask_again.is_some() {
            let place = a as usize % self.net.flights.len();
            if self.trace.is_some() {
                let copy = self.net.flights.values().nth(place).expect("below the length");
                trace!(self, "lost p{} -> p{}: {:?}", copy.from.0, copy.to.0, copy.message);
            }
            self.net.lose_nth(place);
        }
        Ok(())
    }

    fn expire(&mut self, a: u32) -> Verdict {
        if !self.net.timers.is_empty() {
            let (node, timer) = *self
                .net
                .timers
                .keys()
                .nth(a as usize % self.net.timers.len())
                .expect("below the length");
            trace!(self, "{node} wakes: {timer:?}");
            self.net.expire(node.0, timer);
        }
        self.check()
    }

    /// Checks every notice since the last check.
    fn check(&mut self) -> Verdict {
        while let Some((_, node, notice)) = self.net.notices.get(self.checked).cloned() {
            self.checked += 1;
            let clients = &mut self.clients[node.index()];
            match notice {
                Notice::Granted { grant, slots, fence } => {
                    let (slots, fence) = (slots.ok_or("no slots")?, fence.ok_or("no fence")?);
                    trace!(
                        self,
                        "  {node} is granted {slots:?} under {:?}.{}",
                        fence.stamp(),
                        fence.count()
                    );
                    self.granted(node, grant, &slots, fence)?;
                }
                Notice::Lost { grant } => clients.holding.retain(|(held, _)| *held != grant),
                Notice::TooLarge { weight, most } => {
                    let first = clients.waiting.iter().position(|waits| *waits > most);
                    let fails = first.and_then(|at| clients.waiting.remove(at));
                    if fails != Some(weight) || most != self.places[node.index()].k {
                        return Err(format!(
                            "{node}: {weight} is too large, but {fails:?} waits first"
                        ));
                    }
                }
                Notice::Asked => {}
                Notice::Adopted { .. } | Notice::AdoptionRefused { .. } => {
                    return Err(format!("{node} adopts"));
                }
                Notice::Suspected { .. } => return Err(format!("{node} suspects somebody")),
            }
        }
        Ok(())
    }

    fn granted(&mut self, node: NodeId, grant: GrantId, slots: &[u32], fence: Fence) -> Verdict {
        self.grants += 1;
        let place = &self.places[node.index()];
        if !place.leased {
            return Err(format!("{node} grants without a lease"));
        }
        self.check_reserved(node, slots, fence)?;
        let weight = self.clients[node.index()].waiting.pop_front();
        if weight != u32::try_from(slots.len()).ok() || !slots.is_sorted_by(|a, b| a < b) {
            return Err(format!("{node} wants {weight:?} and is granted {slots:?}"));
        }
        for slot in slots {
            if *slot >= place.k {
                return Err(format!("{node} takes slot {slot} and knows of {}", place.k));
            }
            for (other, clients) in self.clients.iter().enumerate() {
                if clients.holding.iter().any(|(_, held)| held.contains(slot)) {
                    return Err(format!("slot {slot}: {node} is granted it, p{other} has it"));
                }
                if clients.holding.iter().any(|(held, _)| *held == grant) && other == node.index() {
                    return Err(format!("{node} has two grants {grant:?}"));
                }
            }
            if let Some(former) = self.fences.insert(*slot, fence)
                && former >= fence
            {
                return Err(format!("slot {slot}: the fence {fence:?} of {node} after {former:?}"));
            }
        }
        if fence.count() == 0 {
            let suspended = (0..self.config.nodes).filter(|&node| {
                self.places[node as usize].suspended && self.places[node as usize].member.is_some()
            });
            for other in self.net.live().into_iter().chain(suspended) {
                if let Some(stamp) = self.net.nodes[other as usize].observe().stamp
                    && stamp < fence.stamp()
                {
                    return Err(format!("{node} by {:?} overtakes {stamp:?}", fence.stamp()));
                }
            }
        }
        self.clients[node.index()].holding.push((grant, slots.to_vec()));
        Ok(())
    }

    /// All faults end; then clients leave one after the other, and every waiting one must be
    /// served.
    fn put_right(&mut self) -> Verdict {
        trace!(self, "all is put right");
        for node in 0..self.config.nodes {
            self.resume(node)?;
            self.confirm_dead(node)?;
            self.add(node)?;
            self.lease(node, true)?;
            self.resize(node, self.config.k)?;
        }
        self.resume_from_all()?;
        self.tell_all()?;
        for turn in 0.. {
            self.calm(turn)?;
            self.least_does_not_fit()?;
            let nobody_is_inside = self.clients.iter().all(|clients| clients.holding.is_empty());
            if (nobody_is_inside || turn % 3 == 0) && self.free(turn) {
                self.tell_all()?;
            } else if nobody_is_inside {
                break;
            } else {
                self.release(turn * 7, turn)?;
            }
        }
        for (node, clients) in (0u32..).zip(&self.clients) {
            if !clients.waiting.is_empty() {
                return Err(format!("p{node} waits for ever for {:?}", clients.waiting));
            }
        }
        for node in self.net.live() {
            let shown = self.net.nodes[node as usize].observe();
            // A process that caches slots owes updates about them.
            let owes = !shown.owing.is_empty() && shown.slots.is_empty();
            if owes || !shown.relaying.is_empty() {
                return Err(format!(
                    "p{node} owes {:?} and relays {:?} for ever",
                    shown.owing, shown.relaying
                ));
            }
        }
        Ok(())
    }

    /// Every live process applies the whole log.
    fn tell_all(&mut self) -> Verdict {
        for node in 0..self.config.nodes {
            while self.net.is_up(node)
                && (self.places[node as usize].told < self.log.len()
                    || !self.places[node as usize].news.is_empty())
            {
                self.tell(node, 0)?;
            }
        }
        Ok(())
    }

    /// Delivers everything; where messages may be lost, timers fire a few times.
    fn calm(&mut self, turn: u32) -> Verdict {
        for round in 0..8 {
            let mut place = turn;
            while !self.net.flights.is_empty() {
                place = place.wrapping_mul(17).wrapping_add(round + 5);
                self.deliver(place)?;
            }
            if self.net.timers.is_empty() {
                break;
            }
            for (node, timer) in self.net.timers.keys().copied().collect::<Vec<_>>() {
                if self.net.timers.contains_key(&(node, timer)) {
                    trace!(self, "{node} wakes: {timer:?}");
                    self.net.expire(node.0, timer);
                    self.check()?;
                }
            }
        }
        Ok(())
    }

    /// Nothing is in transit: the first waiting request does not fit into the free slots.
    fn least_does_not_fit(&self) -> Verdict {
        let shown: Vec<_> = self
            .net
            .live()
            .into_iter()
            .map(|node| (node, self.net.nodes[node as usize].observe()))
            .collect();
        let mut taken: Vec<u32> =
            shown.iter().flat_map(|(_, shown)| shown.slots.iter().map(|(slot, _)| *slot)).collect();
        taken.extend(self.held());
        let free = (0..self.config.k).filter(|slot| !taken.contains(slot)).count();
        let least = shown.iter().filter_map(|(node, shown)| Some((shown.stamp?, *node))).min();
        if let Some((stamp, node)) = least {
            let wants = self.clients[node as usize].waiting.front();
            if wants.is_none_or(|wants| *wants as usize <= free) {
                return Err(format!(
                    "p{node} by {stamp:?} wants {wants:?}, {free} slots are free, and nothing is \
                     in transit"
                ));
            }
        }
        Ok(())
    }
}

/// Options with a timer, where messages may be lost.
pub(super) const SOON: Span = Span::UNIT;
