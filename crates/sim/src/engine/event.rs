//! What can happen in a run.
//!
//! Millions of deliveries are in flight, so `Deliver` alone holds a message; the rarer events that
//! carry one have it in a box. Then the compiler needs no room for a tag: an event is 24 bytes for
//! a message of 16.

use kgate_core::{GrantId, NodeId, Protocol};

/// The events of a pair of mutex and detector.
pub(super) type EventOf<M, D> = Event<
    <M as Protocol>::Message,
    <M as Protocol>::Timer,
    <D as Protocol>::Message,
    <D as Protocol>::Timer,
>;

/// One event.
#[derive(Clone, Debug)]
pub(super) enum Event<M, T, DM, DT> {
    /// A message of the mutex is handed over.
    Deliver { from: NodeId, to: NodeId, message: M },
    /// One record for a broadcast whose copies all arrive at once: handed to everybody else, in the
    /// order of ids.
    DeliverAll { from: NodeId, message: Box<M> },
    /// A message of the mutex enters the receive queue.
    Arrive(Box<(NodeId, NodeId, M)>),
    /// A message of the detector is handed over.
    Probe { from: NodeId, to: NodeId, message: DM },
    /// The same to everybody else.
    ProbeAll { from: NodeId, message: Box<DM> },
    /// A timer of the mutex runs out, unless it was armed anew or disarmed.
    Timer { node: NodeId, generation: u64, timer: T },
    /// A timer of the detector runs out, likewise.
    ProbeTimer { node: NodeId, generation: u64, timer: DT },
    /// A client wants in.
    Acquire { node: NodeId, incarnation: u32 },
    /// A client comes out.
    Release { node: NodeId, grant: GrantId },
    /// The oracle tells a process of a crash, in this incarnation of it.
    CrashNotice { node: NodeId, crashed: NodeId, incarnation: u32 },
    /// A process hears of a crash or a return, in this incarnation of it; `place` is where that is
    /// recorded.
    MembershipNotice { node: NodeId, incarnation: u32, place: u32 },
    /// A process learns of another k, in this incarnation of it; `place` is that among the resizes.
    ResizeNotice { node: NodeId, incarnation: u32, place: u32 },
    /// A client gives up, if the request of that number still waits.
    GiveUp { node: NodeId, number: u64 },
    /// A message leaves the receive queue of a process that may have crashed since it entered.
    Received(Box<(NodeId, NodeId, M, u32)>),
}

impl<M, T, DM, DT> Event<M, T, DM, DT> {
    /// Whom it happens to; none if to many, which is not so where processes stop.
    pub(super) fn whose(&self) -> Option<NodeId> {
        match *self {
            Self::Deliver { to, .. } | Self::Probe { to, .. } => Some(to),
            Self::Timer { node, .. }
            | Self::ProbeTimer { node, .. }
            | Self::Acquire { node, .. }
            | Self::Release { node, .. }
            | Self::MembershipNotice { node, .. }
            | Self::ResizeNotice { node, .. }
            | Self::GiveUp { node, .. }
            | Self::CrashNotice { node, .. } => Some(node),
            Self::Arrive(ref arrived) => Some(arrived.1),
            Self::Received(ref received) => Some(received.1),
            Self::DeliverAll { .. } | Self::ProbeAll { .. } => None,
        }
    }

    /// Whether it is the detector's.
    pub(super) fn is_probe(&self) -> bool {
        matches!(self, Self::Probe { .. } | Self::ProbeAll { .. } | Self::ProbeTimer { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kgate_core::Never;

    /// Of the size of the papers' messages: a request or reply with a clock, a source and one of
    /// several kinds.
    #[allow(dead_code)]
    enum Usual {
        Reply { clock: u64 },
        Request { clock: u64, source: NodeId },
        Ack { clock: u64, source: NodeId },
    }

    /// A million deliveries in flight take 24 MB, not more.
    #[test]
    fn a_delivery_needs_no_tag() {
        assert_eq!(size_of::<Usual>(), 16);
        assert_eq!(size_of::<Event<Usual, Never, Never, Never>>(), 24);
    }
}
