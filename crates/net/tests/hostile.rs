//! The port is open to anybody: malformed bytes, silent connections and unknown nodes cost little
//! and get a clear answer.
#![allow(missing_docs, reason = "a test's first line says its point")]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{Node, config, in_time, listener, runtime};
use kgate_core::{Incarnation, NodeId};
use kgate_net::LinkConfig;
use kgate_net::wire::{Decoder, Frame, HANDSHAKE_MAX, Hello, RefuseCode, write_data, write_hello};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Nodes 0 and 1 with a link between them, and the address of node 1.
async fn pair(change: impl Fn(&mut LinkConfig)) -> (Node, Node, SocketAddr) {
    let (first, here) = listener().await;
    let (second, there) = listener().await;
    let mut configs = [config(0, 1, &[(1, there)]), config(1, 1, &[(0, here)])];
    configs.iter_mut().for_each(change);
    let [zero, one] = configs;
    let (mut zero, mut one) = (Node::start(zero, first).await, Node::start(one, second).await);
    zero.up(1).await;
    one.up(0).await;
    (zero, one, there)
}

/// Checks that the link between the two still works.
async fn check_link(zero: &mut Node, one: &mut Node) {
    zero.send(1, 11);
    assert_eq!(one.message().await, (0, 11));
    one.send(0, 12);
    assert_eq!(zero.message().await, (1, 12));
}

fn hello() -> Hello {
    Hello {
        cluster: "farm".into(),
        from: NodeId(0),
        to: NodeId(1),
        nodes: 2,
        incarnation: Incarnation(1),
        known: None,
        received: 0,
    }
}

/// Sends these bytes and reads until the connection ends, which it must. Returns the refusal, if
/// there was one.
async fn send_bytes(address: SocketAddr, bytes: &[u8]) -> Option<(RefuseCode, String)> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = in_time("the end of the connection", stream.read_to_end(&mut answer)).await;
    let mut decoder = Decoder::new(HANDSHAKE_MAX);
    decoder.feed(&answer);
    match (read, decoder.next()) {
        (_, Ok(Some(Frame::Refuse { code, message }))) => Some((code, message)),
        (Err(_), _) | (Ok(_), Ok(None)) => None,
        (_, other) => panic!("{other:?}"),
    }
}

fn bytes_of(hello: &Hello) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_hello(hello, &mut bytes);
    bytes
}

/// Malformed bytes close the connection at once and are reported to the owner; the nodes go on.
#[test]
fn malformed_bytes_on_the_port() {
    runtime().block_on(async {
        let (mut zero, mut one, address) = pair(|_| {}).await;
        let mut early = Vec::new();
        write_data(1, 0, b"early", &mut early);
        for (bytes, reason) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "sent no handshake"),
            (&[0xff; 4], "a frame of 4294967295 bytes"),
            (&[0; 100], "an empty frame"),
            (&[0x16, 3, 1, 2, 0, 1, 0, 1], "a node with TLS where this one has none"),
            (&early, "did not begin with a handshake"),
        ] {
            send_bytes(address, bytes).await;
            let (peer, refusal) = one.refused().await;
            assert_eq!((peer, refusal.code), (None, RefuseCode::Protocol));
            let message = refusal.message;
            assert!(message.contains(reason) && message.contains("127.0.0.1"), "{message}");
        }
        check_link(&mut zero, &mut one).await;
    });
}

/// A connection that sends nothing, or a byte at a time, is closed at the time limit of a
/// handshake.
#[test]
fn half_open_and_slow_connections_are_closed() {
    runtime().block_on(async {
        let short = |config: &mut LinkConfig| config.limits.handshake = Duration::from_millis(300);
        let (mut zero, mut one, address) = pair(short).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut slow = TcpStream::connect(address).await.unwrap();
        let drip = async {
            // One byte at a time, never the last: the connection always seems to make progress.
            for byte in bytes_of(&hello()).iter().take(40).cycle() {
                if slow.write_all(&[*byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let mut nothing = [0; 1];
        let (read, ()) =
            in_time("both ends", async { tokio::join!(silent.read(&mut nothing), drip) }).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        check_link(&mut zero, &mut one).await;
    });
}

/// Idle connections that use up the handshakes do not keep a node out: the oldest is closed.
#[test]
fn idle_connections_do_not_keep_a_node_out() {
    runtime().block_on(async {
        let (first, here) = listener().await;
        let (second, there) = listener().await;
        let few = |mut config: LinkConfig| {
            config.limits.in_handshake = 4;
            config.limits.handshake = Duration::from_secs(60);
            config
        };
        let mut one = Node::start(few(config(1, 1, &[(0, here)])), second).await;
        let mut idle = Vec::new();
        for _ in 0..40 {
            idle.push(TcpStream::connect(there).await.unwrap());
        }
        let mut zero = Node::start(few(config(0, 1, &[(1, there)])), first).await;
        zero.up(1).await;
        one.up(0).await;
        // The first of them was closed long before its sixty seconds are over.
        let mut nothing = [0; 1];
        let read = in_time("the oldest to be closed", idle[0].read(&mut nothing)).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        check_link(&mut zero, &mut one).await;
    });
}

/// A handshake that does not fit is refused with a code and a message that names both sides; the
/// owner gets the same refusal.
#[test]
fn handshakes_that_do_not_fit() {
    runtime().block_on(async {
        let (mut zero, mut one, address) = pair(|_| {}).await;
        let mut other_version = bytes_of(&hello());
        other_version[13] = 9;
        let cases = [
            (
                bytes_of(&Hello { cluster: "barn".into(), ..hello() }),
                RefuseCode::Cluster,
                "p0 of cluster \"barn\" and p1 of cluster \"farm\" belong to different clusters",
            ),
            (
                bytes_of(&Hello { to: NodeId(3), ..hello() }),
                RefuseCode::WrongNode,
                "p0 dialled p3 and reached p1 of cluster \"farm\"",
            ),
            (
                bytes_of(&Hello { from: NodeId(7), ..hello() }),
                RefuseCode::UnknownNode,
                "p1 of cluster \"farm\" does not know p7",
            ),
            (
                bytes_of(&Hello { from: NodeId(1), ..hello() }),
                RefuseCode::UnknownNode,
                "p1 of cluster \"farm\" does not know p1",
            ),
            (
                bytes_of(&Hello { nodes: 5, ..hello() }),
                RefuseCode::Membership,
                "p0 has a cluster of 5 nodes and p1 of cluster \"farm\" one of 2",
            ),
            (
                other_version,
                RefuseCode::Version,
                "speaks version 9 of the link protocol, and p1 of cluster \"farm\" speaks",
            ),
        ];
        for (bytes, code, part) in cases {
            let sent = send_bytes(address, &bytes).await.expect("a refusal");
            let (_, reported) = one.refused().await;
            assert_eq!(sent.0, code);
            assert!(sent.1.contains(part), "{sent:?}");
            assert_eq!(sent, (reported.code, reported.message));
            assert!(!reported.by_peer);
        }
        check_link(&mut zero, &mut one).await;
    });
}

/// The node with the greater id does not dial: there would be two connections.
#[test]
fn the_greater_id_does_not_dial() {
    runtime().block_on(async {
        let (first, here) = listener().await;
        let _zero = Node::start(config(0, 1, &[(1, here)]), first).await;
        let greater = Hello { from: NodeId(1), to: NodeId(0), ..hello() };
        let (code, _) = send_bytes(here, &bytes_of(&greater)).await.expect("a refusal");
        assert_eq!(code, RefuseCode::WrongDialer);
    });
}

/// Two nodes of different clusters: both sides report the refusal, the dialling one only once.
#[test]
fn both_sides_report_a_refusal() {
    runtime().block_on(async {
        let (first, here) = listener().await;
        let (second, there) = listener().await;
        let barn = LinkConfig { cluster: "barn".into(), ..config(0, 1, &[(1, there)]) };
        let mut zero = Node::start(barn, first).await;
        let mut one = Node::start(config(1, 1, &[(0, here)]), second).await;
        let ((by, here), (of, there)) = (one.refused().await, zero.refused().await);
        assert_eq!((by, of), (Some(0), Some(1)));
        assert_eq!([here.code, there.code], [RefuseCode::Cluster; 2]);
        assert!(!here.by_peer && there.by_peer);
        assert!(there.message.contains(&here.message), "{here} / {there}");
        let again = tokio::time::timeout(Duration::from_millis(300), zero.events.recv()).await;
        assert!(again.is_err(), "reported again: {again:?}");
    });
}

/// Another program at a peer's address: the dialling node reports it, and keeps trying.
#[test]
fn another_program_answers() {
    runtime().block_on(async {
        let (first, _) = listener().await;
        let (other, there) = listener().await;
        let mut zero = Node::start(config(0, 1, &[(1, there)]), first).await;
        for round in 0..2 {
            let (mut stream, _) = in_time("connection", other.accept()).await.unwrap();
            stream.write_all(b"SSH-2.0-something\r\n").await.unwrap();
            if round == 0 {
                let (peer, refusal) = zero.refused().await;
                assert_eq!((peer, refusal.code), (Some(1), RefuseCode::Protocol));
            }
        }
    });
}

/// A node that sends malformed bytes, or a message out of order, after its handshake loses its
/// link, and no such message is delivered.
#[test]
fn malformed_bytes_within_a_link() {
    runtime().block_on(async {
        let (second, there) = listener().await;
        let mut one = Node::start(config(1, 1, &[(0, there)]), second).await;
        let mut gap = Vec::new();
        write_data(5, 0, b"gap", &mut gap);
        for bytes in [&[0xff; 4][..], &gap] {
            let mut stream = TcpStream::connect(there).await.unwrap();
            stream
                .write_all(&bytes_of(&Hello { known: Some(Incarnation(1)), ..hello() }))
                .await
                .unwrap();
            let mut answer = [0; 64];
            in_time("an answer", stream.read(&mut answer)).await.unwrap();
            stream.write_all(&[9, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]).await.unwrap();
            one.up(0).await;
            stream.write_all(bytes).await.unwrap();
            one.down(0).await;
        }
        let failure = one.links.failure(NodeId(0)).unwrap();
        assert_eq!(failure, Some(kgate_net::ChannelError::Gap { number: 5, expected: 1 }));
    });
}
