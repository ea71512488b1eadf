//! Frames: the messages of a session on a Unix socket, without HTTP.
//!
//! A connection begins with the [`PREFACE`] of the client. After it both sides send frames: the
//! length of a message in four bytes, most significant first, and the message itself in protobuf,
//! [`ClientMessage`](crate::v1::ClientMessage) one way and
//! [`ServerMessage`](crate::v1::ServerMessage) the other. The node ends a connection that it
//! refuses with the message `Closed`. A frame of it has the same form in every version.
//!
//! No HTTP request begins with the first byte of the preface, so both share one socket.
//!
//! This module does no I/O. A length is compared with the limit before it is used, and memory grows
//! only with the bytes that arrived.

use prost::Message;
use prost::bytes::{Buf, BufMut, BytesMut};

/// What a connection with frames begins with, before the version.
pub const MAGIC: [u8; 6] = *b"\0kgate";

/// The version of the frames.
pub const VERSION: u16 = 1;

/// What a client sends first: magic and version.
pub const PREFACE: [u8; 8] = {
    let [m0, m1, m2, m3, m4, m5] = MAGIC;
    let [v0, v1] = VERSION.to_be_bytes();
    [m0, m1, m2, m3, m4, m5, v0, v1]
};

/// Maximum size of a message of a node.
pub const SERVER_MESSAGE_MAX: usize = 4 << 20;

/// Minimum room for one read.
const READ_MIN: usize = 4096;

/// Why the bytes are no frames. The connection cannot go on, because the start of the next frame is
/// unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The connection does not begin with [`MAGIC`].
    NotFrames,
    /// The preface has another version.
    Version(u16),
    /// The length exceeds the limit.
    TooLong {
        /// The length that the frame claims.
        length: usize,
        /// The limit of the reader.
        limit: usize,
    },
    /// The content of a frame is not the expected message.
    Malformed(prost::DecodeError),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFrames => f.write_str("the connection does not begin as frames of kgate do"),
            Self::Version(version) => write!(
                f,
                "version {version} of the frames, where this side speaks version {VERSION}: run \
                 one version of kgate"
            ),
            Self::TooLong { length, limit } => {
                write!(f, "a frame of {length} bytes exceeds the limit of {limit}")
            }
            Self::Malformed(error) => write!(f, "malformed frame: {error}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Appends a message as a frame.
pub fn encode(message: &impl Message, bytes: &mut BytesMut) {
    let length = message.encoded_len();
    bytes.reserve(4 + length);
    bytes.put_u32(u32::try_from(length).expect("no message of the API has four gigabytes"));
    message.encode(bytes).expect("the buffer grows");
}

/// Bytes in, messages out.
#[derive(Debug)]
pub struct Decoder {
    bytes: BytesMut,
    limit: usize,
}

impl Decoder {
    /// A decoder of messages up to that length.
    pub fn new(limit: usize) -> Self {
        Self { bytes: BytesMut::new(), limit }
    }

    /// Buffer that the next bytes are read into.
    pub fn room(&mut self) -> &mut BytesMut {
        self.bytes.reserve(READ_MIN);
        &mut self.bytes
    }

    /// Whether a part of a frame has arrived, and not all of it.
    pub fn is_pending(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Takes the preface; false if not all of it has arrived.
    pub fn preface(&mut self) -> Result<bool, FrameError> {
        let known = MAGIC.len().min(self.bytes.len());
        if self.bytes[..known] != MAGIC[..known] {
            return Err(FrameError::NotFrames);
        }
        if self.bytes.len() < PREFACE.len() {
            return Ok(false);
        }
        self.bytes.advance(MAGIC.len());
        match self.bytes.get_u16() {
            VERSION => Ok(true),
            other => Err(FrameError::Version(other)),
        }
    }

    /// The next message, if all of it has arrived. After an error the rest of the bytes has no
    /// meaning.
    #[expect(
        clippy::should_implement_trait,
        reason = "`None` means not yet, and not the end as for an iterator"
    )]
    pub fn next<M: Message + Default>(&mut self) -> Result<Option<M>, FrameError> {
        let Some(head) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.limit {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        self.bytes.advance(4);
        M::decode(self.bytes.split_to(length)).map(Some).map_err(FrameError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::client_message::Message as Content;
    use crate::v1::{ClientMessage, Hello, Renew};

    fn renew(sequence: u64) -> ClientMessage {
        ClientMessage { message: Some(Content::Renew(Renew { sequence })) }
    }

    fn decoder(bytes: &[u8]) -> Decoder {
        let mut decoder = Decoder::new(100);
        decoder.room().extend_from_slice(bytes);
        decoder
    }

    /// Messages survive the way through bytes, wherever the bytes are cut.
    #[test]
    fn frames_may_be_cut_anywhere() {
        let mut bytes = BytesMut::from(&PREFACE[..]);
        let sent = [renew(1), ClientMessage { message: None }, renew(u64::MAX)];
        sent.iter().for_each(|message| encode(message, &mut bytes));
        for cut in 0..=bytes.len() {
            let mut decoder = decoder(&bytes[..cut]);
            let (mut begun, mut received) = (false, Vec::<ClientMessage>::new());
            for rest in [&[][..], &bytes[cut..]] {
                decoder.room().extend_from_slice(rest);
                begun = begun || decoder.preface().expect("a preface");
                while begun && let Some(message) = decoder.next().expect("a frame") {
                    received.push(message);
                }
            }
            assert!(received == sent && !decoder.is_pending(), "cut at {cut}: {received:?}");
        }
    }

    /// Another magic is refused at its first byte, another version when it is known.
    #[test]
    fn another_preface_is_refused() {
        for bytes in [&b"\0kgatf"[..], b"PRI * HTTP/2.0", b"G", b"\0k\0"] {
            assert_eq!(decoder(bytes).preface(), Err(FrameError::NotFrames), "{bytes:?}");
        }
        assert_eq!(decoder(b"\0kgate\0\x02").preface(), Err(FrameError::Version(2)));
        assert_eq!(decoder(b"\0kgate\x01\x01").preface(), Err(FrameError::Version(257)));
        for length in 0..PREFACE.len() {
            assert_eq!(decoder(&PREFACE[..length]).preface(), Ok(false), "{length}");
        }
    }

    /// A length beyond the limit is refused before its bytes arrive, and no memory is taken for it.
    #[test]
    fn a_length_is_checked_before_it_is_used() {
        for length in [101_u32, 4096, u32::MAX] {
            let mut decoder = decoder(&length.to_be_bytes());
            let refused = decoder.next::<ClientMessage>();
            let length = length as usize;
            assert_eq!(refused, Err(FrameError::TooLong { length, limit: 100 }));
            assert!(decoder.bytes.capacity() <= 2 * READ_MIN, "{}", decoder.bytes.capacity());
        }
        let mut within = decoder(&100_u32.to_be_bytes());
        assert_eq!(within.next::<ClientMessage>(), Ok(None), "the rest has not arrived");
        assert!(within.is_pending());
    }

    /// Bytes that are no message of the API are refused, never a panic.
    #[test]
    fn malformed_messages_are_refused() {
        let frame = |content: &[u8]| {
            let mut bytes = u32::try_from(content.len()).expect("short").to_be_bytes().to_vec();
            bytes.extend_from_slice(content);
            decoder(&bytes).next::<ClientMessage>()
        };
        let hello = Hello { secret: vec![7; 16], front_pid: Some(1), ..Hello::default() };
        let whole = ClientMessage { message: Some(Content::Hello(hello.into())) }.encode_to_vec();
        assert!(frame(&whole).is_ok());
        for length in 1..whole.len() {
            let cut = frame(&whole[..length]);
            assert!(matches!(cut, Err(FrameError::Malformed(_))), "{length}: {cut:?}");
        }
        assert!(matches!(frame(&[0xff; 40]), Err(FrameError::Malformed(_))));
    }
}
