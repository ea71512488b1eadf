//! The one trait that every algorithm implements and every driver drives.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    Defects, Graph, Incarnation, InputOf, Mechanism, Message, NodeId, Observation, Outbox, Refusal,
    SlotOptions, Span, Time,
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
    pub printed: Defects,
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
    pub view: u32,
    /// Who takes part, in which incarnation.
    pub members: Vec<(NodeId, Incarnation)>,
}

impl Setup {
    /// What process 0 of `nodes` knows that share `permits` units: times of one unit, nothing
    /// printed, no graph, no crash to tolerate.
    pub fn new(nodes: u32, k: u32) -> Self {
        Self {
            me: NodeId(0),
            nodes,
            k,
            detect_interval: Span::UNIT,
            detect_timeout: Span::UNIT,
            printed: Defects::NONE,
            tolerate: 0,
            refresh: None,
            graph: None,
            incarnation: Incarnation::default(),
            slots: SlotOptions::default(),
            initial_members: None,
        }
    }
}

/// One algorithm as a state machine: a mutex, or a failure detector. See the laws in the crate's
/// head.
pub trait Protocol: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// Its name in tables and on the command line.
    const NAME: &'static str;
    /// By what it excludes.
    const MECHANISM: Mechanism = Mechanism::Other;
    /// Its messages.
    type Message: Message;
    /// Its timers; each variant says when it fires and who disarms it.
    type Timer: Clone + Debug + Ord + Hash + Send + Sync + 'static;
    /// What survives a crash of its process, or a clean stop.
    type Durable: Clone + Debug + Eq + Hash + Send + Sync + Serialize + DeserializeOwned + 'static;

    /// A process starts, or starts again with what it had stored.
    fn start(setup: &Setup, restored: Option<Self::Durable>, out: &mut Outbox<Self>) -> Self;

    /// One input happens at `now`. On `Err` nothing has changed.
    fn handle(
        &mut self,
        now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal>;

    /// All that this process knows, to be put away at a clean stop (LEASES R1): the process says
    /// nothing more. Started once with this, the same incarnation goes on as if it had only paused,
    /// and lost all messages meanwhile. None if the algorithm cannot do so, or not with these
    /// options.
    fn suspend(&self) -> Option<Self::Durable> {
        None
    }

    /// A read-only projection for checkers and screens.
    fn observe(&self) -> Observation;

    /// Whether a message to this process means nothing any more: delivered now or at any later
    /// time, it changes nothing and nothing comes of it. An explorer need not tell apart when it
    /// arrives. False is always right.
    fn is_outdated(&self, _from: NodeId, _message: &Self::Message) -> bool {
        false
    }

    /// A transient fault strikes this process: its variables become anything in their domain,
    /// except what it shares with its client (whether that waits or holds). `below(b)` draws a
    /// number below b. False if the algorithm does not claim to recover from that; then nothing has
    /// changed.
    fn scramble(&mut self, _below: &mut dyn FnMut(u64) -> u64) -> bool {
        false
    }

    /// Whether all processes together, as they are now, have recovered from every transient fault:
    /// from here on they are correct. Only an observer can ask this.
    fn settled(_processes: &[Self]) -> bool {
        true
    }

    /// A message to the process of `setup` that nobody sent, as a transient fault may leave it in
    /// the channel from `_from`. None if the algorithm does not claim to tolerate that.
    fn forge(
        _setup: &Setup,
        _from: NodeId,
        _below: &mut dyn FnMut(u64) -> u64,
    ) -> Option<Self::Message> {
        None
    }

    /// The same process under other names: as it would be if every process p were called
    /// `names[p]`. None if the algorithm compares names, so that another naming is another run.
    fn renamed(&self, _names: &[NodeId]) -> Option<Self> {
        None
    }

    /// The same of what a process has stored.
    fn stored_renamed(_stored: &Self::Durable, _names: &[NodeId]) -> Option<Self::Durable> {
        None
    }

    /// The same of a message.
    fn message_renamed(_message: &Self::Message, _names: &[NodeId]) -> Option<Self::Message> {
        None
    }
}
