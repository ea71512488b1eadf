//! Who crashes, and who learns of it: by a detector, or by the oracle that takes its place.

use kgate_core::{Incarnation, Input, NodeId, Protocol, Span, Time};
use kgate_spec::trace;

use super::event::{Event, EventOf};
use super::{Label, Simulation};
use crate::queue::EventQueue;

impl<M: Protocol, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// A process crashes for good.
    pub(super) fn crash(&mut self, at: Time, node: NodeId) {
        self.now = at;
        self.count(node, Label::bare(7));
        self.write(node, &trace::Event::Crash);
        self.untold -= u64::from(self.crashed - self.told.remove(&node).unwrap_or(0));
        self.alive.remove(node.index());
        self.crashed += 1;
        self.untold += u64::from(self.config.nodes - self.crashed);
        self.judges.crashed(node);
        if let Some(within) = self.config.detection.oracle {
            for other in self.alive.ones().collect::<Vec<_>>() {
                let other = NodeId(u32::try_from(other).expect("a node's index"));
                let at = self.now + Span(self.news_dice.within(1.min(within.0), within.0));
                self.queue.push(at, Event::News { node: other, crashed: node });
            }
        }
    }

    /// `node` learns that `crashed` has crashed; the judges check that it has.
    pub(super) fn tell(&mut self, node: NodeId, crashed: NodeId) {
        if !self.alive.contains(node.index()) {
            return;
        }
        if self.alive.contains(crashed.index()) {
            self.judges.wrongly_suspected(node, crashed, self.now);
        } else {
            *self.told.entry(node).or_default() += 1;
            self.untold -= 1;
        }
        self.write(node, &trace::Event::Suspected { whom: crashed });
        self.mutex_input(node, Label::of(8, crashed, 0), Input::Crashed(crashed, Incarnation::default()));
    }
}
