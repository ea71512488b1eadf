//! Paused processes, and messages that are delayed, lost or duplicated.

use fixedbitset::FixedBitSet;
use kgate_core::{Message, NodeId, Protocol, Time, TransientFaults};
use kgate_spec::trace;

use super::event::EventOf;
use super::{Label, Simulation};
use crate::config::Config;
use crate::cost::ReceiveCost;
use crate::disturbance::{Chance, Direction};
use crate::queue::EventQueue;
use crate::rng::Rng;

/// The faults of the network.
pub(super) struct NetworkFaults {
    rng: Rng,
    loss: Chance,
    duplicates: Chance,
    cuts: Vec<Cut>,
    /// Links that lose everything from some time on.
    cut_links: Vec<(NodeId, NodeId, Time)>,
    /// Messages that would cross a cut are lost instead of delayed.
    drops: bool,
    /// The end of loss and duplication.
    end: Time,
}

struct Cut {
    inside: FixedBitSet,
    direction: Direction,
    from: Time,
    until: Time,
}

/// The disturbances so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DisturbanceCounts {
    pub(crate) pauses: u32,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) delayed: u64,
}

impl NetworkFaults {
    /// The network faults of a run; none if it has none.
    pub(super) fn new(config: &Config) -> Option<Self> {
        let disturbance = &config.disturbance;
        let end = Time::ZERO + config.duration;
        let cuts = disturbance.partitions.iter().map(|partition| {
            let mut inside = FixedBitSet::with_capacity(config.nodes as usize);
            inside.extend(partition.nodes.iter().map(|node| node.index()));
            let (from, until) =
                (Time::ZERO + partition.from, (Time::ZERO + partition.until).min(end));
            Cut { inside, direction: partition.direction, from, until }
        });
        let cut_links = disturbance.cuts.iter();
        let cut_links = cut_links.map(|cut| (cut.from, cut.to, Time::ZERO + cut.at));
        disturbance.affects_network().then(|| Self {
            rng: Rng::fork(config.seed, "trouble"),
            loss: disturbance.loss,
            duplicates: disturbance.duplicates,
            cuts: cuts.collect(),
            cut_links: cut_links.collect(),
            drops: config.claims.tolerates_loss,
            end,
        })
    }

    /// The number of copies of a message that leaves at `departure`: 0 if it is lost.
    fn copies(&mut self, departure: Time) -> u32 {
        if departure > self.end {
            return 1;
        }
        if self.loss.happens(&mut self.rng) {
            return 0;
        }
        if self.duplicates.happens(&mut self.rng) { 2 } else { 1 }
    }

    /// When a message that would arrive at `at` does arrive; none if a cut loses it. Delays by cuts
    /// keep the order.
    pub(super) fn after_cuts(&self, from: NodeId, to: NodeId, mut at: Time) -> Option<Time> {
        while let Some(cut) = self.cuts.iter().find(|cut| cut.blocks(from, to, at)) {
            if self.drops {
                return None;
            }
            at = cut.until;
        }
        let is_cut =
            self.cut_links.iter().any(|link| (link.0, link.1) == (from, to) && link.2 <= at);
        (!is_cut).then_some(at)
    }
}

impl Cut {
    fn blocks(&self, from: NodeId, to: NodeId, at: Time) -> bool {
        let inside = |node: NodeId| self.inside.contains(node.index());
        let crosses = match self.direction {
            Direction::Both => inside(from) != inside(to),
            Direction::Outbound => inside(from) && !inside(to),
            Direction::Inbound => !inside(from) && inside(to),
        };
        crosses && self.from <= at && at < self.until
    }
}

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// Pauses a process, unless it has crashed.
    pub(super) fn pause(&mut self, node: NodeId) {
        if self.alive.contains(node.index()) {
            self.count(node, Label::bare(12));
            self.write(node, &trace::Event::Pause);
            self.disturbed.pauses += 1;
            self.paused.insert(node, Vec::new());
        }
    }

    /// Resumes a process, unless it has crashed meanwhile.
    pub(super) fn resume(&mut self, node: NodeId) {
        if self.paused.contains_key(&node) {
            self.count(node, Label::bare(13));
            self.write(node, &trace::Event::Resume);
            self.check_lease(node);
            self.deliver_deferred(node);
        }
    }

    /// Delivers the deferred events of a process now, in order. If it has just crashed, they find
    /// it crashed.
    pub(super) fn deliver_deferred(&mut self, node: NodeId) {
        let waited = self.paused.remove(&node).unwrap_or_default();
        if !waited.is_empty() {
            self.recovery.not_before(self.now);
        }
        for event in waited {
            if event.is_probe() {
                self.push_probe(self.now, event)
            } else {
                self.queue.push(self.now, event)
            }
        }
    }

    /// Defers an event whose process is paused; false if it is not.
    #[cold]
    pub(super) fn defer_if_paused(&mut self, event: &EventOf<M, D>) -> bool {
        let Some(waiting) = event.target().and_then(|node| self.paused.get_mut(&node)) else {
            return false;
        };
        waiting.push(event.clone());
        if event.is_probe() {
            self.probes -= 1;
        }
        true
    }

    /// Sends a message in a network with faults.
    #[cold]
    pub(super) fn send_with_faults(
        &mut self,
        from: NodeId,
        to: NodeId,
        kind: usize,
        message: &M::Message,
        departure: Time,
    ) {
        let faults = self.network.faults.as_mut().expect("there is trouble");
        let copies = faults.copies(departure);
        let name = M::Message::kind_name(kind);
        if copies == 2 {
            self.disturbed.duplicated += 1;
            if self.trace.is_on() {
                let text = format!("{message:?}");
                self.write(
                    from,
                    &trace::Event::Duplicated { kind: name.into(), to, message: text.into() },
                );
            }
        }
        let mut lost = copies == 0;
        for _ in 0..copies {
            match self.network.arrival_with_faults(&self.config.cost, from, to, departure) {
                None => lost = true,
                Some((at, late)) => {
                    self.disturbed.delayed += u64::from(late);
                    self.network.note_arrival(at);
                    let event = match self.config.cost.receive_cost {
                        ReceiveCost::Parallel => {
                            super::Event::Deliver { from, to, message: message.clone() }
                        }
                        ReceiveCost::Queue => {
                            super::Event::Arrive(Box::new((from, to, message.clone())))
                        }
                    };
                    self.queue.push(at, event);
                }
            }
        }
        if lost {
            self.disturbed.lost += 1;
            if self.trace.is_on() {
                let text = format!("{message:?}");
                self.write(
                    to,
                    &trace::Event::Lost { kind: name.into(), from, message: text.into() },
                );
            }
        }
    }
}
