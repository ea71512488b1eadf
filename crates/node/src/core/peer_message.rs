//! What nodes say to each other: a message is what a frame of a link carries.
//!
//! Messages of protocols are opaque here. The first byte says which message it is; everything is
//! bounded by the link's frame.

use kgate_control::lease::LeaseMessage;
pub use kgate_control::state::GateId;
use serde::{Deserialize, Serialize};

use super::catalogue::Definition;
use super::view::{GateView, NodeStatus};

/// No gate of a peer has a greater number, so that there is always a next one.
pub(super) const GATE_ID_MAX: GateId = GateId(1 << 31);

/// A message from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerMessage {
    /// A message of a gate's protocol.
    Gate(GateId, Vec<u8>),
    /// A message of the detector.
    Detector(Vec<u8>),
    /// The gates of my configuration: yours must be the same.
    ConfiguredGates(Vec<Definition>),
    /// Do you know a gate of that name, and what is the last number that you know? Answered by
    /// `Known`.
    Collect {
        /// Names the question.
        round: u64,
        /// The gate's name.
        name: String,
    },
    /// The answer to `Collect`.
    Known {
        /// Which question.
        round: u64,
        /// The gate, if it is known.
        definition: Option<Definition>,
        /// The greatest number of a gate that is known.
        last: GateId,
    },
    /// There is this gate. Answered by `Defined`.
    Define {
        /// Names the announcement.
        round: u64,
        /// The gate.
        definition: Definition,
    },
    /// The answer to `Define`.
    Defined {
        /// Which announcement.
        round: u64,
    },
    /// You speak of a gate that I do not know: define it. Answered by `Define`.
    DescribeGate(GateId),
    /// What do you see of that gate? Answered by `StatusReply`.
    StatusQuery {
        /// Names the question.
        question: u64,
        /// Its name; all gates, if none.
        gate: Option<String>,
    },
    /// The answer to `StatusQuery`.
    StatusReply {
        /// Which question.
        question: u64,
        /// What is to be seen.
        gates: Vec<GateView>,
        /// Who looked, where.
        who: NodeStatus,
    },
    /// Whether somebody watches here: then I want to know of changes.
    Watch(bool),
    /// Something has changed here.
    Changed,
    /// This node stops now, after its last grant was given back: it takes part no more.
    Leaving,
    /// I hold you for crashed: stop.
    DeclaredDead,
    /// I have met everybody: crashes can be looked for as far as I am concerned.
    MetAll,
    /// About leases, between nodes and voters.
    Lease(LeaseMessage),
    /// Of the agreed log: not for the core, but for whoever runs the log beside it.
    Log(Vec<u8>),
}

/// The first byte of a message about leases.
const LEASE: u8 = 15;
/// The first byte of a message of the log.
const LOG: u8 = 16;

impl PeerMessage {
    /// Whether it is about which gates there are. Only nodes without a log agree on that by
    /// messages.
    pub(super) fn is_of_catalogue(&self) -> bool {
        matches!(
            self,
            Self::ConfiguredGates(_)
                | Self::Collect { .. }
                | Self::Known { .. }
                | Self::Define { .. }
                | Self::Defined { .. }
                | Self::DescribeGate(_)
        )
    }

    /// Whether these bytes are about leases: before they are read, the newest voters of the log are
    /// (rule N4).
    pub fn is_lease(bytes: &[u8]) -> bool {
        bytes.first() == Some(&LEASE)
    }

    /// What is in a message of the log, if it is one.
    pub fn of_log(bytes: &[u8]) -> Option<&[u8]> {
        let (&first, rest) = bytes.split_first()?;
        let (inside, end) = postcard::take_from_bytes::<&[u8]>(rest).ok()?;
        (first == LOG && end.is_empty()).then_some(inside)
    }

    /// As bytes.
    pub fn bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("messages can be written")
    }

    /// From bytes; none if they are no message.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (message, rest) = postcard::take_from_bytes(bytes).ok()?;
        rest.is_empty().then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use kgate_core::Incarnation;

    use super::*;

    /// PeerMessages of the log and about leases are known by their first byte; no other message is
    /// taken for one.
    #[test]
    fn some_go_another_way() {
        let log = PeerMessage::Log(vec![7; 300]).bytes();
        assert_eq!(
            (PeerMessage::of_log(&log), PeerMessage::is_lease(&log)),
            (Some(&[7; 300][..]), false)
        );
        let ping =
            PeerMessage::Lease(LeaseMessage::Ping { incarnation: Incarnation(1), seq: 2 }).bytes();
        assert_eq!((PeerMessage::of_log(&ping), PeerMessage::is_lease(&ping)), (None, true));
        let other = PeerMessage::Gate(GateId(3), vec![1]).bytes();
        assert_eq!((PeerMessage::of_log(&other), PeerMessage::is_lease(&other)), (None, false));
        assert_eq!(PeerMessage::of_log(&log[..20]), None);
    }
}
