//! After the measured time: is every request of a live process granted?
//!
//! No client asks any more, holders release, no further process crashes. The run goes on until no
//! request waits. If only detectors are active and every live process knows of every crash, a
//! request that still waits is starved.

use kgate_core::{Mechanism, NodeId, Protocol, Span, Time, TransientFaults};
use kgate_spec::NotLeftLying;

use super::Simulation;
use super::event::EventOf;
use crate::link_cut::LinkCut;
use crate::queue::EventQueue;

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// Runs on until no request waits or nothing can change any more, and returns the number of
    /// waiting processes. They are a violation unless more processes crashed than the protocol
    /// tolerates.
    pub(super) fn drain(&mut self) -> usize {
        // Where leftover state is checked, every event is processed.
        let to_the_end = M::MECHANISM == Mechanism::Slots || self.config.claims.follows_log;
        let mut stalled = self.run_to_rest_or_end(to_the_end);
        if !stalled && self.config.claims.follows_log && self.ask_for_everything() {
            stalled = self.run_to_rest_or_end(to_the_end);
        }
        if self.checkers.waiting() > 0 && self.is_tolerated() {
            if stalled {
                self.checkers.stalled(self.now);
            } else {
                self.checkers.quiet(self.now);
                self.checkers.starved(self.now);
            }
        }
        if self.recovery.pending() {
            self.checkers.never_recovered(self.now);
        }
        if to_the_end && self.settled() {
            self.check_residue();
        }
        self.checkers.waiting()
    }

    /// Whether no more processes crashed than the protocol tolerates, and every two live ones still
    /// reach each other, through a third one where a link is cut.
    fn is_tolerated(&self) -> bool {
        let live = self.live();
        self.crashed <= self.config.claims.tolerates
            && LinkCut::separated(&self.config.disturbance.cuts, &live).is_none()
    }

    /// Runs on until no request waits, or nothing is left to happen. True if nothing was granted
    /// for longer than any grant can take, although something could still happen.
    fn run_to_rest_or_end(&mut self, to_the_end: bool) -> bool {
        let mut grants = self.stats.grants;
        let mut give_up = self.now + self.patience();
        while (self.checkers.waiting() > 0 || self.recovery.pending() || to_the_end)
            && !self.settled()
        {
            let Some((at, event)) = self.queue.pop(give_up) else {
                return true;
            };
            self.drain_step(at, event);
            // The whole instant, so that it does not matter whether a broadcast is one event or
            // many.
            while let Some((at, event)) = self.queue.pop(at) {
                self.drain_step(at, event);
            }
            if self.stats.grants != grants {
                grants = self.stats.grants;
                give_up = self.now + self.patience();
            }
        }
        false
    }

    /// After all is done, one more client wants all slots: whatever is written down somewhere, and
    /// nobody has, is in its way. False if no process is left that may ask.
    fn ask_for_everything(&mut self) -> bool {
        let may = |node: &NodeId| self.alive.contains(node.index()) && self.has_lease(*node);
        let last = (0..self.config.load.requesters).map(NodeId).filter(may).last();
        let Some(node) = last.filter(|_| self.checkers.waiting() == 0) else { return false };
        self.request(node, self.weight_limit(node));
        true
    }

    /// When nothing is left to happen, no process may keep state of an ended request. Lost messages
    /// excuse leftovers.
    pub(super) fn check_residue(&mut self) {
        let nobody_waits = self.checkers.waiting() == 0 && self.held.is_empty();
        let tolerated = self.crashed <= self.config.claims.tolerates && self.disturbed.lost == 0;
        let audited = self.checkers.audit.is_active()
            || self.config.claims.follows_log && self.config.audited();
        if nobody_waits && tolerated && audited {
            let shown = self.observe_all();
            self.checkers.check_residue(&shown, self.now);
        }
    }

    /// Nothing is in flight, though clients may be inside: the first waiting request must want more
    /// slots than are free. Checked where all processes know the same k, in one lane.
    pub(super) fn check_unused_slots(&mut self) {
        let tolerated = self.crashed <= self.config.claims.tolerates && self.disturbed.lost == 0;
        let shown = self.observe_all();
        let mut known = shown.iter().filter_map(|(node, _)| self.checkers.known(*node));
        let Some(k) = known.next().filter(|&k| known.all(|other| other == k)) else { return };
        if tolerated && self.config.slots.lanes <= 1 && self.checkers.audit.is_active() {
            let taken: Vec<u32> =
                shown.iter().flat_map(|(_, shown)| &shown.slots).map(|(slot, _)| *slot).collect();
            let waiting = shown.iter().filter_map(|(node, shown)| {
                Some((*node, shown.stamp, self.pending_requests.first(*node)?))
            });
            let verdict = NotLeftLying::verdict(waiting, &taken, k, self.now);
            self.checkers.report(verdict);
        }
    }

    /// Detectors run only while there is a crash to find: no further process crashes.
    fn drain_step(&mut self, at: Time, event: EventOf<M, D>) {
        if event.is_probe() && self.all_crashes_known() {
            self.probes -= 1;
        } else {
            self.step(at, event);
        }
    }

    /// Whether nothing can change any more.
    fn settled(&self) -> bool {
        self.only_probes_left() && self.all_crashes_known()
    }

    /// Were the crashes known in time? A process that restarts or resumes after a pause learns of
    /// them later, so such runs have no bound.
    pub(super) fn check_detection(&mut self) {
        let prompt = self.recoveries == 0
            && self.down.is_empty()
            && self.config.disturbance.pauses.is_empty();
        let bound = self.config.known_within(self.crashed).filter(|_| prompt);
        if let Some(bound) = bound {
            self.checkers.detected(&self.awareness.losses(), bound, self.end);
        }
    }

    /// Called before a client acts: if nothing could happen without clients while a request waits,
    /// that is a deadlock.
    pub(super) fn check_deadlock(&mut self) {
        let all_take_part = self.down.is_empty() && self.paused.is_empty();
        let stands_still = self.checkers.waiting() > 0 && self.held.is_empty() && all_take_part;
        if stands_still && self.crashed <= self.config.claims.tolerates && self.all_crashes_known()
        {
            // Disarmed timers are still in the queue, so a deadlock may be noticed late; but never
            // wrongly.
            let asking = if self.config.claims.slots {
                self.pending_requests.due_events()
            } else {
                self.due.count_ones(..)
            };
            if self.queue.len() == self.probes + asking && !self.network.is_stuck(self.now) {
                self.checkers.quiet(self.now);
            }
        }
    }

    /// Whether every live process knows of every crash, or takes no notifications.
    pub(super) fn all_crashes_known(&self) -> bool {
        self.awareness.complete() || self.config.claims.detector.is_none()
    }

    /// A span far longer than any grant can take after the one before: crashes become known, and
    /// every queue empties.
    fn patience(&self) -> Span {
        let nodes = u64::from(self.config.nodes);
        let rounds = u64::from(nodes.ilog2() + 1).pow(2) * (u64::from(self.crashed) + 1);
        let refresh = self.config.refresh.unwrap_or_default();
        let timeouts = self.config.own_detector().map_or(0, |_| nodes);
        let detection = refresh.max(self.config.detection.interval)
            + self.config.detection.timeout.times(timeouts);
        let cost = &self.config.cost;
        // Beyond what the protocol tolerates no grant is promised, so the run does not wait for
        // every queue to empty.
        let turns =
            if self.crashed > self.config.claims.tolerates { 4 } else { nodes.min(1 << 12) * 4 };
        let queues = (cost.send + cost.receive).times(nodes * turns);
        let delays = cost.latency.typical().times(64);
        let oracle = self.config.detection.oracle.unwrap_or(Span::ZERO)
            + self.config.agreement.times().max().unwrap_or_default();
        // Tokens that take turns down a tree reach its leaves once in as many waves as it has
        // leaves, which may double per level.
        let waves = if self.config.claims.heals { 1 << nodes.min(12) } else { 1 };
        // A relay is found in at most two turns of all ways, at growing intervals, and forgotten
        // after a while (`home`, H19).
        let repeats = if self.config.claims.follows_log { 64 * nodes.min(64) + 128 } else { 8 };
        let patience = self.config.load.patience
            + self.config.slots.ask_again.unwrap_or_default().times(repeats);
        detection.times(rounds * waves)
            + if self.config.claims.slots { patience } else { Span::ZERO }
            + queues
            + delays
            + oracle
            + self.config.load.hold.times(nodes)
            + Span::UNIT
    }
}
