//! What can happen in a run. Small, since millions of these are in flight.

use kgate_core::{GrantId, NodeId, Protocol};

/// The events of a pair of mutex and detector.
pub(super) type EventOf<M, D> =
    Event<<M as Protocol>::Message, <M as Protocol>::Timer, <D as Protocol>::Message, <D as Protocol>::Timer>;

/// One event.
#[derive(Clone, Debug)]
pub(super) enum Event<M, T, DM, DT> {
    /// A message of the mutex is handed over.
    Deliver { from: NodeId, to: NodeId, message: M },
    /// One record for a broadcast whose copies all arrive at once: handed to everybody else, in the order of ids.
    DeliverAll { from: NodeId, message: M },
    /// A message of the mutex enters the receive queue.
    Arrive { from: NodeId, to: NodeId, message: M },
    /// A message of the detector is handed over.
    Probe { from: NodeId, to: NodeId, message: DM },
    /// The same to everybody else.
    ProbeAll { from: NodeId, message: DM },
    /// A timer of the mutex runs out, unless it was armed anew or disarmed.
    Timer { node: NodeId, ticket: u64, timer: T },
    /// A timer of the detector runs out, likewise.
    ProbeTimer { node: NodeId, ticket: u64, timer: DT },
    /// A client wants in.
    Acquire { node: NodeId },
    /// A client comes out.
    Release { node: NodeId, grant: GrantId },
    /// The oracle tells a process of a crash.
    News { node: NodeId, crashed: NodeId },
}

/// Whose event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    /// The mutex's: while one is in the queue, something may still be granted.
    Mutex,
    /// The detector's, which goes on for ever.
    Detector,
}

impl<M, T, DM, DT> Event<M, T, DM, DT> {
    #[inline]
    pub(super) fn layer(&self) -> Layer {
        match self {
            Self::Probe { .. } | Self::ProbeAll { .. } | Self::ProbeTimer { .. } => Layer::Detector,
            Self::Deliver { .. }
            | Self::DeliverAll { .. }
            | Self::Arrive { .. }
            | Self::Timer { .. }
            | Self::Acquire { .. }
            | Self::Release { .. }
            | Self::News { .. } => Layer::Mutex,
        }
    }
}
