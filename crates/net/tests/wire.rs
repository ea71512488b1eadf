//! Arbitrary bytes never panic the decoder, however they are cut, and never make it hold more than
//! they are.
//!
//! `cargo test` runs random inputs and every file of the corpus; the same target runs under a
//! fuzzer by `cargo bolero test`.
#![allow(missing_docs, reason = "a test's first line says its point")]

use std::path::Path;

use kgate_net::wire::{
    Decoder, Frame, GREETING_MAX, Junk, write_ack, write_data, write_hello, write_refuse,
};

/// All frames of these bytes, fed at once, and how it ended.
fn whole(bytes: &[u8]) -> (Vec<Frame>, Option<Junk>) {
    fed(bytes, bytes.len().max(1))
}

fn fed(bytes: &[u8], piece: usize) -> (Vec<Frame>, Option<Junk>) {
    let mut decoder = Decoder::new(GREETING_MAX);
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.feed(piece);
        loop {
            match decoder.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(junk) => return (frames, Some(junk)),
            }
        }
        assert!(decoder.held() < GREETING_MAX + 4, "a whole frame was not taken");
    }
    (frames, None)
}

fn write(frame: &Frame) -> Vec<u8> {
    let mut out = Vec::new();
    match frame {
        Frame::Hello(hello) => write_hello(hello, &mut out),
        Frame::Refuse(why) => write_refuse(why, &mut out),
        Frame::Data { number, ack, bytes } => write_data(*number, *ack, bytes, &mut out),
        Frame::Ack(ack) => write_ack(*ack, &mut out),
    }
    out
}

/// What holds of all bytes: the same frames wherever they are cut, and a frame that was read can be
/// written and read again.
fn holds(bytes: &[u8]) {
    let (frames, end) = whole(bytes);
    for piece in [1, 2, 7] {
        assert_eq!(fed(bytes, piece), (frames.clone(), end.clone()));
    }
    for frame in frames {
        let (again, end) = whole(&write(&frame));
        // A reason that was no text may be longer as text, and is cut.
        let is_refusal = matches!(frame, Frame::Refuse(_));
        assert!(end.is_none() && (is_refusal || again == [frame]));
    }
}

/// Bytes from anybody.
#[test]
fn arbitrary_bytes() {
    bolero::check!().for_each(holds);
}

/// Bytes that begin like frames, so that the fuzzer need not find out how a length looks.
#[test]
fn arbitrary_frames() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut framed = Vec::new();
        for body in bytes.chunks(40) {
            framed.extend_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
            framed.push(body[0] % 6);
            framed.extend_from_slice(&body[1..]);
        }
        holds(&framed);
    });
}

/// The stored inputs, each with what it is: the file's name begins with `good` or `junk`.
#[test]
fn the_corpus_is_what_it_says() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/__fuzz__/arbitrary_bytes/corpus");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        holds(&bytes);
        let good = whole(&bytes).1.is_none();
        assert_eq!(good, name.starts_with("good"), "{name}: {:?}", whole(&bytes));
        files += 1;
    }
    assert!(files >= 10, "only {files} files");
}
