//! Processes that come back with nothing, in a new incarnation, and who hears of that.
//!
//! With [`MembershipSource::Log`] everybody is told of every crash and every return, in one order,
//! each at a time of its own. The j-th return of all has incarnation j; who is back is told the
//! whole log from its beginning. All may be down at once: the log goes on. With
//! [`MembershipSource::Join`] nobody is told of returns: who is back speaks for itself; crashes are
//! told of a process and its incarnation, in any order, to everybody who is alive. Who is back is
//! told only of those that are down then: a detector that begins anew knows of no earlier
//! incarnations, and to be told of one would let a joiner do without a process that is up
//! (`docs/internals/slots.md`).
//!
//! The clients of a process that crashes are gone with it, waiting or inside; new ones ask when it
//! is back.

use std::collections::BTreeMap;

use kgate_core::{
    Incarnation, Input, MembershipSource, NodeId, Protocol, Span, Time, TransientFaults,
};
use kgate_spec::trace;

use super::event::{Event, EventOf};
use super::{Label, Simulation};
use crate::config::Config;
use crate::queue::EventQueue;

/// What has happened to whom.
pub(super) struct Incarnations {
    membership: MembershipSource,
    records: Vec<Record>,
    /// Which incarnation each process has now, where it is not its first.
    incarnations: BTreeMap<NodeId, Incarnation>,
    /// How many have come back.
    returned: u32,
}

/// A crash or a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) of: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) what: Happened,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// It crashed, and will be back.
    Fell,
    /// It crashed for good.
    Lost,
    /// It is back.
    Returned,
}

impl Incarnations {
    pub(super) fn new(config: &Config) -> Self {
        let membership = config.slots.membership;
        Self { membership, records: Vec::new(), incarnations: BTreeMap::new(), returned: 0 }
    }

    pub(super) fn record(&self, place: u32) -> Record {
        self.records[place as usize]
    }

    pub(super) fn in_one_order(&self) -> bool {
        self.membership == MembershipSource::Log
    }
}

impl<M: TransientFaults, D: Protocol, Q: EventQueue<EventOf<M, D>>> Simulation<'_, M, D, Q> {
    /// A process crashes and will be back in a new incarnation.
    pub(super) fn fall(&mut self, node: NodeId) {
        self.count(node, Label::bare(9));
        self.write(node, &trace::Event::Crash);
        self.end_incarnation(node);
        self.mutex_timers.retain(|(at, _), _| *at != node);
        self.absent.insert(node, false);
        self.awareness.forgets(node);
        self.record(node, Happened::Fell);
    }

    /// A process no longer takes part, nor do its clients.
    pub(super) fn end_incarnation(&mut self, node: NodeId) {
        self.leave(node);
        self.stats.waiting.change(self.now, -self.checkers.waiting_of(node));
        self.checkers.crashed(node);
        self.wishes.forget(node);
    }

    /// A process begins a new incarnation.
    pub(super) fn return_anew(&mut self, node: NodeId) {
        self.recoveries += 1;
        self.count(node, Label::bare(10));
        self.absent.remove(&node);
        self.alive.insert(node.index());
        *self.incarnations.entry(node).or_default() += 1;
        let incarnation = self.incarnation_of(node);
        self.write(node, &trace::Event::Restart { incarnation: Some(incarnation) });
        self.last_news.remove(&node);
        self.network.empty_queues(node, self.now);
        self.checkers.resized(node, self.config.k);
        let setup =
            kgate_core::Setup { incarnation: Incarnation(incarnation), ..self.config.setup(node) };
        self.mutexes[node.index()] = M::start(&setup, None, &mut self.mutex_out);
        self.carry_out_mutex(node);
        self.returns.returned += 1;
        let number = if self.returns.in_one_order() { self.returns.returned } else { incarnation };
        self.returns.incarnations.insert(node, Incarnation(number));
        // First what was: the log is told from its beginning, its own return last.
        for place in 0..self.returns.records.len() {
            if self.returns.in_one_order() || self.is_so_now(self.returns.records[place]) {
                self.let_hear(node, place);
            }
        }
        if self.returns.in_one_order() {
            self.record(node, Happened::Returned);
        }
        self.announce_resizes(node);
        if self.config.asks(node) {
            (0..self.config.load.clients).for_each(|_| self.ask_again(node));
        }
    }

    /// Whether a process is down since that crash.
    fn is_so_now(&self, Record { of, incarnation, .. }: Record) -> bool {
        let present = self.returns.incarnations.get(&of).copied().unwrap_or_default();
        !self.alive.contains(of.index()) && incarnation == present
    }

    /// Something has happened to `node`: all who live will hear of it.
    pub(super) fn record(&mut self, node: NodeId, what: Happened) {
        let incarnation = self.returns.incarnations.get(&node).copied().unwrap_or_default();
        self.returns.records.push(Record { of: node, incarnation, what });
        let place = self.returns.records.len() - 1;
        for other in self.alive.ones().collect::<Vec<_>>() {
            self.let_hear(NodeId(u32::try_from(other).expect("a node's index")), place);
        }
    }

    /// `node` will hear of what is recorded there.
    fn let_hear(&mut self, node: NodeId, place: usize) {
        let in_one_order = self.returns.in_one_order();
        if !in_one_order && self.returns.records[place].of == node {
            return; // A perfect detector tells of others.
        }
        let mut at = self.now + Span(self.news_rng.within(0, self.news_time().0));
        if in_one_order {
            let last = self.last_news.entry(node).or_insert(Time::ZERO);
            at = at.max(*last);
            *last = at;
        }
        let (incarnation, place) =
            (self.incarnation_of(node), u32::try_from(place).expect("few crashes"));
        self.queue.push(at, Event::Hear { node, incarnation, place });
    }

    /// Within what time everybody hears of a crash, a return or another k.
    pub(super) fn news_time(&self) -> Span {
        self.config.news_within().unwrap_or(self.config.detection.interval)
    }

    /// `node` hears of a crash or a return, unless that was meant for another incarnation of it.
    pub(super) fn hear(&mut self, node: NodeId, incarnation: u32, place: u32) {
        if self.incarnation_of(node) != incarnation || !self.alive.contains(node.index()) {
            return;
        }
        let Record { of, incarnation, what } = self.returns.record(place);
        let number = u64::from(incarnation.0);
        if what == Happened::Returned {
            self.write(node, &trace::Event::Joined { whom: of });
            self.mutex_input(node, Label::of(15, of, number), Input::Joined(of, incarnation));
            return;
        }
        if what == Happened::Lost {
            self.awareness.learn(node, of, self.now);
        }
        self.write(node, &trace::Event::Suspected { whom: of });
        self.mutex_input(node, Label::of(8, of, number), Input::Crashed(of, incarnation));
    }
}
