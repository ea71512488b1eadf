//! The greeting: who speaks, to whom, and how much of the other's messages has come.

use kgate_core::{Incarnation, NodeId};

use super::Junk;

/// The first bytes of a greeting: whoever sends others did not mean a link of kgate.
pub const MAGIC: [u8; 8] = *b"kgate/ln";
/// The version of all frames. Two nodes speak the same one or do not speak.
pub const VERSION: u32 = 1;

const CLUSTER_MAX: usize = 63;

/// The first frame of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The name of the cluster.
    pub cluster: String,
    /// Who speaks.
    pub from: NodeId,
    /// To whom, as far as the speaker knows.
    pub to: NodeId,
    /// How many nodes the cluster has; 0 where members come and go.
    pub nodes: u32,
    /// The speaker's incarnation.
    pub incarnation: Incarnation,
    /// The incarnation of the other that the speaker knows; none if they never met.
    pub of: Option<Incarnation>,
    /// So many messages of that incarnation the speaker has had.
    pub received: u64,
}

impl Hello {
    /// Magic and version first and for ever: they are what another version can read.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        for number in [self.from.0, self.to.0, self.nodes, self.incarnation.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(u8::from(self.of.is_some()));
        out.extend_from_slice(&self.of.unwrap_or_default().0.to_le_bytes());
        out.extend_from_slice(&self.received.to_le_bytes());
        out.extend_from_slice(self.cluster.as_bytes());
    }

    pub(super) fn read(mut body: &[u8]) -> Result<Self, Junk> {
        let rest = &mut body;
        if take::<8>(rest)? != MAGIC {
            return Err(Junk::NotKgate);
        }
        let version = number(rest)?;
        if version != VERSION {
            return Err(Junk::Version(version));
        }
        let [from, to, nodes, incarnation] =
            [number(rest)?, number(rest)?, number(rest)?, number(rest)?];
        let known = match take::<1>(rest)? {
            [0] => false,
            [1] => true,
            [_] => return Err(Junk::Malformed("a flag of the greeting is neither 0 nor 1")),
        };
        let of = Incarnation(number(rest)?);
        let received = u64::from_le_bytes(take(rest)?);
        if rest.len() > CLUSTER_MAX {
            return Err(Junk::Malformed("the name of the cluster is longer than 63 bytes"));
        }
        let cluster = str::from_utf8(rest)
            .map_err(|_| Junk::Malformed("the name of the cluster is no text"))?;
        Ok(Self {
            cluster: cluster.to_owned(),
            from: NodeId(from),
            to: NodeId(to),
            nodes,
            incarnation: Incarnation(incarnation),
            of: known.then_some(of),
            received,
        })
    }
}

fn number(rest: &mut &[u8]) -> Result<u32, Junk> {
    take(rest).map(u32::from_le_bytes)
}

/// The next bytes, if so many are left.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Junk> {
    let (first, others) = rest.split_first_chunk().ok_or(Junk::Malformed("it ends too early"))?;
    *rest = others;
    Ok(*first)
}
