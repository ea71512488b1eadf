//! The agreed log of a protocol that follows it by snapshots (`Claims::follows_log`).
//!
//! The log decides by itself: a silent process is suspected, evicted, and added again once it is
//! back; live ones are declared unfit, cleared and evicted as configured. Each process applies the
//! entries in order, each at a time of its own; a later snapshot includes the earlier ones. A
//! process that restarts begins with some prefix of the log.
//!
//! The log evicts a process only when no client believes by its lease (`home`, H18): clients of a
//! crashed process are gone in time, and a live process loses its lease before.

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use kgate_core::{
    Defects, Directory, Incarnation, Input, LogIndex, LogView, NodeId, Protocol, Setup, Span, Time,
    TransientFaults,
};
use kgate_spec::trace;

use super::event::{Event, EventOf};
use super::permits::PermitId;
use super::{Label, Simulation};
use crate::config::Config;
use crate::queue::EventQueue;
use crate::rng::Rng;

/// The log, and how far each process has applied it.
pub(super) struct AgreedLog {
    /// What it says after each entry. Empty if the protocol does not follow it.
    views: Vec<Arc<LogView>>,
    /// The number of entries that each process has applied.
    applied: Vec<u32>,
    /// The processes that have a lease.
    leased: FixedBitSet,
    gates: u32,
    /// What the log will decide.
    planned: Vec<Change>,
    /// When the eviction of each crashed process is planned.
    evicted_at: Vec<(NodeId, Time)>,
    rng: Rng,
}

/// A decision of the log.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// SUSPECT of a process that has crashed.
    Suspect(NodeId, Incarnation),
    /// EVICT of a process that has crashed.
    Evict(NodeId, Incarnation),
    /// EVICT of a live process, whose lease ends.
    EvictLive(NodeId),
    /// A process is a member again.
    Join(NodeId),
    /// A live process is suspected or drained, or cleared.
    SetFit(NodeId, bool),
    /// No entry: the lease of a process ends, or begins again.
    Lease(NodeId, bool),
    /// k changes.
    Resize(u32),
    /// The slots of a permit are held from now on.
    Hold(PermitId),
}

impl AgreedLog {
    pub(super) fn new(config: &Config) -> Self {
        let (mut views, mut applied, mut leased) = (Vec::new(), Vec::new(), FixedBitSet::new());
        if config.claims.follows_log {
            let mut first = LogView::initial(config.nodes, config.k);
            if config.gates > 1 {
                first.gate = u64::from(config.gates);
            }
            views.push(Arc::new(first));
            applied = vec![0; config.nodes as usize];
            leased.grow(config.nodes as usize);
            leased.insert_range(..);
        }
        let (planned, evicted_at) = Default::default();
        let rng = Rng::fork(config.seed, "log");
        Self { views, applied, leased, gates: config.gates, planned, evicted_at, rng }
    }

    /// What the whole log says.
    fn latest(&self) -> &Arc<LogView> {
        self.views.last().expect("a log is never empty")
    }

    /// What a process has applied.
    pub(super) fn view(&self, node: NodeId) -> &Arc<LogView> {
        &self.views[self.applied[node.index()] as usize]
    }

    /// The number of its entries.
    pub(super) fn length(&self) -> LogIndex {
        self.latest().index
    }

    /// Whether that incarnation of a process is a member by the whole log.
    pub(super) fn is_member(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.latest().directory.incarnation(node) == Some(incarnation)
    }

    /// The greatest k that a process, or a home that is ahead of it, may know.
    pub(super) fn most_k(&self, node: NodeId) -> Option<u32> {
        let ahead = self.views.get(*self.applied.get(node.index())? as usize..)?;
        ahead.iter().map(|view| view.k).max().map(|k| k.saturating_mul(self.gates))
    }

    /// What a process knows when it starts.
    pub(super) fn setup(&self, setup: Setup) -> Setup {
        let log = self.views.get(self.applied.get(setup.me.index()).map_or(0, |at| *at as usize));
        Setup { log: log.cloned(), ..setup }
    }

    /// The least incarnation as which the log will add a process that starts anew.
    fn next_incarnation(&self, node: NodeId) -> Incarnation {
        let known = self.views.iter().rev();
        let last = known.filter_map(|view| view.directory.incarnation(node)).max();
        Incarnation(last.map_or(0, |last| last.0 + 1))
    }
}

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// Plans what the log decides of its own accord.
    pub(super) fn plan_log(&mut self) {
        let config = self.config;
        let mut plan = |at: Span, change| self.plan_change(Time::ZERO + at, change);
        for &(at, k) in &config.resizes {
            plan(at, Change::Resize(k));
        }
        for period in &config.agreement.unfit {
            plan(period.from, Change::SetFit(period.node, false));
            if period.until < config.duration {
                plan(period.until, Change::SetFit(period.node, true));
            }
        }
        for period in &config.agreement.evictions {
            plan(period.from, Change::EvictLive(period.node));
            plan(period.until.min(config.duration), Change::Join(period.node));
        }
        for period in &config.agreement.leaseless {
            plan(period.from, Change::Lease(period.node, false));
            plan(period.until.min(config.duration), Change::Lease(period.node, true));
        }
    }

    fn plan_change(&mut self, at: Time, change: Change) {
        let place = u32::try_from(self.log.planned.len()).expect("few entries");
        self.log.planned.push(change);
        self.queue.push(at, Event::Decide { place });
    }

    /// A process has crashed: the log will suspect it, and evict it later.
    pub(super) fn silent(&mut self, node: NodeId) {
        let Some(incarnation) = self.log.latest().directory.incarnation(node) else { return };
        let agreement = &self.config.agreement;
        let (suspected, evicted) =
            (self.now + agreement.suspect_after, self.now + agreement.evict_after);
        let early = self.config.printed.has(Defects::EVICTS_EARLY);
        let evicted = if early { suspected } else { evicted };
        self.log.evicted_at.retain(|(other, _)| *other != node);
        self.log.evicted_at.push((node, evicted));
        self.plan_change(suspected, Change::Suspect(node, incarnation));
        self.plan_change(evicted, Change::Evict(node, incarnation));
    }

    /// Whether the log still has a crashed process for a member.
    pub(super) fn is_listed(&self, node: NodeId) -> bool {
        self.log.latest().directory.incarnation(node).is_some()
    }

    /// Starts a process anew: with some prefix of the log, whose rest it applies later. The log
    /// adds it once its former incarnation is evicted.
    pub(super) fn rejoin(&mut self, node: NodeId) -> Setup {
        let entries = u32::try_from(self.log.views.len()).expect("few entries");
        let applied = u32::try_from(self.log.rng.below(entries.into())).expect("few entries");
        self.log.applied[node.index()] = applied;
        self.log.leased.insert(node.index());
        let incarnation = self.log.next_incarnation(node);
        for place in applied + 1..entries {
            self.schedule_apply(node, place);
        }
        let evicted = self.log.evicted_at.iter().find(|(other, _)| *other == node);
        let at = evicted.map_or(self.now, |(_, at)| self.now.max(*at));
        self.plan_change(at, Change::Join(node));
        self.learn_losses(node);
        self.learn_k(node);
        self.log.setup(Setup { incarnation, ..self.config.setup(node) })
    }

    /// The log decides what was planned, if it still makes sense.
    pub(super) fn decide(&mut self, place: u32) {
        let change = self.log.planned[place as usize];
        let directory = &self.log.latest().directory;
        match change {
            Change::Suspect(node, of) => {
                self.change_members(|directory| directory.set_fit(node, of, false))
            }
            Change::Evict(node, of) => self.change_members(|directory| directory.evict(node, of)),
            Change::EvictLive(node) => {
                let Some(of) = directory.incarnation(node) else { return };
                if self.alive.contains(node.index()) {
                    if !self.config.printed.has(Defects::EVICTS_EARLY) {
                        self.end_lease(node);
                    }
                    self.change_members(|directory| directory.evict(node, of));
                }
            }
            Change::Join(node) => {
                if self.alive.contains(node.index()) && directory.incarnation(node).is_none() {
                    self.change_members(|directory| directory.join(node));
                }
            }
            Change::SetFit(node, fit) => {
                let of = directory.incarnation(node);
                if let Some(of) = of.filter(|_| self.alive.contains(node.index())) {
                    self.change_members(|directory| directory.set_fit(node, of, fit));
                }
            }
            Change::Lease(node, valid) => self.change_lease(node, valid),
            Change::Resize(k) => self.append(|view| view.k = k),
            Change::Hold(permit) => self.decide_hold(permit),
        }
    }

    pub(super) fn plan_hold(&mut self, at: Time, permit: PermitId) {
        self.plan_change(at, Change::Hold(permit));
    }

    /// Whether a process has a lease, as the present incarnation that it knows itself to be.
    pub(super) fn has_lease(&self, node: NodeId) -> bool {
        self.log.leased.contains(node.index()) && self.has_incarnation(node)
    }

    /// Whether a process is a member in the incarnation that it knows itself to be.
    fn has_incarnation(&self, node: NodeId) -> bool {
        let latest = self.log.latest().directory.incarnation(node);
        latest.is_some() && latest == self.log.view(node).directory.incarnation(node)
    }

    fn change_members(&mut self, change: impl FnOnce(&mut Directory)) {
        let mut directory = Directory::clone(&self.log.latest().directory);
        change(&mut directory);
        if directory.changes() > self.log.latest().directory.changes() {
            self.append(|view| view.directory = Arc::new(directory));
        }
    }

    /// The log decides an entry, which every live process applies within the bound.
    pub(super) fn append(&mut self, change: impl FnOnce(&mut LogView)) {
        let mut view = LogView::clone(self.log.latest());
        view.index.0 += 1;
        change(&mut view);
        self.hash.add_three(self.now.0, view.index.0, u64::from(view.directory.changes().0));
        self.log.views.push(Arc::new(view));
        let place = u32::try_from(self.log.views.len() - 1).expect("few entries");
        for node in self.live() {
            self.schedule_apply(node, place);
        }
    }

    fn schedule_apply(&mut self, node: NodeId, place: u32) {
        let bound = self.notification_delay_max();
        let at = self.now + Span(self.log.rng.within(0, bound.0));
        let last = self.last_notification.entry(node).or_insert(Time::ZERO);
        let at = at.max(*last);
        *last = at;
        let start = self.incarnation_of(node);
        self.queue.push(at, Event::Apply { node, start, place });
    }

    /// Whether a process has yet to apply an entry, and has not restarted since.
    pub(super) fn may_apply(&self, node: NodeId, start: u32, place: u32) -> bool {
        self.incarnation_of(node) == start
            && self.alive.contains(node.index())
            && place > self.log.applied[node.index()]
    }

    /// A process applies the log up to an entry.
    pub(super) fn apply(&mut self, node: NodeId, start: u32, place: u32) {
        if !self.may_apply(node, start, place) {
            return;
        }
        let former = self.log.view(node).clone();
        self.log.applied[node.index()] = place;
        let view = self.log.view(node).clone();
        self.learn_losses(node);
        self.learn_k(node);
        self.write_applied(node, &former, &view);
        self.mutex_input(node, Label::of(17, NodeId(place), 0), Input::Applied(view.clone()));
        let gained = view.directory.incarnation(node) > former.directory.incarnation(node);
        if gained && !self.log.leased.contains(node.index()) {
            // Added again, and up to date: its leases begin anew.
            let latest = self.log.latest().directory.incarnation(node);
            if latest == view.directory.incarnation(node) {
                self.log.leased.insert(node.index());
                self.pass_lease(node, true);
            }
        }
        self.after_apply(node);
    }

    fn learn_losses(&mut self, node: NodeId) {
        for of in self.awareness.unnotified_of(node) {
            if self.log.view(node).directory.incarnation(of).is_none() {
                self.awareness.learn(node, of, self.now);
            }
        }
    }

    fn learn_k(&mut self, node: NodeId) {
        let k = self.log.view(node).k;
        if self.checkers.known(node) != Some(k) {
            self.write(node, &trace::Event::Resize { k });
        }
        self.checkers.resized(node, k);
    }

    /// Writes to the trace what an entry changes.
    fn write_applied(&mut self, node: NodeId, former: &LogView, view: &LogView) {
        if !self.trace.is_on() || former.directory.changes() == view.directory.changes() {
            return;
        }
        for whom in (0..self.config.nodes).map(NodeId) {
            let [before, after] =
                [former, view].map(|view| view.directory.incarnation(whom).map(|of| of.0));
            if after > before {
                self.write(node, &trace::Event::Joined { whom });
            } else if after < before {
                self.write(node, &trace::Event::Suspected { whom });
            }
        }
    }

    /// The lease of a member ends, or begins again if it is still the incarnation that it knows
    /// itself to be.
    fn change_lease(&mut self, node: NodeId, valid: bool) {
        let leased = self.log.leased.contains(node.index());
        if !self.alive.contains(node.index()) || leased == valid {
            return;
        }
        if !valid {
            self.end_lease(node);
            self.end_sessions(node);
        } else if self.has_incarnation(node) {
            self.log.leased.insert(node.index());
            if !self.paused.contains_key(&node) {
                self.pass_lease(node, true);
            }
        }
    }

    /// The lease of a live process ends: no client believes by it any more.
    fn end_lease(&mut self, node: NodeId) {
        self.log.leased.set(node.index(), false);
        self.end_permits(node);
        if !self.paused.contains_key(&node) {
            self.pass_lease(node, false);
        }
    }

    /// A process that was paused checks its lease before anything else.
    pub(super) fn check_lease(&mut self, node: NodeId) {
        if self.config.claims.follows_log {
            self.pass_lease(node, self.log.leased.contains(node.index()));
        }
    }

    fn pass_lease(&mut self, node: NodeId, valid: bool) {
        self.mutex_input(node, Label::of(18, NodeId(valid.into()), 0), Input::Lease(valid));
    }
}
