//! After the measured time: is every request of a live process answered?
//!
//! Nobody asks any more, holders release, no further process crashes. The run goes on until nobody waits. If nothing but
//! detectors is under way and every live process knows of every crash, whoever still waits does so for ever.

use kgate_core::{Protocol, Span};

use super::Simulation;
use super::event::EventOf;
use crate::queue::EventQueue;

impl<M: Protocol, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// Runs on until nobody waits or nothing can change any more; how many wait then. They are a violation unless more
    /// processes crashed than the protocol claims to bear.
    pub(super) fn drain(&mut self, detector: bool) -> usize {
        let detects = detector || self.config.detection.oracle.is_some();
        let mut grants = self.stats.grants;
        let mut give_up = self.now + self.patience();
        while self.judges.waiting() > 0 {
            let settled = self.mutex_is_quiet() && (!detects || self.untold == 0);
            if settled {
                break;
            }
            let Some((at, event)) = self.queue.pop(give_up) else { break };
            self.step(at, event);
            if self.stats.grants != grants {
                grants = self.stats.grants;
                give_up = self.now + self.patience();
            }
        }
        if self.judges.waiting() > 0 && self.crashed <= self.config.bears {
            self.judges.starved(self.now);
        }
        self.judges.waiting()
    }

    /// Far longer than any grant can take after the one before: crashes become known, and every queue empties.
    fn patience(&self) -> Span {
        let nodes = u64::from(self.config.nodes);
        let rounds = u64::from(nodes.ilog2() + 1).pow(2) * (u64::from(self.crashed) + 1);
        let detection = self.config.detection.interval + self.config.detection.timeout.times(nodes);
        let cost = &self.config.cost;
        let queues = (cost.send + cost.receive).times(nodes * nodes.min(1 << 12) * 4);
        let delays = cost.latency.typical().times(64);
        let oracle = self.config.detection.oracle.unwrap_or(Span::ZERO);
        detection.times(rounds) + queues + delays + oracle + self.config.load.hold.times(nodes) + Span::UNIT
    }
}
