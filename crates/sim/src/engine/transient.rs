//! Transient faults: memory and channels become arbitrary, while the program stays.
//!
//! A run with transient faults is checked from the moment at which it has recovered. The protocol
//! decides whether it has, with a view of all processes ([`TransientFaults::settled`]), but not
//! before everything has arrived that was in flight at the last fault.

use kgate_core::{NodeId, Protocol, Span, Time, TransientFaults};
use kgate_spec::trace;

use super::event::{Event, EventOf};
use super::{Label, Simulation};
use crate::config::Config;
use crate::queue::EventQueue;
use crate::rng::Rng;

/// Whether a run has recovered from its transient faults.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    rng: Rng,
    /// The number of faults still to come.
    ahead: usize,
    /// When the last message sent or forged before the last fault arrives; none if there was no
    /// fault, or the run has recovered.
    unsettled: Option<Time>,
    settled_at: Option<Time>,
}

impl Recovery {
    pub(super) fn new(config: &Config) -> Self {
        let ahead = config.transient.strikes.len();
        let rng = Rng::fork(config.seed, "transient");
        Self { rng, ahead, unsettled: None, settled_at: None }
    }

    /// Whether the run still has to recover.
    #[inline]
    pub(super) fn pending(&self) -> bool {
        self.unsettled.is_some()
    }

    /// A message that was in flight arrives only now.
    pub(super) fn not_before(&mut self, now: Time) {
        if let Some(arrived) = &mut self.unsettled {
            *arrived = now.max(*arrived);
        }
    }

    /// The time at which the run had recovered from the last fault; none if it has not, or had no
    /// fault.
    pub(super) fn settled_at(&self) -> Option<Time> {
        self.settled_at.filter(|_| self.unsettled.is_none())
    }
}

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// Every process starts in an arbitrary state, if so configured.
    pub(super) fn scramble_all(&mut self) {
        if self.config.transient.start {
            self.recovery.ahead += self.config.nodes as usize;
            for node in (0..self.config.nodes).map(NodeId) {
                self.corrupt(node);
            }
        }
    }

    /// A transient fault corrupts a process and the channels to it.
    pub(super) fn corrupt(&mut self, node: NodeId) {
        self.count(node, Label::bare(11));
        self.write(node, &trace::Event::Fault);
        self.recovery.ahead -= 1;
        let Self { recovery, mutexes, .. } = self;
        let struck = mutexes[node.index()].scramble(&mut |bound| recovery.rng.below(bound));
        assert!(struck, "only protocols that claim to recover are corrupted");
        let arrived = self.forge(node).max(self.network.latest());
        self.recovery.unsettled = Some(arrived.max(self.recovery.unsettled.unwrap_or_default()));
        self.checkers.excuse(self.now);
    }

    /// Puts forged messages into the channels to `node`; returns when the last one arrives.
    fn forge(&mut self, node: NodeId) -> Time {
        let mut last = self.now;
        let setup = self.config.setup(node);
        let graph = setup.graph.clone().expect("a self-stabilising protocol runs on a graph");
        for &from in graph.neighbours(node) {
            for _ in 0..self.recovery.rng.below(u64::from(self.config.transient.forged) + 1) {
                let rng = &mut self.recovery.rng;
                let Some(message) = M::forge(&setup, from, &mut |bound| rng.below(bound)) else {
                    continue;
                };
                let at = self.now + Span(rng.below(self.config.cost.latency.typical().0 + 1));
                self.queue.push(at, Event::Deliver { from, to: node, message });
                last = last.max(at);
            }
        }
        last
    }

    /// Resumes the safety checks once the run has recovered.
    pub(super) fn check_settled(&mut self) {
        let quiet = self.recovery.unsettled.is_some_and(|arrived| self.now > arrived);
        if quiet && self.paused.is_empty() && self.recovery.ahead == 0 && M::settled(&self.mutexes)
        {
            self.recovery.unsettled = None;
            self.recovery.settled_at = Some(self.now);
            self.checkers.be_strict(self.now);
            self.write(NodeId(0), &trace::Event::Recovered);
        }
    }
}
