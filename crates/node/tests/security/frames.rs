//! Sessions in frames on a Unix socket: malformed ones, too many, and beside HTTP.

use std::path::PathBuf;

use bytes::BytesMut;
use hyper_util::rt::TokioIo;
use kgate_api::frames::{Decoder, MAGIC, PREFACE, VERSION, encode};
use kgate_api::v1;
use kgate_api::v1::client_message::Message as Sent;
use kgate_api::v1::gates_client::GatesClient;
use kgate_api::v1::server_message::Message as Received;
use kgate_client::{Client, ErrorKind, Status};
use kgate_node::Node;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tonic::transport::Endpoint;

use crate::fixture::{Folder, count, get, in_time};

async fn start(folder: &Folder, more: &str) -> Node {
    let socket = format!("unix:{}", path(folder).display());
    let text = format!("id = 0\nnodes = [\"a:1\"]\napi = {socket:?}\n{more}\n");
    Node::start(folder.config(&text)).await.unwrap()
}

fn path(folder: &Folder) -> PathBuf {
    folder.0.join("frames.sock")
}

async fn metrics(folder: &Folder) -> String {
    get(UnixStream::connect(path(folder)).await.unwrap(), "/metrics", "").await
}

fn frame(message: Sent) -> BytesMut {
    let mut bytes = BytesMut::new();
    encode(&v1::ClientMessage { message: Some(message) }, &mut bytes);
    bytes
}

fn begin() -> Vec<u8> {
    [&PREFACE[..], &frame(Sent::Hello(v1::Hello::default().into()))].concat()
}

/// Frames by hand.
struct ByHand {
    stream: UnixStream,
    decoder: Decoder,
}

impl ByHand {
    async fn send(folder: &Folder, bytes: &[u8]) -> Self {
        let mut stream = UnixStream::connect(path(folder)).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        Self { stream, decoder: Decoder::new(1 << 20) }
    }

    /// The next message; none at the end of the connection.
    async fn next(&mut self) -> Option<Received> {
        loop {
            if let Some(v1::ServerMessage { message }) = self.decoder.next().unwrap() {
                return message;
            }
            let read = self.stream.read_buf(self.decoder.room());
            if in_time("an answer", read).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The code of the refusal that ends the connection.
    async fn refused(mut self) -> v1::ErrorCode {
        let mut code = None;
        while let Some(message) = self.next().await {
            code = if let Received::Closed(closed) = message { Some(closed.code()) } else { None };
        }
        code.expect("the last message is a refusal")
    }
}

/// Each malformed beginning and each malformed frame ends the connection with a code; other clients
/// do not notice.
#[tokio::test]
async fn malformed_frames() {
    let folder = Folder::new();
    let node = start(&folder, "[limits]\nmessage_bytes = 2048").await;
    let held = Client::connect(&node.api()[0]).await.unwrap().gate("gpu").acquire().await.unwrap();
    let then = |rest: &[u8]| [&begin()[..], rest].concat();
    let too_long = |length: u32| length.to_be_bytes().to_vec();
    let acquire =
        |gate: String| Sent::Acquire(v1::Acquire { gate, ..v1::Acquire::default() }.into());
    let whole = frame(acquire("g".repeat(100_000)));
    let unexpected = frame(Sent::Renew(v1::Renew { sequence: 1 }));
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("another magic", b"\0kgatx\0\x01".to_vec()),
        ("another version", [&MAGIC[..], &(VERSION + 1).to_be_bytes()].concat()),
        ("a first frame that is too long", [&PREFACE[..], &too_long(2049)].concat()),
        ("a first frame that is no message", [&PREFACE[..], b"\0\0\0\x02\xff\xff"].concat()),
        ("a first message that is not Hello", [&PREFACE[..], &unexpected].concat()),
        ("a later frame that is too long", then(&too_long(u32::MAX))),
        ("a later frame that is too long, and whole", then(&whole)),
        ("a later frame that is no message", then(b"\0\0\0\x03\x0a\x09\x00")),
        ("a second Hello", then(&frame(Sent::Hello(v1::Hello::default().into())))),
    ];
    for (what, bytes) in &cases {
        let code = ByHand::send(&folder, bytes).await.refused().await;
        assert_eq!(code, v1::ErrorCode::BadRequest, "{what}");
    }
    // A client that goes in the middle of anything leaves nothing behind.
    for length in 0..begin().len() {
        drop(ByHand::send(&folder, &begin()[..length]).await);
    }
    let metrics = metrics(&folder).await;
    assert_eq!((count(&metrics, "malformed"), count(&metrics, "size")), (4, 3), "{metrics}");
    assert!(held.remaining() > std::time::Duration::ZERO);
    held.release().await.unwrap();
}

/// A Hello that names no session is welcomed; the end of a session is answered, and then the
/// connection ends.
#[tokio::test]
async fn a_session_by_hand() {
    let folder = Folder::new();
    let _node = start(&folder, "").await;
    let mut by_hand = ByHand::send(&folder, &begin()).await;
    assert!(matches!(by_hand.next().await, Some(Received::Welcome(_))));
    by_hand.stream.write_all(&frame(Sent::EndSession(v1::EndSession {}))).await.unwrap();
    while let Some(message) = by_hand.next().await {
        assert!(matches!(message, Received::Closed(_)), "{message:?}");
    }
}

/// Quotas are those of gRPC: sessions, requests per second and connections of one user, and a
/// refusal has the same code.
#[tokio::test]
async fn quotas() {
    let folder = Folder::new();
    let node = start(&folder, "[limits]\nsessions = 2").await;
    let kept = [
        Client::connect(&node.api()[0]).await.unwrap(),
        Client::connect(&node.api()[0]).await.unwrap(),
    ];
    let refused = Client::connect(&node.api()[0]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded);
    assert!(refused.to_string().contains("limit of 2 sessions"), "{refused}");
    drop(kept);
    in_time("room for a session", async {
        while Client::connect(&node.api()[0]).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(node);

    let folder = Folder::new();
    let node = start(&folder, "[limits]\nrequests_per_second = 1\nburst = 2").await;
    let mut kinds = Vec::new();
    for _ in 0..4 {
        kinds.push(Client::connect(&node.api()[0]).await.map_err(|error| error.kind()));
    }
    assert!(kinds[0].is_ok(), "{kinds:?}");
    assert_eq!(kinds[3].as_ref().err(), Some(&ErrorKind::LimitExceeded), "{kinds:?}");
    drop((kinds, node));

    let folder = Folder::new();
    let node = start(&folder, "[limits]\nconnections = 2").await;
    let _kept = (
        ByHand::send(&folder, &begin()).await,
        // Silent, and counted.
        ByHand::send(&folder, b"").await,
    );
    in_time("the third is closed", async {
        while Client::connect(&node.api()[0]).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The `[[allow]]` list holds for frames as it does for gRPC.
#[tokio::test]
async fn rights() {
    let folder = Folder::new();
    let user = rustix::process::getuid().as_raw();
    let list = format!("[[allow]]\nuser = {user}\ngates = [\"build/\"]\n");
    let node = start(&folder, &list).await;
    let client = Client::connect(&node.api()[0]).await.unwrap();
    let _held = client.gate("build/x").acquire().await.unwrap();
    let refused = client.gate("prod").acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    let status = Status::fetch(&node.api()[0], Some("build/x")).await.unwrap();
    let holder = status.gate("build/x").unwrap().holders().next().unwrap().process();
    assert_eq!(holder.user, kgate_client::Process::current().user, "by the kernel's word");
}

/// gRPC, HTTP/1 and frames share one socket: each is served, at the same time.
#[tokio::test]
async fn http_and_frames_on_one_socket() {
    let folder = Folder::new();
    let node = start(&folder, "").await;
    let client = Client::connect(&node.api()[0]).await.unwrap();
    let by_frames = client.gate("gpu").k(2).acquire().await.unwrap();

    let socket = path(&folder);
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://local");
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let acquire = v1::Acquire { gate: "gpu".into(), k: Some(2), ..v1::Acquire::default() };
    let asks = [Sent::Hello(v1::Hello::default().into()), Sent::Acquire(acquire.into())];
    let asks = asks.map(|message| v1::ClientMessage { message: Some(message) });
    let (sender, asked) = tokio::sync::mpsc::channel(2);
    for ask in asks {
        sender.send(ask).await.unwrap();
    }
    let asked = tokio_stream::wrappers::ReceiverStream::new(asked);
    let mut told = GatesClient::new(channel).session(asked).await.unwrap().into_inner();
    let mut next = async || in_time("a reply", told.message()).await.unwrap().unwrap().message;
    assert!(matches!(next().await, Some(Received::Welcome(_))));
    assert!(matches!(next().await, Some(Received::Granted(_))));

    let ready = get(UnixStream::connect(path(&folder)).await.unwrap(), "/readyz", "").await;
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
    let status = Status::fetch(&node.api()[0], Some("gpu")).await.unwrap();
    assert_eq!(status.gate("gpu").unwrap().holders().len(), 2);
    by_frames.release().await.unwrap();
}

/// A thousand sessions at once, each with a permit of its own, between requests of HTTP.
#[tokio::test]
async fn a_thousand_connections() {
    const MANY: usize = 1000;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, most).unwrap();
    let folder = Folder::new();
    let node = start(&folder, "").await;
    let mut permits = Vec::new();
    for number in 0..MANY {
        let client = Client::connect(&node.api()[0]).await.unwrap();
        permits.push(client.gate(format!("gate-{number}")).acquire().await.unwrap());
        if number % 100 == 0 {
            assert!(metrics(&folder).await.starts_with("HTTP/1.1 200"));
        }
    }
    let status = Status::fetch(&node.api()[0], None).await.unwrap();
    assert_eq!(status.gates().map(|gate| gate.holders().len()).sum::<usize>(), MANY);
    for permit in permits {
        permit.release().await.unwrap();
    }
}
