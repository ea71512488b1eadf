//! A client with a child process, and its session at p: S1 to S4.

use kgate_core::{Span, Time};

use super::clock::Real;

/// The two processes that kill the child: the front and its guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watchdog {
    Front,
    Guard,
}

/// A message from the client to p.
#[derive(Clone, Copy, Debug)]
pub(super) enum ClientRequest {
    Renew {
        session: u64,
        sent: Time,
    },
    /// The process tree of the child is gone, or the grant was never used.
    Release {
        grant: u64,
    },
}

/// A message from p to the client.
#[derive(Clone, Copy, Debug)]
pub(super) enum NodeReply {
    Valid { session: u64, sent: Time, valid_for: Span },
    Grant { session: u64, grant: u64, valid_for: Span },
    Lost { session: u64 },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    pub(super) grant: u64,
    pub(super) killed: bool,
}

/// The client's side of the session.
pub(super) struct Client {
    pub(super) session: u64,
    /// D, on the client's clock.
    pub(super) deadline: Time,
    pub(super) child: Option<Child>,
    pub(super) frozen_until: Real,
}

/// p's side of the session.
pub(super) struct Server {
    pub(super) session: u64,
    pub(super) open: bool,
    /// The grant in force, if there is one.
    pub(super) grant: Option<u64>,
    pub(super) grants: u64,
    /// S4: when the client counts as gone, on the node's clock.
    pub(super) gone_at: Time,
}
