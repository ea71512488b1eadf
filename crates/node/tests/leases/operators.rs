//! Operators change a cluster of real nodes, on real sockets and disks, while permits are held.

use std::time::Duration;

use kgate_client::{Admin, Client, Error, ErrorKind, MemberRole, MemberState, Members};
use kgate_node::Node;
use tokio::net::TcpListener;

use crate::cluster::{Cluster, PATIENCE, until};

impl Cluster {
    async fn admin(&self, id: usize) -> Admin {
        Admin::connect(&self.api(id)).await.expect("it answers")
    }

    /// The members, as a node lists them.
    async fn members(&self, asked: usize) -> Members {
        self.admin(asked).await.members().await.unwrap()
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> (ErrorKind, String) {
    let error = result.unwrap_err();
    (error.kind(), error.to_string())
}

/// A node joins by a token while a permit is held: nobody restarts, the permit stays, the newcomer
/// grants, votes and is removed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_comes_votes_and_goes() {
    let mut cluster = Cluster::start(3, "").await;
    let held = cluster.acquire_of(0, 2).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut admin = cluster.admin(1).await;
    let added = admin.add_member("late", &address).await.unwrap();
    assert_eq!(added.node, 3);
    assert_eq!(
        admin.add_member("late", &address).await.unwrap(),
        added,
        "said again, the same token"
    );
    for (name, address, wanted) in [
        ("2", "127.0.0.1:1", "looks like a node ID"),
        ("node-0", "127.0.0.1:1", "is taken"),
        ("db-4", cluster.addresses[0].as_str(), "is the address of node 0"),
    ] {
        let (why, text) = refusal(admin.add_member(name, address).await);
        assert!(why == ErrorKind::BadRequest && text.contains(wanted), "{why:?} {text}");
    }
    let members = cluster.members(2).await;
    assert_eq!(members.get(3).unwrap().state(), MemberState::Pending);
    let config =
        cluster.config_at(3, &format!("join = {:?}\naddress = {address:?}\n", added.token));
    cluster.nodes.push(Some(Node::start_on(config, Some(listener)).await.expect("it starts")));
    let permit = cluster.acquire_of(3, 2).await;
    assert_eq!((held.slots(), permit.slots(), held.is_lost()), (&[0][..], &[1][..], false));
    assert!(permit.fence() > held.fence(), "a later view");
    permit.release().await.unwrap();

    let (_, text) = refusal(cluster.admin(0).await.remove_member("0").await);
    assert!(text.contains("demote 0"), "{text}");
    let promoted = until(|| async { cluster.admin(0).await.promote("late").await.ok() }).await;
    assert!(
        promoted.message.contains("0, 1, 2, 3")
            && promoted.warning.as_deref().is_some_and(|it| it.contains("even number of voters")),
        "{promoted:?}"
    );
    let members = cluster.members(0).await;
    let member = members.get(3).unwrap();
    assert!(
        member.state() == MemberState::Active
            && matches!(member.role(), Some(MemberRole::Voter | MemberRole::Leader)),
        "{member:?}"
    );
    until(|| async { cluster.admin(0).await.demote("late").await.ok() }).await;
    let removed = cluster.admin(0).await.remove_member("late").await.unwrap();
    assert!(
        removed.message.contains("evicted") && removed.message.contains("removed"),
        "{}",
        removed.message
    );
    assert!(cluster.members(0).await.get(3).is_none());
    let why = tokio::time::timeout(PATIENCE, cluster.nodes[3].as_mut().unwrap().stopped())
        .await
        .expect("it stops");
    assert!(why.unwrap_err().to_string().contains("removed"));
    assert!(!held.is_lost(), "the holder at another node keeps its permit");
}

/// E5, E6: an operator evicts a node that is alive. It cannot clear itself; its holder is told; the
/// slot comes back; it returns as a later incarnation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_node_is_evicted() {
    let cluster = Cluster::start(3, "").await;
    let held = cluster.acquire_of(0, 1).await;
    let before = cluster.members(1).await.get(0).unwrap().incarnation();
    let mut admin = cluster.admin(1).await;
    let says = admin.evict("0", true).await.unwrap().message;
    assert!(says.contains("gpu slot 0") && !held.is_lost(), "{says}");
    admin.evict("node-0", false).await.unwrap();
    tokio::time::timeout(PATIENCE, held.lost()).await.expect("it is told");
    let next = cluster.acquire_of(1, 1).await;
    assert!(next.fence() > held.fence());
    next.release().await.unwrap();
    cluster.acquire_of(0, 1).await.release().await.unwrap();
    assert!(cluster.members(1).await.get(0).unwrap().incarnation() > before);
}

/// k up is there at once; k down waits for the holders above it, and names them; 0 closes
/// the gate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_k() {
    let cluster = Cluster::start(3, "").await;
    let first = cluster.acquire_of(0, 1).await;
    let ms = Duration::from_millis;
    let mut admin = cluster.admin(2).await;
    let reply = admin.set_gate("gpu").k(2).timeout(ms(30_000)).send().await.unwrap();
    assert!(reply.drained && reply.previous_k == 1, "{reply:?}");
    let second = cluster.acquire_of(1, 2).await;
    assert_eq!(second.slots(), [1]);
    let reply = admin.set_gate("gpu").k(1).timeout(ms(300)).send().await.unwrap();
    assert!(
        !reply.drained
            && reply.draining.iter().any(|who| who.contains("node 1: slot 1 is held by pid")),
        "{reply:?}"
    );
    let waiting =
        tokio::spawn(async move { admin.set_gate("gpu").k(1).timeout(ms(60_000)).send().await });
    second.release().await.unwrap();
    let reply = waiting.await.unwrap().unwrap();
    assert!(reply.drained && reply.draining.is_empty(), "{reply:?}");
    let client = Client::connect(&cluster.api(1)).await.unwrap();
    let (why, text) = refusal(client.gate("gpu").k(2).acquire().await);
    assert_eq!(why, ErrorKind::Conflict);
    assert!(text.contains("k = 1, set by client") && text.contains("k = 2"), "{text}");
    first.release().await.unwrap();
    let mut admin = cluster.admin(0).await;
    assert!(admin.set_gate("gpu").k(0).timeout(ms(30_000)).send().await.unwrap().drained);
    let (why, text) = refusal(client.gate("gpu").timeout(Duration::from_secs(5)).acquire().await);
    assert_eq!(why, ErrorKind::TooLarge);
    assert!(text.contains("gate `gpu` is closed (k = 0, set by client"), "{text}");
    assert!(text.contains("`kgate set gpu -k K` opens it"), "{text}");
    let (why, _) = refusal(admin.set_gate("none").k(1).timeout(ms(1)).send().await);
    assert_eq!(why, ErrorKind::GateNotFound);
    assert!(admin.timing().await.unwrap().contains("W  wait"));
}

/// Without a quorum nothing is changed, and it is said which voters do not answer; the list is what
/// is known here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_quorum() {
    let mut cluster = Cluster::start(3, "").await;
    cluster.acquire_of(0, 1).await.release().await.unwrap();
    [1, 2].into_iter().for_each(|id| cluster.kill(id));
    let mut admin = cluster.admin(0).await;
    let (why, text) = until(|| async {
        let mut admin = cluster.admin(0).await;
        Some(refusal(admin.set_gate("gpu").k(2).no_wait().send().await))
            .filter(|(_, text)| text.contains("1, 2"))
    })
    .await;
    assert_eq!(why, ErrorKind::NoQuorum);
    assert!(text.starts_with("no quorum"), "{text}");
    let listed = admin.members().await.unwrap();
    assert_eq!(listed.iter().len(), 3);
    assert!(listed.stale_reason().unwrap().starts_with("no quorum"), "{listed:?}");
    assert!(!listed.get(1).unwrap().is_reachable(), "{listed:?}");
}
