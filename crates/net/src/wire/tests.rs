//! Encoding and decoding of frames, cut anywhere, and the errors of malformed ones.

use proptest::prelude::*;

use super::*;
use kgate_core::{Incarnation, NodeId};

fn hello() -> Hello {
    Hello {
        cluster: "farm".into(),
        from: NodeId(0),
        to: NodeId(2),
        nodes: 3,
        incarnation: Incarnation(7),
        known: Some(Incarnation(4)),
        received: 99,
    }
}

fn write(frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::Hello(hello) => write_hello(hello, out),
        Frame::Refuse { code, message } => write_refuse(*code, message, out),
        Frame::Data { number, ack, bytes } => write_data(*number, *ack, bytes, out),
        Frame::Ack(ack) => write_ack(*ack, out),
    }
}

fn frames() -> impl Strategy<Value = Frame> {
    let incarnation = any::<u32>().prop_map(Incarnation);
    let hello = (
        "[a-z0-9-]{0,63}",
        any::<[u32; 3]>(),
        incarnation.clone(),
        prop::option::of(incarnation),
        any::<u64>(),
    )
        .prop_map(|(cluster, [from, to, nodes], incarnation, known, received)| {
            Frame::Hello(Hello {
                cluster,
                from: NodeId(from),
                to: NodeId(to),
                nodes,
                incarnation,
                known,
                received,
            })
        });
    let data = (any::<[u64; 2]>(), prop::collection::vec(any::<u8>(), 0..300))
        .prop_map(|([number, ack], bytes)| Frame::Data { number, ack, bytes: bytes.into() });
    prop_oneof![
        hello,
        (any::<u16>(), "[ -~äß]{0,100}").prop_map(|(code, message)| Frame::Refuse {
            code: RefuseCode::from_u16(code),
            message
        }),
        data,
        any::<u64>().prop_map(Frame::Ack)
    ]
}

proptest! {
    /// Decoding is the inverse of encoding, wherever the network cuts the bytes.
    #[test]
    fn decoding_inverts_encoding(
        sent in prop::collection::vec(frames(), 0..8),
        pieces in prop::collection::vec(1..50usize, 1..40),
    ) {
        let mut bytes = Vec::new();
        sent.iter().for_each(|frame| write(frame, &mut bytes));
        let mut decoder = Decoder::new(HANDSHAKE_MAX);
        let (mut read, mut rest) = (Vec::new(), &bytes[..]);
        for piece in pieces.iter().cycle() {
            let (now, later) = rest.split_at((*piece).min(rest.len()));
            decoder.feed(now);
            while let Some(frame) = decoder.next().unwrap() {
                read.push(frame);
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(read, sent);
        prop_assert_eq!(decoder.pending(), 0);
    }
}

/// The error that these bytes give.
fn error_of(bytes: &[u8]) -> FrameError {
    let mut decoder = Decoder::new(HANDSHAKE_MAX);
    decoder.feed(bytes);
    decoder.next().unwrap_err()
}

/// A length of four GiB is an error as soon as its four bytes have arrived; nothing is allocated.
#[test]
fn a_length_is_checked_before_anything_is_allocated() {
    let mut decoder = Decoder::new(FRAME_MAX);
    decoder.feed(&u32::MAX.to_le_bytes());
    assert_eq!(
        decoder.next(),
        Err(FrameError::TooLong { length: u32::MAX as usize, limit: FRAME_MAX })
    );
    assert!(decoder.room().capacity() < 64 * 1024);
}

/// A frame of exactly the limit is accepted, and one of a byte more is an error.
#[test]
fn the_limit_is_exact() {
    for (more, passes) in [(0, true), (1, false)] {
        let mut bytes = Vec::new();
        write_data(1, 0, &vec![0; HANDSHAKE_MAX - DATA_HEADER + more], &mut bytes);
        let mut decoder = Decoder::new(HANDSHAKE_MAX);
        decoder.feed(&bytes);
        assert_eq!(decoder.next().is_ok(), passes);
    }
}

/// Each malformed input has its own error.
#[test]
fn malformed_frames_have_their_errors() {
    assert_eq!(error_of(&[0, 0, 0, 0]), FrameError::Empty);
    assert_eq!(error_of(&[1, 0, 0, 0, 77]), FrameError::UnknownKind(77));
    assert_eq!(error_of(&[1, 0, 0, 0, ACK]), FrameError::Malformed("it ends too early"));
    assert_eq!(
        error_of(b"GET / HTTP/1.1\r\n"),
        FrameError::TooLong { length: 0x2054_4547, limit: HANDSHAKE_MAX }
    );
    let mut bytes = Vec::new();
    write_hello(&hello(), &mut bytes);
    for (at, with, expected) in [
        (5, b'K', FrameError::NotKgate),
        (13, 9, FrameError::Version(9)),
        (33, 2, FrameError::Malformed("a flag of the handshake is neither 0 nor 1")),
        (46, 0xff, FrameError::Malformed("the name of the cluster is not UTF-8")),
    ] {
        let mut changed = bytes.clone();
        changed[at] = with;
        assert_eq!(error_of(&changed), expected);
    }
}

/// A `Hello` of another version is recognised even if everything after the version differs.
#[test]
fn another_version_is_recognised_by_its_first_bytes() {
    let mut bytes = vec![13, 0, 0, 0, HELLO];
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&8u32.to_le_bytes());
    assert_eq!(error_of(&bytes), FrameError::Version(8));
}

/// The message of a refusal is cut to its limit between two characters, and its control characters
/// do not reach a terminal. The code survives.
#[test]
fn the_message_of_a_refusal_is_short_and_printable() {
    let mut bytes = Vec::new();
    let text = format!("a\u{1b}[2J{}", "ä".repeat(400));
    write_refuse(RefuseCode::DeclaredDead, &text, &mut bytes);
    let mut decoder = Decoder::new(HANDSHAKE_MAX);
    decoder.feed(&bytes);
    let Some(Frame::Refuse { code, message }) = decoder.next().unwrap() else { panic!() };
    assert_eq!(code, RefuseCode::DeclaredDead);
    assert!(message.len() <= MESSAGE_MAX, "{message}");
    assert!(message.starts_with("a [2Jää") && message.ends_with('ä'), "{message}");
}

/// Numbers of codes are fixed, each maps to one code and back, and an unknown one is kept.
#[test]
fn codes_of_refusals_are_pinned() {
    for number in 0..=u16::MAX {
        let code = RefuseCode::from_u16(number);
        assert_eq!(code.to_u16(), number);
        let is_unknown = matches!(code, RefuseCode::Unknown(_));
        assert_eq!(is_unknown, !(1..=14).contains(&number), "{number}");
    }
    assert_eq!(RefuseCode::from_u16(1), RefuseCode::Protocol);
    assert_eq!(RefuseCode::from_u16(11), RefuseCode::RestartNotAccepted);
    assert_eq!(RefuseCode::from_u16(14).to_string(), "declared_dead");
}

/// The bytes of a `Hello` are fixed: another version must find magic and version in their places.
#[test]
fn the_bytes_of_a_hello_are_pinned() {
    let mut bytes = Vec::new();
    write_hello(&hello(), &mut bytes);
    let text = "\x2e\0\0\0\x01kgate/ln\x02\0\0\0\
                \0\0\0\0\x02\0\0\0\x03\0\0\0\x07\0\0\0\x01\x04\0\0\0\x63\0\0\0\0\0\0\0farm";
    assert_eq!(bytes, text.as_bytes());
}
