//! A client with a child, and the desk of its node: S1 to S4.

use kgate_core::{Span, Time};

use super::clock::Real;

/// Who kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Killer {
    Front,
    Guard,
}

/// From the client to its node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plea {
    Renew {
        session: u64,
        sent: Time,
    },
    /// The whole process tree is gone, or the grant was never used.
    Release {
        grant: u64,
    },
}

/// From the node to its client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    Valid { session: u64, sent: Time, valid_for: Span },
    Grant { session: u64, grant: u64, valid_for: Span },
    Lost { session: u64 },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    pub(super) grant: u64,
    pub(super) killed: bool,
}

/// The client's side.
pub(super) struct Client {
    pub(super) session: u64,
    /// D, on the client's clock.
    pub(super) deadline: Time,
    pub(super) child: Option<Child>,
    pub(super) frozen_until: Real,
}

/// The node's side.
pub(super) struct Desk {
    pub(super) session: u64,
    pub(super) open: bool,
    /// The present grant, if there is one.
    pub(super) grant: Option<u64>,
    pub(super) grants: u64,
    /// S4: when the client counts as gone, on the node's clock.
    pub(super) gone_at: Time,
}
