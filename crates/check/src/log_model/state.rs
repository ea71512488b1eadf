//! A state of the log model.

use std::sync::Arc;

use kgate_core::{Fence, LogView, NodeId, Phase, Protocol, Refusal};
use smallvec::SmallVec;

use super::permit::Permit;
use crate::state::{Hashed, InFlight, PerProcess, Process};

/// A state: all processes, the log, the clients and the messages at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogState<P: Protocol> {
    /// The processes; shared with earlier states in which they were the same.
    pub processes: PerProcess<Arc<Process<P>>>,
    /// What the model keeps of each process.
    pub nodes: PerProcess<Node>,
    /// What the log says after each entry, from the least one that a process may still apply.
    pub log: SmallVec<[Arc<Hashed<LogView>>; 4]>,
    /// What clients were granted, by fences.
    pub permits: Vec<Permit>,
    /// The messages in flight, in an order that depends on the messages only.
    pub in_flight: Vec<InFlight<P>>,
    /// The links that are cut, each from a sender to a receiver, in order.
    pub cuts: SmallVec<[(NodeId, NodeId); 2]>,
    /// The armed timers, in order.
    pub timers: Vec<(NodeId, P::Timer)>,
    /// The part of the bounds that is used up.
    pub spent: Spent,
    /// The greatest fence of each slot.
    pub fences: SmallVec<[Option<Fence>; 2]>,
    /// The properties that a transition has violated.
    pub broken: Vec<&'static str>,
    /// The last input refused by a process.
    pub refused: Option<(NodeId, Refusal)>,
}

/// What the model keeps of a process besides the process itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// Whether it runs.
    pub run: Run,
    /// Whether it has a lease.
    pub lease: bool,
    /// Whether the lease of this incarnation has ended, so that it may be evicted.
    pub has_lost: bool,
    /// The length of the log that it has applied.
    pub applied: u64,
    /// The last incarnation as which the log has added it.
    pub added: u8,
    /// Whether this process is, or will be, a later incarnation than that.
    pub is_new: bool,
    /// Whether the log suspects it, or drains it.
    pub suspected: bool,
    /// Whether the log drains it.
    pub drained: bool,
    /// The requests issued here.
    pub asked: u8,
    /// The weights of waiting requests, in the order of asking.
    pub waiting: SmallVec<[u8; 8]>,
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Run {
    /// It runs.
    #[default]
    Up,
    /// It has crashed, and will start again.
    Down,
    /// It has crashed permanently.
    Crashed,
}

/// What has been used up of the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spent {
    /// Permanent crashes.
    pub crashes: u8,
    /// Crashes with a restart.
    pub restarts: u8,
    /// Suspicions of processes that run.
    pub suspicions: u8,
    /// Processes drained.
    pub drains: u8,
    /// Leases lost by processes that are up.
    pub lost_leases: u8,
    /// Adoption requests.
    pub adoptions: u8,
    /// Clients that died.
    pub deaths: u8,
    /// Permits that are to be durable.
    pub durable: u8,
    /// Changes of k.
    pub resizes: u8,
    /// Requests withdrawn.
    pub withdrawals: u8,
    /// Messages lost.
    pub losses: u8,
    /// Messages duplicated.
    pub duplicates: u8,
    /// Timers that expired early.
    pub expiries: u8,
}

impl<P: Protocol> LogState<P> {
    /// The ids of the processes, in order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<P> {
        (0..u32::try_from(self.nodes.len()).expect("few")).map(NodeId)
    }

    /// What the model keeps of a process.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// Whether a process runs.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.node(node).run == Run::Up
    }

    /// The phase of a process.
    pub fn phase(&self, node: NodeId) -> Phase {
        self.processes[node.index()].seen.phase
    }

    /// What the whole log says.
    pub fn latest(&self) -> &LogView {
        &self.log.last().expect("never empty").value
    }

    /// The length of the log.
    pub fn length(&self) -> u64 {
        self.latest().index.0
    }

    /// What the log says after that many entries.
    pub fn view(&self, length: u64) -> &Arc<Hashed<LogView>> {
        let first = self.log[0].value.index.0;
        &self.log[usize::try_from(length - first).expect("few")]
    }

    /// What a process has applied.
    pub fn known(&self, node: NodeId) -> &LogView {
        &self.view(self.node(node).applied).value
    }

    /// Whether the log says that this incarnation of a process is a member.
    pub fn is_member(&self, node: NodeId) -> bool {
        self.latest().directory.incarnation(node).is_some()
    }

    /// Whether no message from or to a process is in flight.
    pub fn is_idle(&self, node: NodeId) -> bool {
        !self.in_flight.iter().any(|in_flight| in_flight.from == node || in_flight.to == node)
    }

    /// Whether a message from one process to another does not arrive.
    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// Whether every two of these processes reach each other in both directions, directly or
    /// through a third one of them.
    pub(super) fn are_connected(&self, nodes: &[NodeId]) -> bool {
        let reach = |one, other| !self.is_cut(one, other) && !self.is_cut(other, one);
        let connected = |one: NodeId, other: NodeId| {
            let relays = |relay: &NodeId| {
                ![one, other].contains(relay) && reach(one, *relay) && reach(*relay, other)
            };
            reach(one, other) || nodes.iter().any(relays)
        };
        nodes.iter().all(|one| nodes.iter().all(|other| connected(*one, *other)))
    }

    /// The slots in use, below k.
    pub fn slots_in_use(&self, k: u32) -> u32 {
        let believing = self.permits.iter().filter(|permit| permit.believes());
        believing.map(|permit| permit.slots_in_use(k)).sum()
    }

    /// Makes equal what has the same future: permits that are over go, log entries that all have
    /// applied, and what only a client that still believes needs.
    pub(super) fn normalize(&mut self) {
        let nodes = &self.nodes;
        for permit in &mut self.permits {
            for session in &mut permit.sessions {
                // The barrier (H13) has been reached.
                if session.ended.is_some_and(|at| at <= nodes[session.node.index()].applied) {
                    session.ended = Some(0);
                }
            }
            permit.normalize();
        }
        self.permits.retain(|permit| !permit.is_over());
        self.permits.sort_by_key(|permit| permit.fence);
        let may_apply = self.nodes.iter().filter(|node| node.run == Run::Up);
        let least = may_apply.map(|node| node.applied).min().unwrap_or_else(|| self.length());
        let first = self.log[0].value.index.0;
        self.log.drain(..usize::try_from(least - first).expect("few"));
    }
}
