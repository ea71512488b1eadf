//! What the agreed log says about a gate.

use alloc::boxed::Box;
use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Directory, Incarnation, NodeId, Placement, Term};

/// A position in the agreed log: the number of entries up to and including one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct LogIndex(pub u64);

/// All that the agreed log says about one gate up to an index: a snapshot, so that a process can
/// neither miss an entry nor see the parts of one in the wrong order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogView {
    /// The last entry that has been applied.
    pub index: LogIndex,
    /// The key of the gate, by which its home is chosen.
    pub gate: u64,
    /// [`Directory::changes`] when the gate was created.
    pub created: Term,
    /// The number of slots.
    pub k: u32,
    /// The slots that durable permits hold, in ascending order.
    pub reserved: Box<[u32]>,
    /// The members.
    pub directory: Arc<Directory>,
}

impl LogView {
    /// An empty log: the gate 0 with k slots, and the nodes 0 .. n-1 in their first incarnation.
    pub fn initial(nodes: u32, k: u32) -> Self {
        let members = (0..nodes).map(|node| (NodeId(node), Incarnation::default()));
        Self {
            index: LogIndex::default(),
            gate: 0,
            created: Term::default(),
            k,
            reserved: Box::default(),
            directory: Arc::new(Directory::new(members)),
        }
    }

    /// The home of the gate.
    pub fn home(&self) -> Option<Placement> {
        self.directory.home(self.gate)
    }
    /// The witness of the gate.
    pub fn witness(&self) -> Option<Placement> {
        self.directory.witness(self.gate)
    }
}
