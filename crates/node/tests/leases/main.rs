//! Real nodes with leases, on real sockets and disks: they found a cluster, lose nodes, restart,
//! lose the quorum and come back.
//!
//! Times are short (`preset = "fast"`), and what is waited for has a deadline that a busy machine
//! keeps.

mod cluster;
mod held;
mod operators;
mod paths;

use std::time::Duration;

use cluster::{Cluster, PATIENCE, until};
use kgate_client::{Client, ErrorKind, LeaseInstant};

/// Three nodes found a cluster by themselves and grant; another k is a conflict that names both
/// values; fences grow from node to node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_found_a_cluster() {
    let cluster = Cluster::start(3, "").await;
    let mut last = None;
    for id in 0..3 {
        let permit = cluster.acquire(id).await;
        assert_eq!(permit.slots(), [0]);
        assert!(permit.fence() > last, "{:?} after {last:?}", permit.fence());
        last = permit.fence();
        permit.release().await.unwrap();
    }
    let client = Client::connect(&cluster.api(2)).await.unwrap();
    let refused = client.gate("gpu").k(7).acquire().await;
    let refusal = refused.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Conflict);
    let text = refusal.to_string();
    assert!(text.contains("k = 1") && text.contains("k = 7"), "{text}");
}

/// E1 to E4: the node of a holder is killed; another node gets the slot with a greater fence, no
/// earlier than the lease is certainly over, and soon after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holder() {
    let mut cluster = Cluster::start(3, "").await;
    let permit = cluster.acquire(0).await;
    let fence = permit.fence();
    let waits = Client::connect(&cluster.api(1)).await.unwrap();
    let waiting = tokio::spawn(async move { waits.gate("gpu").acquire().await });
    let (killed, left) = (LeaseInstant::now(), permit.remaining());
    cluster.kill(0);
    let next =
        tokio::time::timeout(PATIENCE, waiting).await.expect("in time").unwrap().expect("granted");
    let took = LeaseInstant::now().after(killed);
    println!("granted {took:?} after the kill");
    assert!(next.fence() > fence);
    assert!(took > left, "after {took:?}: its client had {left:?} left");
    assert!(permit.is_lost(), "its own client knows by its own clock");
}

/// R1, R2: each node in turn is restarted, cleanly and by a kill, and grants again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_restarts() {
    let mut cluster = Cluster::start(3, "").await;
    let mut last = None;
    for id in 0..3 {
        for clean in [true, false] {
            cluster.acquire(id).await.release().await.unwrap();
            if clean {
                cluster.stop(id).await
            } else {
                cluster.kill(id)
            }
            cluster.restart(id).await;
            let permit = cluster.acquire(id).await;
            assert!(permit.fence() > last, "{:?} after {last:?}", permit.fence());
            last = permit.fence();
            permit.release().await.unwrap();
        }
    }
}

/// A minority grants nothing and says so, its holder stops; when the others are back it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quorum_is_lost_and_comes_back() {
    let mut cluster = Cluster::start(3, "").await;
    let permit = cluster.acquire(0).await;
    cluster.kill(1);
    cluster.kill(2);
    tokio::time::timeout(PATIENCE, permit.lost()).await.expect("it stops in time");
    let address = cluster.api(0);
    let text = until(|| async {
        let client = Client::connect(&address).await.ok()?;
        match client.gate("gpu").timeout(Duration::from_secs(5)).acquire().await {
            Err(error) if error.kind() == ErrorKind::NoQuorum => Some(error.to_string()),
            Err(_) => None,
            Ok(permit) => panic!("granted without a quorum: {permit:?}"),
        }
    })
    .await;
    assert!(text.starts_with("no quorum") && text.contains("node 1, 2"), "{text}");
    assert_eq!(cluster.ask(0, "GET", "/healthz", "").await.unwrap().0, 200, "the process runs");
    let (status, why) = cluster.ask(0, "GET", "/readyz", "").await.unwrap();
    assert_eq!(status, 503);
    let message = why["message"].as_str().unwrap();
    assert!(message.starts_with("node 0 grants nothing now: no lease"), "{why}");
    cluster.restart(1).await;
    cluster.acquire(0).await.release().await.unwrap();
    until(|| async {
        cluster.ask(0, "GET", "/readyz", "").await.filter(|(status, _)| *status == 200)
    })
    .await;
    cluster.restart(2).await;
    cluster.acquire(2).await.release().await.unwrap();
}

/// One node alone with a folder: its own vote is enough, and after a kill nothing is granted until
/// its former lease is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_alone() {
    let mut cluster = Cluster::start(1, "").await;
    let permit = cluster.acquire(0).await;
    let fence = permit.fence();
    permit.release().await.unwrap();
    cluster.kill(0);
    let killed = LeaseInstant::now();
    cluster.restart(0).await;
    let again = cluster.acquire(0).await;
    assert!(again.fence() > fence);
    assert!(LeaseInstant::now().after(killed) > Duration::from_millis(700));
}
