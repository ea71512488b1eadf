//! Arbitrary bytes never panic the decoder, wherever they are cut, and never make it hold more than
//! their length.
//!
//! `cargo test` runs random inputs and every file of the corpus; the same target runs under a
//! fuzzer by `cargo bolero test`.
#![allow(missing_docs, reason = "a test's first line says its point")]

use std::path::Path;

use kgate_net::wire::{
    Decoder, Frame, FrameError, HANDSHAKE_MAX, write_ack, write_data, write_hello, write_refuse,
};

/// All frames of these bytes, fed at once, and the error at their end.
fn decode(bytes: &[u8]) -> (Vec<Frame>, Option<FrameError>) {
    decode_pieces(bytes, bytes.len().max(1))
}

fn decode_pieces(bytes: &[u8], piece: usize) -> (Vec<Frame>, Option<FrameError>) {
    let mut decoder = Decoder::new(HANDSHAKE_MAX);
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.feed(piece);
        loop {
            match decoder.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(decoder.pending() < HANDSHAKE_MAX + 4, "a complete frame was left");
    }
    (frames, None)
}

fn write(frame: &Frame) -> Vec<u8> {
    let mut out = Vec::new();
    match frame {
        Frame::Hello(hello) => write_hello(hello, &mut out),
        Frame::Refuse { code, message } => write_refuse(*code, message, &mut out),
        Frame::Data { number, ack, bytes } => write_data(*number, *ack, bytes, &mut out),
        Frame::Ack(ack) => write_ack(*ack, &mut out),
    }
    out
}

/// Properties of all bytes: the same frames wherever they are cut, and a decoded frame can be
/// encoded and decoded again.
fn check(bytes: &[u8]) {
    let (frames, end) = decode(bytes);
    for piece in [1, 2, 7] {
        assert_eq!(decode_pieces(bytes, piece), (frames.clone(), end.clone()));
    }
    for frame in frames {
        let (again, end) = decode(&write(&frame));
        // A message that was not UTF-8 may be longer as text, and is cut.
        let is_refusal = matches!(frame, Frame::Refuse { .. });
        assert!(end.is_none() && (is_refusal || again == [frame]));
    }
}

/// Any bytes.
#[test]
fn arbitrary_bytes() {
    bolero::check!().for_each(check);
}

/// Bytes with valid lengths, so that the fuzzer need not discover them.
#[test]
fn arbitrary_frames() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut framed = Vec::new();
        for body in bytes.chunks(40) {
            framed.extend_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
            framed.push(body[0] % 6);
            framed.extend_from_slice(&body[1..]);
        }
        check(&framed);
    });
}

/// The stored inputs: the name of each file begins with `good` or `malformed`.
#[test]
fn the_corpus_matches_its_names() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/__fuzz__/arbitrary_bytes/corpus");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        check(&bytes);
        let good = decode(&bytes).1.is_none();
        assert_eq!(good, name.starts_with("good"), "{name}: {:?}", decode(&bytes));
        files += 1;
    }
    assert!(files >= 10, "only {files} files");
}
