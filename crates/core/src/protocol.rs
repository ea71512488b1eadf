//! The one trait that every algorithm implements and every driver drives.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    Defects, Graph, Incarnation, InputOf, LogView, Mechanism, Message, NodeId, Observation, Outbox,
    Refusal, SlotOptions, Span, Time, ViewId,
};

/// What a process knows when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// This process.
    pub me: NodeId,
    /// Number of processes, numbered 0 .. n-1 (the papers' n).
    pub nodes: u32,
    /// Number of slots (the papers' k).
    pub k: u32,
    /// Interval of a detector's tests or heartbeats.
    pub detect_interval: Span,
    /// Time that a detector waits for an answer before it declares the silent process crashed.
    pub detect_timeout: Span,
    /// Known defects that run instead of their repairs. Always empty at a node.
    pub defects: Defects,
    /// Number of crashes to tolerate, for an algorithm that must know it beforehand
    /// (timer-free-2009's f).
    pub tolerate: u32,
    /// Interval at which an idle process sends, where the algorithm would otherwise fall silent;
    /// never, if none.
    pub refresh: Option<Span>,
    /// The graph of neighbours, where processes do not all talk to each other.
    pub graph: Option<Arc<Graph>>,
    /// The incarnation of this process that begins: 0 for its first, one more after each crash from
    /// which it returns without state. Where a log decides the membership, this is the number of
    /// times that the log has added the process, after a crash or after an eviction that the
    /// process survived: a smaller value would let it act under an earlier incarnation.
    pub incarnation: Incarnation,
    /// Options of an algorithm with numbered slots.
    pub slots: SlotOptions,
    /// The members at the start, where a log has decided them; every process in its first
    /// incarnation, if none.
    pub initial_members: Option<InitialMembers>,
    /// What the log says when the process starts, for a protocol that takes
    /// [`Input::Applied`](crate::Input::Applied); [`LogView::initial`], if none.
    pub log: Option<Arc<LogView>>,
}

/// The members when a gate is created, as the log decides them: the same for every process that
/// creates it. A process that is not among them becomes a member when the log adds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitialMembers {
    /// The view in which the gate is created: later than the views that began these incarnations.
    pub view: ViewId,
    /// The members, each with its incarnation.
    pub members: Vec<(NodeId, Incarnation)>,
}

impl Setup {
    /// The setup of process 0 of `nodes` that share k slots: times of one unit, no defects, no
    /// graph, no crash to tolerate.
    pub fn new(nodes: u32, k: u32) -> Self {
        Self {
            me: NodeId(0),
            nodes,
            k,
            detect_interval: Span::UNIT,
            detect_timeout: Span::UNIT,
            defects: Defects::NONE,
            tolerate: 0,
            refresh: None,
            graph: None,
            incarnation: Incarnation::default(),
            slots: SlotOptions::default(),
            initial_members: None,
            log: None,
        }
    }
}

/// One algorithm as a state machine: a mutex, or a failure detector. The head of the crate states
/// the laws that every implementation keeps.
///
/// What a single driver needs beyond this is a trait of its own, with a default for everything:
/// [`Explorable`](crate::Explorable) for the model checker,
/// [`TransientFaults`](crate::TransientFaults) for the simulator and [`Suspend`](crate::Suspend)
/// for a node. A protocol that has nothing to say there implements them with an empty block.
pub trait Protocol: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// The protocol's name in tables and on the command line.
    const NAME: &'static str;
    /// By what the protocol excludes; tells the property checkers which rules apply to it.
    const MECHANISM: Mechanism = Mechanism::Other;
    /// The messages between processes.
    type Message: Message;
    /// The timers; each variant says when it fires and who disarms it.
    type Timer: Clone + Debug + Ord + Hash + Send + Sync + 'static;
    /// The state that survives a crash of the process or a clean stop.
    type Durable: Clone + Debug + Eq + Hash + Send + Sync + Serialize + DeserializeOwned + 'static;

    /// Starts a process, or restarts it with the state that it had stored.
    fn start(setup: &Setup, restored: Option<Self::Durable>, out: &mut Outbox<Self>) -> Self;

    /// Applies one input at time `now`. An `Err` guarantees that nothing has changed.
    fn handle(
        &mut self,
        now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal>;

    /// A read-only projection of the state, for checkers and screens.
    fn observe(&self) -> Observation;
}
