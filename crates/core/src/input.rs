//! What happens to a protocol.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::{GrantId, Incarnation, NodeId, Protocol, ViewId};

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
    /// An incarnation of a node has ended, for certain: a perfect detector or the agreed log says
    /// so.
    Crashed {
        /// The node.
        node: NodeId,
        /// The incarnation that has ended. A later incarnation of the node is not affected.
        incarnation: Incarnation,
    },
    /// An incarnation of a node becomes a member and thereby begins a view. Every process takes
    /// these inputs in one order, that of the agreed log.
    Joined {
        /// The node.
        node: NodeId,
        /// The incarnation that becomes a member.
        incarnation: Incarnation,
        /// The view that it begins: greater than all views before it.
        view: ViewId,
    },
}

/// The inputs of a protocol.
pub type InputOf<P> = Input<<P as Protocol>::Message, <P as Protocol>::Timer>;
