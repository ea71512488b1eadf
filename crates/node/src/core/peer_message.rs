//! Messages between nodes. A frame of a link carries one message.
//!
//! Messages of protocols are opaque here. The first byte is the kind of a message. The link
//! bounds the length of a frame.

use bytes::Bytes;
use kgate_control::lease::LeaseMessage;
pub use kgate_control::state::GateId;
use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::view::{GateView, HolderId, NodeStatus};
use crate::driver::Encoded;

/// The greatest id that a peer may use for a gate, so that there is always a next one.
pub(super) const GATE_ID_MAX: GateId = GateId(1 << 31);

/// A message from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerMessage {
    /// A message of a gate's protocol.
    Gate(GateId, #[serde(with = "payload")] Bytes),
    /// A message of the detector.
    Detector(#[serde(with = "payload")] Bytes),
    /// The gates of the sender's configuration. They must be the same at all nodes.
    ConfiguredGates(Vec<Definition>),
    /// Asks for a gate by name, and for the greatest id of a gate. Answered by `Known`.
    Collect {
        /// The round of the question.
        round: u64,
        /// The gate's name.
        name: String,
    },
    /// Answers `Collect`.
    Known {
        /// The round of the question.
        round: u64,
        /// The gate, if it is known.
        definition: Option<Definition>,
        /// The greatest id of a known gate.
        last: GateId,
    },
    /// Defines a gate. Answered by `Defined`.
    Define {
        /// The round of the announcement.
        round: u64,
        /// The gate.
        definition: Definition,
    },
    /// Answers `Define`.
    Defined {
        /// The round of the announcement.
        round: u64,
    },
    /// Asks for the definition of a gate that is unknown to the sender. Answered by `Define`.
    DescribeGate(GateId),
    /// Asks for the status of gates. Answered by `StatusReply`.
    StatusQuery {
        /// The number of the query.
        question: u64,
        /// Its name; all gates, if none.
        gate: Option<String>,
    },
    /// Answers `StatusQuery`.
    StatusReply {
        /// The number of the query.
        question: u64,
        /// The gates as the sender sees them.
        gates: Vec<GateView>,
        /// The status of the sender.
        who: NodeStatus,
    },
    /// Whether the sender has watchers and must be notified of changes.
    Watch(bool),
    /// Something visible to status queries changed at the sender.
    Changed,
    /// The sender stops, after it has released its last grant. It is leaving the cluster.
    Leaving,
    /// The sender has declared the receiver dead: the receiver must stop.
    DeclaredDead,
    /// The sender has met all other nodes, so it agrees to detect crashes.
    MetAll,
    /// A message about leases, between nodes and voters.
    Lease(LeaseMessage),
    /// A message of the agreed log. The shell hands it to the log, not to the core.
    Log(#[serde(with = "payload")] Bytes),
    /// An operator evicts a holder at the receiver. Status queries show whether it is gone.
    EvictHolder {
        /// The holder.
        holder: HolderId,
        /// The operator, for people.
        author: String,
    },
}

/// The first byte of a message of a gate's protocol.
const GATE: u8 = 0;
/// The first byte of a message of the detector.
const DETECTOR: u8 = 1;
/// The first byte of a message about leases.
const LEASE: u8 = 15;
/// The first byte of a message of the log.
const LOG: u8 = 16;

/// The frame of a message of a gate's protocol, with the message where it was encoded.
pub(super) fn gate_frame(id: GateId, message: Encoded) -> Bytes {
    framed(&(GATE, id, payload_length(&message)), message)
}

/// The frame of a message of the detector.
pub(super) fn detector_frame(message: Encoded) -> Bytes {
    framed(&(DETECTOR, payload_length(&message)), message)
}

fn payload_length(message: &Encoded) -> u32 {
    u32::try_from(message.payload().len()).expect("a frame is far smaller than 4 GiB")
}

fn framed(header: &impl Serialize, message: Encoded) -> Bytes {
    let mut buffer = [0; Encoded::HEADROOM];
    let header = postcard::to_slice(header, &mut buffer).expect("a header fits the headroom");
    message.into_frame(header)
}

/// Payloads as byte strings.
mod payload {
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        Ok(Bytes::copy_from_slice(<&[u8]>::deserialize(from)?))
    }
}

impl PeerMessage {
    /// Whether the message is about the catalogue. Only nodes without a log agree on gates by
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

    /// Whether the frame is a message about leases. The core must know the newest voters of the log
    /// before it takes one (rule N4).
    pub fn is_lease(bytes: &[u8]) -> bool {
        bytes.first() == Some(&LEASE)
    }

    /// The payload of a message of the log, if the frame is one.
    pub fn of_log(frame: &Bytes) -> Option<Bytes> {
        let Some(Self::Log(payload)) = Self::read_payload(frame) else { return None };
        Some(payload)
    }

    /// Encodes the message as a frame.
    pub fn bytes(&self) -> Bytes {
        postcard::to_allocvec(self).expect("every message between nodes can be encoded").into()
    }

    /// Decodes a frame; none if it is malformed. The payload of a protocol or of the log shares the
    /// frame's buffer.
    pub fn read(frame: &Bytes) -> Option<Self> {
        if matches!(frame.first(), Some(&(GATE | DETECTOR | LOG))) {
            return Self::read_payload(frame);
        }
        let (message, rest) = postcard::take_from_bytes(frame).ok()?;
        rest.is_empty().then_some(message)
    }

    fn read_payload(frame: &Bytes) -> Option<Self> {
        let (&kind, mut rest) = frame.split_first()?;
        let id = match kind {
            GATE => {
                let (id, after) = postcard::take_from_bytes(rest).ok()?;
                rest = after;
                Some(id)
            }
            DETECTOR | LOG => None,
            _ => return None,
        };
        let (inside, end) = postcard::take_from_bytes::<&[u8]>(rest).ok()?;
        let payload = end.is_empty().then(|| frame.slice_ref(inside))?;
        Some(match id {
            Some(id) => Self::Gate(id, payload),
            None if kind == DETECTOR => Self::Detector(payload),
            None => Self::Log(payload),
        })
    }
}

#[cfg(test)]
mod tests {
    use kgate_core::Incarnation;

    use super::*;

    /// The shell recognises messages of the log and about leases by their first byte, and takes no
    /// other message for one.
    #[test]
    fn log_and_lease_messages_are_recognised() {
        let payload = Bytes::from(vec![7; 300]);
        let log = PeerMessage::Log(payload.clone()).bytes();
        assert_eq!(
            (PeerMessage::of_log(&log), PeerMessage::is_lease(&log)),
            (Some(payload), false)
        );
        let ping =
            PeerMessage::Lease(LeaseMessage::Ping { incarnation: Incarnation(1), seq: 2 }).bytes();
        assert_eq!((PeerMessage::of_log(&ping), PeerMessage::is_lease(&ping)), (None, true));
        let other = PeerMessage::Gate(GateId(3), Bytes::from_static(&[1])).bytes();
        assert_eq!((PeerMessage::of_log(&other), PeerMessage::is_lease(&other)), (None, false));
        assert_eq!(PeerMessage::of_log(&log.slice(..20)), None);
    }

    /// A message that is encoded once with its header is the same frame as one that is encoded
    /// whole, and is decoded without a copy.
    #[test]
    fn a_frame_is_encoded_once() {
        for (id, length) in [(0, 0), (3, 127), (1 << 31, 70_000)] {
            let (id, content) = (GateId(id), vec![5_u8; length]);
            let message = Encoded::new("request", &content);
            let payload = Bytes::copy_from_slice(message.payload());
            let frame = gate_frame(id, message.clone());
            let whole = PeerMessage::Gate(id, payload.clone());
            assert_eq!(frame, whole.bytes());
            assert_eq!(PeerMessage::read(&frame), Some(whole.clone()));
            assert_eq!(postcard::from_bytes(&frame), Ok(whole));
            let Some(PeerMessage::Gate(_, read)) = PeerMessage::read(&frame) else { panic!() };
            assert!(frame.as_ptr_range().contains(&read.as_ptr()), "not copied");
            assert_eq!(detector_frame(message), PeerMessage::Detector(payload).bytes());
            assert_eq!(PeerMessage::read(&frame.slice(..frame.len() - 1)), None);
        }
    }
}
