//! What happens to a protocol.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::{GrantId, Incarnation, NodeId, Protocol};

/// One thing that happens to a process. Inputs are imperatives; what the process tells in return
/// are [`Effect`](crate::Effect)s.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Input<M, T> {
    /// The client wants `weight` units. Answered by `Granted`, sooner or later.
    Acquire {
        /// How many units, at least 1.
        weight: u32,
    },
    /// The client no longer wants what it asked for and has not got: of several that wait here, the
    /// one that asked last.
    Withdraw,
    /// The client gives back what it was granted.
    Release {
        /// Which grant.
        grant: GrantId,
    },
    /// The gate has `k` units from now on.
    Resize(u32),
    /// Exactly these slots, in ascending order, are held by entries of the agreed log, as far as it
    /// has been applied here. They are taken until the next input of this kind leaves them out.
    /// Told in the order of the log: before `Crashed` and `Joined` of entries that were applied
    /// with it, and before the `Release` of a grant whose slots are held by the log from now on.
    Reserved(Box<[u32]>),
    /// Whether this node may grant and keep permits (`false`: its lease has lapsed).
    Lease(bool),
    /// A message arrived.
    Deliver {
        /// Who sent it.
        from: NodeId,
        /// What it says.
        message: M,
    },
    /// A timer that was armed and not disarmed has run out.
    Expire(T),
    /// That incarnation of that node has ended; the detector is sure.
    Crashed(NodeId, Incarnation),
    /// A node takes part (again), in this incarnation. Where it is told to everybody in one order,
    /// incarnations are numbered through all nodes, so that the number also names the view which it
    /// begins.
    Joined(NodeId, Incarnation),
}

/// The inputs of a protocol.
pub type InputOf<P> = Input<<P as Protocol>::Message, <P as Protocol>::Timer>;
