//! The example of a guarded resource, with real permits and real HTTP.

#[path = "../examples/fenced_store/store.rs"]
mod store;

use std::net::SocketAddr;
use std::path::Path;

use kgate_client::{Client, Permit};
use kgate_node::{Config, Node};
use store::Store;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

async fn open(folder: &Path) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Store::open(folder).unwrap().routes();
    (address, tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() }))
}

async fn ask(store: SocketAddr, request: String) -> String {
    let mut stream = TcpStream::connect(store).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn put(store: SocketAddr, permit: &str, text: &str) -> String {
    let length = text.len();
    ask(
        store,
        format!(
            "PUT /report HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-length: {length}\r\n{permit}\r\n{text}"
        ),
    )
    .await
}

async fn get(store: SocketAddr) -> String {
    ask(store, "GET /report HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".into()).await
}

fn shown(permit: &Permit) -> String {
    let slots = permit.slots().iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let fence = permit.fence_hex().unwrap();
    format!("kgate-gate: {}\r\nkgate-slots: {slots}\r\nkgate-fence: {fence}\r\n", permit.gate())
}

/// A client that still writes after its slot went to another one is refused, also by a store that
/// was restarted in between; nothing is changed by it.
#[tokio::test]
async fn a_late_holder_is_refused() {
    let folder = std::env::temp_dir().join(format!("kgate-fenced-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let node = Node::start(Config::alone("127.0.0.1:0")).await.unwrap();
    let client = Client::connect(&node.api()[0]).await.unwrap();
    let (store, serving) = open(&folder).await;

    let first = client.gate("deploy").acquire().await.unwrap();
    let stale = shown(&first);
    assert!(put(store, &stale, "by the first").await.starts_with("HTTP/1.1 204"));
    // It sleeps, loses the permit, and does not know.
    first.release().await.unwrap();
    let second = client.gate("deploy").acquire().await.unwrap();
    assert!(put(store, &shown(&second), "by the second").await.starts_with("HTTP/1.1 204"));

    let refused = put(store, &stale, "by the first, late").await;
    assert!(
        refused.starts_with("HTTP/1.1 409") && refused.contains("slot 0 of gate `deploy`"),
        "{refused}"
    );
    serving.abort();
    let (store, _serving) = open(&folder).await;
    let refused = put(store, &stale, "by the first, later").await;
    assert!(refused.starts_with("HTTP/1.1 409"), "{refused}");
    assert!(get(store).await.ends_with("by the second"));
    assert!(
        put(store, &shown(&second), "again").await.starts_with("HTTP/1.1 204"),
        "the holder goes on"
    );

    let nothing = put(store, "", "by nobody").await;
    assert!(
        nothing.starts_with("HTTP/1.1 400") && nothing.contains("no permit given"),
        "{nothing}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
