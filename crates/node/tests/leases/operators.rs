//! Operators change a cluster of real nodes, on real sockets and disks, while permits are held.

use std::time::Duration;

use kgate_client::{Client, Error, Operators, api};
use kgate_node::Node;
use tokio::net::TcpListener;

use crate::cluster::{Cluster, PATIENCE, until};

impl Cluster {
    async fn operators(&self, id: usize) -> Operators {
        Operators::connect(&self.api(id)).await.expect("it answers")
    }

    /// What the list says of a node, through another one.
    async fn member(&self, asked: usize, node: u32) -> Option<api::Member> {
        let members = self.operators(asked).await.members().await.ok()?.members;
        members.into_iter().find(|member| member.node == node)
    }
}

fn refusal<T: std::fmt::Debug>(came: Result<T, Error>) -> (api::ErrorCode, String) {
    match came {
        Err(Error::Refused(refusal)) => (refusal.code, refusal.message),
        other => panic!("{other:?}"),
    }
}

/// A node joins by a token while a permit is held: nobody restarts, the permit stays, the newcomer
/// grants, votes and is removed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_comes_votes_and_goes() {
    let mut cluster = Cluster::start(3, "").await;
    let held = cluster.acquire_of(0, 2).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut operators = cluster.operators(1).await;
    let added = operators.add("late", &address).await.unwrap();
    assert_eq!(added.node, 3);
    assert_eq!(operators.add("late", &address).await.unwrap(), added, "said again, the same token");
    for (name, address, wanted) in [
        ("2", "127.0.0.1:1", "reads as the number"),
        ("node-0", "127.0.0.1:1", "is taken"),
        ("db-4", cluster.addresses[0].as_str(), "is the address of node 0"),
    ] {
        let (why, text) = refusal(operators.add(name, address).await);
        assert!(why == api::ErrorCode::BadRequest && text.contains(wanted), "{why:?} {text}");
    }
    assert_eq!(cluster.member(2, 3).await.unwrap().state(), api::MemberState::Pending);
    let config =
        cluster.config_at(3, &format!("join = {:?}\naddress = {address:?}\n", added.token));
    cluster.nodes.push(Some(Node::start_on(config, Some(listener)).await.expect("it starts")));
    let permit = cluster.acquire_of(3, 2).await;
    assert_eq!((held.slots(), permit.slots(), held.is_lost()), (&[0][..], &[1][..], false));
    assert!(permit.fence() > held.fence(), "a later view");
    permit.release().await;

    let (_, text) = refusal(cluster.operators(0).await.remove("0").await);
    assert!(text.contains("demote 0"), "{text}");
    let promoted = until(|| async { cluster.operators(0).await.promote("late").await.ok() }).await;
    assert!(
        promoted.message.contains("0, 1, 2, 3") && promoted.warning.contains("4 voters"),
        "{promoted:?}"
    );
    let member = cluster.member(0, 3).await.unwrap();
    assert!(
        member.state() == api::MemberState::Active
            && matches!(member.role(), api::MemberRole::Voter | api::MemberRole::Leader),
        "{member:?}"
    );
    until(|| async { cluster.operators(0).await.demote("late").await.ok() }).await;
    let removed = cluster.operators(0).await.remove("late").await.unwrap();
    assert!(
        removed.message.contains("evicted") && removed.message.contains("no member"),
        "{}",
        removed.message
    );
    assert!(cluster.member(0, 3).await.is_none());
    let why = tokio::time::timeout(PATIENCE, cluster.nodes[3].as_mut().unwrap().stopped())
        .await
        .expect("it stops");
    assert!(why.unwrap_err().to_string().contains("removed"));
    assert!(!held.is_lost(), "whoever held something elsewhere still does");
}

/// E5, E6: an operator evicts a node that is alive. It cannot clear itself; its holder is told; the
/// slot comes back; it returns as a later incarnation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_node_is_evicted() {
    let cluster = Cluster::start(3, "").await;
    let held = cluster.acquire_of(0, 1).await;
    let before = cluster.member(1, 0).await.unwrap().incarnation;
    let mut operators = cluster.operators(1).await;
    let says = operators.before_evict("0").await.unwrap().message;
    assert!(says.contains("gpu slot 0") && !held.is_lost(), "{says}");
    operators.evict("node-0").await.unwrap();
    tokio::time::timeout(PATIENCE, held.lost()).await.expect("it is told");
    let next = cluster.acquire_of(1, 1).await;
    assert!(next.fence() > held.fence());
    next.release().await;
    cluster.acquire_of(0, 1).await.release().await;
    assert!(cluster.member(1, 0).await.unwrap().incarnation > before);
}

/// k up is there at once; k down waits for whoever holds above it, and says who that is; 0 closes
/// the gate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_k() {
    let cluster = Cluster::start(3, "").await;
    let first = cluster.acquire_of(0, 1).await;
    let wish = |k, timeout_ms| api::SetGateRequest {
        gate: "gpu".into(),
        k,
        timeout_ms,
        ..Default::default()
    };
    let mut operators = cluster.operators(2).await;
    let reply = operators.set(wish(2, 30_000)).await.unwrap();
    assert!(reply.drained && reply.previous_k == 1, "{reply:?}");
    let second = cluster.acquire_of(1, 2).await;
    assert_eq!(second.slots(), [1]);
    let reply = operators.set(wish(1, 300)).await.unwrap();
    assert!(
        !reply.drained && reply.draining.iter().any(|who| who.contains("node 1: pid")),
        "{reply:?}"
    );
    let waiting = tokio::spawn(async move { operators.set(wish(1, 60_000)).await });
    second.release().await;
    let reply = waiting.await.unwrap().unwrap();
    assert!(reply.drained && reply.draining.is_empty(), "{reply:?}");
    let client = Client::connect(&cluster.api(1)).await.unwrap();
    let (why, text) = refusal(client.gate("gpu").k(2).acquire().await);
    assert_eq!(why, api::ErrorCode::Conflict);
    assert!(text.contains("k = 1, set by somebody") && text.contains("k = 2"), "{text}");
    first.release().await;
    let mut operators = cluster.operators(0).await;
    assert!(operators.set(wish(0, 30_000)).await.unwrap().drained);
    let (why, text) = refusal(client.gate("gpu").timeout(Duration::from_secs(5)).acquire().await);
    assert_eq!(why, api::ErrorCode::TooLarge);
    assert!(text.contains("gate `gpu` is closed (k = 0, set by somebody"), "{text}");
    assert!(text.contains("`kgate set gpu -k K` opens it"), "{text}");
    let (why, _) = refusal(
        operators.set(api::SetGateRequest { gate: "none".into(), k: 1, ..wish(1, 1) }).await,
    );
    assert_eq!(why, api::ErrorCode::GateNotFound);
    assert!(operators.timing().await.unwrap().contains("W  wait"));
}

/// Without a quorum nothing is changed, and it is said which voters do not answer; the list is what
/// is known here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_quorum() {
    let mut cluster = Cluster::start(3, "").await;
    cluster.acquire_of(0, 1).await.release().await;
    [1, 2].into_iter().for_each(|id| cluster.kill(id));
    let mut operators = cluster.operators(0).await;
    let (why, text) = until(|| async {
        let set =
            api::SetGateRequest { gate: "gpu".into(), k: 2, no_wait: true, ..Default::default() };
        Some(refusal(cluster.operators(0).await.set(set).await))
            .filter(|(_, text)| text.contains("1, 2"))
    })
    .await;
    assert_eq!(why, api::ErrorCode::NoQuorum);
    assert!(text.starts_with("no quorum"), "{text}");
    let listed = operators.members().await.unwrap();
    assert_eq!(listed.members.len(), 3);
    assert!(
        listed.stale_reason.starts_with("no quorum") && !listed.members[1].reachable,
        "{listed:?}"
    );
}
