//! What goes over a link: frames, each with its length before it.
//!
//! ```text
//! length: u32, little-endian, of all that follows    kind: u8    body
//! ```
//!
//! Two nodes greet each other with [`Hello`] (or [`Refuse`](Frame::Refuse), with the reason as
//! text), and from then on send [`Data`](Frame::Data), numbered, and [`Ack`](Frame::Ack). A frame
//! is a plain row of little-endian numbers, so that a node of another version can still read the
//! first twelve bytes of a greeting and say why it cannot read the rest. A refusal is text in every
//! version.
//!
//! The bytes may come from anybody who finds the port. So a length is compared with the limit
//! before a byte is allocated for it, the limit is small until the greeting is over, and every
//! other error is a [`Junk`] that ends the connection.

mod decoder;
mod hello;

use bytes::Bytes;

pub use decoder::{Decoder, Junk};
pub use hello::{Hello, MAGIC, VERSION};

/// The longest frame, unless configured otherwise: the length counts the kind and the body.
pub const FRAME_MAX: usize = 1 << 20;
/// The longest frame before the greeting is over.
pub const GREETING_MAX: usize = 512;
/// The longest reason of a refusal, in bytes.
pub const WHY_MAX: usize = 300;
/// So much longer than its message is the length of a data frame: kind, number, acknowledgement.
pub const DATA_HEAD: usize = 1 + 8 + 8;

const HELLO: u8 = 1;
const REFUSE: u8 = 2;
const DATA: u8 = 3;
const ACK: u8 = 4;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The greeting: the first frame of either side. Answered with a `Hello` or a `Refuse`.
    Hello(Hello),
    /// No link, and why not. The connection ends.
    Refuse(String),
    /// A message. Acknowledged, some time, by a later frame.
    Data {
        /// Its number: 1, 2, 3 .. between these two incarnations.
        number: u64,
        /// The sender has had all messages up to this number.
        ack: u64,
        /// The message.
        bytes: Bytes,
    },
    /// The sender has had all messages up to this number. Also says that it is there. Not answered.
    Ack(u64),
}

/// A greeting, ready to be written.
pub fn write_hello(hello: &Hello, out: &mut Vec<u8>) {
    framed(out, HELLO, |out| hello.write(out));
}

/// A refusal, ready to be written; a reason that is too long is cut.
pub fn write_refuse(why: &str, out: &mut Vec<u8>) {
    framed(out, REFUSE, |out| out.extend_from_slice(cut(why).as_bytes()));
}

/// A message, ready to be written.
pub fn write_data(number: u64, ack: u64, bytes: &[u8], out: &mut Vec<u8>) {
    framed(out, DATA, |out| {
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&ack.to_le_bytes());
        out.extend_from_slice(bytes);
    });
}

/// An acknowledgement, ready to be written.
pub fn write_ack(ack: u64, out: &mut Vec<u8>) {
    framed(out, ACK, |out| out.extend_from_slice(&ack.to_le_bytes()));
}

/// Leaves room for the length and fills it in when the body is there.
fn framed(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    body(out);
    let length = u32::try_from(out.len() - start - 4).expect("what is sent was measured before");
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// As much of the text as a refusal may hold, cut between two characters.
fn cut(why: &str) -> &str {
    &why[..why.floor_char_boundary(WHY_MAX)]
}

#[cfg(test)]
mod tests;
