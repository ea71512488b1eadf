//! The inputs of a protocol.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::{Adoption, GrantId, Incarnation, LogView, NodeId, Protocol, ViewId};

/// One event at a process. Inputs are imperatives; the process answers with
/// [`Effect`](crate::Effect)s.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input<M, T> {
    /// The client requests `weight` slots. Answered by `Granted` or, if k shrinks below the weight,
    /// by `TooLarge`.
    Acquire {
        /// The number of slots, at least 1.
        weight: u32,
    },
    /// The client withdraws a request that has not been granted: the latest of those that wait
    /// here.
    Withdraw,
    /// The client returns what it was granted.
    Release {
        /// The grant that is returned.
        grant: GrantId,
    },
    /// The client of this grant is gone without having returned it: the deadline of its session has
    /// passed, and this process has applied all that the log had decided by then. Nobody here uses
    /// the slots again.
    Lapse {
        /// The grant whose client is gone.
        grant: GrantId,
    },
    /// A client wants to keep, by this node, what another node granted it. Answered by `Adopted` or
    /// `AdoptionRefused`. The driver passes it only if its own lease outlasts the time that the
    /// client has left by `from`.
    Adopt(Box<Adoption>),
    /// The client holds the adopted slots by this node from now on.
    Confirm {
        /// The grant that `Adopted` named.
        grant: GrantId,
    },
    /// The gate has this k from now on.
    Resize(u32),
    /// Exactly these slots, in ascending order, are held by durable permits of the agreed log, as
    /// far as it has been applied here. They count as held until the next input of this kind leaves
    /// them out. Inputs follow the order of the log: this one precedes `Crashed` and `Joined` of
    /// entries that were applied with it, and the `Release` of a grant whose slots the log holds
    /// from now on.
    Reserved(Box<[u32]>),
    /// The agreed log has been applied up to here. Replaces `Resize`, `Reserved`, `Crashed` and
    /// `Joined` for a protocol that follows the log by snapshots. A driver that passes one for each
    /// change of the directory keeps a planned change of home fast; safety does not depend on it.
    /// Precedes the `Release` of a grant whose slots the log holds from now on.
    Applied(Arc<LogView>),
    /// Whether this node may grant and keep slots (`false`: its lease has expired).
    Lease(bool),
    /// A message arrived.
    Deliver {
        /// The sender.
        from: NodeId,
        /// The message.
        message: M,
    },
    /// A timer that was armed and not disarmed has fired.
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
