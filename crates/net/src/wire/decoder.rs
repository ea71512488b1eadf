//! From bytes to frames: pure, and incremental, because the network may cut anywhere.
//!
//! The caller reads bytes straight into [`Decoder::room`] and takes frames out with
//! [`Decoder::next`]. A message is a view into what was read, not a copy. A length is compared with
//! the limit before it is used, and memory grows only with the bytes that arrived.

use bytes::{Buf, Bytes, BytesMut};

use super::{ACK, DATA, Frame, HELLO, Hello, MESSAGE_MAX, REFUSE, RefuseCode, VERSION, hello};

/// Minimum room for one read.
const READ_MIN: usize = 16 * 1024;

/// Why the bytes are no frames. The connection cannot go on, because the start of the next frame is
/// unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length exceeds the limit.
    #[error("a frame of {length} bytes exceeds the limit of {limit}")]
    TooLong {
        /// Length that the frame claims.
        length: usize,
        /// Limit at this point.
        limit: usize,
    },
    /// A frame of no bytes has no kind.
    #[error("an empty frame")]
    Empty,
    /// No frame has that kind.
    #[error("a frame of unknown kind {0}")]
    UnknownKind(u8),
    /// A `Hello` without the magic.
    #[error("this is no link of kgate")]
    NotKgate,
    /// A `Hello` of another version.
    #[error(
        "version {0} of the wire format, where this node speaks version {VERSION}: run one \
         version of kgate"
    )]
    Version(u32),
    /// The body does not fit the kind.
    #[error("a malformed frame: {0}")]
    Malformed(&'static str),
}

/// Bytes in, frames out.
#[derive(Debug)]
pub struct Decoder {
    bytes: BytesMut,
    limit: usize,
}

impl Decoder {
    /// A decoder of frames up to that length.
    pub fn new(limit: usize) -> Self {
        Self { bytes: BytesMut::new(), limit }
    }

    /// Accepts frames up to that length from now on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Buffer that the next bytes are read into.
    pub fn room(&mut self) -> &mut BytesMut {
        self.bytes.reserve(READ_MIN);
        &mut self.bytes
    }

    /// Appends bytes that are already in memory.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Number of bytes of the frame that is not complete yet.
    pub fn pending(&self) -> usize {
        self.bytes.len()
    }

    /// The next frame, if all of it has arrived. After an error the rest of the bytes has no
    /// meaning.
    #[expect(
        clippy::should_implement_trait,
        reason = "`None` means not yet, and not the end as for an iterator"
    )]
    pub fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(head) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > self.limit {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        if length == 0 {
            return Err(FrameError::Empty);
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        self.bytes.advance(4);
        decode(self.bytes.split_to(length).freeze()).map(Some)
    }
}

/// Decodes a complete frame without its length. The frame has at least a kind.
fn decode(mut frame: Bytes) -> Result<Frame, FrameError> {
    let kind = frame.get_u8();
    let mut rest = &frame[..];
    match kind {
        HELLO => Hello::read(rest).map(Frame::Hello),
        REFUSE => {
            let code = RefuseCode::from_u16(u16::from_le_bytes(hello::take(&mut rest)?));
            if rest.len() > MESSAGE_MAX {
                return Err(FrameError::Malformed("a refusal of more than 300 bytes"));
            }
            Ok(Frame::Refuse { code, message: printable(&String::from_utf8_lossy(rest)) })
        }
        DATA => {
            let number = u64::from_le_bytes(hello::take(&mut rest)?);
            let ack = u64::from_le_bytes(hello::take(&mut rest)?);
            let bytes = frame.slice_ref(rest);
            Ok(Frame::Data { number, ack, bytes })
        }
        ACK => {
            let ack = u64::from_le_bytes(hello::take(&mut rest)?);
            if rest.is_empty() {
                Ok(Frame::Ack(ack))
            } else {
                Err(FrameError::Malformed("bytes after its end"))
            }
        }
        unknown => Err(FrameError::UnknownKind(unknown)),
    }
}

/// Replaces control characters: the message goes into logs and to terminals.
fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
