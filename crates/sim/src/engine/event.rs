//! The events of a run.
//!
//! Millions of deliveries are in flight, so only `Deliver` holds a message inline; rarer events box
//! theirs. Then the compiler needs no room for a tag: an event takes 24 bytes for a message of 16.

use kgate_core::{GrantId, NodeId, Protocol};

use super::permits::ClientStep;

/// The events of a pair of mutex protocol and detector.
pub(super) type EventOf<M, D> = Event<
    <M as Protocol>::Message,
    <M as Protocol>::Timer,
    <D as Protocol>::Message,
    <D as Protocol>::Timer,
>;

/// One event.
#[derive(Clone, Debug)]
pub(super) enum Event<M, T, DM, DT> {
    /// A message of the mutex protocol is delivered.
    Deliver { from: NodeId, to: NodeId, message: M },
    /// One record for a broadcast whose copies all arrive at once: delivered to every other
    /// process, in the order of ids.
    DeliverAll { from: NodeId, message: Box<M> },
    /// A message of the mutex protocol enters the receive queue.
    Arrive(Box<(NodeId, NodeId, M)>),
    /// A message of the detector is delivered.
    Probe { from: NodeId, to: NodeId, message: DM },
    /// A message of the detector is delivered to every other process.
    ProbeAll { from: NodeId, message: Box<DM> },
    /// A timer of the mutex protocol expires, unless it was re-armed or disarmed.
    Timer { node: NodeId, generation: u64, timer: T },
    /// A timer of the detector expires, likewise.
    ProbeTimer { node: NodeId, generation: u64, timer: DT },
    /// A client asks.
    Acquire { node: NodeId, incarnation: u32 },
    /// A client releases its grant.
    Release { node: NodeId, grant: GrantId },
    /// The oracle notifies this incarnation of a process of a crash.
    CrashNotice { node: NodeId, crashed: NodeId, incarnation: u32 },
    /// This incarnation of a process is notified of a crash or a return; `place` is the index of
    /// the record.
    MembershipNotice { node: NodeId, incarnation: u32, place: u32 },
    /// This incarnation of a process is notified of a new k; `place` is the index of the resize.
    ResizeNotice { node: NodeId, incarnation: u32, place: u32 },
    /// The agreed log decides an entry; `place` is the index of the plan.
    Decide { place: u32 },
    /// A process applies the agreed log up to the entry `place`, unless it has restarted since.
    Apply { node: NodeId, start: u32, place: u32 },
    /// The client that was let in by this grant acts, if it is still inside.
    Client(Box<((NodeId, GrantId), ClientStep)>),
    /// A client goes on by an adopted grant, if it still waits for that.
    Confirm { node: NodeId, grant: GrantId },
    /// The deadline of a session may have passed.
    SessionEnd { node: NodeId, grant: GrantId },
    /// A client withdraws, if the request of that number still waits.
    Withdraw { node: NodeId, number: u64 },
    /// A message leaves the receive queue of a process that may have crashed since it entered.
    Received(Box<(NodeId, NodeId, M, u32)>),
}

impl<M, T, DM, DT> Event<M, T, DM, DT> {
    /// The process concerned; none if several, which does not occur in runs with pauses.
    pub(super) fn target(&self) -> Option<NodeId> {
        match *self {
            Self::Deliver { to, .. } | Self::Probe { to, .. } => Some(to),
            Self::Timer { node, .. }
            | Self::ProbeTimer { node, .. }
            | Self::Acquire { node, .. }
            | Self::Release { node, .. }
            | Self::MembershipNotice { node, .. }
            | Self::ResizeNotice { node, .. }
            | Self::Withdraw { node, .. }
            | Self::Apply { node, .. }
            | Self::Confirm { node, .. }
            | Self::SessionEnd { node, .. }
            | Self::CrashNotice { node, .. } => Some(node),
            Self::Arrive(ref arrived) => Some(arrived.1),
            Self::Received(ref received) => Some(received.1),
            Self::DeliverAll { .. }
            | Self::ProbeAll { .. }
            | Self::Decide { .. }
            | Self::Client(_) => None,
        }
    }

    /// Whether the event is the detector's.
    pub(super) fn is_probe(&self) -> bool {
        matches!(self, Self::Probe { .. } | Self::ProbeAll { .. } | Self::ProbeTimer { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kgate_core::Never;

    /// A message of the papers' size: a request or reply with a clock, a source and a kind.
    #[allow(dead_code)]
    enum Usual {
        Reply { clock: u64 },
        Request { clock: u64, source: NodeId },
        Ack { clock: u64, source: NodeId },
    }

    /// A delivery takes 24 bytes: a million of them in flight take 24 MB.
    #[test]
    fn a_delivery_takes_24_bytes() {
        assert_eq!(size_of::<Usual>(), 16);
        assert_eq!(size_of::<Event<Usual, Never, Never, Never>>(), 24);
    }
}
