//! From bytes to frames: pure, and incremental, because the network cuts where it likes.
//!
//! Bytes are read straight into [`Decoder::room`], frames are taken out with [`Decoder::next`]; a
//! message is a view into what was read, not a copy. Nothing that a length says is believed before
//! it was compared with the limit, and memory grows with what has really come.

use bytes::{Buf, Bytes, BytesMut};

use super::{ACK, DATA, Frame, HELLO, Hello, REFUSE, VERSION, WHY_MAX, hello};

/// So much is read at once, at least.
const READ_AT_ONCE: usize = 16 * 1024;

/// Why the bytes are no frames. The connection cannot go on: nobody knows where the next frame
/// begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Junk {
    /// A length that is not allowed.
    #[error("a frame of {length} bytes, where at most {limit} are allowed")]
    TooLong {
        /// What it says.
        length: usize,
        /// What it may say.
        limit: usize,
    },
    /// A frame of no bytes has not even a kind.
    #[error("an empty frame")]
    Empty,
    /// No frame has that number.
    #[error("a frame of unknown kind {0}")]
    Kind(u8),
    /// A greeting without the magic.
    #[error("this is no link of kgate")]
    NotKgate,
    /// A greeting of another version.
    #[error(
        "version {0} of the frames, where this node speaks version {VERSION}: run one version of kgate"
    )]
    Version(u32),
    /// A frame whose body cannot be.
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

    /// From now on, frames up to that length.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Where the next bytes are read into.
    pub fn room(&mut self) -> &mut BytesMut {
        self.bytes.reserve(READ_AT_ONCE);
        &mut self.bytes
    }

    /// The next bytes, if they are at hand already.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// How many bytes have come that are no whole frame yet.
    pub fn held(&self) -> usize {
        self.bytes.len()
    }

    /// The next frame, if all of it has come. After an error nothing that follows means anything.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator that ends would not go on, and this does"
    )]
    pub fn next(&mut self) -> Result<Option<Frame>, Junk> {
        let Some(head) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > self.limit {
            return Err(Junk::TooLong { length, limit: self.limit });
        }
        if length == 0 {
            return Err(Junk::Empty);
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        self.bytes.advance(4);
        decode(self.bytes.split_to(length).freeze()).map(Some)
    }
}

/// A whole frame without its length; it has a kind at least.
fn decode(mut frame: Bytes) -> Result<Frame, Junk> {
    let kind = frame.get_u8();
    let mut rest = &frame[..];
    match kind {
        HELLO => Hello::read(rest).map(Frame::Hello),
        REFUSE if rest.len() > WHY_MAX => Err(Junk::Malformed("a reason of more than 300 bytes")),
        REFUSE => Ok(Frame::Refuse(printable(&String::from_utf8_lossy(rest)))),
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
                Err(Junk::Malformed("it goes on after its end"))
            }
        }
        unknown => Err(Junk::Kind(unknown)),
    }
}

/// A reason is written into logs and to terminals: without what would steer them.
fn printable(text: &str) -> String {
    text.chars().map(|message| if message.is_control() { ' ' } else { message }).collect()
}
