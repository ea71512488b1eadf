//! One client that uses as much of a node as it can: what others still get, and what it is told.

use std::path::PathBuf;

use kgate_client::{Admin, Client, ErrorKind, PermitSelector, Status};
use kgate_node::Node;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use crate::fixture::{Folder, count, get, in_time};

async fn start(folder: &Folder, more: &str) -> Node {
    let socket = format!("unix:{}", path(folder).display());
    let text = format!("id = 0\nnodes = [\"a:1\"]\napi = {socket:?}\n{more}\n");
    Node::start(folder.config(&text)).await.unwrap()
}

fn path(folder: &Folder) -> PathBuf {
    folder.0.join("node.sock")
}

/// Holders that say as much of themselves as they may do not make the status larger than a client
/// decodes: it says how many there are, hides no other gate, and a single holder can be evicted.
#[tokio::test]
async fn a_status_that_fits() {
    const HOLDERS: u32 = 1000;
    let folder = Folder::new();
    let node = start(&folder, "").await;
    let api = node.api()[0].clone();
    let client = Client::connect(&api).await.unwrap();
    let mut gate = client.gate("flood").k(HOLDERS).reason(&"r".repeat(200));
    for pair in 0..16 {
        gate = gate.meta(&format!("key-{pair}"), &"v".repeat(256));
    }
    let mut permits = Vec::new();
    for _ in 0..HOLDERS {
        permits.push(gate.clone().acquire().await.unwrap());
    }
    let _other = client.gate("other").reason("backup").acquire().await.unwrap();
    let status = Status::fetch(&api, None).await.unwrap();
    let flood = status.gate("flood").unwrap();
    assert_eq!((flood.slots_in_use(), flood.holders().len()), (HOLDERS, 1000));
    let omitted = flood.omitted().expect("the notes do not fit");
    assert!(omitted.contains("what clients say"), "{omitted}");
    assert!(flood.explain().contains(&omitted), "{}", flood.explain());
    assert!(status.to_json().contains("\"omitted\":{"), "{}", flood.explain());
    assert_eq!(status.gate("other").unwrap().holders().len(), 1);
    let last = PermitSelector::Gate("flood".into(), Some(HOLDERS - 1));
    let mut admin = Admin::connect(&api).await.unwrap();
    assert!(admin.evict_permit(&last, true).await.unwrap().message.contains("slot 999"));
}

/// A client beyond its limit of connections is told so, in frames, by gRPC and by HTTP, and not
/// that there is no node.
#[tokio::test]
async fn too_many_connections() {
    let folder = Folder::new();
    let node = start(&folder, "[limits]\nconnections = 1").await;
    let api = node.api()[0].clone();
    let _first = Client::connect(&api).await.unwrap();
    for error in [
        in_time("a session", Client::connect(&api)).await.map(|_| ()).unwrap_err(),
        in_time("a status", Status::fetch(&api, None)).await.map(|_| ()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        assert!(error.to_string().contains("limit of 1 connections"), "{error}");
    }
    let answer = get(UnixStream::connect(path(&folder)).await.unwrap(), "/v1/status", "").await;
    assert!(answer.contains("limit_exceeded") && answer.contains("1 connections"), "{answer}");
}

/// A permit that nothing binds to a process is refused where permits are bound to processes, and
/// the answer says what to use; nothing is held. Elsewhere the holder is the process at the other
/// end of the socket.
#[tokio::test]
async fn a_hold_over_http() {
    let put = "PUT /v1/gates/gpu/hold HTTP/1.1\r\nhost: node\r\ntransfer-encoding: chunked\r\n\r\n";
    let folder = Folder::new();
    let bound = start(&folder, &format!("lease_ms = 0\nslot_files = {:?}", folder.0)).await;
    let mut stream = UnixStream::connect(path(&folder)).await.unwrap();
    stream.write_all(put.as_bytes()).await.unwrap();
    let mut answer = [0; 1000];
    let read = in_time("an answer", tokio::io::AsyncReadExt::read(&mut stream, &mut answer)).await;
    let answer = String::from_utf8_lossy(&answer[..read.unwrap()]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("kgate run"), "{answer}");
    assert_eq!(Status::fetch(&bound.api()[0], None).await.unwrap().gates().count(), 0);
    drop(bound);
    let folder = Folder::new();
    let leased = start(&folder, "").await;
    let mut stream = UnixStream::connect(path(&folder)).await.unwrap();
    stream.write_all(put.as_bytes()).await.unwrap();
    in_time("a holder", async {
        loop {
            let status = Status::fetch(&leased.api()[0], Some("gpu")).await.unwrap();
            if let Some(holder) = status.gate("gpu").and_then(|gate| gate.holders().next()) {
                let process = holder.process();
                assert_eq!(process.pid, std::process::id());
                assert!(process.command.starts_with("HTTP ("), "{}", process.command);
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Connections with unfinished messages are bounded, whatever way they are sent.
#[tokio::test]
async fn unfinished_messages() {
    let folder = Folder::new();
    let _node = start(&folder, "[limits]\nunfinished = 3").await;
    let mut preface = kgate_api::frames::PREFACE.to_vec();
    preface.extend(1000_u32.to_be_bytes());
    preface.push(0);
    let mut all = Vec::new();
    for _ in 0..4 {
        let mut stream = UnixStream::connect(path(&folder)).await.unwrap();
        stream.write_all(&preface).await.unwrap();
        all.push(stream);
    }
    let metrics =
        || async { get(UnixStream::connect(path(&folder)).await.unwrap(), "/metrics", "").await };
    in_time("a refusal", async {
        while count(&metrics().await, "unfinished") != 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The right over a gate is enough to evict its holders, by gate or by session, and is none over
/// the holders of another gate.
#[tokio::test]
async fn rights_to_evict() {
    let folder = Folder::new();
    let user = rustix::process::getuid().as_raw();
    let allow = format!(
        "[[allow]]\nuser = {user}\n[[allow]]\nuser = {user}\ngates = [\"gpu\"]\nmay = [\"operate\"]"
    );
    let node = start(&folder, &allow).await;
    let api = node.api()[0].clone();
    let client = Client::connect(&api).await.unwrap();
    let other = Client::connect(&api).await.unwrap();
    let _gpu = client.gate("gpu").acquire().await.unwrap();
    let _film = other.gate("film").acquire().await.unwrap();
    let status = Status::fetch(&api, None).await.unwrap();
    let session = |gate: &str| {
        let holder = status.gate(gate).unwrap().holders().next().unwrap();
        PermitSelector::Session(holder.node(), holder.session_id())
    };
    let mut admin = Admin::connect(&api).await.unwrap();
    let gate = |name: &str| PermitSelector::Gate(name.into(), Some(0));
    for allowed in [gate("gpu"), session("gpu")] {
        assert!(admin.evict_permit(&allowed, true).await.is_ok(), "{allowed:?}");
    }
    for denied in [gate("film"), gate("nowhere"), session("film")] {
        let error = admin.evict_permit(&denied, true).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{denied:?} {error}");
    }
}
