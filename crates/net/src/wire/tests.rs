//! Frames there and back, whatever the network does to their bytes, and what is refused.

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
        of: Some(Incarnation(4)),
        received: 99,
    }
}

fn write(frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::Hello(hello) => write_hello(hello, out),
        Frame::Refuse(why) => write_refuse(why, out),
        Frame::Data { number, ack, bytes } => write_data(*number, *ack, bytes, out),
        Frame::Ack(ack) => write_ack(*ack, out),
    }
}

fn frames() -> impl Strategy<Value = Frame> {
    let incarnation = any::<u32>().prop_map(Incarnation);
    let greeting = (
        "[a-z0-9-]{0,63}",
        any::<[u32; 3]>(),
        incarnation.clone(),
        prop::option::of(incarnation),
        any::<u64>(),
    )
        .prop_map(|(cluster, [from, to, nodes], incarnation, of, received)| {
            Frame::Hello(Hello {
                cluster,
                from: NodeId(from),
                to: NodeId(to),
                nodes,
                incarnation,
                of,
                received,
            })
        });
    let data = (any::<[u64; 2]>(), prop::collection::vec(any::<u8>(), 0..300))
        .prop_map(|([number, ack], bytes)| Frame::Data { number, ack, bytes: bytes.into() });
    prop_oneof![
        greeting,
        "[ -~äß]{0,100}".prop_map(Frame::Refuse),
        data,
        any::<u64>().prop_map(Frame::Ack)
    ]
}

proptest! {
    /// Whatever is written is read again, wherever the network cuts it.
    #[test]
    fn what_is_written_is_read(
        sent in prop::collection::vec(frames(), 0..8),
        pieces in prop::collection::vec(1..50usize, 1..40),
    ) {
        let mut bytes = Vec::new();
        sent.iter().for_each(|frame| write(frame, &mut bytes));
        let mut decoder = Decoder::new(GREETING_MAX);
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
        prop_assert_eq!(decoder.held(), 0);
    }
}

/// The error of these bytes.
fn junk(bytes: &[u8]) -> Junk {
    let mut decoder = Decoder::new(GREETING_MAX);
    decoder.feed(bytes);
    decoder.next().unwrap_err()
}

/// A length of four GiB is refused when its four bytes have come, and nothing is allocated for it.
#[test]
fn a_length_is_checked_before_anything_is_allocated() {
    let mut decoder = Decoder::new(FRAME_MAX);
    decoder.feed(&u32::MAX.to_le_bytes());
    assert_eq!(decoder.next(), Err(Junk::TooLong { length: u32::MAX as usize, limit: FRAME_MAX }));
    assert!(decoder.room().capacity() < 64 * 1024);
}

/// A frame exactly as long as is allowed passes, and one of a byte more does not.
#[test]
fn the_limit_is_exact() {
    for (more, passes) in [(0, true), (1, false)] {
        let mut bytes = Vec::new();
        write_data(1, 0, &vec![0; GREETING_MAX - DATA_HEAD + more], &mut bytes);
        let mut decoder = Decoder::new(GREETING_MAX);
        decoder.feed(&bytes);
        assert_eq!(decoder.next().is_ok(), passes);
    }
}

/// Every kind of junk says what it is.
#[test]
fn junk_is_named() {
    assert_eq!(junk(&[0, 0, 0, 0]), Junk::Empty);
    assert_eq!(junk(&[1, 0, 0, 0, 77]), Junk::Kind(77));
    assert_eq!(junk(&[1, 0, 0, 0, ACK]), Junk::Malformed("it ends too early"));
    assert_eq!(
        junk(b"GET / HTTP/1.1\r\n"),
        Junk::TooLong { length: 0x2054_4547, limit: GREETING_MAX }
    );
    let mut bytes = Vec::new();
    write_hello(&hello(), &mut bytes);
    for (at, with, expected) in [
        (5, b'K', Junk::NotKgate),
        (13, 9, Junk::Version(9)),
        (33, 2, Junk::Malformed("a flag of the greeting is neither 0 nor 1")),
        (46, 0xff, Junk::Malformed("the name of the cluster is no text")),
    ] {
        let mut changed = bytes.clone();
        changed[at] = with;
        assert_eq!(junk(&changed), expected);
    }
}

/// A greeting of another version is told from junk even if all behind the version is different.
#[test]
fn another_version_is_recognised_by_its_first_bytes() {
    let mut bytes = vec![13, 0, 0, 0, HELLO];
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&8u32.to_le_bytes());
    assert_eq!(junk(&bytes), Junk::Version(8));
}

/// A reason is cut to its limit, never inside a message, and steers no terminal.
#[test]
fn a_reason_is_short_and_printable() {
    let mut bytes = Vec::new();
    write_refuse(&format!("a\u{1b}[2J{}", "ä".repeat(400)), &mut bytes);
    let mut decoder = Decoder::new(GREETING_MAX);
    decoder.feed(&bytes);
    let Some(Frame::Refuse(why)) = decoder.next().unwrap() else { panic!("a refusal") };
    assert!(why.len() <= WHY_MAX && why.starts_with("a [2Jää") && why.ends_with('ä'), "{why}");
}

/// The bytes of a greeting are fixed: another version must find magic and version where they are.
#[test]
fn the_bytes_of_a_greeting_are_pinned() {
    let mut bytes = Vec::new();
    write_hello(&hello(), &mut bytes);
    let text = "\x2e\0\0\0\x01kgate/ln\x01\0\0\0\0\0\0\0\x02\0\0\0\x03\0\0\0\x07\0\0\0\x01\x04\0\0\0\x63\0\0\0\0\0\0\0farm";
    assert_eq!(bytes, text.as_bytes());
}
