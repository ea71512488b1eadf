//! The one trait that every algorithm implements and every driver drives.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    Defects, Graph, Incarnation, InputOf, Mechanism, Message, NodeId, Observation, Outbox, Refusal,
    SlotOptions, Span, Time, ViewId,
};

/// What a process knows when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Who it is.
    pub me: NodeId,
    /// How many processes there are, numbered 0 .. n-1 (the papers' n).
    pub nodes: u32,
    /// How many units there are (the papers' k).
    pub k: u32,
    /// How often a detector tests or sends heartbeats.
    pub detect_interval: Span,
    /// How long a detector waits for an answer before it holds the silent one for crashed.
    pub detect_timeout: Span,
    /// Published defects to run as printed.
    pub defects: Defects,
    /// How many crashes an algorithm must tolerate that has to know it beforehand
    /// (timer-free-2009's f).
    pub tolerate: u32,
    /// How often an idle process says something, where an algorithm would else fall silent; never,
    /// if none.
    pub refresh: Option<Span>,
    /// Who is whose neighbour, where not everybody talks to everybody.
    pub graph: Option<Arc<Graph>>,
    /// Which incarnation of this process begins: 0 for its first, one more after each crash from
    /// which it comes back with nothing. Where a log tells who takes part, each time that it adds
    /// this process counts, be it after a crash or after an eviction that the process lived
    /// through: a smaller number would let it take part in a earlier incarnation.
    pub incarnation: Incarnation,
    /// How an algorithm with numbered slots goes about it.
    pub slots: SlotOptions,
    /// Who takes part at first, where a log has told it; everybody in its first incarnation, if
    /// none.
    pub initial_members: Option<InitialMembers>,
}

/// Who takes part when a gate is made, by the log: the same for all that make it. A process that is
/// not among them takes part once the log has added it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitialMembers {
    /// The view in which it is made: later than those that began these incarnations.
    pub view: ViewId,
    /// Who takes part, in which incarnation.
    pub members: Vec<(NodeId, Incarnation)>,
}

impl Setup {
    /// What process 0 of `nodes` knows that share `permits` units: times of one unit, no
    /// defects, no graph, no crash to tolerate.
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
