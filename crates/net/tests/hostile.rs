//! The port is open to anybody: junk, silence, and nodes that do not belong here cost little and
//! get a clear answer.
#![allow(missing_docs, reason = "a test's first line says its point")]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{Node, config, in_time, listener, runtime};
use kgate_core::{Incarnation, NodeId};
use kgate_net::LinkConfig;
use kgate_net::wire::{Decoder, Frame, GREETING_MAX, Hello, write_data, write_hello};
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

/// The link between the two still works.
async fn works(zero: &mut Node, one: &mut Node) {
    zero.send(1, 11);
    assert_eq!(one.frame().await, (0, 11));
    one.send(0, 12);
    assert_eq!(zero.frame().await, (1, 12));
}

fn hello() -> Hello {
    Hello {
        cluster: "farm".into(),
        from: NodeId(0),
        to: NodeId(1),
        nodes: 2,
        incarnation: Incarnation(1),
        of: None,
        received: 0,
    }
}

/// Sends these bytes and reads until the connection ends, which it must; returns the refusal, if
/// there was one.
async fn say(address: SocketAddr, bytes: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = in_time("the end of the connection", stream.read_to_end(&mut answer)).await;
    let mut decoder = Decoder::new(GREETING_MAX);
    decoder.feed(&answer);
    match (read, decoder.next()) {
        (_, Ok(Some(Frame::Refuse(why)))) => Some(why),
        (Err(_), _) | (Ok(_), Ok(None)) => None,
        (_, other) => panic!("{other:?}"),
    }
}

fn bytes_of(hello: &Hello) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_hello(hello, &mut bytes);
    bytes
}

/// Junk is answered with a closed connection at once, told to the owner, and the nodes go on.
#[test]
fn junk_on_the_port() {
    runtime().block_on(async {
        let (mut zero, mut one, address) = pair(|_| {}).await;
        let mut early = Vec::new();
        write_data(1, 0, b"early", &mut early);
        for (junk, said) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "is no greeting"),
            (&[0xff; 4], "a frame of 4294967295 bytes"),
            (&[0; 100], "an empty frame"),
            (&[0x16, 3, 1, 2, 0, 1, 0, 1], "a node with TLS where this one has none"),
            (&early, "did not begin with a greeting"),
        ] {
            say(address, junk).await;
            let (peer, why) = one.refused().await;
            assert!(peer.is_none() && why.contains(said) && why.contains("127.0.0.1"), "{why}");
        }
        works(&mut zero, &mut one).await;
    });
}

/// Whoever says nothing, or a byte at a time, is closed when the time of a handshake is over.
#[test]
fn half_open_and_slow_connections_are_closed() {
    runtime().block_on(async {
        let short = |config: &mut LinkConfig| config.limits.handshake = Duration::from_millis(300);
        let (mut zero, mut one, address) = pair(short).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut slow = TcpStream::connect(address).await.unwrap();
        let drip = async {
            // One byte at a time, never the last: it always seems to make progress.
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
        works(&mut zero, &mut one).await;
    });
}

/// Strangers who hold all places of the handshake do not keep a node out: the oldest goes.
#[test]
fn strangers_do_not_keep_a_node_out() {
    runtime().block_on(async {
        let (first, here) = listener().await;
        let (second, there) = listener().await;
        let few = |mut config: LinkConfig| {
            config.limits.in_handshake = 4;
            config.limits.handshake = Duration::from_secs(60);
            config
        };
        let mut one = Node::start(few(config(1, 1, &[(0, here)])), second).await;
        let mut strangers = Vec::new();
        for _ in 0..40 {
            strangers.push(TcpStream::connect(there).await.unwrap());
        }
        let mut zero = Node::start(few(config(0, 1, &[(1, there)])), first).await;
        zero.up(1).await;
        one.up(0).await;
        // The first of them has long been closed, with sixty seconds still to go.
        let mut nothing = [0; 1];
        let read = in_time("the oldest to be closed", strangers[0].read(&mut nothing)).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        works(&mut zero, &mut one).await;
    });
}

/// Whoever does not belong here is refused with a text that names both sides, and the owner hears
/// the same.
#[test]
fn greetings_that_do_not_fit() {
    runtime().block_on(async {
        let (mut zero, mut one, address) = pair(|_| {}).await;
        let mut other_version = bytes_of(&hello());
        other_version[13] = 9;
        let cases = [
            (
                bytes_of(&Hello { cluster: "barn".into(), ..hello() }),
                "p0 of cluster \"barn\" and p1 of cluster \"farm\" are not of one cluster",
            ),
            (
                bytes_of(&Hello { to: NodeId(3), ..hello() }),
                "p0 wanted p3 and has reached p1 of cluster \"farm\"",
            ),
            (bytes_of(&Hello { from: NodeId(7), ..hello() }), "p1 of cluster \"farm\" knows no p7"),
            (bytes_of(&Hello { from: NodeId(1), ..hello() }), "p1 of cluster \"farm\" knows no p1"),
            (
                bytes_of(&Hello { nodes: 5, ..hello() }),
                "p0 has a cluster of 5 nodes and p1 of cluster \"farm\" one of 2",
            ),
            (
                other_version,
                "speaks version 9 of the links, and p1 of cluster \"farm\" speaks version 1",
            ),
        ];
        for (bytes, expected) in cases {
            let said = say(address, &bytes).await.expect("a refusal");
            let (_, told) = one.refused().await;
            assert!(said.contains(expected), "{said}");
            assert_eq!(said, told);
        }
        works(&mut zero, &mut one).await;
    });
}

/// The greater id does not dial: there would be two connections.
#[test]
fn the_greater_id_does_not_dial() {
    runtime().block_on(async {
        let (first, here) = listener().await;
        let _zero = Node::start(config(0, 1, &[(1, here)]), first).await;
        let greater = Hello { from: NodeId(1), to: NodeId(0), ..hello() };
        let said = say(here, &bytes_of(&greater)).await.expect("a refusal");
        assert!(said.contains("of two nodes the smaller id calls the greater"), "{said}");
    });
}

/// Two real nodes that do not belong together: both sides tell, the dialler not at each attempt.
#[test]
fn both_sides_tell() {
    runtime().block_on(async {
        let (first, here) = listener().await;
        let (second, there) = listener().await;
        let barn = LinkConfig { cluster: "barn".into(), ..config(0, 1, &[(1, there)]) };
        let mut zero = Node::start(barn, first).await;
        let mut one = Node::start(config(1, 1, &[(0, here)]), second).await;
        let ((by, here), (of, there)) = (one.refused().await, zero.refused().await);
        assert_eq!((by, of), (Some(0), Some(1)));
        assert!(there.contains(&here), "{here} / {there}");
        let again = tokio::time::timeout(Duration::from_millis(300), zero.events.recv()).await;
        assert!(again.is_err(), "told again: {again:?}");
    });
}

/// Something else answers at a peer's address: the dialler says so, and goes on trying.
#[test]
fn something_else_answers() {
    runtime().block_on(async {
        let (first, _) = listener().await;
        let (other, there) = listener().await;
        let mut zero = Node::start(config(0, 1, &[(1, there)]), first).await;
        for round in 0..2 {
            let (mut stream, _) = in_time("a call", other.accept()).await.unwrap();
            stream.write_all(b"SSH-2.0-something\r\n").await.unwrap();
            if round == 0 {
                let (peer, why) = zero.refused().await;
                assert!(peer == Some(1) && why.contains("is no node of kgate"), "{why}");
            }
        }
    });
}

/// A node that greets well and then sends junk, or a message out of order, loses its link, and
/// nothing of it is delivered.
#[test]
fn junk_within_a_link() {
    runtime().block_on(async {
        let (second, there) = listener().await;
        let mut one = Node::start(config(1, 1, &[(0, there)]), second).await;
        let mut gap = Vec::new();
        write_data(5, 0, b"gap", &mut gap);
        for junk in [&[0xff; 4][..], &gap] {
            let mut stream = TcpStream::connect(there).await.unwrap();
            stream
                .write_all(&bytes_of(&Hello { of: Some(Incarnation(1)), ..hello() }))
                .await
                .unwrap();
            let mut answer = [0; 64];
            in_time("an answer", stream.read(&mut answer)).await.unwrap();
            stream.write_all(&[9, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]).await.unwrap();
            one.up(0).await;
            stream.write_all(junk).await.unwrap();
            one.down(0).await;
        }
        let broken = one.links.broken(NodeId(0)).unwrap();
        assert_eq!(broken, Some(kgate_net::Broken::Gap { number: 5, expected: 1 }));
    });
}
