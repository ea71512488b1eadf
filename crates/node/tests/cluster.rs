//! Real nodes on real sockets, in one process: clients get permits through the API.

use std::time::Duration;

use kgate_client::{Client, ErrorKind, GateStatus, Status};
use kgate_node::{Config, Node};
use tokio::net::TcpListener;

/// How many configurations were written: each has a file of its own.
static FILES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// As many nodes as there are, on ports that were free.
async fn cluster(nodes: u32, more: &str) -> Vec<Node> {
    let mut listeners = Vec::new();
    for _ in 0..nodes {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    }
    let addresses: Vec<String> =
        listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    let mut all = Vec::new();
    for (id, listener) in listeners.into_iter().enumerate() {
        let text = format!(
            "id = {id}\nnodes = {addresses:?}\napi = \"127.0.0.1:0\"\nfaults = \"crash-stop\"\n\
             {more}"
        );
        let file = FILES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("kgate-cluster-{}-{file}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let config = Config::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        all.push(Node::start_on(config, Some(listener)).await.expect("it starts"));
    }
    all
}

async fn client(node: &Node) -> Client {
    Client::connect(&node.api()[0]).await.expect("a session")
}

/// k and one more at three nodes: k get in with different slots, one waits and gets in when one
/// comes out, with a greater fence.
#[tokio::test]
async fn one_more_than_k() {
    let nodes = cluster(3, "").await;
    let mut permits = Vec::new();
    for node in &nodes {
        permits.push(client(node).await.gate("gpu").k(3).acquire().await.unwrap());
    }
    let mut slots: Vec<u32> = permits.iter().flat_map(|permit| permit.slots().to_vec()).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2]);
    let waits = client(&nodes[0]).await;
    let refused = waits.gate("gpu").try_acquire().await.unwrap();
    assert!(refused.is_none());
    let timed_out = waits.gate("gpu").timeout(Duration::from_millis(100)).acquire().await;
    assert_eq!(timed_out.unwrap_err().kind(), ErrorKind::TimedOut);
    let out = permits.remove(1);
    let (slot, fence) = (out.slots().to_vec(), out.fence());
    let waiting = tokio::spawn(async move { waits.gate("gpu").acquire().await });
    out.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert_eq!(next.slots(), slot);
    assert!(next.fence() > fence, "{:?} after {fence:?}", next.fence());
}

/// Another k is refused with both values and who set the first.
#[tokio::test]
async fn another_k() {
    let nodes = cluster(2, "").await;
    let _permit = client(&nodes[0]).await.gate("gpu").k(2).acquire().await.unwrap();
    let refused = client(&nodes[1]).await.gate("gpu").k(3).acquire().await;
    let refusal = refused.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Conflict);
    let text = refusal.to_string();
    assert!(text.contains("k = 2") && text.contains("k = 3"), "{text}");
}

/// Everybody sees who holds and who waits, at whatever node they look, and is told when it changes.
#[tokio::test]
async fn everybody_sees_everything() {
    use tokio_stream::StreamExt;
    let nodes = cluster(3, "").await;
    let permit = client(&nodes[0]).await.gate("gpu").acquire().await.unwrap();
    let waits = client(&nodes[1]).await;
    let waiting = tokio::spawn(async move { waits.gate("gpu").acquire().await });
    let watch = Status::watch(&nodes[2].api()[0], Some("gpu")).await.unwrap();
    let mut watch = Box::pin(watch);
    let both = |gate: GateStatus<'_>| {
        gate.holders().next().is_some_and(|holder| holder.node() == 0)
            && gate.waiting().next().is_some_and(|waiter| waiter.node() == 1)
    };
    loop {
        let reply = watch.next().await.expect("goes on").unwrap();
        if reply.gates().next().is_some_and(both) {
            break;
        }
    }
    permit.release().await.unwrap();
    let _permit = waiting.await.unwrap().unwrap();
    loop {
        let reply = watch.next().await.expect("goes on").unwrap();
        if reply.gate("gpu").unwrap().holders().next().is_some_and(|holder| holder.node() == 1) {
            break;
        }
    }
}

/// A wait that is dropped leaves nothing behind; a permit that is dropped is given back.
#[tokio::test]
async fn dropped_is_given_back() {
    let nodes = cluster(2, "").await;
    let (one, other) = (client(&nodes[0]).await, client(&nodes[1]).await);
    let held = one.gate("gpu").acquire().await.unwrap();
    for _ in 0..20 {
        let waiting = other.gate("gpu").timeout(Duration::from_millis(5)).acquire().await;
        assert!(waiting.is_err());
    }
    drop(held);
    drop(other.gate("gpu").acquire().await.unwrap());
    let _again = one.gate("gpu").acquire().await.unwrap();
}

/// A node that stops tells its clients that they have lost their permits, and the others go on.
#[tokio::test]
async fn a_node_that_stops() {
    let mut nodes = cluster(3, "").await;
    let one = client(&nodes[0]).await;
    let other = client(&nodes[1]).await;
    let permit = one.gate("gpu").acquire().await.unwrap();
    let waiting = tokio::spawn(async move { other.gate("gpu").acquire().await });
    nodes.remove(0).stop().await.unwrap();
    let reason = permit.lost().await;
    assert!(reason.to_string().contains("stop"), "{reason}");
    waiting.await.unwrap().unwrap();
}

/// Every protocol of the registry serves clients over real sockets.
#[tokio::test]
async fn every_protocol_on_real_sockets() {
    for protocol in
        ["slots", "raymond", "bas", "vcube", "robust", "timer-free", "tree-token", "stabilizing"]
    {
        let gates = format!(
            "new_gates = false\n[[gate]]\nname = \"gpu\"\nk = 2\nprotocol = {protocol:?}\n"
        );
        let nodes = cluster(3, &gates).await;
        let inside = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let mut tasks = Vec::new();
        for node in &nodes {
            let (client, inside) = (client(node).await, inside.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..5 {
                    let permit = client.gate("gpu").acquire().await.unwrap();
                    let now = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert!(now < 2, "two at most");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    permit.release().await.unwrap();
                }
            }));
        }
        for task in tasks {
            let done = tokio::time::timeout(Duration::from_secs(60), task).await;
            done.unwrap_or_else(|_| panic!("{protocol} serves")).unwrap();
        }
    }
}
