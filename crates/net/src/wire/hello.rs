//! The first frame of a handshake: sender, receiver, and how many messages have arrived.

use kgate_core::{Incarnation, NodeId};

use super::FrameError;

/// First bytes of a `Hello`. Other bytes do not come from a kgate node.
pub const MAGIC: [u8; 8] = *b"kgate/ln";
/// Version of the wire format. Two nodes of different versions refuse each other.
pub const VERSION: u32 = 2;

const CLUSTER_MAX: usize = 63;

/// First frame of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Name of the cluster.
    pub cluster: String,
    /// The sender.
    pub from: NodeId,
    /// The receiver, as far as the sender knows.
    pub to: NodeId,
    /// Number of nodes of the cluster; 0 if members can be added and removed.
    pub nodes: u32,
    /// Incarnation of the sender.
    pub incarnation: Incarnation,
    /// Incarnation of the receiver that the sender knows; none before their first link.
    pub known: Option<Incarnation>,
    /// Number of messages of that incarnation that the sender has received.
    pub received: u64,
}

impl Hello {
    /// Magic and version come first in every version, so that every other version can read them.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        for number in [self.from.0, self.to.0, self.nodes, self.incarnation.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(u8::from(self.known.is_some()));
        out.extend_from_slice(&self.known.unwrap_or_default().0.to_le_bytes());
        out.extend_from_slice(&self.received.to_le_bytes());
        out.extend_from_slice(self.cluster.as_bytes());
    }

    pub(super) fn read(mut body: &[u8]) -> Result<Self, FrameError> {
        let rest = &mut body;
        if take::<8>(rest)? != MAGIC {
            return Err(FrameError::NotKgate);
        }
        let version = number(rest)?;
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let [from, to, nodes, incarnation] =
            [number(rest)?, number(rest)?, number(rest)?, number(rest)?];
        let is_known = match take::<1>(rest)? {
            [0] => false,
            [1] => true,
            [_] => return Err(FrameError::Malformed("a flag of the handshake is neither 0 nor 1")),
        };
        let known = Incarnation(number(rest)?);
        let received = u64::from_le_bytes(take(rest)?);
        if rest.len() > CLUSTER_MAX {
            return Err(FrameError::Malformed("the name of the cluster is longer than 63 bytes"));
        }
        let cluster = str::from_utf8(rest)
            .map_err(|_| FrameError::Malformed("the name of the cluster is not UTF-8"))?;
        Ok(Self {
            cluster: cluster.to_owned(),
            from: NodeId(from),
            to: NodeId(to),
            nodes,
            incarnation: Incarnation(incarnation),
            known: is_known.then_some(known),
            received,
        })
    }
}

fn number(rest: &mut &[u8]) -> Result<u32, FrameError> {
    take(rest).map(u32::from_le_bytes)
}

/// Takes the next `N` bytes.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], FrameError> {
    let (first, others) =
        rest.split_first_chunk().ok_or(FrameError::Malformed("it ends too early"))?;
    *rest = others;
    Ok(*first)
}
