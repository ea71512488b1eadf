//! Everything at one moment.
//!
//! Millions of these are made, compared and hashed a second, so what they share is shared (a step
//! changes one process), what is small lies inline, and what an unchanged process says of itself is
//! asked for once.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ahash::RandomState;
use kgate_core::{NodeId, Observation, Phase, Protocol, Refusal};
use smallvec::SmallVec;

use crate::client::Client;
use crate::ghost::Ghost;
use crate::log::Log;
use crate::symmetry::Renamings;

/// A row with an element a process.
pub type PerProcess<T> = SmallVec<[T; 4]>;

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<P: Protocol> {
    /// The processes; shared with the states before in which they were the same.
    pub processes: PerProcess<Arc<Process<P>>>,
    /// Their clients.
    pub clients: PerProcess<Client>,
    /// What is on its way: channel by channel, in the order of sending; where that order is nothing
    /// to anybody, in one that depends on the messages alone.
    pub in_flight: Vec<InFlight<P>>,
    /// Timers that run, in order.
    pub timers: Vec<(NodeId, P::Timer)>,
    /// Who has crashed for good; in that order where news come in order, else in the order of ids.
    pub crashed: SmallVec<[NodeId; 4]>,
    /// Who is down and will come back.
    pub down: SmallVec<[NodeId; 4]>,
    /// Who does not know of which crash yet, of whom in which incarnation; in order.
    pub pending: SmallVec<[(NodeId, NodeId, u8); 2]>,
    /// The agreed log of crashes and returns, where there is one.
    pub log: Log,
    /// What has been used up of the bounds.
    pub spent: Spent,
    /// Whether a grant made more units in use than anybody believed to be there, or let somebody in
    /// who was inside.
    pub over_capacity: bool,
    /// An input that a process refused.
    pub refused: Option<(NodeId, Refusal)>,
    /// What checkers remember of the schedule.
    pub ghost: Arc<Hashed<Ghost>>,
    /// Renamings that make no difference, if the search uses them.
    pub renamings: NotCompared<Option<Renamings>>,
}

/// Something that a state carries and that is the same in all of them.
#[derive(Clone, Debug)]
pub struct NotCompared<T>(pub T);

impl<T> PartialEq for NotCompared<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for NotCompared<T> {}

impl<T> Hash for NotCompared<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// What has been used up of the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spent {
    /// Requests withdrawn.
    pub withdrawals: u8,
    /// Processes that went down to come back.
    pub restarts: u8,
    /// Messages lost.
    pub losses: u8,
    /// Messages doubled.
    pub duplicates: u8,
    /// Timers run out, if that is bounded.
    pub expiries: u8,
}

/// What a message says; shared by all states in which it is on its way.
pub type Sent<P> = Arc<Hashed<<P as Protocol>::Message>>;

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InFlight<P: Protocol> {
    /// From whom.
    pub from: NodeId,
    /// To whom.
    pub to: NodeId,
    /// What it says.
    pub message: Sent<P>,
}

impl<P: Protocol> InFlight<P> {
    /// Its channel.
    pub fn channel(&self) -> (NodeId, NodeId) {
        (self.from, self.to)
    }
}

/// One process, with what it says of itself.
#[derive(Clone, Debug)]
pub struct Process<P: Protocol> {
    /// The very protocol, and what it has on stable storage.
    memory: Hashed<(P, Option<P::Durable>)>,
    /// What it says of itself.
    pub seen: Observation,
}

impl<P: Protocol> Process<P> {
    /// A process as it is now.
    pub fn new(protocol: P, stored: Option<P::Durable>) -> Self {
        let seen = protocol.observe();
        Self { memory: Hashed::new((protocol, stored)), seen }
    }

    /// The very protocol.
    pub fn protocol(&self) -> &P {
        &self.memory.value.0
    }

    /// What it has on stable storage.
    pub fn stored(&self) -> Option<&P::Durable> {
        self.memory.value.1.as_ref()
    }
}

/// What a process says of itself follows from the rest.
impl<P: Protocol> PartialEq for Process<P> {
    fn eq(&self, other: &Self) -> bool {
        self.memory == other.memory
    }
}

impl<P: Protocol> Eq for Process<P> {}

impl<P: Protocol> Hash for Process<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.memory.hash(state);
    }
}

/// 64 bits of anything, the same in every run: twice as fast as the standard library's hasher, and
/// the search uses the same one.
pub(crate) fn digest(value: &impl Hash) -> u64 {
    RandomState::with_seeds(0x6b67_6174_6531, 0x6b67_6174_6532, 0x6b67_6174_6533, 0x6b67_6174_6534)
        .hash_one(value)
}

/// Something that is shared by many states, hashed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed<T> {
    pub(crate) digest: u64,
    /// It.
    pub value: T,
}

impl<T: Hash> Hashed<T> {
    /// Hashes it.
    pub fn new(value: T) -> Self {
        Self { digest: digest(&value), value }
    }
}

impl<T> Hash for Hashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest);
    }
}

impl<P: Protocol> State<P> {
    /// The processes, in order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<P> {
        (0..u32::try_from(self.processes.len()).expect("few")).map(NodeId)
    }

    /// Whether a process takes part now.
    pub fn is_up(&self, node: NodeId) -> bool {
        !self.crashed.contains(&node) && !self.down.contains(&node)
    }

    /// Where a process stands.
    pub fn phase(&self, node: NodeId) -> Phase {
        self.processes[node.index()].seen.phase
    }

    /// Whether a client of `node` waits, which is not lost with its process.
    pub fn waits(&self, node: NodeId) -> bool {
        !self.clients[node.index()].waiting.is_empty() && !self.crashed.contains(&node)
    }

    /// Lets the checkers' memory take note of something.
    pub(crate) fn note(&mut self, note: impl FnOnce(&mut Ghost)) {
        let mut ghost = self.ghost.value.clone();
        note(&mut ghost);
        self.ghost = Arc::new(Hashed::new(ghost));
    }

    /// Units that are in use, where k is believed to be that.
    pub fn slots_in_use(&self, k: u32) -> u32 {
        self.clients.iter().flat_map(|client| &client.inside).map(|held| held.slots_in_use(k)).sum()
    }
}
