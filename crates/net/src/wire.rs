//! The wire format of a link: frames, each preceded by its length.
//!
//! ```text
//! length: u32, little-endian, of all that follows    kind: u8    body
//! ```
//!
//! Two nodes exchange [`Hello`] frames, or one of them answers with [`Refuse`](Frame::Refuse): a
//! code for programs and a message for people. From then on they send [`Data`](Frame::Data), which
//! is numbered, and [`Ack`](Frame::Ack). A frame is a plain row of little-endian numbers. A node of
//! another version can still read the first twelve bytes of a `Hello`, and report why it cannot
//! read the rest. The layout of a refusal is the same in every version.
//!
//! Bytes on the port may come from anybody. A length is therefore compared with the limit before
//! anything is allocated for it, the limit is small until the handshake is over, and every other
//! error is a [`FrameError`], which ends the connection.

mod decoder;
mod hello;
mod refuse;

use bytes::Bytes;

pub use decoder::{Decoder, FrameError};
pub use hello::{Hello, MAGIC, VERSION};
pub use refuse::RefuseCode;

/// Default limit of a frame's length, which counts the kind and the body.
pub const FRAME_MAX: usize = 1 << 20;
/// Limit of a frame's length before the handshake is over.
pub const HANDSHAKE_MAX: usize = 512;
/// Limit of the message of a refusal, in bytes.
pub const MESSAGE_MAX: usize = 300;
/// Difference between the length of a data frame and that of its message: kind, number,
/// acknowledgement.
pub const DATA_HEADER: usize = 1 + 8 + 8;

const HELLO: u8 = 1;
const REFUSE: u8 = 2;
const DATA: u8 = 3;
const ACK: u8 = 4;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// First frame of either side. The receiver answers with a `Hello` or a `Refuse`.
    Hello(Hello),
    /// No link. The sender closes the connection; nobody answers.
    Refuse {
        /// Reason for programs.
        code: RefuseCode,
        /// Reason for people: what was wrong and what to do.
        message: String,
    },
    /// A message. A later frame of the receiver acknowledges it.
    Data {
        /// Number of the message: 1, 2, 3 .. between these two incarnations.
        number: u64,
        /// The sender has received all messages up to this number.
        ack: u64,
        /// The message.
        bytes: Bytes,
    },
    /// The sender has received all messages up to this number, and is alive. Nobody answers.
    Ack(u64),
}

/// Appends a `Hello` frame.
pub fn write_hello(hello: &Hello, out: &mut Vec<u8>) {
    write_frame(out, HELLO, |out| hello.write(out));
}

/// Appends a `Refuse` frame. A message longer than [`MESSAGE_MAX`] is cut.
pub fn write_refuse(code: RefuseCode, message: &str, out: &mut Vec<u8>) {
    write_frame(out, REFUSE, |out| {
        out.extend_from_slice(&code.to_u16().to_le_bytes());
        out.extend_from_slice(&message.as_bytes()[..message.floor_char_boundary(MESSAGE_MAX)]);
    });
}

/// Appends a `Data` frame.
pub fn write_data(number: u64, ack: u64, bytes: &[u8], out: &mut Vec<u8>) {
    write_frame(out, DATA, |out| {
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&ack.to_le_bytes());
        out.extend_from_slice(bytes);
    });
}

/// Appends an `Ack` frame.
pub fn write_ack(ack: u64, out: &mut Vec<u8>) {
    write_frame(out, ACK, |out| out.extend_from_slice(&ack.to_le_bytes()));
}

/// Reserves room for the length, and fills it in after the body is written.
fn write_frame(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    body(out);
    let length = u32::try_from(out.len() - start - 4).expect("the caller checked the length");
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests;
