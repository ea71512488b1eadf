//! A state of the model: all processes, clients and channels at one moment.
//!
//! Millions of states are created, compared and hashed per second. So states share what is equal (a
//! step changes one process), keep small things inline, and observe an unchanged process only once.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ahash::RandomState;
use kgate_core::{NodeId, Observation, Phase, Protocol, Refusal};
use smallvec::SmallVec;

use crate::client::Client;
use crate::ghost::Ghost;
use crate::log::Log;
use crate::symmetry::Renamings;

/// A list with one element per process.
pub type PerProcess<T> = SmallVec<[T; 4]>;

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<P: Protocol> {
    /// The processes; shared with earlier states in which they were the same.
    pub processes: PerProcess<Arc<Process<P>>>,
    /// The clients of each process.
    pub clients: PerProcess<Client>,
    /// The messages in flight, channel by channel in the order of sending; in unordered channels,
    /// in an order that depends on the messages only.
    pub in_flight: Vec<InFlight<P>>,
    /// The armed timers, in order.
    pub timers: Vec<(NodeId, P::Timer)>,
    /// The processes that crashed permanently: in the order of crashes if notifications come in
    /// that order, else in the order of ids.
    pub crashed: SmallVec<[NodeId; 4]>,
    /// The processes that are down and will restart.
    pub down: SmallVec<[NodeId; 4]>,
    /// The pending crash notifications, sorted: the process to notify, the crashed process, and its
    /// incarnation.
    pub pending: SmallVec<[(NodeId, NodeId, u8); 2]>,
    /// The agreed log of crashes and returns, if there is one.
    pub log: Log,
    /// The part of the bounds that is used up.
    pub spent: Spent,
    /// Whether a grant made more slots in use than any process believes to exist, or was the second
    /// of a process that may hold one.
    pub over_capacity: bool,
    /// The last input refused by a process.
    pub refused: Option<(NodeId, Refusal)>,
    /// What the property checkers remember of the schedule.
    pub ghost: Arc<Hashed<Ghost>>,
    /// The renamings for symmetry reduction, if used.
    pub renamings: NotCompared<Option<Renamings>>,
}

/// A value that all states share, so that it is neither compared nor hashed.
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
    /// Crashes with a restart.
    pub restarts: u8,
    /// Messages lost.
    pub losses: u8,
    /// Messages duplicated.
    pub duplicates: u8,
    /// Timers expired, if that is bounded.
    pub expiries: u8,
}

/// A message; shared by all states in which it is in flight.
pub type Sent<P> = Arc<Hashed<<P as Protocol>::Message>>;

/// A message in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InFlight<P: Protocol> {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The message.
    pub message: Sent<P>,
}

impl<P: Protocol> InFlight<P> {
    /// The channel: sender and receiver.
    pub fn channel(&self) -> (NodeId, NodeId) {
        (self.from, self.to)
    }
}

/// One process with its observation.
#[derive(Clone, Debug)]
pub struct Process<P: Protocol> {
    /// The protocol's state and its stable storage.
    memory: Hashed<(P, Option<P::Durable>)>,
    /// The observation of the process.
    pub seen: Observation,
}

impl<P: Protocol> Process<P> {
    /// A process in that state.
    pub fn new(protocol: P, stored: Option<P::Durable>) -> Self {
        let seen = protocol.observe();
        Self { memory: Hashed::new((protocol, stored)), seen }
    }

    /// The protocol's state.
    pub fn protocol(&self) -> &P {
        &self.memory.value.0
    }

    /// The stable storage.
    pub fn stored(&self) -> Option<&P::Durable> {
        self.memory.value.1.as_ref()
    }
}

/// The observation is a function of the rest, so it is not compared.
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

/// A 64-bit hash, the same in every run: twice as fast as the standard library's hasher, and the
/// one that the search uses.
pub(crate) fn digest(value: &impl Hash) -> u64 {
    RandomState::with_seeds(0x6b67_6174_6531, 0x6b67_6174_6532, 0x6b67_6174_6533, 0x6b67_6174_6534)
        .hash_one(value)
}

/// A value that many states share, hashed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed<T> {
    pub(crate) digest: u64,
    /// The value.
    pub value: T,
}

impl<T: Hash> Hashed<T> {
    /// Hashes the value.
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
    /// The ids of the processes, in order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<P> {
        (0..u32::try_from(self.processes.len()).expect("few")).map(NodeId)
    }

    /// Whether a process is up.
    pub fn is_up(&self, node: NodeId) -> bool {
        !self.crashed.contains(&node) && !self.down.contains(&node)
    }

    /// The phase of a process.
    pub fn phase(&self, node: NodeId) -> Phase {
        self.processes[node.index()].seen.phase
    }

    /// Whether a client of `node` waits and is not gone with its process.
    pub fn waits(&self, node: NodeId) -> bool {
        !self.clients[node.index()].waiting.is_empty() && !self.crashed.contains(&node)
    }

    /// Updates the ghost state.
    pub(crate) fn note(&mut self, note: impl FnOnce(&mut Ghost)) {
        let mut ghost = self.ghost.value.clone();
        note(&mut ghost);
        self.ghost = Arc::new(Hashed::new(ghost));
    }

    /// The slots in use, for a process that believes in this k.
    pub fn slots_in_use(&self, k: u32) -> u32 {
        self.clients.iter().flat_map(|client| &client.inside).map(|held| held.slots_in_use(k)).sum()
    }
}
